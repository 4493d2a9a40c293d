"""The lock order, as every store holds its transactions to it."""

from enum import IntEnum
from functools import lru_cache
from operator import attrgetter
from typing import TypeAlias

from gateway.reliability.records import IncomingSequence, OutgoingSequence
from gateway.reliability.storage import MAX_KEPT_RANGES, MAX_KEY, OutOfOrder
from mediation.reliable_messaging import Ranges


class Kind(IntEnum):
    """The kinds of objects, in the order in which they are locked."""

    CREATED = 0
    """A CreateSequence, for `IncomingSequences.find_created`; it need not have made a sequence."""
    INCOMING = 1
    INVOKER = 2
    OUTGOING = 3


NAMES = ("identifier", "offered", "create_id")
"""The fields that tell an outgoing sequence from all others."""
names_of = attrgetter(*NAMES)
"""Returns the values of these fields."""

Place: TypeAlias = tuple[Kind, str]
"""An object's place in the lock order; keys are compared by their code points."""


class LockOrder:
    """The places that one transaction has locked, in their order."""

    def __init__(self) -> None:
        self._last: Place | None = None
        self._held: dict[Place, None] = {}
        """In the order in which they were locked."""
        self.holds = self._held.__contains__
        """Whether a place is locked."""

    def places(self) -> frozenset[Place]:
        """All places that are locked."""
        return frozenset(self._held)

    def check(self, *places: Place) -> None:
        """Check that *places* may be locked now, one after the other.

        Raises:
            OutOfOrder: One comes before one that is locked then.
        """
        last = self._last
        for place in places:
            if last is not None and place < last:
                kind, key = place
                before, other = last
                raise OutOfOrder(
                    f"{kind.name.lower()} {key!r} after {before.name.lower()} {other!r}: "
                    "incoming, invoker, outgoing is the order, and each kind's by key"
                )
            last = place

    def mark(self) -> "tuple[Place | None, int]":
        """Mark a point to which `back_to` can return."""
        return self._last, len(self._held)

    def back_to(self, mark: "tuple[Place | None, int]") -> list[Place]:
        """Forget the places that were locked since *mark*, and return them."""
        self._last, count = mark
        return [self._held.popitem()[0] for _ in range(len(self._held) - count)]

    def add(self, place: Place) -> None:
        """Note that *place* is locked."""
        self._held[place] = None
        self._last = place


@lru_cache(1024)
def can_be_key(key: str) -> bool:
    """Return whether every store can keep an object under *key*."""
    try:
        return "\0" not in key and len(key.encode()) <= MAX_KEY
    except UnicodeEncodeError:
        return False


def check_key(key: str) -> None:
    """Check that objects may have *key*.

    Raises:
        ValueError: It is too long, or no text that a database takes.
    """
    if not can_be_key(key):
        raise ValueError(f"no key of a sequence (at most {MAX_KEY} bytes): {key[:80]!a}")


def check_sequence(sequence: IncomingSequence | OutgoingSequence) -> None:
    """Check the bounds of a sequence.

    Raises:
        ValueError: It has a key that stores do not take, or too many ranges.
    """
    if isinstance(sequence, IncomingSequence):
        check_key(sequence.identifier)
        check_ranges(sequence.received)
        return
    for key in (sequence.key, sequence.identifier, sequence.offered, sequence.create_id):
        if key is not None:
            check_key(key)
    check_ranges(sequence.acknowledged)


def check_ranges(ranges: Ranges) -> None:
    """Check how many ranges an acknowledgement has.

    Raises:
        ValueError: They are too many.
    """
    if len(ranges.pairs) > MAX_KEPT_RANGES:
        raise ValueError(f"{len(ranges.pairs)} ranges of numbers (at most {MAX_KEPT_RANGES})")
