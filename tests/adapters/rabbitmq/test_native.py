"""Programs that use RabbitMQ directly, beside Dragoman: bare pika on one side."""

import asyncio
import contextlib
import gzip
import json
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pika
import pytest

from adapters import EVERYTHING_WANTED, Adapter, Interest, load
from adapters.testing import Inbox
from filters import Expression, Refused, Step, Topic
from filters.dialects import TOPIC_FULL
from mediation.cloudevents import CloudEvent, event_of, notification_of
from mediation.model.messages import Attachment, Notification
from mediation.tenants import all_topics_of, topic_in
from tests.rigs.adapters import SECONDS, STORM, storm
from tests.rigs.broker_trials import NativeTrials
from tests.rigs.brokers import RabbitMQ, needs_rabbitmq, rabbitmq
from tests.rigs.rabbitmq_adapters import running

needs_rabbitmq()


NAMESPACES = (("o", "urn:orders"),)


@pytest.fixture(scope="module")
def broker() -> RabbitMQ:
    return rabbitmq()


@pytest.fixture
def program(channel: Any) -> Any:
    """A native program: its channel."""
    return channel


class TestNative(NativeTrials):
    def running(
        self, url: str, name: str, data: Path, *interests: Interest, **settings: str
    ) -> AbstractAsyncContextManager[Adapter]:
        return running(url, name, *interests, **settings)

    def send(self, program: Any, name: str, body: bytes, media_type: str | None) -> None:
        properties = pika.BasicProperties(content_type=media_type)
        program.basic_publish(name, "dragoman.adhoc.storm", body, properties)


@pytest.fixture
def channel(broker: RabbitMQ) -> Iterator[Any]:
    with contextlib.closing(pika.BlockingConnection(pika.URLParameters(broker.url))) as connection:
        yield connection.channel()


def listen(channel: Any, exchange: str, pattern: str) -> str:
    queue: str = channel.queue_declare("", exclusive=True).method.queue
    channel.queue_bind(queue, exchange, pattern)
    return queue


@pytest.mark.parametrize("prefix", ["cloudEvents:", "cloudEvents_"])
async def test_a_native_program_publishes_a_cloudevent(
    broker: RabbitMQ, name: str, channel: Any, prefix: str
) -> None:
    attributes = {
        "specversion": "1.0",
        "id": "e-1",
        "source": "/sensors/4",
        "type": "com.example.tide",
    }
    headers: dict[str, Any] = {f"{prefix}{key}": value for key, value in attributes.items()}
    async with running(broker.url, name) as adapter:
        channel.basic_publish(
            name,
            "dragoman.adhoc.storm",
            b'{"level":1}',
            pika.BasicProperties(content_type="application/json", headers=headers),
        )
        (delivery,) = await Inbox(adapter, SECONDS).take(1)
    event = event_of(delivery.notification)
    assert event.data == b'{"level":1}'
    assert {key: event.attributes[key] for key in attributes} == attributes
    assert (event.media_type, event.attributes["topic"]) == ("application/json", "storm")


async def test_a_message_is_of_the_tenant_of_its_destination(
    broker: RabbitMQ, name: str, channel: Any
) -> None:
    """Whatever topic it says; and what the gateway publishes for a tenant goes there."""
    theirs = Interest(all_topics_of("acme"))
    async with running(broker.url, name, theirs, STORM) as adapter:
        inbox = Inbox(adapter, SECONDS)
        for key, said in (
            ("_tenant.acme.storm", ""),
            ("_tenant.acme.storm", "{urn:orders}new"),
            ("adhoc.storm", "{urn:dragoman:tenant}acme/storm"),
        ):
            headers = {"ws_topic": said} if said else {}
            properties = pika.BasicProperties(content_type="text/xml", headers=headers)
            channel.basic_publish(name, f"dragoman.{key}", b"<a/>", properties)
        found = [str(one.notification.topic) for one in await inbox.take(3)]
        assert sorted(found) == ["storm", *["{urn:dragoman:tenant}acme/storm"] * 2]
        queue = listen(channel, name, "dragoman._tenant.acme.#")
        topic = Topic((Step("urn:orders", "new"),))
        sent = Notification("1", "urn:x", b"<a/>", datetime.now(UTC), topic_in("acme", topic))
        await adapter.publish([sent])
        (delivery,) = await inbox.take(1)
        assert delivery.notification.topic == sent.topic
    method, _, _ = channel.basic_get(queue, auto_ack=True)
    assert method.routing_key.startswith("dragoman._tenant.acme.")


async def test_a_native_program_publishes(broker: RabbitMQ, name: str, channel: Any) -> None:
    async with running(broker.url, name) as adapter:
        channel.basic_publish(
            name,
            "dragoman.adhoc.storm.sea",
            '<?xml version="1.0" encoding="UTF-16"?>\n<!-- c --><sea>\xe6</sea>\n'.encode("utf-16"),
            pika.BasicProperties(
                message_id="m-1",
                timestamp=1767225600,
                content_type="text/xml",
                headers={"speed": 9, "calm": False, "none": None, "list": [1, "a"], "x-death": []},
            ),
        )
        (delivery,) = await Inbox(adapter, SECONDS).take(1)
    assert delivery.notification == Notification(
        id="m-1",
        source=f"amqp://127.0.0.1:{broker.port}/",
        payload="<sea>æ</sea>".encode(),
        time=datetime(2026, 1, 1, tzinfo=UTC),
        topic=Topic((Step(None, "storm"), Step(None, "sea"))),
        properties={"speed": "9", "calm": "false", "none": "", "list": '[1, "a"]'},
    )


async def test_queues_of_priorities_are_ordered(broker: RabbitMQ, name: str, channel: Any) -> None:
    async with running(broker.url, name) as adapter:
        queue = channel.queue_declare("", exclusive=True, arguments={"x-max-priority": 9})
        channel.queue_bind(queue.method.queue, name, "dragoman.adhoc.#")
        for priority in ("1", "9", "none"):
            sent = replace(storm(), properties={"priority": priority})
            await adapter.publish([sent])
        properties = pika.BasicProperties(priority=7)
        channel.basic_publish(name, "dragoman.adhoc.storm", b"<a/>", properties)
        taken = await Inbox(adapter, SECONDS).take(4)
        got = [channel.basic_get(queue.method.queue, auto_ack=True)[1] for _ in range(4)]
    said = [one.notification.properties["priority"] for one in taken]
    assert said == ["1", "9", "none", "7"]
    assert [one.priority for one in got] == [9, 7, 1, None]


async def test_a_native_program_subscribes(broker: RabbitMQ, name: str, channel: Any) -> None:
    async with running(broker.url, name) as adapter:
        queue = listen(channel, name, "dragoman.adhoc.#")
        sent = replace(
            storm(),
            action="urn:storm",
            properties={"speed": "9", "CC": "no routing key", "x" * 300: "long"},
        )
        await adapter.publish([sent])
        (delivery,) = await Inbox(adapter, SECONDS).take(1)
        assert delivery.notification == sent
        method, properties, body = channel.basic_get(queue, auto_ack=True)
    assert method.routing_key == "dragoman.adhoc.storm"
    assert body == sent.payload
    assert properties.content_type == "application/xml"
    assert properties.message_id == sent.id
    assert properties.timestamp == int(sent.time.timestamp())
    assert properties.delivery_mode == 2
    assert properties.headers["ws_topic"] == "storm"
    assert properties.headers["ws_action"] == "urn:storm"
    assert properties.headers["speed"] == "9"
    assert "CC" not in properties.headers


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param({"ws_topic": "{unclosed"}, id="topic"),
        pytest.param({"ws_headers": "[1"}, id="header blocks"),
        pytest.param({"cloudEvents_time": "yesterday"}, id="time"),
        pytest.param({"ws_producer": {"a": 1}}, id="a table"),
    ],
)
async def test_properties_that_cannot_be_read_are_left_aside(
    broker: RabbitMQ, name: str, channel: Any, headers: dict[str, Any]
) -> None:
    async with running(broker.url, name) as adapter:
        properties = pika.BasicProperties(headers=headers, message_id="m", timestamp=2**62)
        channel.basic_publish(name, "dragoman.adhoc.storm", b"<a/>", properties)
        (delivery,) = await Inbox(adapter, SECONDS).take(1)
    assert (delivery.notification.id, delivery.notification.payload) == ("m", b"<a/>")


async def test_any_routing_key(broker: RabbitMQ, name: str, channel: Any) -> None:
    """On our exchange everything is a message; what its key does not say has no topic."""
    async with running(broker.url, name, EVERYTHING_WANTED) as adapter:
        for key in ("", "a.b", "dragoman.nobody.a", "dragoman.adhoc.a", "\U0001f300" * 60):
            channel.basic_publish(name, key, f"<k>{key}</k>".encode())
        taken = await Inbox(adapter, SECONDS).take(5)
    topics = {one.notification.payload.decode(): str(one.notification.topic) for one in taken}
    assert topics.pop("<k>dragoman.adhoc.a</k>") == "a"
    assert set(topics.values()) == {"None"}


async def test_destinations_that_exist(broker: RabbitMQ, name: str, channel: Any) -> None:
    orders, audit = f"{name}-orders", f"{name}-audit"
    channel.exchange_declare(orders, "topic", durable=True)
    native = listen(channel, orders, "eu.#")
    rows = [
        {"exchange": orders, "pattern": "eu.#", "namespace": "urn:orders"},
        {"exchange": audit, "pattern": "*"},
    ]
    interests = [
        Interest(Expression("o:eu/*", TOPIC_FULL, NAMESPACES)),
        Interest(Expression("trail", TOPIC_FULL)),
    ]
    settings = {"destinations": json.dumps(rows), "name": name, "exchange": name}
    adapter = load(broker.url, data=Path("nowhere"), settings=settings)
    await adapter.start(interests)
    try:
        inbox = Inbox(adapter, SECONDS)
        channel.basic_publish(orders, "us.new", b"<us/>")
        channel.basic_publish(orders, "eu.new.x", b"<deeper/>")
        channel.basic_publish(orders, "eu.new", b"<new/>")
        channel.basic_publish(audit, "trail", b"<trail/>")  # made, since it was missing
        taken = {one.notification.payload: one.notification for one in await inbox.take(2)}
        new = Topic((Step("urn:orders", "eu"), Step(None, "new")))
        assert taken[b"<new/>"].topic == new
        assert taken[b"<trail/>"].topic == Topic((Step(None, "trail"),))
        sent = replace(storm(), topic=new)
        await adapter.publish([sent])
        assert await inbox.until(sent.id) == []
        keys = [channel.basic_get(native, auto_ack=True)[0].routing_key for _ in range(3)]
        assert keys == ["eu.new.x", "eu.new", "eu.new"]
    finally:
        await adapter.close()


async def test_a_prefix_that_is_configured(broker: RabbitMQ, name: str, channel: Any) -> None:
    settings = {"prefix.orders": "urn:orders"}
    async with running(broker.url, name, EVERYTHING_WANTED, **settings) as adapter:
        channel.basic_publish(name, "dragoman.orders.new", b"<new/>")
        (delivery,) = await Inbox(adapter, SECONDS).take(1)
    assert delivery.notification.topic == Topic((Step("urn:orders", "new"),))


async def test_what_no_message_can_carry_is_refused(broker: RabbitMQ, name: str) -> None:
    async with running(broker.url, name) as adapter:
        with pytest.raises(Refused):
            await adapter.publish([replace(storm(), properties={"a": "x" * 100_000})])
        large = replace(storm(), properties={"a": "x" * 80_000}, id="i" * 300)
        large = replace(large, attachments=(Attachment("a@b", "image/png", b"\0" * 300_000),))
        await adapter.publish([large])
        assert (await Inbox(adapter, SECONDS).take(1))[0].notification == large


async def test_messages_of_any_size_keep_their_order(broker: RabbitMQ, name: str) -> None:
    """A frame carries 128 KiB, less its eight octets."""
    sizes = [131_064 + around for around in (-1, 0, 1, 8)] + [9, 300_000, 1_900_000, 10]
    sent = [
        replace(storm(number), payload=b"<n>" + b"x" * (size - 7) + b"</n>")
        for number, size in enumerate(sizes)
    ]
    async with running(broker.url, name) as adapter:
        await adapter.publish(sent)
        taken = await Inbox(adapter, SECONDS).take(len(sent))
    assert [one.notification for one in taken] == sent


async def test_headers_of_any_type(broker: RabbitMQ, name: str, channel: Any) -> None:
    """The texts that they become, and the order of their messages."""
    kinds: list[tuple[Any, str]] = [
        ("text", "text"),
        (b"\xff", "\ufffd"),
        (True, "true"),
        (None, ""),
        (7, "7"),
        (-(2**40), str(-(2**40))),
        (Decimal("2.50"), '"2.5"'),
        (datetime(2026, 1, 1, tzinfo=UTC), "2026-01-01T00:00:00+00:00"),
        ([1, [b"\xff"], None], '[1, ["\\ufffd"], null]'),
        ({"a": {"b": False}, b"\xff": 1}, '{"a": {"b": false}, "\\ufffd": 1}'),
    ]
    async with running(broker.url, name) as adapter:
        for number in range(50):
            value, _ = kinds[number % len(kinds)]
            properties = pika.BasicProperties(headers={"n": value, "x-death": []})
            channel.basic_publish(
                name, "dragoman.adhoc.storm", f"<n>{number}</n>".encode(), properties
            )
        taken = [one.notification for one in await Inbox(adapter, SECONDS).take(50)]
    assert [one.payload for one in taken] == [f"<n>{number}</n>".encode() for number in range(50)]
    assert [one.properties["n"] for one in taken] == [text for _, text in kinds] * 5


async def test_names_that_are_no_utf_8(broker: RabbitMQ, name: str, channel: Any) -> None:
    """For them pika gives bytes; the messages behind them come all the same."""
    async with running(broker.url, name, EVERYTHING_WANTED) as adapter:
        properties = pika.BasicProperties(
            b"\xff/xml", headers={b"\xff": "a"}, message_id=b"\xfe", reply_to=b"\xfd"
        )
        channel.basic_publish(name, b"dragoman.adhoc.\xff", b"<a/>", properties)
        await adapter.publish([sent := storm()])
        odd, fresh = await Inbox(adapter, SECONDS).take(2)
    assert (odd.notification.id, odd.notification.payload) == ("\ufffd", b"<a/>")
    assert odd.notification.properties == {"\ufffd": "a"}
    assert fresh.notification == sent


async def test_hundreds_of_interests(broker: RabbitMQ, name: str) -> None:
    interests = [Interest(Expression(f"storm{number}", TOPIC_FULL)) for number in range(300)]
    async with asyncio.timeout(SECONDS), running(broker.url, name, *interests) as adapter:
        await adapter.publish([sent := storm(topic="storm299")])
        assert (await Inbox(adapter, SECONDS).take(1))[0].notification == sent


async def test_the_types_of_attributes_are_kept(broker: RabbitMQ, name: str, channel: Any) -> None:
    attributes = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}
    typed = {"sequence": 5, "final": True, "first": False, "large": 2**40, "raw": b"\xff"}
    async with running(broker.url, name) as adapter:
        channel.basic_publish(
            name,
            "dragoman.adhoc.storm",
            b"<m/>",
            pika.BasicProperties(
                headers={f"cloudEvents:{key}": value for key, value in (attributes | typed).items()}
            ),
        )
        (delivery,) = await Inbox(adapter, SECONDS).take(1)
    event = event_of(delivery.notification)
    texts = {"large": str(2**40), "raw": "/w=="}
    assert event.attributes == {**attributes, **typed, **texts, "time": event.attributes["time"],
                                "topic": "storm"}  # fmt: skip
    assert event.data == b"<m/>"


async def test_an_event_goes_through_with_types_and_expiry(
    broker: RabbitMQ, name: str, channel: Any
) -> None:
    attributes: dict[str, str | int | bool] = {
        "specversion": "1.0",
        "id": "1",
        "source": "/s",
        "type": "t",
        "sequence": 5,
        "final": True,
        "expirytime": "2126-01-01T00:00:00Z",
        "time": "2026-01-01T00:00:00Z",
    }
    topic = Topic((Step(None, "storm"),))
    sent = notification_of(CloudEvent(attributes, b"{}"), time=datetime.now(UTC), topic=topic)
    async with running(broker.url, name) as adapter:
        await adapter.publish([sent])
        (delivery,) = await Inbox(adapter, SECONDS).take(1)
    assert event_of(delivery.notification) == CloudEvent({**attributes, "topic": "storm"}, b"{}")
    assert delivery.notification.expires == datetime(2126, 1, 1, tzinfo=UTC)


async def test_expiration_is_the_expiry(broker: RabbitMQ, name: str, channel: Any) -> None:
    """Both ways; what is over already is handed on, to be counted."""
    now = datetime.now(UTC)
    async with running(broker.url, name) as adapter:
        inbox, queue = Inbox(adapter, SECONDS), listen(channel, name, "#")
        for properties in (
            {"expiration": "60000"},
            {"expiration": "60000", "timestamp": int(now.timestamp()) - 30},
            {"expiration": "60000", "timestamp": 1},
        ):
            channel.basic_publish(
                name, "dragoman.adhoc.storm", b"<m/>", pika.BasicProperties(**properties)
            )
        lives = [
            (one.notification.expires or now).timestamp() - now.timestamp()
            for one in await inbox.take(3)
        ]
        assert lives[0] >= 60 and 29 <= lives[1] <= 30 and lives[2] >= 60
        for _ in range(3):
            channel.basic_get(queue, auto_ack=True)
        for life in (60, -60):
            await adapter.publish([replace(storm(), expires=now + timedelta(seconds=life))])
            (delivery,) = await inbox.take(1)
            assert delivery.notification.expires == now + timedelta(seconds=life)
        _, going, _ = channel.basic_get(queue, auto_ack=True)
        _, over, _ = channel.basic_get(queue, auto_ack=True)
        assert 0 < int(going.expiration) <= 60_000 and over.expiration is None


async def test_content_encoding_is_decoded(broker: RabbitMQ, name: str, channel: Any) -> None:
    async with running(broker.url, name) as adapter:
        for encoding, body in (
            ("gzip", gzip.compress(b"<m>1</m>")),
            ("br", b"<m>1</m>"),
            ("gzip", b"<m>1</m>"),
        ):
            channel.basic_publish(
                name,
                "dragoman.adhoc.storm",
                body,
                pika.BasicProperties(content_type="application/xml", content_encoding=encoding),
            )
        decoded, left, broken = await Inbox(adapter, SECONDS).take(3)
    assert decoded.notification.payload == b"<m>1</m>"
    assert b'content-encoding="br"' in left.notification.payload
    unreadable = adapter.capabilities.unreadable
    assert unreadable is not None
    assert [bool(unreadable(one)) for one in (decoded, left, broken)] == [False, False, True]
    assert "not compressed as it says" in unreadable(broken)
