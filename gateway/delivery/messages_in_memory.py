"""Messages with deliveries in memory: those of one that stays unsettled for too long go to the
store."""

from asyncio import AbstractEventLoop
from collections.abc import Callable

from gateway.delivery.outbox import Outbox, PendingDelivery
from gateway.delivery.pending import Message
from gateway.delivery.stall_timer import StallTimer
from gateway.delivery.states import State

PATIENCE = 1.0
"""Seconds after which an attempt counts as stalled, and a delivery that is not made is held."""
LATE = 0.1
"""The least seconds for a message, while half of the messaging system's window is unsettled, or
half of what memory may have is there: a slow consumer must not hold up others."""


class MessagesInMemory(dict[Message, list[PendingDelivery]]):
    """Messages and their deliveries, the oldest first. Who adds one starts the timer.

    Args:
        patience: Tells the seconds after which an attempt counts as stalled.
        stalled: Called with the outbox of a delivery whose message is late.
    """

    def __init__(
        self,
        loop: AbstractEventLoop,
        patience: Callable[[], float],
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
        old = self._loop.time() - (PATIENCE if stalled else max(LATE, self._patience()))
        for message in list(self):
            if message.unsettled == 0:
                del self[message]
            elif message.arrived <= old:
                for pending in self.pop(message):
                    if pending.state is State.LIVE:
                        self._stalled(pending.outbox)
        if self:
            self.timer.start()
