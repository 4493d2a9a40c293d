"""Demand: which sources of registered publishers are wanted, because somebody subscribes to what
they have (WS-BrokeredNotification 1.3, section 4.4).

A source is wanted while the topics of any subscription overlap with its own. Only the topics count:
what else filters is judged event by event.
"""

import asyncio
import contextlib
from collections import Counter
from functools import lru_cache

import structlog

from filters import Expression, Refused
from gateway.delivery import Entry as SubscriptionEntry
from gateway.model.sources import Wanted
from gateway.sources.registrations import pattern_of
from gateway.sources.sources import Entry, Sources, SourceUnknown
from gateway.sources.topics import filter_of
from gateway.store import StoreUnavailable
from gateway.subscriptions.table import SubscriptionTable

_log = structlog.get_logger("dragoman.sources")
ROUND = 1.0
"""Seconds after which it is looked again, whatever was told."""
SETTLE = 0.05
"""Seconds that changes of subscriptions are gathered."""
KEPT = 10_000
"""Sources whose topics are remembered: they are read from the Subscribe that would be sent."""
Topics = tuple[Expression, ...]


class Demand:
    """Says what is wanted of the sources of registrations.

    Args:
        base: The gateway's URL.
    """

    def __init__(self, sources: Sources, table: SubscriptionTable, *, base: str) -> None:
        self._sources = sources
        self._base = base
        self._wanted: Counter[Topics] = Counter()
        """The topics of subscriptions, and how many subscribe to the same."""
        self._topics: dict[str, Topics] = {}
        """The topics of sources, by id."""
        self._changed = asyncio.Event()
        for entry in table.entries:
            self._count(entry, 1)
        table.observe(self._count)

    def _count(self, entry: SubscriptionEntry, number: int) -> None:
        topics = entry.subscription.filter.topics
        self._wanted[topics] += number
        if not self._wanted[topics]:
            del self._wanted[topics]
        self._changed.set()

    async def run(self) -> None:
        """Follow the subscriptions, for ever."""
        while True:
            try:
                await self.follow()
            except StoreUnavailable:
                pass  # It is said the next time.
            except Exception:
                _log.exception("demand.error")
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), ROUND)
                await asyncio.sleep(SETTLE)
            self._changed.clear()

    async def follow(self) -> None:
        """Say what is wanted now of the sources that this gateway keeps.

        Raises:
            StoreUnavailable: It is said the next time.
        """
        for entry in self._sources.entries:
            if entry.source.registration is None or entry.share is None:
                continue
            if entry.row.wanted is Wanted.REMOVED:
                continue
            wanted = Wanted.ON if self._is_wanted(entry) else Wanted.OFF
            if wanted is not entry.row.wanted:
                with contextlib.suppress(SourceUnknown):
                    await self._sources.want(entry.id, wanted)

    def _is_wanted(self, entry: Entry) -> bool:
        own = self._topics.get(entry.id)
        if own is None:
            try:
                own = filter_of(entry.source, self._base).topics
            except Refused:
                return False
            if len(self._topics) >= KEPT:
                self._topics.clear()
            self._topics[entry.id] = own
        return any(overlap(own, topics) for topics in list(self._wanted))


@lru_cache(maxsize=65536)
def overlap(ours: Topics, theirs: Topics) -> bool:
    """Whether some topic may pass both; without expressions every topic does."""
    return all(pattern_of(one).overlaps(pattern_of(other)) for one in ours for other in theirs)
