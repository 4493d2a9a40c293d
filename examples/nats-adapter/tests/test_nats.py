"""What NATS, its operators, other programs and crashes do to the adapter."""

import asyncio
import logging
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import nats
import pytest
from dragoman_nats import adapter as module
from dragoman_nats import connection
from nats.aio.client import Client
from nats.js.api import DiscardPolicy, StreamConfig
from server import MAX_PAYLOAD, Server

from adapters import (
    EVERYTHING_WANTED,
    Adapter,
    AdapterError,
    AdapterUnavailable,
    Interest,
    PublicationRefused,
    load,
)
from adapters.testing import Inbox
from filters import Expression, Step, Topic
from filters.dialects import TOPIC_FULL
from mediation.model.messages import Notification

SECONDS = 20.0
STORM = Interest(Expression("storm//.", TOPIC_FULL))


@pytest.fixture
def name() -> str:
    """Of this test's stream, and root of its subjects."""
    return f"test-{uuid.uuid4().hex[:12]}"


def storm(text: str = "", *path: str) -> Notification:
    return Notification(
        id=f"urn:uuid:{uuid.uuid4()}",
        source="http://publisher.example/",
        payload=f"<n>{text}</n>".encode(),
        time=datetime.now(UTC),
        topic=Topic(tuple(Step(None, name) for name in path or ("storm",))),
    )


def adapter_of(url: str, name: str, **settings: str) -> Adapter:
    return load(url, data=Path("nowhere"), settings={"stream": name, "root": name, **settings})


@asynccontextmanager
async def running(
    server: Server, name: str, *interests: Interest, **settings: str
) -> AsyncIterator[Adapter]:
    adapter = adapter_of(server.url, name, **settings)
    await adapter.start(interests or [STORM])
    try:
        yield adapter
    finally:
        await adapter.close()


@asynccontextmanager
async def program(server: Server) -> AsyncIterator[Client]:
    """A program that knows no Dragoman."""
    client = await nats.connect(server.url)
    try:
        yield client
    finally:
        await client.close()


def reasons(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Why there was no connection, as the log says it."""
    return [
        str(vars(record)["reason"])
        for record in caplog.records
        if record.message == "adapter.disconnected"
    ]


async def published(adapter: Adapter, notification: Notification) -> int:
    """Publish until it is confirmed; how often it was not."""
    refused = 0
    async with asyncio.timeout(SECONDS):
        while True:
            try:
                await adapter.publish([notification])
            except AdapterUnavailable:
                refused += 1
                await asyncio.sleep(0.05)
            else:
                return refused


async def test_a_server_that_is_killed_keeps_what_it_confirmed(
    tmp_path: Path, name: str, _installed: None
) -> None:
    server = Server(tmp_path)
    server.start()
    try:
        async with running(server, name) as adapter:
            inbox = Inbox(adapter, SECONDS)
            sent = [storm(str(number)) for number in range(20)]
            await adapter.publish(sent)
            taken = await inbox.take(10, settle=False)
            await server.kill_and_start()
            taken[0].settle()  # Its connection is gone: that says nothing.
            last = storm("last")
            assert await published(adapter, last) > 0
            again = await inbox.take(21)
            assert [delivery.notification for delivery in again] == [*sent, last]
            assert all(delivery.redelivered for delivery in again[:10])
            assert not again[-1].redelivered
    finally:
        server.stop()


async def test_no_server_at_the_start(
    tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture, _installed: None
) -> None:
    server = Server(tmp_path)
    async with running(server, name) as adapter:
        with pytest.raises(AdapterUnavailable, match="no connection") as refused:
            await adapter.publish([storm()])
        assert refused.value.retry_after >= 1
        with pytest.raises(AdapterUnavailable):
            await adapter.want(EVERYTHING_WANTED)
        (outage,) = reasons(caplog)
        assert "Connect call failed" in outage
        await server.start_meanwhile()
        try:
            sent = storm()
            await published(adapter, sent)
            assert (await Inbox(adapter, SECONDS).next()).notification == sent
        finally:
            await adapter.close()
            server.stop()


async def test_a_server_that_is_silent(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch, _installed: None
) -> None:
    monkeypatch.setattr(module, "ANSWER", 0.3)
    monkeypatch.setattr(module, "WATCH", 0.1)
    monkeypatch.setattr(connection, "ANSWER", 0.3)
    server = Server(tmp_path)
    server.start()
    try:
        async with running(server, name) as adapter:
            inbox = Inbox(adapter, SECONDS)
            server.pause()
            with pytest.raises(AdapterUnavailable, match="did not confirm"):
                await adapter.publish([storm()])
            with pytest.raises(AdapterUnavailable):
                await adapter.want(EVERYTHING_WANTED)
            server.go_on()
            await published(adapter, last := storm())
            await inbox.until(last.id)
            server.pause()
            async with asyncio.timeout(2.5):
                await adapter.close()
    finally:
        server.go_on()
        server.stop()


async def test_credentials(
    tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture, _installed: None
) -> None:
    server = Server(tmp_path, user="dragoman", password="s3cret/:@")
    server.start()
    try:
        async with running(server, name) as adapter:
            await adapter.publish([storm()])
        assert caplog.text == ""
        wrong = adapter_of(server.url.replace("s3cret", "wr0ng"), name)
        await wrong.start([STORM])
        # The server may reset the connection before its reason was read: the next attempt says it.
        for _ in range(100):
            if "Authorization Violation" in str(reasons(caplog)):
                break
            await asyncio.sleep(SECONDS / 100)
        await wrong.close()
        assert "Authorization Violation" in str(reasons(caplog))
        assert "wr0ng" not in caplog.text + str(reasons(caplog))
    finally:
        server.stop()


async def test_a_second_gateway_keeps_away(
    server: Server, name: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PREDECESSOR", 0.1)
    async with running(server, name) as first, running(server, name) as second:
        assert f"another gateway uses the stream '{name}'" in str(reasons(caplog))
        with pytest.raises(AdapterUnavailable):
            await second.publish([storm()])
        sent = storm()
        await first.publish([sent])
        assert (await Inbox(first, SECONDS).next()).notification == sent


async def test_what_an_operator_deletes_is_made_again(
    server: Server, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "WATCH", 0.1)
    async with program(server) as operator, running(server, name) as adapter:
        inbox = Inbox(adapter, SECONDS)
        await operator.jetstream().delete_consumer(name, module.CONSUMER)
        sent = storm()
        await published(adapter, sent)
        assert (await inbox.take(1))[0].notification == sent
        monkeypatch.setattr(module, "WATCH", 60.0)
        await operator.jetstream().delete_stream(name)
        sent = storm()
        assert await published(adapter, sent) > 0
        assert (await inbox.take(1))[0].notification == sent


async def test_what_an_operator_sets_stays(server: Server, name: str) -> None:
    async with program(server) as operator:
        jetstream = operator.jetstream()
        async with running(server, name) as adapter:
            config: StreamConfig = (await jetstream.stream_info(name)).config
            await jetstream.update_stream(
                config.evolve(max_msgs=3, discard=DiscardPolicy.NEW, description="ours")
            )
            await adapter.want(Interest(Expression("calm", TOPIC_FULL)))
            await adapter.publish([storm() for _ in range(3)])
            with pytest.raises(AdapterUnavailable, match="maximum messages"):
                await adapter.publish([storm()])
            await Inbox(adapter, SECONDS).take(3)
            await published(adapter, storm())
        assert (await jetstream.stream_info(name)).config.description == "ours"


async def test_a_stream_of_others_is_left_alone(
    server: Server, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with program(server) as operator:
        await operator.jetstream().add_stream(name=name, subjects=["orders.>"])
        async with running(server, name):
            assert f"the stream '{name}' exists, and is no work queue" in str(reasons(caplog))
        found = await operator.jetstream().stream_info(name)
        assert found.config.subjects == ["orders.>"]


async def test_programs_that_know_no_dragoman(server: Server, name: str) -> None:
    rows = f'{{"orders-{name}.>": "urn:orders"}}'
    wanted = Interest(Expression("o:*//.", TOPIC_FULL, (("o", "urn:orders"),)))
    async with (
        program(server) as native,
        running(server, name, wanted, STORM, subjects=rows) as adapter,
    ):
        inbox = Inbox(adapter, SECONDS)
        listener = await native.subscribe(f"{name}.>")
        await native.flush()
        for subject, body, headers in (
            (f"orders-{name}.new", b'{"a": 1}', {"Content-Type": "application/json"}),
            (f"{name}.adhoc.storm.sea", b"<?xml version='1.0'?><sea/>", None),
            (f"{name}.adhoc.storm", b"<a/>", {"cloudEvents_time": "never"}),
        ):
            await native.jetstream().publish(subject, body, headers=headers)
        order, sea, odd = [each.notification for each in await inbox.take(3)]
        assert order.topic == Topic((Step("urn:orders", f"orders-{name}"), Step(None, "new")))
        assert order.payload.startswith(b'<data xmlns="urn:dragoman:data:1" content-type="appl')
        assert order.id == f"{server.url}/{name}#1"
        assert (sea.payload, str(sea.topic)) == (b"<sea/>", "storm/sea")
        assert (odd.payload, str(odd.topic)) == (b"<a/>", "storm")

        unwanted = storm("for programs alone", "calm")
        async with asyncio.timeout(2):  # Programs that only listen confirm nothing.
            await adapter.publish([unwanted])
        for expected in (f"{name}.adhoc.storm.sea", f"{name}.adhoc.storm", f"{name}.adhoc.calm"):
            message = await listener.next_msg(SECONDS)
            assert message.subject == expected
        assert message.data == unwanted.payload
        assert message.headers is not None
        assert message.headers["cloudEvents_id"] == unwanted.id


async def test_a_publisher_that_repeats_itself(server: Server, name: str) -> None:
    first, last = storm(), storm()
    async with running(server, name) as adapter:
        await adapter.publish([first, first])
    async with running(server, name) as adapter:
        await adapter.publish([first, last])
        assert await Inbox(adapter, SECONDS).until(last.id) == [first.id]


async def test_what_is_too_large_is_refused(server: Server, name: str) -> None:
    async with running(server, name) as adapter:
        with pytest.raises(PublicationRefused, match="max_payload"):
            await adapter.publish([storm("x" * MAX_PAYLOAD)])
        fits = storm("x" * (MAX_PAYLOAD - 1000))
        await adapter.publish([fits])
        assert (await Inbox(adapter, SECONDS).next()).notification == fits


async def test_more_interests_than_a_stream_has_subjects(
    server: Server, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    names = [f"t{number}" for number in range(150)]
    wanted = [Interest(Expression(name, TOPIC_FULL)) for name in names]
    async with program(server) as operator, running(server, name, *wanted[:-60]) as adapter:
        for interest in wanted[-60:]:
            await adapter.want(interest)
        info = await operator.jetstream().stream_info(name)
        assert info.config.subjects == [name, f"{name}.>"]
        sent = [storm("", name) for name in names]
        await adapter.publish([*sent[:70], storm("", "other"), *sent[70:]])
        ids = [delivery.notification.id for delivery in await Inbox(adapter, SECONDS).take(150)]
        assert ids == [one.id for one in sent]
        for interest in wanted[1:]:
            await adapter.unwant(interest)
        info = await operator.jetstream().stream_info(name)
        assert info.config.subjects == [f"{name}.adhoc.t0"]
    assert caplog.text == ""


@pytest.mark.parametrize(
    ("url", "message"),
    [
        pytest.param("nats:", "the URL must be", id="no host"),
        pytest.param("nats://host/stream", "the URL must be", id="a path"),
        pytest.param("nats://host:99999", "the URL must be", id="no such port"),
        pytest.param("nats://host?stream=a.b", "'stream'", id="name"),
        pytest.param("nats://host?prefetch=0", "'prefetch'", id="prefetch"),
        pytest.param("nats://host?prefecth=9", "did you mean 'prefetch'", id="misspelt"),
        pytest.param("nats://host?subjects=orders", "'subjects'", id="no object"),
        pytest.param('nats://host?subjects={"*.a":""}', "'subjects'", id="wildcard first"),
        pytest.param('nats://host?subjects={"$JS.>":""}', "'subjects'", id="the server's own"),
    ],
)
def test_wrong_settings(url: str, message: str) -> None:
    with pytest.raises(AdapterError, match=message):
        load(url, data=Path("nowhere"), settings={})
