"""A source inside a program, and subscribers in every specification, without a broker."""

from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dragoman.client import Client, GatewayError, UnsupportedOperation, WseClient, WsnClient
from dragoman.source import Source
from dragoman.source import delivery as delivering
from gateway.client import Consumer
from tests.dragoman.client.test_clients import MAKERS, PAUSING, soon

_PUSHED = {name: make for name, make in MAKERS.items() if name != "ws-management acknowledged"}
PUSHED = pytest.mark.parametrize("make", list(_PUSHED.values()), ids=list(_PUSHED))
"""The clients whose subscriptions a source takes: it waits for no acknowledgements."""
NOWHERE = "http://127.0.0.1:59999/"


@pytest.fixture
async def source() -> AsyncIterator[Source]:
    async with Source() as one:
        yield one


@PUSHED
async def test_who_subscribed_gets_what_is_published(
    source: Source, make: Callable[..., Client]
) -> None:
    async with make(source.url) as client, client.listen(topic="storms") as events:
        assert await source.publish("<other/>", topic="calm") == 0
        for speed in range(3):
            assert await source.publish(f"<speed>{speed}</speed>", topic="storms") == 1
        got = [await soon(anext(events)) for _ in range(3)]
        assert [event.element.text for event in got] == ["0", "1", "2"]
        assert got[0].topic == "storms"
        await source.delivered()


@PUSHED
async def test_a_subscription_is_managed(
    source: Source, make: Callable[..., Client], request: pytest.FixtureRequest
) -> None:
    name = request.node.callspec.id
    async with make(source.url) as client:
        subscription = await client.subscribe(NOWHERE, lease=timedelta(minutes=1))
        first = subscription.expires
        assert first is not None and first > datetime.now(UTC)
        await client.renew(subscription, timedelta(minutes=5))
        assert subscription.expires is not None
        assert subscription.expires - first > timedelta(minutes=3)
        assert len(source) == 1
        if name in PAUSING:
            await client.pause(subscription)
            assert await source.publish("<a/>") == 0
            await client.resume(subscription)
        if name != "grid events":
            await client.status(subscription)
            await client.unsubscribe(subscription)
            with pytest.raises(GatewayError) as gone:
                await client.status(subscription)
            assert gone.value.is_final
            assert len(source) == 0


async def test_filters_hold(source: Source) -> None:
    async with WsnClient(source.url) as client:
        namespaces = {"w": "urn:weather"}
        async with client.listen(
            topic="storms//.", xpath="/w:speed > 100", namespaces=namespaces
        ) as events:
            for speed in (90, 120):
                payload = f'<speed xmlns="urn:weather">{speed}</speed>'
                await source.publish(payload, topic="storms/coast", properties={"region": "n"})
            event = await soon(anext(events))
            assert (event.element.text, event.topic) == ("120", "storms/coast")
            assert event.properties == {"region": "n"}


async def test_one_that_is_away_is_given_up_and_others_go_on(
    source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivering, "PAUSES", (0.01,))
    async with WsnClient(source.url) as client, client.listen() as events:
        await client.subscribe(NOWHERE)
        assert await source.publish("<a/>") == 2
        await soon(anext(events))
        await soon(source.delivered())
        assert len(source) == 1
        assert await source.publish("<b/>") == 1
        assert (await soon(anext(events))).payload == b"<b/>"


async def test_an_event_that_cannot_be_sent_ends_its_subscription_alone(
    source: Source, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever the reason: a subscription that is there and gets nothing would be worse."""

    def fail_once(*what: Any) -> Any:
        monkeypatch.undo()
        raise LookupError("no such shape")

    monkeypatch.setattr(delivering, "render", fail_once)
    async with Consumer() as one, Consumer() as other, WseClient(source.url) as client:
        await client.subscribe(one.address)
        await client.subscribe(other.address)
        assert await source.publish("<a/>") == 2
        ended = [(await soon(each.receive())).ended for each in (one, other)]
        assert [reason is None for reason in ended].count(True) == 1
        assert len(source) == 1
    assert "no such shape" in caplog.text


async def test_an_address_that_is_no_url_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stranger's: the source's end is another's business."""
    monkeypatch.setattr(delivering, "PAUSES", (0.01,))
    async with Source() as source, WseClient(source.url) as client:
        for _ in range(2):
            await client.subscribe("http://[x]/")
        assert await source.publish("<a/>") == 2
        await soon(source.delivered())
        assert len(source) == 0
        await client.subscribe("http://[x]/")


async def test_the_end_is_told() -> None:
    async with Consumer() as consumer:
        async with Source() as source, WseClient(source.url) as client:
            await client.subscribe(consumer.address)
        last = await soon(consumer.receive())
    assert last.ended and last.ended.status == "SourceShuttingDown"


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/", b"", 405),
        ("POST", "/", b"", 500),
        ("POST", "/", b"<a/>", 500),
        ("POST", "/", b"\0" * 300_000, 413),
        ("POST", "/events/subscriptions", b"[]", 400),
        ("POST", "/events/subscriptions", b"{}", 400),
        ("POST", "/events/subscriptions", b'{"sink": "urn:x", "config": {"expires": "x"}}', 400),
        ("POST", "/events/subscriptions", b'{"sink": "urn:x", "types": ["a"]}', 400),
        ("GET", "/events/subscriptions/none", b"", 404),
    ],
)
async def test_what_is_no_request_is_refused(
    source: Source, method: str, path: str, body: bytes, status: int
) -> None:
    from gateway.client.calling import Caller

    async with Caller() as caller:
        answer: Any = await caller.call(method, source.url + path, body=body or None)
    assert answer.status == status, answer.body


async def test_an_event_and_a_pull_point_are_refused(source: Source) -> None:
    async with WsnClient(source.url) as client:
        with pytest.raises(GatewayError, match="source of events"):
            await client.publish("<a/>")
        with pytest.raises(GatewayError, match="source of events"):
            await client.subscribe()
        with pytest.raises(UnsupportedOperation):
            await WsnClient(source.url, version="1.2").subscribe()
