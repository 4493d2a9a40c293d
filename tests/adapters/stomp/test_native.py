"""Programs that use ActiveMQ directly, beside Dragoman: bare stomp.py on one side, or JMS."""

import asyncio
import gzip
import json
import queue
import shutil
import uuid
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import stomp

from adapters import EVERYTHING_WANTED, Interest, load
from adapters.testing import Inbox
from filters import Expression, Refused, Step, Topic
from filters.dialects import TOPIC_FULL
from mediation.cloudevents import CloudEvent, event_of, notification_of
from mediation.model.messages import Attachment, Notification
from mediation.tenants import all_topics_of, topic_in
from tests.rigs.activemq import ActiveMQ, activemq, needs_activemq
from tests.rigs.adapters import SECONDS, STORM, storm
from tests.rigs.broker_trials import NativeTrials
from tests.rigs.brokers import PASSWORD, USER
from tests.rigs.stomp_adapters import running

needs_activemq()


JARS = "/usr/share/activemq/lib/*"


class Program(stomp.ConnectionListener):  # type: ignore[misc]  # stomp.py has no types.
    """What a native program has: a connection of stomp.py, and what came."""

    def __init__(self, broker: ActiveMQ) -> None:
        self.came: queue.Queue[stomp.utils.Frame] = queue.Queue()
        self.receipts: queue.Queue[str] = queue.Queue()
        self.connection = stomp.Connection12([("127.0.0.1", broker.port)], auto_decode=False)
        self.connection.set_listener("", self)
        self.connection.connect(USER, PASSWORD, wait=True, with_connect_command=True)

    def on_message(self, frame: stomp.utils.Frame) -> None:
        self.came.put(frame)

    def on_receipt(self, frame: stomp.utils.Frame) -> None:
        self.receipts.put(frame.headers["receipt-id"])

    def publish(self, topic: str, body: bytes | str, **headers: str) -> None:
        """Returns when the broker has it."""
        receipt = uuid.uuid4().hex
        self.connection.send(topic, body, receipt=receipt, **headers)
        assert self.receipts.get(timeout=SECONDS) == receipt

    def listen(self, destination: str) -> None:
        receipt = uuid.uuid4().hex
        self.connection.subscribe(destination, id=1, ack="auto", receipt=receipt)
        assert self.receipts.get(timeout=SECONDS) == receipt

    def next(self) -> stomp.utils.Frame:
        return self.came.get(timeout=SECONDS)


@pytest.fixture(scope="module")
def broker() -> ActiveMQ:
    return activemq()


@pytest.fixture
def program(broker: ActiveMQ) -> Iterator[Program]:
    program = Program(broker)
    yield program
    program.connection.disconnect(receipt="bye")


class TestNative(NativeTrials):
    running = staticmethod(running)

    def send(self, program: Program, name: str, body: bytes, media_type: str | None) -> None:
        headers = {} if media_type is None else {"content-type": media_type}
        program.publish(f"/topic/VirtualTopic.{name}.adhoc.storm", body, **headers)


async def test_a_message_is_of_the_tenant_of_its_destination(
    broker: ActiveMQ, name: str, tmp_path: Path, program: Program
) -> None:
    """Whatever topic it says; and what the gateway publishes for a tenant comes back as its own."""
    theirs = Interest(all_topics_of("acme"))
    async with running(broker.url, name, tmp_path, theirs, STORM) as adapter:
        inbox = Inbox(adapter, SECONDS)
        for topic, said in (
            ("_tenant.acme.storm", ""),
            ("_tenant.acme.storm", "{urn:orders}new"),
            ("adhoc.storm", "{urn:dragoman:tenant}acme/storm"),
        ):
            headers = {"ws_topic": said} if said else {}
            program.publish(f"/topic/VirtualTopic.{name}.{topic}", "<a/>", **headers)
        found = [str(one.notification.topic) for one in await inbox.take(3)]
        assert sorted(found) == ["storm", *["{urn:dragoman:tenant}acme/storm"] * 2]
        new = Topic((Step("urn:orders", "new"),))
        sent = Notification("1", "urn:x", b"<a/>", datetime.now(UTC), topic_in("acme", new))
        await adapter.publish([sent])
        (delivery,) = await inbox.take(1)
    assert delivery.notification.topic == sent.topic


async def test_a_native_program_publishes(
    broker: ActiveMQ, name: str, tmp_path: Path, program: Program
) -> None:
    async with running(broker.url, name, tmp_path) as adapter:
        program.publish(
            f"/topic/VirtualTopic.{name}.adhoc.storm.sea",
            '<?xml version="1.0" encoding="UTF-16"?>\n<!-- c --><sea>\xe6</sea>\n'.encode("utf-16"),
            timestamp="1767225600000",
            speed="9",
            **{"content-type": "text/xml", "x-mine": "1"},
        )
        (delivery,) = await Inbox(adapter, SECONDS).take(1)
    assert delivery.notification.id.startswith("ID:")
    assert delivery.notification == Notification(
        id=delivery.notification.id,
        source=f"stomp://127.0.0.1:{broker.port}",
        payload="<sea>æ</sea>".encode(),
        time=datetime(2026, 1, 1, tzinfo=UTC),
        topic=Topic((Step(None, "storm"), Step(None, "sea"))),
        properties={"speed": "9"},
    )


async def test_priorities_are_those_of_jms(
    broker: ActiveMQ, name: str, tmp_path: Path, program: Program
) -> None:
    async with running(broker.url, name, tmp_path) as adapter:
        program.listen(f"/topic/VirtualTopic.{name}.adhoc.>")
        for priority in ("1", "200"):
            await adapter.publish([replace(storm(), properties={"priority": priority})])
        for further in ({"priority": "7"}, {}):
            program.publish(f"/topic/VirtualTopic.{name}.adhoc.storm", b"<a/>", **further)
        taken = await Inbox(adapter, SECONDS).take(4)
        told = [program.next().headers.get("priority", "4") for _ in range(4)]
    assert [one.notification.properties.get("priority") for one in taken] == [
        "1", "200", "7", None,
    ]  # fmt: skip
    assert told == ["1", "9", "7", "4"]


async def test_a_native_program_subscribes(
    broker: ActiveMQ, name: str, tmp_path: Path, program: Program
) -> None:
    async with running(broker.url, name, tmp_path) as adapter:
        program.listen(f"/topic/VirtualTopic.{name}.adhoc.>")
        sent = replace(
            storm(),
            action="urn:storm",
            properties={"speed": "9", "receipt": "none", "priority": "none", "x" * 300: "long"},
        )
        await adapter.publish([sent])
        (delivery,) = await Inbox(adapter, SECONDS).take(1)
        assert delivery.notification == sent
        frame = program.next()
    assert frame.body == sent.payload
    headers = frame.headers
    assert headers["destination"] == f"/topic/VirtualTopic.{name}.adhoc.storm"
    assert headers["content-type"] == "application/xml"
    assert headers["persistent"] == "true"
    assert headers["cloudEvents_id"] == sent.id
    assert headers["ws_topic"] == "storm"
    assert headers["ws_action"] == "urn:storm"
    assert headers["speed"] == "9"
    assert headers["priority"] == "4"


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param({"ws_topic": "{unclosed"}, id="topic"),
        pytest.param({"ws_headers": "[1"}, id="header blocks"),
        pytest.param({"cloudEvents_time": "yesterday"}, id="time"),
        pytest.param({"ws_producer": '{"a": 1}'}, id="an object"),
        pytest.param({"ws_unicode": '{"ws_topic": 1, "n": 1}'}, id="a number"),
        pytest.param({"ws_unicode": "[1]"}, id="an array"),
    ],
)
async def test_properties_that_cannot_be_read_are_left_aside(
    broker: ActiveMQ, name: str, tmp_path: Path, program: Program, headers: dict[str, str]
) -> None:
    async with running(broker.url, name, tmp_path) as adapter:
        program.publish(f"/topic/VirtualTopic.{name}.adhoc.storm", b"<a/>", **headers)
        (delivery,) = await Inbox(adapter, SECONDS).take(1)
    assert delivery.notification.payload == b"<a/>"
    assert delivery.notification.properties == {}


async def test_any_destination_below_the_root(
    broker: ActiveMQ, name: str, tmp_path: Path, program: Program
) -> None:
    """What its name does not say has no topic."""
    async with running(broker.url, name, tmp_path, EVERYTHING_WANTED) as adapter:
        for key in ("", ".a.b", ".nobody.a", ".adhoc.a", ".adhoc.\U0001f300"):
            program.publish(f"/topic/VirtualTopic.{name}{key}", f"<k>{key}</k>")
        program.publish(f"/queue/Consumer.{name}.VirtualTopic.{name}.>", "<k>queue</k>")
        taken = await Inbox(adapter, SECONDS).take(6)
    topics = {one.notification.payload.decode(): str(one.notification.topic) for one in taken}
    assert topics.pop("<k>.adhoc.a</k>") == "a"
    assert topics.pop("<k>.adhoc.\U0001f300</k>") == "\U0001f300"
    assert set(topics.values()) == {"None"}


async def test_narrower_queues_of_somebody_give_no_second_copy(
    broker: ActiveMQ, name: str, tmp_path: Path, program: Program
) -> None:
    """A wildcard consumes from them too."""
    narrow = f"/queue/Consumer.{name}.VirtualTopic.{name}.adhoc.storm"
    program.listen(narrow)
    program.connection.unsubscribe(id=1)
    async with running(broker.url, name, tmp_path) as adapter:
        first, last = storm(1), storm(2)
        await adapter.publish([first])
        await adapter.publish([last])
        assert await Inbox(adapter, SECONDS).until(last.id) == [first.id]


async def test_destinations_that_exist(
    broker: ActiveMQ, name: str, tmp_path: Path, program: Program
) -> None:
    rows = [
        {"topic": f"{name}-orders.eu.>", "namespace": "urn:orders"},
        {"topic": f"VirtualTopic.{name}-audit.*"},
    ]
    interests = [
        Interest(Expression(f"o:{name}-orders/eu/*", TOPIC_FULL, (("o", "urn:orders"),))),
        Interest(Expression(f"{name}-audit/*", TOPIC_FULL)),
    ]
    settings = {"destinations": json.dumps(rows), "name": name, "root": name}
    adapter = load(broker.url, data=tmp_path, settings=settings)
    await adapter.start(interests)
    try:
        inbox = Inbox(adapter, SECONDS)
        program.publish(f"/topic/{name}-orders.us.new", b"<us/>")
        program.publish(f"/topic/{name}-orders.eu.new.x", b"<deeper/>")
        program.publish(f"/topic/{name}-orders.eu.new", b"<new/>")
        program.publish(f"/topic/VirtualTopic.{name}-audit.trail", b"<trail/>")
        taken = {one.notification.payload: one.notification for one in await inbox.take(2)}
        new = Topic((Step("urn:orders", f"{name}-orders"), Step(None, "eu"), Step(None, "new")))
        assert taken[b"<new/>"].topic == new
        assert taken[b"<trail/>"].topic == Topic((Step(None, f"{name}-audit"), Step(None, "trail")))
        program.listen(f"/topic/{name}-orders.>")
        sent = replace(storm(), topic=new)
        await adapter.publish([sent])
        assert await inbox.until(sent.id) == []
        assert program.next().headers["destination"] == f"/topic/{name}-orders.eu.new"
    finally:
        await adapter.close()
    program.publish(f"/topic/{name}-orders.eu.late", b"<late/>")
    again = load(broker.url, data=tmp_path, settings=settings)
    await again.start(interests)
    try:
        (late,) = await Inbox(again, SECONDS).take(1)
        assert late.notification.payload == b"<late/>"
    finally:
        await again.close()


async def test_what_no_message_can_carry_is_refused(
    broker: ActiveMQ, name: str, tmp_path: Path
) -> None:
    async with running(broker.url, name, tmp_path) as adapter:
        for value in ("x" * 10_240, ":" * 6_000):
            with pytest.raises(Refused):
                await adapter.publish([replace(storm(), properties={"a": value})])
        large = replace(storm(), properties={"a": "x" * 10_237, "b": ":" * 5_000}, id="i" * 300)
        large = replace(large, attachments=(Attachment("a@b", "image/png", b"\0" * 300_000),))
        await adapter.publish([large])
        assert (await Inbox(adapter, SECONDS).take(1))[0].notification == large


async def test_a_jms_program(broker: ActiveMQ, name: str, tmp_path: Path) -> None:
    """The one of the guide: text messages both ways, with any characters."""
    if shutil.which("javac") is None:
        pytest.skip("needs javac: not installed (openjdk-17-jdk-headless)")
    guide = (Path(__file__).parents[3] / "docs" / "activemq.md").read_text()
    example = guide.partition("```java\n")[2].partition("```")[0]
    assert "class Storms" in example
    async with running(broker.url, name, tmp_path) as adapter:
        inbox = Inbox(adapter, SECONDS)
        example = example.replace("tcp://localhost:61616", f"tcp://127.0.0.1:{broker.jms_port}")
        example = example.replace('"dragoman", "secret"', f'"{USER}", "{PASSWORD}"')
        example = example.replace("dragoman.adhoc.storms", f"{name}.adhoc.storm")
        (tmp_path / "Storms.java").write_text(example)
        process = await asyncio.create_subprocess_exec(
            "java", "-Dfile.encoding=UTF-8", "-cp", JARS, "Storms.java",
            cwd=tmp_path, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        (delivery,) = await inbox.take(1)
        assert delivery.notification.payload == b"<storm><n>1</n></storm>"
        assert delivery.notification.properties["severity"] == "9"
        assert str(delivery.notification.topic) == "storm"
        text = "<storm>æ \U0001f300</storm>"
        await adapter.publish([replace(storm(), payload=text.encode())])
        async with asyncio.timeout(SECONDS):
            said, error = await process.communicate()
        assert said.decode() == f"storm {text}\n", error.decode()


async def test_an_event_goes_through_with_types_and_expiry(
    broker: ActiveMQ, name: str, tmp_path: Path
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
    async with running(broker.url, name, tmp_path) as adapter:
        await adapter.publish([sent])
        (delivery,) = await Inbox(adapter, SECONDS).take(1)
    assert event_of(delivery.notification) == CloudEvent({**attributes, "topic": "storm"}, b"{}")
    assert delivery.notification.expires == datetime(2126, 1, 1, tzinfo=UTC)


async def test_expires_is_the_expiry(
    broker: ActiveMQ, name: str, tmp_path: Path, program: Program
) -> None:
    """Both ways; what is over already is handed on, to be counted."""
    expires = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=60)
    async with running(broker.url, name, tmp_path) as adapter:
        inbox, topic = Inbox(adapter, SECONDS), f"/topic/VirtualTopic.{name}.adhoc.storm"
        program.publish(topic, "<m/>", expires=str(int(expires.timestamp() * 1000)))
        program.publish(topic, "<m/>")
        first, second = await inbox.take(2)
        assert (first.notification.expires, second.notification.expires) == (expires, None)
        program.listen(f"/topic/VirtualTopic.{name}.adhoc.>")
        for life in (0, -120):
            over = expires + timedelta(seconds=life)
            await adapter.publish([replace(storm(), expires=over)])
            (delivery,) = await inbox.take(1)
            assert delivery.notification.expires == over
        assert program.next().headers["expires"] == str(int(expires.timestamp() * 1000))
        assert program.next().headers["expires"] == "0"


async def test_content_encoding_is_decoded(
    broker: ActiveMQ, name: str, tmp_path: Path, program: Program
) -> None:
    headers = {"content-type": "application/xml"}
    async with running(broker.url, name, tmp_path) as adapter:
        topic = f"/topic/VirtualTopic.{name}.adhoc.storm"
        for encoding, body in (
            ("gzip", gzip.compress(b"<m/>")),
            ("br", b"<m/>"),
            ("gzip", b"<m/>"),
        ):
            program.publish(topic, body, **headers, **{"content-encoding": encoding})
        decoded, left, broken = await Inbox(adapter, SECONDS).take(3)
    assert decoded.notification.payload == b"<m/>"
    assert decoded.notification.properties == {}
    assert b'content-encoding="br"' in left.notification.payload
    unreadable = adapter.capabilities.unreadable
    assert unreadable is not None and "not compressed as it says" in unreadable(broken)
