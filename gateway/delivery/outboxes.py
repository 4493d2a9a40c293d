"""The outboxes of one dispatcher: made when something comes, kept for a while when all has gone."""

from collections.abc import Callable

from gateway.delivery.entry import Entry
from gateway.delivery.outbox import Outbox

RESTING = 256
"""Outboxes that are kept though nothing is under way, because more is likely to come."""


class Outboxes(dict[Entry, Outbox]):
    """Outboxes by entry; one that is asked for by ``[]`` is made where there is none.

    Args:
        make: Makes the outbox of an entry.
        forget: Called with an outbox that is kept no longer.
    """

    def __init__(self, make: Callable[[Entry], Outbox], forget: Callable[[Outbox], None]) -> None:
        super().__init__()
        self._make = make
        self._forgotten = forget
        self._resting: dict[Outbox, None] = {}
        """Outboxes that had nothing under way when they were looked at last, the oldest first."""

    def __missing__(self, entry: Entry) -> Outbox:
        outbox = self[entry] = self._make(entry)
        return outbox

    def busy(self, entry: Entry) -> Outbox | None:
        """The outbox of *entry*, if anything is under way."""
        outbox = self.get(entry)
        return None if outbox is None or outbox.idle else outbox

    def rest(self, outbox: Outbox) -> None:
        """Keep *outbox*, for which nothing is under way, for a while with few others.

        To make an outbox and its destination for each message costs more than to deliver it.
        """
        if outbox.entry.ended or outbox.destination.recovering is not None:
            self.forget(outbox)
        elif outbox not in self._resting:
            self._resting[outbox] = None
            if len(self._resting) > RESTING:
                oldest = next(iter(self._resting))
                del self._resting[oldest]
                if oldest.idle:
                    self.forget(oldest)

    def forget(self, outbox: Outbox) -> None:
        """Keep *outbox* no longer."""
        self._resting.pop(outbox, None)
        outbox.cancel_timer()
        del self[outbox.entry]
        self._forgotten(outbox)

    @property
    def open_breakers(self) -> int:
        """How many have a breaker of their own that is open: their consumers answer with
        failures."""
        return sum(outbox.breaker.open for outbox in self.values())
