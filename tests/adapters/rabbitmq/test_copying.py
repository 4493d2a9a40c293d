"""Copies of events for receivers of WS-Messenger's (Apache Airavata 0.11), bare pika with their
declarations and bindings, through a real broker."""

import asyncio
import contextlib
import uuid
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pika
import pytest

from adapters.loading import load_event_copies
from adapters.protocol import AdapterError
from adapters.rabbitmq import copying
from adapters.rabbitmq.copying import AmqpCopies
from adapters.rabbitmq.routing_keys import read_routing_keys
from tests.adapters.rabbitmq.test_routing_keys import SHIPPED, terminated
from tests.rigs.adapters import storm
from tests.rigs.brokers import RabbitMQ, needs_rabbitmq, rabbitmq
from tests.rigs.ports import free_ports
from tests.rigs.rabbitmq_adapters import refusing
from tests.rigs.waiting import until

needs_rabbitmq()

PAYLOAD = terminated('<w:notificationSource w:serviceID="s1"/>')


@pytest.fixture(scope="module")
def broker() -> RabbitMQ:
    return rabbitmq()


@pytest.fixture
def prefix() -> str:
    return f"test-{uuid.uuid4().hex[:12]}"


@dataclass
class Receiver:
    """Declares an exchange with its name and type only, and binds a queue of its own."""

    channel: Any
    queue: str

    def take(self) -> tuple[str, bytes, pika.BasicProperties] | None:
        method, properties, body = self.channel.basic_get(self.queue, auto_ack=True)
        return None if method is None else (method.routing_key, body, properties)

    async def have(self, count: int) -> list[tuple[str, bytes]]:
        found: list[tuple[str, bytes]] = []

        def enough() -> bool:
            while (one := self.take()) is not None:
                found.append(one[:2])
            return len(found) >= count

        await until(enough)
        return found

    async def have_each_of(self, bodies: Collection[bytes]) -> list[bytes]:
        found: list[bytes] = []

        def enough() -> bool:
            while (one := self.take()) is not None:
                found.append(one[1])
            return set(bodies) <= set(found)

        await until(enough)
        return found


Listen = Callable[[str, str, str], Receiver]


@pytest.fixture
def listen(broker: RabbitMQ) -> Iterator[Listen]:
    with contextlib.closing(pika.BlockingConnection(pika.URLParameters(broker.url))) as connection:
        channel = connection.channel()

        def make(exchange: str, kind: str, key: str) -> Receiver:
            channel.exchange_declare(exchange, kind)
            queue = channel.queue_declare("", exclusive=True).method.queue
            channel.queue_bind(queue, exchange, key)
            return Receiver(channel, queue)

        yield make


@contextlib.asynccontextmanager
async def copying_to(url: str, prefix: str, **more: Any) -> Any:
    keys = read_routing_keys(SHIPPED, every_event=more.pop("every_event", False))
    copies = AmqpCopies(url, keys, prefix=prefix, durable=more.pop("durable", False))
    copies.start()
    try:
        yield copies
    finally:
        await copies.close(5.0)


def event(payload: bytes, **more: Any) -> Any:
    return replace(storm(), payload=payload, **more)


async def test_receivers_get_the_same_bodies_with_the_same_keys(
    broker: RabbitMQ, prefix: str, listen: Listen
) -> None:
    fanout = listen(f"{prefix}-fanout", "fanout", "")
    every = listen(f"{prefix}-topic", "topic", "workflowTerminated.#")
    one = listen(f"{prefix}-topic", "topic", "workflowTerminated.s1")
    other = listen(f"{prefix}-topic", "topic", "workflowTerminated.s2")
    direct = listen(f"{prefix}-direct", "direct", "workflowTerminated.s1")
    async with copying_to(broker.url, prefix) as copies:
        copies.offer(event(b"<unknown/>"))
        copies.offer(event(PAYLOAD))
        copies.offer(event(b"<keyless/>"))
        assert await fanout.have(2) == [("", PAYLOAD), ("", b"<keyless/>")]
        key = ("workflowTerminated.s1", PAYLOAD)
        for receiver in (every, one, direct):
            assert await receiver.have(1) == [key]
        await until(lambda: (copies.copied, copies.waiting) == (2, 0))
        assert other.take() is None and direct.take() is None
        assert (copies.dropped, copies.refused) == (0, 0)


async def test_properties(broker: RabbitMQ, prefix: str, listen: Listen) -> None:
    receiver = listen(f"{prefix}-fanout", "fanout", "")
    async with copying_to(broker.url, prefix) as copies:
        notification = event(PAYLOAD)
        copies.offer(notification)
        await until(lambda: copies.copied == 1)
        taken = receiver.take()
        assert taken is not None
        properties = taken[2]
        assert (properties.content_type, properties.message_id) == (
            "application/xml",
            notification.id,
        )
        assert properties.headers == {"topic": str(notification.topic)}
        assert properties.delivery_mode is None


async def test_order_and_large_events(broker: RabbitMQ, prefix: str, listen: Listen) -> None:
    receiver = listen(f"{prefix}-topic", "topic", "plain")
    bodies = [b"<plain>%d%s</plain>" % (n, b"x" * (n % 7) * 5000) for n in range(300)]
    async with copying_to(broker.url, prefix) as copies:
        for body in bodies:
            copies.offer(event(body))
        assert [body for _, body in await receiver.have(300)] == bodies
        await until(lambda: copies.copied == 300)


async def test_what_comes_while_the_broker_is_away_is_copied_later(
    broker: RabbitMQ, prefix: str, listen: Listen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copying, "WAITING_EVENTS", 3)
    [port] = free_ports(1)
    async with copying_to(broker.at(port), prefix) as copies:
        for number in range(5):
            copies.offer(event(b"<plain>%d</plain>" % number))
        assert (copies.waiting, copies.dropped) == (3, 2)

        async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", broker.port)
            await asyncio.gather(pump(reader, inner_writer), pump(inner_reader, writer))

        async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.suppress(ConnectionError):
                while octets := await reader.read(65536):
                    writer.write(octets)
            writer.close()

        receiver = listen(f"{prefix}-topic", "topic", "plain")
        server = await asyncio.start_server(forward, "127.0.0.1", port)
        assert [body for _, body in await receiver.have(3)] == [
            b"<plain>%d</plain>" % number for number in range(3)
        ]
        await until(lambda: copies.copied == 3)
        await copies.close(2.0)
        server.close()


async def test_a_key_that_amqp_cannot_hold_stands_in_nobodys_way(
    broker: RabbitMQ, prefix: str, listen: Listen
) -> None:
    receiver = listen(f"{prefix}-fanout", "fanout", "")
    async with copying_to(broker.url, prefix) as copies:
        copies.offer(event(terminated(f'<w:notificationSource w:serviceID="{"x" * 300}"/>')))
        copies.offer(event(PAYLOAD))
        assert await receiver.have(1) == [("", PAYLOAD)]
        await until(lambda: (copies.copied, copies.refused) == (1, 1))


async def test_what_the_broker_refuses_stands_in_nobodys_way(
    broker: RabbitMQ, prefix: str, listen: Listen
) -> None:
    receiver = listen(f"{prefix}-topic", "topic", "plain")
    bodies = [b"<plain>%d</plain>" % number for number in range(20)]
    with refusing(broker, prefix) as forbidden:
        large = event(b"<plain>%s</plain>" % (b"x" * forbidden.octets))
        async with copying_to(broker.url, prefix) as copies:
            for body in bodies[:10]:
                copies.offer(event(body))
            copies.offer(large)
            for body in bodies[10:]:
                copies.offer(event(body))
            found = await receiver.have_each_of(bodies)
            assert list(dict.fromkeys(found)) == bodies, "some come twice: the connection fell"
            await until(lambda: (copies.copied, copies.refused, copies.dropped) == (20, 1, 0))


async def test_exchanges_that_are_there_with_another_type_are_said(
    broker: RabbitMQ, prefix: str, listen: Listen, caplog: pytest.LogCaptureFixture
) -> None:
    listen(f"{prefix}-topic", "fanout", "")
    async with copying_to(broker.url, prefix):
        await until(lambda: "adapter.disconnected" in caplog.text)
        [record] = [one for one in caplog.records if one.msg == "adapter.disconnected"]
        assert "inequivalent arg 'type'" in record.reason  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("url", "file", "text"),
    [
        ("http://x", None, "^amqp_copies: "),
        ("amqp://u:s3cret@h/?nonsense=1", None, "^amqp_copies: .*nonsense"),
        ("amqp://h", "/nowhere/keys.xml", "^amqp_copies: routing_keys: /nowhere/keys.xml: No such"),
    ],
)
async def test_what_is_wrong_is_one_line(url: str, file: str | None, text: str) -> None:
    with pytest.raises(AdapterError, match=text) as caught:
        load_event_copies(
            url,
            routing_keys=Path(file) if file else None,
            every_event=True,
            prefix="p",
            durable=False,
        )
    assert "s3cret" not in str(caught.value)
