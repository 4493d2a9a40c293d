"""A gateway in front of a real RabbitMQ: native programs and web services, and every failure."""

import asyncio
import re
import uuid
from pathlib import Path

import pika
import pytest

from tests.rigs.broker_gateways import ROOT, die_in_traffic, start_without, talk_to_native_programs
from tests.rigs.brokers import RabbitMQ, needs_rabbitmq, rabbitmq, wire_to
from tests.rigs.consumers import consumers
from tests.rigs.outage_traffic import SECONDS, accepted, judge, refused, subscribed
from tests.rigs.processes import SPEAKER, Publisher, gateway_process

needs_rabbitmq()


EXAMPLES = re.findall(r"```python\n(.*?)```", (ROOT / "docs/rabbitmq.md").read_text(), re.DOTALL)
URL_OF_THE_EXAMPLES = "amqp://guest:guest@localhost:5672/"


@pytest.fixture(scope="module")
def broker() -> RabbitMQ:
    return rabbitmq()


def adapter(url: str, name: str | None = None, *settings: str) -> dict[str, str]:
    """What makes a gateway stand in front of *url*, with queues of its own."""
    name = name or f"test-{uuid.uuid4().hex[:12]}"
    query = "&".join([f"name={name}", f"exchange={name}", *settings])
    return {"DRAGOMAN_ADAPTER": f"{url}?{query}"}


async def test_the_programs_of_the_guide(broker: RabbitMQ, tmp_path: Path) -> None:
    publish, hear = (example.replace(URL_OF_THE_EXAMPLES, broker.url) for example in EXAMPLES)
    assert broker.url in publish and broker.url in hear
    environment = {"DRAGOMAN_ADAPTER": broker.url}
    said = await talk_to_native_programs(publish, hear, environment, tmp_path / "data")
    assert said == "storms <storm><n>2</n></storm>\n"


async def test_destinations_that_exist(
    broker: RabbitMQ, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``[[destinations]]`` of dragoman.toml, for a subscriber of WS-Eventing, which knows no topics."""
    exchange = f"orders-{uuid.uuid4().hex[:8]}"
    (tmp_path / "dragoman.toml").write_text(
        f'[[destinations]]\nexchange = "{exchange}"\npattern = "eu.#"\nnamespace = "urn:orders"\n'
    )
    monkeypatch.chdir(tmp_path)
    environment = adapter(broker.url) | {"PYTHONPATH": str(ROOT)}
    async with consumers() as sinks, gateway_process(tmp_path / "data", environment) as gateway:
        consumer = sinks.add()
        await gateway.subscribe(consumer.url)
        connection = pika.BlockingConnection(pika.URLParameters(broker.url))
        connection.channel().basic_publish(exchange, "us.new", b"<n>1</n>")
        connection.channel().basic_publish(exchange, "eu.new", b'{"n": "<n>2</n>"}')
        connection.channel().basic_publish(exchange, "eu.new", b"<n>3</n>")
        connection.close()
        await consumer.have(2, SECONDS)
        assert "3" in consumer.numbers and "1" not in consumer.numbers
        assert (await gateway.at_rest())["wrapped_total"] == 1


async def test_a_broker_that_comes_late_and_goes_and_is_short_of_memory(
    broker: RabbitMQ, tmp_path: Path
) -> None:
    async with wire_to(broker.port) as wire, consumers() as sinks:
        await wire.cut()
        environment = adapter(broker.at(wire.port))
        async with gateway_process(tmp_path / "data", environment) as gateway:
            publisher, consumer = Publisher(gateway, "a"), sinks.add()
            assert (await gateway.request("GET", "/readyz")).status == 200
            answer = await gateway.ask(SPEAKER.wse_subscribe(consumer.url))
            assert answer.status == 503 and "retry-after" in answer.headers
            await refused(publisher)
            await wire.join()
            await subscribed(gateway, consumer)
            await accepted(publisher)
            await consumer.have(1, SECONDS)
            await wire.cut()
            await refused(publisher)
            await wire.join()
            await accepted(publisher)
            limit = "set_vm_memory_high_watermark"
            await asyncio.to_thread(broker.control, limit, "0.0000001")
            try:
                await refused(publisher)
            finally:
                await asyncio.to_thread(broker.control, limit, "0.6")
            await accepted(publisher)
            await consumer.have_all(publisher.acknowledged)
            await gateway.at_rest()
            judge([publisher], [consumer])
            publisher.close()


async def test_broker_and_gateway_die_in_traffic(broker: RabbitMQ, tmp_path: Path) -> None:
    await die_in_traffic(broker, adapter(broker.url), tmp_path / "data")


async def test_the_library_is_missing(tmp_path: Path) -> None:
    said = await start_without("pika", "amqp://host/", tmp_path)
    assert "-m pip install 'pika" in said
