"""The part of the work that one dispatcher does: one partition of the messaging system for as long
as its lease is held, or all of them for ever where one gateway is alone."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy import Connection

AUTHORS = 2**16
"""How many authors of positions there are: 64 partitions of each of 1,024 replicas."""


@dataclass(slots=True, eq=False)
class PartitionShare:
    """A partition that is held.

    Attributes:
        partition: None for all of them.
        author: What tells the positions that are given for it from all others.
        check: Raises `gateway.store.replicas.Fenced`, within a transaction, when the partition is
            held no longer.
        until: When the lease ends, by the event loop's clock: from then on nothing is sent or
            settled.
        lost: Called once when a transaction was fenced.
    """

    partition: int | None
    author: int
    check: Callable[[Connection], None]
    until: float
    lost: Callable[[], None]


def everything(replica: int = 0) -> PartitionShare:
    """The share of a gateway that is alone: all partitions, and nobody takes them away.

    A broker may deal messages to several partitions though one gateway consumes them all, and rows
    of all partitions may wait from a time when several gateways shared the store.
    """

    def held(connection: Connection) -> None:
        """Nobody else can hold it."""

    def lost() -> None:
        raise AssertionError("a share without an end was lost")

    return PartitionShare(None, author(replica, 0), held, math.inf, lost)


def author(replica: int, partition: int) -> int:
    """The number that tells positions given by *replica* for *partition* from all others."""
    return (replica % 1024) * 64 + partition % 64


def next_position(last: int, now: int, author: int) -> int:
    """The next position of *author* after *last*, from the clock, *now* in nanoseconds.

    No other author gives it, so the rows of a subscription have different positions whichever
    gateway made them.
    """
    return (max(last, now) // AUTHORS + 1) * AUTHORS + author
