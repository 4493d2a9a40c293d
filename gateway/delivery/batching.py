"""Batches: how many of the deliveries that wait go into one message. Pure functions.

A batch that failed is tried again as it was, so that its message id is the same: its rows have the
attempts and the time of their next one in common.
"""

from collections.abc import Iterable
from itertools import islice
from typing import Protocol

from mediation import DeliveryMode

MOST_ELEMENTS = 256
"""Events in one message at most, whatever a sink asks for: its rows are loaded at a time."""
USUAL_ELEMENTS = 64
"""Events in one message where the sink names no number."""
MOST_OCTETS = 2**20
"""Octets of the events in one message, about."""


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
    """How many of *others*, in their order, go into one message with *first*: so many that there
    are *most* in all at most, and no more octets than *room*. One that is too large even by itself
    goes by itself."""
    left = room - first.size
    if left < 0:
        return 0
    number = 0
    for other in islice(others, most - 1):
        left -= other.size
        if left < 0 or (other.attempts, other.due) != (first.attempts, first.due):
            break
        number += 1
    return number
