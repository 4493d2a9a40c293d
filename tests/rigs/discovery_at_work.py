"""A topic discovery node at a store, with the messages that reach it and those that it publishes."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from uuid import uuid4

from adapters import AdapterUnavailable
from filters import Topic
from gateway.discovery.limits import NodeLimits
from gateway.discovery.node import Node
from gateway.discovery.service import DiscoveryService
from gateway.model.advertisements import AdvertisementLimits
from gateway.store import Store
from mediation.discovery import TOPICS, TopicDiscoveryResponse, queries_of, topic_of
from mediation.discovery.signing import sign
from mediation.model.messages import Notification
from tests.rigs.discovery_entities import Speaker
from tests.rigs.discovery_keys import parties
from tests.rigs.waiting import until

PRODUCER = Speaker(parties().producer)
CONSUMER = Speaker(parties().consumer)


def now() -> datetime:
    return datetime.now(UTC)


@dataclass
class Delivered:
    """A message that somebody published."""

    notification: Notification
    settled: bool = False
    partition: int = 0
    redelivered: bool = False

    def settle(self) -> None:
        self.settled = True


@dataclass
class Published:
    """What was published, each id once; the first *failures* attempts fail."""

    failures: int = 0
    by_id: dict[str, Notification] = field(default_factory=dict)

    async def publish(self, notifications: Sequence[Notification]) -> None:
        if self.failures:
            self.failures -= 1
            raise AdapterUnavailable("not now")
        for each in notifications:
            self.by_id.setdefault(each.id, each)

    def to(self, speaker: Speaker) -> list[Notification]:
        return [each for each in self.by_id.values() if each.topic == topic_of(speaker.id)]


def message(octets: bytes, topic: Topic = TOPICS) -> Delivered:
    return Delivered(Notification(f"urn:uuid:{uuid4()}", "urn:somebody", octets, now(), topic))


@dataclass
class AtWork:
    service: DiscoveryService
    published: Published

    async def tell(self, octets: bytes, topic: Topic = TOPICS) -> Delivered:
        delivered = message(octets, topic)
        return await self.again(delivered)

    async def again(self, delivered: Delivered) -> Delivered:
        self.service.accept(delivered)
        await until(lambda: delivered.settled)
        return delivered

    def found(self) -> int:
        """How many topics the last answer to the consumer names."""
        last = self.published.to(CONSUMER)[-1]
        answer = CONSUMER.read(last.payload, now()).message
        assert isinstance(answer, TopicDiscoveryResponse)
        return len(answer.advertisements)

    async def ask(self, text: str = "mole") -> int:
        await self.tell(CONSUMER.query(now(), text), queries_of(parties().node_id))
        return self.found()


@asynccontextmanager
async def at_work(
    url: str,
    published: Published | None = None,
    *,
    shared: bool = False,
    keeps_house: Callable[[], bool] = lambda: True,
    node: NodeLimits | None = None,
    limits: AdvertisementLimits | None = None,
) -> AsyncIterator[AtWork]:
    """A node at a store; on the way out it is not closed but dropped, as by kill -9."""
    store = Store(url)
    await store.start()
    published = published or Published()
    service = DiscoveryService(
        Node(parties().node, parties().verifier(), sign=sign, new_uuid=uuid4, limits=node),
        store, published, shared=shared, keeps_house=keeps_house, limits=limits,
    )  # fmt: skip
    await service.start()
    working = asyncio.create_task(service.run())
    try:
        yield AtWork(service, published)
    finally:
        working.cancel()
        with suppress(asyncio.CancelledError):
            await working
        await store.close()


async def advertise(node: AtWork, speaker: Speaker = PRODUCER) -> bytes:
    """Create a topic and advertise it; the advertisement."""
    request = speaker.creation(now())
    await node.tell(speaker.for_node(request), topic_of(parties().node_id))
    created = speaker.made(request, node.published.to(speaker)[-1].payload, now())
    advertisement = speaker.advertisement(created, now())
    await node.tell(advertisement)
    return advertisement
