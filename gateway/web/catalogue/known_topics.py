"""What is known of topics: what their creators advertise, what a topic set has, what was seen."""

import asyncio
import hashlib
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import Enum
from functools import lru_cache, partial

from filters import Topic
from filters.queries import Described, Query
from gateway.model.moments import moment_of
from gateway.publishing.topics import TopicsSeen
from gateway.store import Store, known_topics
from gateway.store.known_topics import AdvertisedRow
from mediation.discovery import (
    EncryptedAdvertisement,
    EventSigners,
    Schema,
    SignedTopicAdvertisement,
    read_advertisement,
    read_as,
)
from mediation.names import TDN

PLAIN = "t-"
"""How the id of a topic begins that nobody advertises; those of advertisements sort before it."""


READ, SEARCHED = 500, 5000
"""Topics that a search reads at a time, and looks at in all."""


class Origin(Enum):
    """How a topic is known."""

    ADVERTISED = "advertised"
    TOPIC_SET = "topic-set"
    SEEN = "seen"


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose a topic is: the identifier that its key gives, and what it calls itself."""

    id: str
    name: str | None
    institution: str | None


@dataclass(frozen=True, slots=True)
class KnownTopic:
    """A topic.

    Attributes:
        topic: In Clark's notation; None: events of it are known by what they hold.
        node: Signed that the topic is the owner's.
        synopsis: The type of what its events are marked with.
        mark: What that is, where it is a text.
        encrypted: Only its owner, and who was told, can read what it is about.
        revision: Grows when what is known changes.
    """

    id: str
    origin: Origin
    topic: str | None
    changed: datetime
    revision: int = 1
    owner: Owner | None = None
    node: str | None = None
    created: datetime | None = None
    expires: datetime | None = None
    synopsis: str | None = None
    mark: str | None = None
    encrypted: bool = False
    paths: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    keywords: tuple[str, ...] = ()
    schema: Schema | None = None
    signers: EventSigners | None = None

    @property
    def described(self) -> Described:
        """What words are looked for in: its name, whose it is, and what it is about."""
        owner = self.owner
        named = (self.topic, self.mark, owner and owner.name, owner and owner.institution)
        return Described(
            self.created or self.changed,
            paths=self.paths,
            texts=(*self.texts, *(text for text in named if text)),
            keywords=self.keywords,
        )


@dataclass(frozen=True, slots=True)
class Extent:
    """How many topics there are.

    Attributes:
        epoch: Grows when a topic came, went or changed, also over restarts.
        changed: When that was noticed last.
    """

    count: int
    epoch: int
    changed: datetime


@dataclass(frozen=True, slots=True)
class Page:
    """Some topics, in the order of their ids; ``next`` is where to go on, None at the end."""

    topics: Sequence[KnownTopic]
    next: str | None


class TopicCatalogue:
    """The topics that are known here.

    Args:
        protected: The advertised topics that the messaging system has; None where the gateway is no
            discovery node, and nothing is advertised.
        now: Tells the time.
    """

    def __init__(
        self,
        store: Store,
        seen: TopicsSeen,
        protected: Container[Topic] | None,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._store = store
        self.seen = seen
        self._protected = protected
        self._now = now
        self.started = self._changed = now()
        # Counted on from the clock: after a restart, in which all that was seen is forgotten, no
        # reader takes an epoch for one that it knows.
        self._epoch = int(self.started.timestamp() * 1000)
        self._state: tuple[int, ...] | None = None

    async def page(self, after: str, limit: int) -> Page:
        """At most *limit* topics after an id.

        Raises:
            StoreUnavailable: The store cannot be read.
        """
        rows: Sequence[AdvertisedRow] = ()
        if self._protected is not None and after < PLAIN:
            rows = await self._store.submit(
                partial(
                    known_topics.listed,
                    after=after,
                    limit=limit + 1,
                    now=self._now().timestamp(),
                )
            )
        topics = await asyncio.to_thread(_read_all, rows[:limit])
        if len(rows) <= limit:
            plain = self._plain()
            ids = sorted(id for id in plain if id > after)[: limit + 1 - len(rows)]
            topics += [self._plain_topic(id, plain[id]) for id in ids]
        more = len(rows) > limit or len(topics) > limit
        topics = topics[:limit]
        return Page(topics, topics[-1].id if more else None)

    async def search(self, query: Query, after: str, limit: int) -> Page:
        """At most *limit* topics after an id of which *query* is true. It looks at `SEARCHED`
        topics at most: there may be fewer than *limit*, and a ``next`` to go on at.

        Raises:
            StoreUnavailable: The store cannot be read.
        """
        found: list[KnownTopic] = []
        for _ in range(SEARCHED // READ):
            page = await self.page(after, READ)
            found += await asyncio.to_thread(_matching, query, page.topics)
            if len(found) > limit or (len(found) == limit and page.next is not None):
                return Page(found[:limit], found[limit - 1].id)
            if page.next is None:
                return Page(found, None)
            after = page.next
        return Page(found, after)

    async def one(self, id: str) -> KnownTopic | None:
        """The topic of an id.

        Raises:
            StoreUnavailable: The store cannot be read.
        """
        if id.startswith(PLAIN):
            topic = self._plain().get(id)
            return None if topic is None else self._plain_topic(id, topic)
        if self._protected is None:
            return None
        row = await self._store.submit(
            partial(known_topics.one, topic_id=id, now=self._now().timestamp())
        )
        return None if row is None else (await asyncio.to_thread(_read_all, [row]))[0]

    async def extent(self) -> Extent:
        """Count the topics, and look whether any came, went or changed since the last call.

        Raises:
            StoreUnavailable: The store cannot be read.
        """
        living, revision = 0, 0
        if self._protected is not None:
            living, revision = await self._store.submit(
                partial(known_topics.extent, now=self._now().timestamp())
            )
        plain = len(self._plain())
        state = living, revision, plain, self.seen.changes
        if self._state is not None and state != self._state:
            self._epoch += 1
            self._changed = self._now()
        self._state = state
        return Extent(living + plain, self._epoch, self._changed)

    def _plain(self) -> dict[str, Topic]:
        """Those that nobody advertises, by id; without the topics that discovery itself uses."""
        protected = () if self._protected is None else self._protected
        return {
            _plain_id(str(topic)): topic
            for topic in self.seen.known()
            if topic.steps[0].namespace != TDN and topic not in protected
        }

    def _plain_topic(self, id: str, topic: Topic) -> KnownTopic:
        of_set = topic in self.seen.namespaces.topics
        origin = Origin.TOPIC_SET if of_set else Origin.SEEN
        return KnownTopic(id, origin, str(topic), self.started)


def _matching(query: Query, topics: Sequence[KnownTopic]) -> list[KnownTopic]:
    return [topic for topic in topics if query.matches(topic.described)]


@lru_cache(maxsize=16_384)
def _plain_id(topic: str) -> str:
    return PLAIN + hashlib.sha256(topic.encode()).hexdigest()[:32]


def _read_all(rows: Sequence[AdvertisedRow]) -> list[KnownTopic]:
    return [_read(row) for row in rows]


def _read(row: AdvertisedRow) -> KnownTopic:
    """Read an advertisement, whose signatures were checked before it was kept."""
    signed = read_as(SignedTopicAdvertisement, row.octets).value
    topic = read_advertisement(signed.advertisement).value
    creator = topic.creator
    known = KnownTopic(
        row.topic_id,
        Origin.ADVERTISED,
        row.topic,
        moment_of(row.issued),
        row.revision,
        Owner(creator.entity_id, creator.name, creator.institution),
        topic.node,
        topic.created,
        topic.expires,
        encrypted=isinstance(topic, EncryptedAdvertisement),
    )
    if isinstance(topic, EncryptedAdvertisement):
        return known
    descriptors = topic.descriptors
    return replace(
        known,
        synopsis=topic.synopsis.type.value,
        mark=topic.synopsis.text or None,
        paths=descriptors.paths,
        texts=descriptors.texts,
        keywords=descriptors.keywords,
        schema=descriptors.schema,
        signers=descriptors.signers,
    )
