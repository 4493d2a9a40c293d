"""The part of the work that one dispatcher does, where several gateways share it: one partition of
the messaging system, for as long as its lease is held."""

from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy import Connection

AUTHORS = 2**16
"""Of positions: partitions of replicas, 64 of 1,024."""


@dataclass(slots=True, eq=False)
class PartitionShare:
    """A partition that is held.

    ``check`` raises `gateway.store.replicas.Fenced`,
    within a transaction, when the partition is held no longer. ``until`` is when the lease ends,
    by the event loop's clock: from then on nothing is sent or settled. ``lost`` is called once when
    a transaction was fenced.
    """

    partition: int
    check: Callable[[Connection], None]
    until: float
    lost: Callable[[], None]


def author(replica: int, partition: int) -> int:
    """What tells the positions that a replica gives for a partition from all others."""
    return (replica % 1024) * 64 + partition % 64


def next_position(last: int, now: int, author: int | None) -> int:
    """A position after *last*, from the clock, *now* in nanoseconds. With an *author*, one that no
    other gives: rows of a subscription have different ones, whoever made them."""
    if author is None:
        return max(last + 1, now)
    return (max(last, now) // AUTHORS + 1) * AUTHORS + author
