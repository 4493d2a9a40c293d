"""Acknowledged deliveries and batches of WS-Management: what is in one message, when it is sent,
and how all of it ends."""

import asyncio
import re
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest
import pytest_asyncio

from gateway.delivery.consequences import REFUSALS, RETRIES_USED, TOO_LARGE
from gateway.delivery.verdicts import NOT_ACKNOWLEDGED, Verdict
from gateway.model.dead_letter_reasons import DeathReason
from gateway.store import bookmarks
from mediation.model.delivery_modes import DeliveryMode, Mode, Oversize
from tests.rigs.consumers import (
    Behaviour,
    Connection,
    Consumers,
    Receipt,
    accept,
    ack,
    acknowledge,
    consumers,
    hang,
    refuse_deliveries,
    status,
)
from tests.rigs.dispatching import Engine, engine
from tests.rigs.stores import on_each_store, outage
from tests.rigs.waiting import until

WSMAN = "http://schemas.dmtf.org/wbem/wsman/1/wsman.xsd"
LONG = 3600.0


@pytest_asyncio.fixture
async def sinks() -> AsyncIterator[Consumers]:
    async with consumers() as all_of_them:
        yield all_of_them


@pytest_asyncio.fixture
async def run(store_url: str) -> AsyncIterator[Engine]:
    async with engine(store_url) as one:
        yield one


def events(**wanted: Any) -> DeliveryMode:
    return DeliveryMode(Mode.EVENTS, **wanted)


def numbered(count: int, first: int = 1) -> list[str]:
    return [str(number) for number in range(first, first + count)]


WITH_ACK = DeliveryMode(Mode.PUSH_WITH_ACK)


@on_each_store
async def test_push_with_ack(run: Engine, sinks: Consumers) -> None:
    sink = sinks.add(acknowledge)
    await run.subscribe(sink.url, delivery=WITH_ACK)
    run.publish(*numbered(5))
    assert await sink.have(5) == numbered(5)
    await run.at_rest(delivered=5)
    message = sink.received[0].message
    assert message.header("AckRequested", WSMAN) is not None


@pytest.mark.parametrize("code", ["20", "0", "500"])
async def test_an_acknowledgement_counts_whatever_the_status(
    code: str, run: Engine, sinks: Consumers
) -> None:
    """Wseventsink's are no status of HTTP."""

    def answer(connection: Connection, receipt: Receipt) -> None:
        body = ack(receipt.id, message_id=False)
        head = f"HTTP/1.1 {code} OK\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        connection.transport.write(head + body)

    sink = sinks.add(answer)
    await run.subscribe(sink.url, delivery=WITH_ACK)
    run.publish(1, 2)
    await run.at_rest(delivered=2)
    assert sink.count == 2


@pytest.mark.parametrize(
    "unacknowledged",
    [
        pytest.param(accept, id="202 without a word"),
        pytest.param(
            lambda connection, _: connection.answer(200, ack("urn:uuid:another")), id="of another"
        ),
        pytest.param(
            lambda connection, receipt: connection.answer(200, ack(receipt.id, action="urn:a")),
            id="another action",
        ),
    ],
)
async def test_what_is_not_acknowledged_is_sent_again(
    unacknowledged: Any, run: Engine, sinks: Consumers
) -> None:
    sink = sinks.add(unacknowledged)
    entry = await run.subscribe(sink.url, delivery=WITH_ACK)
    run.publish(1)
    await sink.have(2)
    assert entry.state.trouble is not None and entry.state.trouble.error.startswith(
        NOT_ACKNOWLEDGED
    )
    sink.behaviour = acknowledge
    await run.at_rest(delivered=1)
    assert len({receipt.id for receipt in sink.received}) == 1


async def test_a_sink_that_refuses_deliveries_ends_its_subscription(
    run: Engine, sinks: Consumers
) -> None:
    sink = sinks.add(refuse_deliveries)
    entry = await run.subscribe(sink.url, delivery=WITH_ACK)
    run.publish(1)
    await until(lambda: bool(run.given_up))
    assert run.given_up == [(entry, REFUSALS[Verdict.UNWANTED])]
    await run.end(entry)
    await run.at_rest(cancelled=1)
    assert sink.count == 1


async def test_a_batch_begins_while_another_is_under_way(run: Engine, sinks: Consumers) -> None:
    """Without MaxTime nothing waits but for the sink."""
    sink = sinks.add(hang)
    await run.subscribe(sink.url, delivery=events(max_elements=20))
    run.publish(*numbered(6))
    first = await sink.next()
    assert first.events == ["1"]
    sink.behaviour = acknowledge
    for connection in list(sinks.connections):
        connection.answer(200, ack(first.id))
    second = await sink.next()
    assert second.events == numbered(5, 2)
    await run.at_rest(delivered=6)


async def test_a_full_batch_does_not_wait(run: Engine, sinks: Consumers) -> None:
    sink = sinks.add(acknowledge)
    await run.subscribe(sink.url, delivery=events(max_elements=3, max_time=LONG))
    run.publish(*numbered(6))
    await sink.have(2)
    assert [receipt.events for receipt in sink.received] == [numbered(3), numbered(3, 4)]
    await run.at_rest(delivered=6)


async def test_a_batch_waits_for_max_time(run: Engine, sinks: Consumers) -> None:
    sink = sinks.add(acknowledge)
    await run.subscribe(sink.url, delivery=events(max_elements=100, max_time=0.3))
    run.publish(1)
    await asyncio.sleep(0)
    run.publish(2, 3)
    assert (await sink.next()).events == numbered(3)
    await run.at_rest(delivered=3)


@on_each_store
async def test_what_waits_for_its_batch_waits_in_the_store(run: Engine, sinks: Consumers) -> None:
    """The messaging system is not kept waiting for hours."""
    sink = sinks.add(acknowledge)
    entry = await run.subscribe(sink.url, delivery=events(max_elements=40, max_time=LONG))
    run.publish(*numbered(35))
    await run.settled()
    assert sink.count == 0
    run.publish(*numbered(5, 36))
    assert (await sink.next()).events == numbered(40)
    await run.at_rest(delivered=40)
    assert run.dispatcher.outboxes.busy(entry) is None


@on_each_store
async def test_a_batch_that_fails_is_tried_again_as_it_was(run: Engine, sinks: Consumers) -> None:
    sink = sinks.add(status(503))
    await run.subscribe(sink.url, delivery=events(max_elements=3, max_time=0.05))
    run.publish(1, 2)
    await sink.have(1)
    run.publish(3, 4)
    await sink.have(3)
    sink.behaviour = acknowledge
    await run.at_rest(delivered=4)
    batches = [(receipt.id, receipt.events) for receipt in sink.received]
    assert {tuple(numbers) for _, numbers in batches[:-1]} == {("1", "2")}
    assert len({id_ for id_, _ in batches[:-1]}) == 1
    assert batches[-1][1] == ["3", "4"]


async def test_a_batch_that_stalls_becomes_rows_and_ends_together(
    run: Engine, sinks: Consumers
) -> None:
    sink = sinks.add(hang)
    await run.subscribe(sink.url, delivery=events(max_elements=3, max_time=LONG))
    run.publish(*numbered(3))
    first = await sink.next()
    await run.settled()
    law = await run.conservation()
    assert (law.error, law.in_flight, law.waiting) == (0, 3, 0)
    for connection in list(sinks.connections):
        connection.answer(200, ack(first.id))
    await run.at_rest(delivered=3)
    assert sink.count == 1


@pytest.mark.parametrize("code", [400, 413])
async def test_each_event_of_a_batch_that_is_rejected_is_tried_once_more(
    code: int, run: Engine, sinks: Consumers
) -> None:
    """By itself, and not again."""
    sink = sinks.add(status(code))
    await run.subscribe(sink.url, delivery=events(max_elements=3, max_time=LONG))
    run.publish(*numbered(3))
    await run.at_rest(dead=3)
    assert [letter.death.reason for letter in await run.dead()] == [DeathReason.REJECTED] * 3
    assert [receipt.events for receipt in sink.received] == [["1", "2", "3"], ["1"], ["2"], ["3"]]


def refuse_event(number: str) -> Behaviour:
    """Refuse for good what has the event with this *number*."""

    def behave(connection: Connection, receipt: Receipt) -> None:
        (status(400) if number in receipt.events else acknowledge)(connection, receipt)

    return behave


@on_each_store
async def test_an_event_that_is_refused_dies_alone(run: Engine, sinks: Consumers) -> None:
    """Those in its batch, and those behind it, arrive in their order."""
    sink = sinks.add(refuse_event("3"))
    entry = await run.subscribe(sink.url, delivery=events(max_elements=4, max_time=LONG))
    run.publish(*numbered(6))
    await run.at_rest(delivered=5, dead=1)
    sent = [receipt.events for receipt in sink.received]
    assert sent == [numbered(4), ["1"], ["2"], ["3"], ["4"], ["5", "6"]]
    (letter,) = await run.dead()
    assert letter.death.reason is DeathReason.REJECTED
    run.publish(*numbered(4, 7))
    await run.at_rest(delivered=9, dead=1)
    assert sink.received[-1].events == numbered(4, 7)
    assert run.dispatcher.outboxes.busy(entry) is None


@on_each_store
async def test_events_without_order_do_not_die_with_another(run: Engine, sinks: Consumers) -> None:
    """Several batches, and several events of one that was refused, are under way at a time."""
    sink = sinks.add(refuse_event("3"))
    wanted = DeliveryMode(Mode.BATCH, max_elements=20)
    await run.subscribe(sink.url, delivery=wanted, ordered=False)
    run.publish(*numbered(60))
    await run.at_rest(delivered=59, dead=1)
    accepted = [number for one in sink.received if "3" not in one.events for number in one.events]
    assert sorted(accepted, key=int) == [number for number in numbered(60) if number != "3"]


async def test_a_batch_that_is_refused_when_it_is_in_the_store(
    run: Engine, sinks: Consumers
) -> None:
    sink = sinks.add(hang)
    await run.subscribe(sink.url, delivery=events(max_elements=3, max_time=LONG))
    run.publish(*numbered(3))
    await sink.next()
    await run.settled()
    sink.behaviour = refuse_event("1")
    for connection in list(sinks.connections):
        connection.answer(400)
    await run.at_rest(delivered=2, dead=1)
    assert [receipt.events for receipt in sink.received] == [["1", "2", "3"], ["1"], ["2"], ["3"]]


@on_each_store
async def test_a_batch_that_was_refused_stays_apart(store_url: str, sinks: Consumers) -> None:
    """Also for a gateway that has just started."""

    def refuse(connection: Connection, receipt: Receipt) -> None:
        connection.answer(400 if len(receipt.events) > 1 else 503)

    sink = sinks.add(refuse)
    async with engine(store_url) as run:
        await run.subscribe(sink.url, delivery=events(max_elements=3, max_time=LONG))
        run.publish(*numbered(3))
        await sink.have(2)
    before = sink.count
    sink.behaviour = acknowledge
    async with engine(store_url) as run:
        await run.at_rest(delivered=3)
    assert [receipt.events for receipt in sink.received][before:] == [["1"], ["2"], ["3"]]


@pytest.mark.parametrize("oversize", list(Oversize))
async def test_a_batch_that_is_too_large_goes_in_parts(
    oversize: Oversize, run: Engine, sinks: Consumers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Should more be around its events than was reckoned with."""
    monkeypatch.setattr("gateway.delivery.contents.AROUND_EVENTS", -(10**6))
    sink = sinks.add(acknowledge)
    wanted = events(max_elements=3, max_time=LONG, max_envelope_size=8192, oversize=oversize)
    await run.subscribe(sink.url, delivery=wanted)
    run.publish(*numbered(3), filling=3000)
    await run.at_rest(delivered=3)
    assert [receipt.events for receipt in sink.received] == [["1"], ["2"], ["3"]]


async def test_max_envelope_size_bounds_a_batch(run: Engine, sinks: Consumers) -> None:
    sink = sinks.add(acknowledge)
    wanted = events(max_elements=10, max_time=0.1, max_envelope_size=8192)
    await run.subscribe(sink.url, delivery=wanted)
    run.publish(*numbered(10), filling=2000)
    await sink.until(lambda: sum(len(receipt.events) for receipt in sink.received) == 10)
    assert [number for receipt in sink.received for number in receipt.events] == numbered(10)
    assert max(len(receipt.body) for receipt in sink.received) <= 8192
    assert max(len(receipt.events) for receipt in sink.received) == 3
    await run.at_rest(delivered=10)


@pytest.mark.parametrize("mode", [Mode.PUSH, Mode.PUSH_WITH_ACK, Mode.EVENTS])
async def test_a_sink_is_told_of_what_is_too_large(
    mode: Mode, run: Engine, sinks: Consumers
) -> None:
    """In its place in the order, and with the number of all that was left out."""
    sink = sinks.add(acknowledge)
    await run.subscribe(sink.url, delivery=DeliveryMode(mode, max_envelope_size=8192))
    for number, filling in ((1, 0), (2, 9000), (3, 0), (4, 9000)):
        run.publish(number, filling=filling)
    await sink.have(4)
    dropped = [re.findall(rb"DroppedEvents [^>]*>(\d+)<", one.body) for one in sink.received]
    assert dropped == [[], [b"1"], [], [b"2"]]
    await run.at_rest(delivered=2, dead=2)
    assert {letter.death.reason for letter in await run.dead()} == {DeathReason.TOO_LARGE}


async def test_what_is_too_large_is_skipped(run: Engine, sinks: Consumers) -> None:
    sink = sinks.add(acknowledge)
    wanted = DeliveryMode(Mode.EVENTS, max_envelope_size=8192, oversize=Oversize.SKIP)
    await run.subscribe(sink.url, delivery=wanted)
    run.publish(1, filling=9000)
    run.publish(2)
    assert (await sink.next()).events == ["2"]
    await run.at_rest(delivered=1, dead=1)


async def test_what_is_too_large_ends_the_subscription(run: Engine, sinks: Consumers) -> None:
    sink = sinks.add(acknowledge)
    wanted = DeliveryMode(max_envelope_size=8192, oversize=Oversize.CANCEL)
    entry = await run.subscribe(sink.url, delivery=wanted)
    run.publish(1, filling=9000)
    await run.at_rest(dead=1)
    assert run.given_up == [(entry, TOO_LARGE)]
    assert sink.count == 0


@pytest.mark.parametrize("mode", [Mode.PUSH, Mode.PUSH_WITH_ACK, Mode.EVENTS])
async def test_nothing_is_sent_behind_what_ended_the_subscription(
    mode: Mode, run: Engine, sinks: Consumers
) -> None:
    """However long it takes until the subscription has ended, which is tried again."""
    sink = sinks.add(acknowledge)
    wanted = DeliveryMode(mode, max_envelope_size=8192, oversize=Oversize.CANCEL)
    entry = await run.subscribe(sink.url, delivery=wanted)
    for number, filling in ((1, 0), (2, 9000), (3, 0), (4, 0)):
        run.publish(number, filling=filling)
    await until(lambda: len(run.given_up) == 1)
    run.publish(5)
    run.dispatcher.hasten(entry)
    await until(lambda: len(run.given_up) == 2)
    await run.end(entry)
    await run.at_rest(delivered=1, dead=1, cancelled=3)
    assert [number for receipt in sink.received for number in receipt.events] == ["1"]
    assert set(run.given_up) == {(entry, TOO_LARGE)}


async def test_connection_retry(run: Engine, sinks: Consumers) -> None:
    sink = sinks.add(status(503))
    wanted = events(retry_every=0.01, retries=2)
    entry = await run.subscribe(sink.url, delivery=wanted)
    run.publish(1)
    await run.at_rest(dead=1)
    assert sink.count == 3
    assert run.given_up == [(entry, RETRIES_USED)]


async def test_utf_16(run: Engine, sinks: Consumers) -> None:
    def answer(connection: Connection, receipt: Receipt) -> None:
        text = receipt.body.decode("utf-16")
        id_ = text.partition("MessageID>")[2].partition("<")[0]
        connection.answer(200, ack(id_).decode().encode("utf-16"))

    sink = sinks.add(answer)
    await run.subscribe(sink.url, delivery=events(encoding="utf-16"))
    run.publish(1)
    receipt = await sink.next()
    assert "charset=utf-16" in receipt.headers["content-type"]
    assert receipt.body.startswith((b"\xff\xfe", b"\xfe\xff"))
    await run.at_rest(delivered=1)


async def test_bookmarks(run: Engine, sinks: Consumers) -> None:
    sink = sinks.add(acknowledge)
    entry = await run.subscribe(sink.url, delivery=events(bookmarks=True, max_elements=2))
    run.publish(1, 2, 3)
    await run.at_rest(delivered=3)
    marks = [receipt.message.header("Bookmark", WSMAN) for receipt in sink.received]
    positions = [int(mark[0].text or "") for mark in marks if mark is not None]
    assert positions == sorted(positions) and len(positions) == len(marks)
    assert {mark[0].get("of") for mark in marks if mark is not None} == {entry.id}
    stored = partial(bookmarks.acknowledged, subscription=entry.id)
    assert await run.store.submit(stored) == positions[-1]


@on_each_store
async def test_nothing_is_settled_before_its_acknowledgement_is_kept(
    run: Engine, store_url: str, sinks: Consumers
) -> None:
    """Else a bookmark before it would be taken after a crash, and the event behind it be lost."""
    sink = sinks.add(acknowledge)
    await run.subscribe(sink.url, delivery=DeliveryMode(Mode.PUSH_WITH_ACK, bookmarks=True))
    with outage(store_url):
        run.publish(1, 2)
        await sink.have(2)
        await until(lambda: not run.store.writable)
        assert not any(one.settled for one in run.deliveries)
    await run.at_rest(delivered=2)


@on_each_store
async def test_an_acknowledgement_that_comes_late_changes_nothing(run: Engine) -> None:
    """Positions of other replicas may be ahead."""
    entry = await run.subscribe("http://127.0.0.1:9000/")
    for given, kept in ((7, 7), (5, 7), (2**62, 2**62)):
        await run.store.submit(
            partial(bookmarks.acknowledge, subscription=entry.id, position=given)
        )
        stored = partial(bookmarks.acknowledged, subscription=entry.id)
        assert await run.store.submit(stored) == kept
    gone = partial(bookmarks.acknowledged, subscription="no such")
    assert await run.store.submit(gone) is None
