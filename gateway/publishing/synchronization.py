"""The current messages that a subscription's filter takes, found without holding anybody up.

A subscriber may ask for them at any time (ONVIF Core, "SetSynchronizationPoint"), and there may be
thousands that are large. So they are matched in a thread, a slice at a time, within one budget of
processor time for all of them; what is dear is evaluated in turn with all other dear filters
(`adapters.filtering.slow_filters`).
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import structlog

from adapters import Evaluated
from filters import Filter, Question, Reason, Refused, View
from gateway.publishing.filter_thread import FilterThread
from gateway.security.quotas import QuotaExceeded
from mediation.filtering import of_producer
from mediation.model.messages import Notification

MOST = 256
"""Current messages that are sent to one subscriber at a time."""
MOST_BYTES = 8 * 2**20
"""Bytes of them, about."""
SECONDS, SECONDS_TRUSTED = 0.25, 5.0
"""Processor time for all messages, of a stranger and of a trusted peer."""
SLICE, SLICE_BYTES = 64, 128 * 1024
"""Messages, and bytes of them, that are matched before others have their turn."""
AT_A_TIME = 2
"""Subscribers whose messages are looked for at a time."""
WAIT = 5.0
"""Seconds that a subscriber may wait for its turn."""

Evaluate = Callable[[str, Sequence[Question]], Awaitable[Evaluated | None]]
"""`XPathFilterAdapter.evaluate`."""
Documents = Callable[[Collection[View]], Awaitable[Mapping[View, bytes]]]
"""`ProducerDocuments.of`."""
_log = structlog.get_logger("dragoman.filters")


@dataclass(slots=True)
class Found:
    """The messages, in the order of their arrival; and the id of the one on which the filter
    exceeded its budget, where it did."""

    notifications: list[Notification] = field(default_factory=list)
    octets: int = 0
    exceeded: str | None = None

    @property
    def full(self) -> bool:
        return len(self.notifications) >= MOST or self.octets >= MOST_BYTES

    def add(self, notification: Notification) -> None:
        self.notifications.append(notification)
        self.octets += notification.octets


class Synchronizing:
    """Finds current messages.

    Args:
        evaluate: Evaluates what is dear, for the key of a subscription.
        producer: Returns the documents of the producer that views name, as they are now; without
            it no condition over them holds.
        seconds: Processor time for all messages, asked for by a stranger.
    """

    def __init__(
        self,
        evaluate: Evaluate,
        producer: Documents | None = None,
        *,
        seconds: float = SECONDS,
    ) -> None:
        self._evaluate = evaluate
        self._producer = producer
        self._seconds = seconds
        self._turns = asyncio.Semaphore(AT_A_TIME)
        self._busy: set[str] = set()

    async def find(
        self,
        latest: Sequence[Notification],
        filter_: Filter,
        key: str,
        stranger: str | None,
    ) -> Found:
        """The messages of *latest*, the newest first, that *filter_* takes.

        Args:
            key: Of the subscription.
            stranger: Who asks, one at a time; None for a trusted peer.

        Raises:
            FilterError: The filter cannot be evaluated here.
            QuotaExceeded: The same stranger waits already.
            Refused: ``UNAVAILABLE``: it would have to wait too long for its turn.
        """
        if stranger is not None and stranger in self._busy:
            raise QuotaExceeded(Reason.RATE, "You are waiting for messages already.", retry_after=1)
        if stranger is not None:
            self._busy.add(stranger)
        try:
            try:
                async with asyncio.timeout(WAIT):
                    await self._turns.acquire()
            except TimeoutError:
                raise Refused(Reason.UNAVAILABLE, "Too many wait for current messages.") from None
            try:
                return await self._find(latest, filter_, key, stranger is None)
            finally:
                self._turns.release()
        finally:
            if stranger is not None:
                self._busy.discard(stranger)

    async def _find(
        self, latest: Sequence[Notification], filter_: Filter, key: str, trusted: bool
    ) -> Found:
        found = Found()
        budget = SECONDS_TRUSTED if trusted else self._seconds
        left, dear = budget, 0.0
        views = {one.view for one in filter_.contents if of_producer(one)}
        documents = await self._producer(views) if views and self._producer is not None else {}
        matcher = FilterThread(filter_, documents)
        try:
            for part in _slices(latest):
                looked = await matcher.match(part)
                left -= looked.seconds
                for notification, costly in looked.messages:
                    taken: bool | None = True
                    if costly is not None:
                        evaluated = await self._evaluate(
                            key, [(costly.expressions, costly.documents)]
                        )
                        if evaluated is None:
                            continue  # It has no turn.
                        left, dear = left - evaluated.seconds, dear + evaluated.seconds
                        [taken] = evaluated.verdicts
                        if taken is None or (left <= 0 and dear > budget / 2):
                            found.exceeded = notification.id
                    if taken:
                        found.add(notification)
                    if found.full or found.exceeded or left <= 0:
                        break
                if found.full or found.exceeded or left <= 0:
                    break
                await asyncio.sleep(looked.seconds)  # Half of the time is everybody else's.
        finally:
            matcher.close()
        if left <= 0:
            _log.info("filters.current-cut-off", found=len(found.notifications))
        found.notifications.reverse()
        return found


def _slices(latest: Sequence[Notification]) -> Iterator[Sequence[Notification]]:
    part: list[Notification] = []
    octets = 0
    for notification in latest:
        part.append(notification)
        octets += notification.octets
        if len(part) >= SLICE or octets >= SLICE_BYTES:
            yield part
            part, octets = [], 0
    if part:
        yield part
