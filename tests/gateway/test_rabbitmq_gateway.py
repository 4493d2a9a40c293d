"""A gateway in front of a real RabbitMQ: native programs and web services, and every failure."""

import asyncio
import contextlib
import re
import signal
import subprocess
import sys
import uuid
from collections.abc import Sequence
from pathlib import Path

import pika
import pytest

from tests.brokers import RabbitMQ, needs_rabbitmq, rabbitmq, wire_to
from tests.gateway.consumers import OneConsumer, consumers, until
from tests.gateway.envelopes import notification_message, notify, topic_expression
from tests.gateway.processes import SPEAKER, GatewayProcess, Publisher, gateway_process, publishing

needs_rabbitmq()


ROOT = Path(__file__).parents[2]
EXAMPLES = re.findall(r"```python\n(.*?)```", (ROOT / "docs/rabbitmq.md").read_text(), re.DOTALL)
URL_OF_THE_EXAMPLES = "amqp://guest:guest@localhost:5672/"
SECONDS = 30.0


@pytest.fixture(scope="module")
def broker() -> RabbitMQ:
    return rabbitmq()


def adapter(url: str, name: str | None = None, *settings: str) -> dict[str, str]:
    """What makes a gateway stand in front of *url*, with queues of its own."""
    name = name or f"test-{uuid.uuid4().hex[:12]}"
    query = "&".join([f"name={name}", f"exchange={name}", *settings])
    return {"DRAGOMAN_ADAPTER": f"{url}?{query}"}


async def refused(gateway: GatewayProcess, publisher: Publisher) -> None:
    """Publish until it is refused: with 503, and when to come again."""
    async with asyncio.timeout(SECONDS):
        while (status := await publisher.publish()) == 202:
            pass
    assert status == 503
    assert int(publisher.headers["retry-after"]) >= 1


async def accepted(publisher: Publisher) -> None:
    async with asyncio.timeout(SECONDS):
        while True:
            if await publisher.publish() == 202:
                return
            await asyncio.sleep(0.1)


async def subscribed(gateway: GatewayProcess, consumer: OneConsumer) -> None:
    async with asyncio.timeout(SECONDS):
        while True:
            answer = await gateway.ask(SPEAKER.wse_subscribe(consumer.url))
            if answer.status == 200:
                return
            assert answer.status == 503
            await asyncio.sleep(0.1)


def judge(publishers: Sequence[Publisher], those: Sequence[OneConsumer]) -> int:
    """Nothing acknowledged is lost, what comes twice has the same id, and all is in order; how
    much came twice."""
    attempted = {number for one in publishers for number in one.attempted}
    acknowledged = {number for one in publishers for number in one.acknowledged}
    repeats = 0
    for consumer in those:
        ids: dict[str, str] = {}
        last: dict[str, int] = {}
        for receipt in consumer.received:
            if receipt.number in ids:
                assert ids[receipt.number] == receipt.id, "another message id"
                repeats += 1
                continue
            ids[receipt.number] = receipt.id
            publisher, number = receipt.number[0], int(receipt.number[1:])
            assert number > last.get(publisher, 0), "out of order"
            last[publisher] = number
        assert acknowledged - ids.keys() == set(), "lost"
        assert ids.keys() - attempted == set(), "unexpected"
    return repeats


async def test_the_programs_of_the_guide(broker: RabbitMQ, tmp_path: Path) -> None:
    publish, hear = (example.replace(URL_OF_THE_EXAMPLES, broker.url) for example in EXAMPLES)
    assert broker.url in publish and broker.url in hear
    environment = {"DRAGOMAN_ADAPTER": broker.url}
    async with consumers() as sinks, gateway_process(tmp_path / "data", environment) as gateway:
        consumer = sinks.add()
        answer = await gateway.ask(
            SPEAKER.wsn_subscribe(consumer.url, filter=topic_expression("storms"))
        )
        assert answer.status == 200
        await run(publish)
        assert await consumer.have(1, SECONDS) == ["1"]
        assert b"storms" in consumer.received[0].body

        hearing = asyncio.create_task(run(hear))
        async with asyncio.timeout(SECONDS):
            while not hearing.done():  # Published again until the program has its queue.
                body = notify(notification_message("<storm><n>2</n></storm>", "storms"))
                assert (await gateway.ask(body)).status == 202
                await asyncio.sleep(0.1)
        assert re.fullmatch(r"storms <storm .*><n>2</n></storm>\n", await hearing)
        await gateway.at_rest()


async def run(program: str) -> str:
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", program], capture_output=True, timeout=SECONDS, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


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
            await refused(gateway, publisher)
            await wire.join()
            await subscribed(gateway, consumer)
            await accepted(publisher)
            await consumer.have(1, SECONDS)
            await wire.cut()
            await refused(gateway, publisher)
            await wire.join()
            await accepted(publisher)
            limit = "set_vm_memory_high_watermark"
            await asyncio.to_thread(broker.control, limit, "0.0000001")
            try:
                await refused(gateway, publisher)
            finally:
                await asyncio.to_thread(broker.control, limit, "0.6")
            await accepted(publisher)
            await consumer.have_all(publisher.acknowledged)
            await gateway.at_rest()
            judge([publisher], [consumer])
            publisher.close()


async def test_broker_and_gateway_die_in_traffic(broker: RabbitMQ, tmp_path: Path) -> None:
    async with (
        consumers() as sinks,
        gateway_process(tmp_path / "data", adapter(broker.url)) as gateway,
    ):
        those = [sinks.add(keep=False) for _ in range(3)]
        for consumer in those:
            await gateway.subscribe(consumer.url)
        async with publishing(gateway, 100.0) as publishers:
            await those[0].have(30, SECONDS)
            await gateway.kill()
            await gateway.start()
            await those[0].have(those[0].count + 30, SECONDS)
            await asyncio.to_thread(broker.stop, signal.SIGKILL)
            await broker.start_again()
            before = sum(len(one.acknowledged) for one in publishers)
            await until(
                lambda: sum(len(one.acknowledged) for one in publishers) > before + 50, SECONDS
            )
        for consumer in those:
            await consumer.have_all([one for all in publishers for one in all.acknowledged])
        await gateway.at_rest()
        assert any(one.statuses.get(503) for one in publishers)
        judge(publishers, those)


async def test_the_library_is_missing(tmp_path: Path) -> None:
    (tmp_path / "pika.py").write_text("raise ModuleNotFoundError('gone', name='pika')\n")
    gateway = GatewayProcess(
        tmp_path / "data",
        {"DRAGOMAN_ADAPTER": "amqp://host/", "PYTHONPATH": f"{tmp_path}:{ROOT}"},
    )
    with contextlib.suppress(AssertionError):
        await gateway.start()
    assert await gateway.end() == 1
    assert "pip install 'dragoman[rabbitmq]'" in gateway.log.read_text()
