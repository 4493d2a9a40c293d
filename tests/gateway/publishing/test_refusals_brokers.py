"""Publications that a real broker will never take: they stop nobody else, and are found."""

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import pytest
import pytest_asyncio

from gateway.client import Administration
from tests.rigs.activemq import activemq_broker, needs_activemq
from tests.rigs.brokers import needs_rabbitmq, own_rabbitmq
from tests.rigs.consumers import Consumer, consumers
from tests.rigs.processes import SPEAKER, GatewayProcess, event, gateway_process
from tests.rigs.rabbitmq_adapters import refusing
from tests.rigs.stomp_adapters import AUTHORIZATION

pytestmark = pytest.mark.slow  # Gateways are started, and a broker.

AROUND = 10
LARGEST = 1_500_000
"""Bytes of a message that ActiveMQ takes; the gateway takes more."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A broker, and what it refuses a gateway. ``topics``: what may not be published to; ``large``:
    the bytes of a message that is too large."""

    environment: dict[str, str]
    topics: tuple[str, ...]
    large: int

    @property
    def publications(self) -> list[tuple[str, bytes]]:
        """The path and the body of one publication of each kind."""
        forbidden = [
            (f"/soap/topic/{quote(topic)}", event(f"bad{number}"))
            for number, topic in enumerate(self.topics)
        ]
        return [("/soap/topic/large", event("large", self.large)), *forbidden]


@pytest.fixture
def broker(request: pytest.FixtureRequest) -> Iterator[Refused]:
    name = f"refusing-{uuid.uuid4().hex[:8]}"
    with ExitStack() as stack:
        if request.param == "RabbitMQ":
            needs_rabbitmq()
            there = stack.enter_context(refusing(own_rabbitmq(), name, LARGEST))
            exchanges = there.exchanges
            url = f"{there.url}?name={name}&exchange={name}"
            rows = [{"exchange": e, "pattern": "#", "namespace": f"urn:{e}"} for e in exchanges]
            topics = tuple(f"{{urn:{exchange}}}orders/new" for exchange in exchanges)
        else:
            needs_activemq()
            query = f"?wireFormat.maxDataLength={LARGEST}"
            node = activemq_broker(authorization=AUTHORIZATION, query=query)
            url = f"{stack.enter_context(node).url}?name={name}"
            rows = [{"topic": "orders.>", "namespace": "urn:orders"}]
            topics = ("{urn:orders}orders/new",)
        settings = {"DRAGOMAN_ADAPTER": url, "DRAGOMAN_DESTINATIONS": json.dumps(rows)}
        yield Refused(settings, topics, LARGEST)


@pytest_asyncio.fixture
async def consumer() -> AsyncIterator[Consumer]:
    async with consumers() as sinks:
        yield sinks.add()


async def post(gateway: GatewayProcess, path: str, body: bytes) -> int:
    media_type = SPEAKER.soap.media_type
    return (await gateway.request("POST", path, body, content_type=media_type)).status


async def publish_around(
    gateway: GatewayProcess, start: int, bad: list[tuple[str, bytes]]
) -> tuple[list[int], list[int]]:
    """Publish `AROUND` good ones before, between and behind each of *bad*, many at a time; what
    the good and the bad ones were answered."""
    good: list[asyncio.Task[int]] = []
    told: list[asyncio.Task[int]] = []
    for path, body in [*bad, ("", b"")]:
        for number in range(start + len(good), start + len(good) + AROUND):
            work = post(gateway, f"/soap/topic/t{number % 3}", event(str(number)))
            good.append(asyncio.create_task(work))
        if path:
            told.append(asyncio.create_task(post(gateway, path, body)))
    return await asyncio.gather(*good), await asyncio.gather(*told)


async def refused_in_spool(gateway: GatewayProcess) -> list[dict[str, object]]:
    async with Administration(gateway.url) as administration:
        return [record async for record in administration.spool("refused")]


@pytest.mark.parametrize(
    ("broker", "spool"),
    [
        pytest.param("RabbitMQ", True, id="RabbitMQ-spool"),
        pytest.param("ActiveMQ", False, id="ActiveMQ-no spool"),
        pytest.param("RabbitMQ", False, id="RabbitMQ-no spool", marks=pytest.mark.nightly),
        pytest.param("ActiveMQ", True, id="ActiveMQ-spool", marks=pytest.mark.nightly),
    ],
    indirect=["broker"],
)
async def test_they_stop_nobody(
    broker: Refused, spool: bool, consumer: Consumer, tmp_path: Path
) -> None:
    """All others are accepted and arrive; the bad ones are told their publishers, or set aside with
    the broker's words. A restart changes nothing."""
    environment = {**broker.environment, "DRAGOMAN_SPOOL": str(spool).lower()}
    bad = broker.publications
    async with gateway_process(tmp_path / "data", environment) as gateway:
        await gateway.subscribe(consumer.url)
        good, told = await publish_around(gateway, 1, bad)
        count = len(good)
        assert set(good) == {202}
        assert set(told) == ({202} if spool else {400})
        await consumer.have_all([str(number) for number in range(1, count + 1)])
        again = [await post(gateway, path, body) for path, body in bad]
        assert again == [400] * len(bad), "what is known is refused at the door"

        aside = await refused_in_spool(gateway)
        assert len(aside) == (len(bad) if spool else 0)
        assert all(record["reason"] and record["message_id"] for record in aside)
        if spool:
            metrics = await gateway.metrics()
            assert metrics["spool_refused"] == metrics["spool_set_aside_total"] == len(bad)
            assert gateway.log.read_text().count("spool.refused") == len(bad)

        assert await gateway.end() == 0
        await gateway.start()
        good, _ = await publish_around(gateway, count + 1, bad)
        assert set(good) == {202}
        await consumer.have_all([str(number) for number in range(1, 2 * count + 1)])
        if spool:
            async with Administration(gateway.url) as administration:
                numbers = [int(str(record["number"])) for record in aside]
                assert await administration.retry_spooled(numbers) == len(aside)
                assert await administration.discard_spooled(None) <= 2 * len(bad)
        await gateway.at_rest()
