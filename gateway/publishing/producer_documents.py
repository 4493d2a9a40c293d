"""The producer's resource properties as documents, over which conditions of subscriptions are
evaluated.

They say the topics that were published on, so they change while the gateway runs. A document is
made when the first message after a change is matched, and only if a subscription has a condition
over it; until the next change it stays the same, so that no condition is evaluated over it twice.
"""

import asyncio
import time
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from filters import View
from gateway.publishing.resources import Producer
from gateway.publishing.topics import TopicsSeen
from mediation.filtering import PRODUCER_VIEWS
from mediation.resources.wsrf import property_document

REST = 9.0
"""Times as long as a document took to make, for which a large one is not made anew: a stranger who
publishes on new topics all the time takes a tenth of the time of all who wait for their messages.
"""
SMALL = 32 * 1024
"""Bytes of a document that is made anew at once all the same: of some hundred and fifty topics,
which takes a millisecond or two."""


@dataclass(frozen=True, slots=True)
class _Made:
    """A document, how often the topics had changed before it, and when (by the monotonic clock) it
    may be made anew."""

    document: bytes
    changes: int
    again: float


class ProducerDocuments:
    """The documents of *producer*, which tells of *topics*."""

    def __init__(self, producer: Producer, topics: TopicsSeen) -> None:
        self._producer = producer
        self._topics = topics
        self._made: dict[View, _Made] = {}
        self._making = asyncio.Lock()

    async def of(self, views: Collection[View]) -> Mapping[View, bytes]:
        """The documents of *views*, which are of `PRODUCER_VIEWS`, as they are now: of very many
        topics, as they were a short time ago."""
        if not all(map(self._is_current, views)):
            async with self._making:
                for view in views:
                    if not self._is_current(view):
                        await self._make(view)
        return {view: self._made[view].document for view in views}

    def _is_current(self, view: View) -> bool:
        made = self._made.get(view)
        if made is None:
            return False
        return made.changes == self._topics.changes or time.monotonic() < made.again

    async def _make(self, view: View) -> None:
        """Make the document of *view* in a thread of its own: libxml2 keeps the names of topics
        for as long as a thread lives."""
        changes, describe = self._topics.changes, self._producer.describe(PRODUCER_VIEWS[view])
        started = time.monotonic()
        threads = ThreadPoolExecutor(1, "producer")
        try:
            document = await asyncio.get_running_loop().run_in_executor(
                threads, lambda: property_document(*describe())
            )
        finally:
            threads.shutdown(wait=False)
        ended = time.monotonic()
        rest = REST * (ended - started) if len(document) > SMALL else 0.0
        self._made[view] = _Made(document, changes, ended + rest)
