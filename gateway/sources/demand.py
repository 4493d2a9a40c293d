"""Demand: which sources of registered publishers are wanted, because somebody subscribes to what
they have (WS-BrokeredNotification 1.3, section 4.4).

A source is wanted while the topics of any subscription overlap with its own. Only the topics count:
what else filters is judged event by event.
"""

import asyncio
import contextlib
from collections import Counter

import structlog

from filters import Expression, Refused, TopicPattern
from gateway.delivery import Entry as SubscriptionEntry
from gateway.model.sources import Wanted
from gateway.security.principals import tenant_of
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
SLICE = 64
"""Pairs of topics that are compared before others have their turn: half a millisecond."""
Topics = tuple[Expression, ...]
Patterns = tuple[TopicPattern, ...]


class Demand:
    """Says what is wanted of the sources of registrations.

    Each pair of a source and the topics of subscriptions is compared once, when the later of the
    two comes, and once when the topics go: a hundred thousand subscriptions to topics of their own
    are too many to look at again and again.

    Args:
        base: The gateway's URL.

    Attributes:
        compared: How many pairs were compared.
    """

    def __init__(self, sources: Sources, table: SubscriptionTable, *, base: str) -> None:
        self._sources = sources
        self._base = base
        self._subscribed: Counter[Topics] = Counter()
        """How many subscriptions have these topics."""
        self._news: dict[Topics, None] = {}
        """Topics that were subscribed to, or no more, since they were compared."""
        self._known: set[Topics] = set()
        """The topics that were compared with all sources; their patterns would be a kibibyte
        each."""
        self._sought: dict[str, tuple[Patterns | None, int]] = {}
        """The topics of each source, by id, None where nothing could be subscribed to; and with
        how many of those known they overlap."""
        self.compared = 0
        self._changed = asyncio.Event()
        for entry in table.entries:
            self._count(entry, 1)
        table.observe(self._count)

    def _count(self, entry: SubscriptionEntry, number: int) -> None:
        if tenant_of(entry.subscription.owner):
            return  # What sources send is the default tenant's.
        topics = entry.subscription.filter.topics
        before = self._subscribed[topics]
        self._subscribed[topics] = before + number
        if not self._subscribed[topics]:
            del self._subscribed[topics]
        if not before or not before + number:
            self._news[topics] = None
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
                async with asyncio.timeout(ROUND):
                    await self._changed.wait()
                await asyncio.sleep(SETTLE)
            self._changed.clear()

    async def follow(self) -> None:
        """Say what is wanted now of the sources that this gateway keeps.

        Raises:
            StoreUnavailable: It is said the next time.
        """
        entries = [one for one in self._sources.entries if one.source.registration is not None]
        await self._meet(entries)
        await self._compare_news()
        for entry in entries:
            if entry.share is None or entry.row.wanted is Wanted.REMOVED:
                continue
            _, number = self._sought.get(entry.id, (None, 0))
            wanted = Wanted.ON if number else Wanted.OFF
            if wanted is not entry.row.wanted:
                with contextlib.suppress(SourceUnknown):
                    await self._sources.want(entry.id, wanted)

    async def _meet(self, entries: list[Entry]) -> None:
        """Compare sources that have come with all topics that are known; forget those that went."""
        there = {entry.id for entry in entries}
        for id_ in self._sought.keys() - there:
            del self._sought[id_]
        new = {
            entry.id: self._topics_of(entry) for entry in entries if entry.id not in self._sought
        }
        numbers = dict.fromkeys(new, 0)
        for topics in self._known if new else ():
            theirs = _readable(topics)
            for id_, own in new.items():
                numbers[id_] += _overlap(own, theirs)
                await self._breathe()
        self._sought |= {id_: (own, numbers[id_]) for id_, own in new.items()}

    def _topics_of(self, entry: Entry) -> Patterns | None:
        try:
            return _patterns(filter_of(entry.source, self._base).topics)
        except Refused:
            return None

    async def _compare_news(self) -> None:
        """Compare the topics that came or went with all sources; those that do so meanwhile wait
        for the next time."""
        for topics in list(self._news):
            del self._news[topics]
            change = (topics in self._subscribed) - (topics in self._known)
            if not change:
                continue
            if change > 0:
                self._known.add(topics)
            else:
                self._known.remove(topics)
            theirs = _readable(topics)
            for id_, (own, number) in self._sought.items():
                if _overlap(own, theirs):
                    self._sought[id_] = own, number + change
                await self._breathe()

    async def _breathe(self) -> None:
        """Count a comparison, and let others have their turn after each `SLICE` of comparisons."""
        self.compared += 1
        if self.compared % SLICE == 0:
            await asyncio.sleep(0)


def _patterns(topics: Topics) -> Patterns:
    return tuple(map(pattern_of, topics))


def _readable(topics: Topics) -> Patterns | None:
    """The patterns of *topics*; None where a dialect is not offered any longer: they match
    nothing."""
    try:
        return _patterns(topics)
    except Refused:
        return None


def _overlap(own: Patterns | None, theirs: Patterns | None) -> bool:
    """Whether some topic may pass both; without expressions every topic does."""
    if own is None or theirs is None:
        return False
    return all(one.overlaps(other) for one in own for other in theirs)
