"""One delivery made once more because an operator asked for that: as it was, with the same message
id, in one attempt, and without any consequence for its subscription.

Nothing else knows of it: it takes no slot, counts for no breaker, and leaves what waits where it
is. The log of attempts marks it.
"""

import asyncio
import time

from filters import Reason, Refused
from gateway.delivery.attempt import Attempts
from gateway.delivery.dispatcher import Dispatcher
from gateway.delivery.dispatchers import Dispatchers
from gateway.delivery.entry import Entry
from gateway.delivery.outbox import Outbox, PendingDelivery
from gateway.delivery.pending import Message
from gateway.delivery.verdicts import Verdict
from gateway.observing.attempts import Attempt
from mediation.model.messages import Notification

AT_A_TIME = 4
"""Deliveries that are made once more at a time."""
WAITS = 5.0
"""Seconds that another one waits for its turn."""


class SendAgain:
    """Makes single deliveries once more."""

    def __init__(self, attempts: Attempts, dispatchers: Dispatchers) -> None:
        self._attempts = attempts
        self._dispatchers = dispatchers
        self._turns = asyncio.Semaphore(AT_A_TIME)

    async def send(self, entry: Entry, notification: Notification) -> Attempt:
        """Send *notification* to *entry*, whatever its state; how that ended.

        Raises:
            Refused: ``ACTION_UNSUPPORTED``: its deliveries go in a sequence or have bookmarks, so
                that each has its place. ``UNAVAILABLE``: too many are sent again just now, or
                nothing is delivered here.
        """
        if entry.delivery.reliable or entry.delivery.bookmarks:
            text = "Its deliveries have places in a row: none can be sent again by itself."
            raise Refused(Reason.ACTION_UNSUPPORTED, text)
        try:
            async with asyncio.timeout(WAITS):
                await self._turns.acquire()
        except TimeoutError:
            raise Refused(Reason.UNAVAILABLE, "Too many are sent again just now.") from None
        try:
            return await self._send(entry, notification, self._dispatcher())
        finally:
            self._turns.release()

    def _dispatcher(self) -> Dispatcher:
        """Any dispatcher: an outbox has one, which here is asked for nothing.

        Raises:
            Refused: ``UNAVAILABLE``: There is none.
        """
        for dispatcher in self._dispatchers.by_partition.values():
            return dispatcher
        raise Refused(Reason.UNAVAILABLE, "This gateway delivers nothing just now.")

    async def _send(self, entry: Entry, notification: Notification, owner: Dispatcher) -> Attempt:
        scheduler, loop = self._dispatchers.scheduler, asyncio.get_running_loop()
        destination = scheduler.destination(entry.target, entry.subscription.owner)
        try:
            outbox = Outbox(entry, destination, owner)  # Its own: that of the dispatcher goes on.
            pending = PendingDelivery(Message(notification, None), outbox, 0, time.time())
            started = loop.time()
            outcome = await self._attempts.send(pending)
        finally:
            scheduler.release(destination)
        attempt = Attempt(
            time.time(),
            loop.time() - started,
            outcome.verdict.value,
            outcome.status,
            None if outcome.verdict is Verdict.DELIVERED else outcome.failure_text,
            outcome.detail,
            notification.id,
            again=True,
        )
        scheduler.attempts.note(entry.id, attempt)
        return attempt
