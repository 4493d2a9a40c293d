"""Batches: how many of the deliveries that wait go into one message. Pure functions.

A batch that failed is tried again as it was, so that its message id is the same: its rows have the
attempts and the time of their next one in common. Those of a batch that was refused for good are
tried once more, each by itself: their times differ, which is also known after a crash.
"""

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Protocol

from mediation.model.delivery_modes import DeliveryMode

MOST_ELEMENTS = 256
"""Events in one message at most, whatever a sink asks for: its rows are loaded at a time."""
USUAL_ELEMENTS = 64
"""Events in one message where the sink names no number."""
MOST_OCTETS = 2**20
"""Octets of the events in one message, about."""
APART = 1e-5
"""Seconds between the times of deliveries that must not go into one message. As POSIX seconds of
double precision, times have a resolution of 2.4e-7."""


class Waiting(Protocol):
    """A delivery that waits, as far as that matters here."""

    @property
    def attempts(self) -> int: ...
    @property
    def due(self) -> float: ...
    @property
    def size(self) -> int:
        """Octets of it in a message."""


def most_elements(delivery: DeliveryMode) -> int:
    """Events in one message at most."""
    return min(delivery.max_elements or USUAL_ELEMENTS, MOST_ELEMENTS)


def room_for_events(delivery: DeliveryMode, around: int) -> int:
    """Octets in UTF-8 of the events in one message, with so many *around* them: in UTF-16 they are
    up to twice as many."""
    if delivery.max_envelope_size is None:
        return MOST_OCTETS
    octets = delivery.max_envelope_size // (2 if delivery.encoding == "utf-16" else 1)
    return min(MOST_OCTETS, octets - around)


def number_beside(first: Waiting, others: Iterable[Waiting], most: int, room: int) -> int:
    """Count those of *others* that go, in order, into one message with *first*: so many that there
    are *most* in all at most, and no more octets than *room*. One that is too large even by itself
    goes by itself."""
    left = room - first.size
    if left < 0:
        return 0
    number = 0
    for other in islice(others, most - 1):
        left -= other.size
        if left < 0 or not _may_go_together(first, other):
            break
        number += 1
    return number


def _may_go_together(one: Waiting, other: Waiting) -> bool:
    """True if nothing but room keeps both out of one message."""
    return (one.attempts, one.due) == (other.attempts, other.due)


def goes_alone(waiting: Sequence[Waiting]) -> bool:
    """True if the first of *waiting* goes by itself, whatever comes behind them."""
    return len(waiting) > 1 and not _may_go_together(waiting[0], waiting[1])


def times_apart(at: float, number: int) -> list[float]:
    """So many POSIX times from *at* on, by which deliveries go each into a message of its own."""
    return [at + index * APART for index in range(number)]
