"""Outboxes of a dispatcher, made when a message comes and kept for a while when all has gone, and
the messages whose deliveries are in memory alone."""

from asyncio import AbstractEventLoop
from collections.abc import Callable

from gateway.delivery.entry import Entry
from gateway.delivery.outbox import Outbox, PendingDelivery
from gateway.delivery.pending import Message
from gateway.delivery.states import State
from gateway.delivery.timers import StallTimer

RESTING = 256
"""Outboxes that are kept though nothing is under way, because more is likely to come."""
PATIENCE = 1.0
"""Seconds after which an attempt counts as stalled, and a delivery that is not made is held."""
LATE = 0.1
"""The least seconds for a message, while half of the messaging system's window is unsettled, or
half of what memory may have is there: a slow consumer must not hold up others."""


class Outboxes(dict[Entry, Outbox]):
    """Outboxes by entry; ``[]`` makes the outbox of an entry that has none yet.

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
        """Count the outboxes whose own breaker is open: their consumers answer with failures."""
        return sum(outbox.breaker.open for outbox in self.values())


class MessagesInMemory(dict[Message, list[PendingDelivery]]):
    """Messages and their deliveries, the oldest first. Who adds one starts the timer.

    Args:
        patience: Tells the seconds after which an attempt for a tenant counts as stalled.
        stalled: Called with the outbox of a delivery whose message is late.
    """

    def __init__(
        self,
        loop: AbstractEventLoop,
        patience: Callable[[str], float],
        stalled: Callable[[Outbox], None],
    ) -> None:
        super().__init__()
        self._loop = loop
        self._patience = patience
        self._stalled = stalled
        self.timer = StallTimer(self._sweep)

    def _sweep(self, stalled: bool) -> None:
        """Move the deliveries of late messages to the store.

        *stalled*: this process was late itself, and answers may lie in its sockets.
        """
        now, oldest = self._loop.time(), dict[str, float]()
        for message in list(self):
            if message.unsettled == 0:
                del self[message]
                continue
            old = oldest.get(message.tenant)
            if old is None:
                patience = PATIENCE if stalled else max(LATE, self._patience(message.tenant))
                old = oldest[message.tenant] = now - patience
            if message.arrived <= old:
                for pending in self.pop(message):
                    if pending.state is State.LIVE:
                        self._stalled(pending.outbox)
        if self:
            self.timer.start()
