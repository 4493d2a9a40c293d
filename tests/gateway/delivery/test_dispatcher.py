"""The delivery engine: order, one in flight, what is held, what dies, and the law at its end."""

import asyncio
import gc
import threading
import time
import weakref
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from pathlib import Path

import pytest
import pytest_asyncio

from gateway.delivery import Schedule, backlog
from gateway.delivery.destinations.breaker import FAILURES
from gateway.delivery.outboxes import PATIENCE
from gateway.model.dead_letter_reasons import DeathReason
from gateway.store import StoreUnavailable, Totals, totals
from mediation.model.delivery_modes import DeliveryMode
from mediation.rendering import delivery_id
from mediation.tenants import source_in
from tests.rigs.consumers import (
    Behaviour,
    Connection,
    Consumer,
    Consumers,
    Receipt,
    accept,
    consumers,
    hang,
    reset,
    slow,
    status,
)
from tests.rigs.dispatching import QUICK, Engine, FakeDelivery, engine, notification
from tests.rigs.stores import execute, on_each_store, outage
from tests.rigs.waiting import until

FAULT = (
    b'<s:Envelope xmlns:s="http://www.w3.org/2003/05/soap-envelope"><s:Body><s:Fault><s:Code>'
    b"<s:Value>s:%s</s:Value></s:Code><s:Reason><s:Text>No.</s:Text></s:Reason></s:Fault>"
    b"</s:Body></s:Envelope>"
)


@pytest_asyncio.fixture
async def sinks() -> AsyncIterator[Consumers]:
    async with consumers() as all_of_them:
        yield all_of_them


@pytest_asyncio.fixture
async def run(store_url: str) -> AsyncIterator[Engine]:
    async with engine(store_url) as one:
        yield one


def numbered(count: int, first: int = 1) -> list[str]:
    return [str(number) for number in range(first, first + count)]


ON_CONNECTIONS = pytest.mark.parametrize(
    "kept", [False, True], ids=["over a new connection", "over a kept one"]
)


async def keep_a_connection(run: Engine, consumer: Consumer) -> None:
    """Have a message delivered, so that the next is posted over the same connection."""
    run.publish(0)
    await run.at_rest(delivered=1)
    consumer.received.clear()
    consumer.count = 0


class Watching:
    """Answers 202 a moment later, and counts how many it owes at a time."""

    def __init__(self) -> None:
        self.owed = self.most = 0

    def __call__(self, connection: Connection, _: Receipt) -> None:
        self.owed += 1
        self.most = max(self.most, self.owed)
        asyncio.get_running_loop().call_soon(self._answer, connection)

    def _answer(self, connection: Connection) -> None:
        self.owed -= 1
        connection.answer(202)


@on_each_store
async def test_order_with_one_in_flight(run: Engine, sinks: Consumers) -> None:
    watching = Watching()
    consumer = sinks.add(watching)
    await run.subscribe(consumer.url)
    run.publish(*numbered(30))
    assert await consumer.have(30) == numbered(30)
    assert watching.most == 1
    await run.at_rest(delivered=30)


@pytest.mark.holds_loop("one hang is told from another before it")
async def test_process_that_hung_does_not_take_its_messages_for_late(
    store_url: str, sinks: Consumers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their answers may lie in its sockets: they go to the store after a second, not sooner."""
    late = 0.4  # A tenth would be over on a busy machine before the message is sent.
    monkeypatch.setattr("gateway.delivery.outboxes.LATE", late)
    stored: list[bool] = []

    def hang_with_the_gateway(connection: Connection, _: Receipt) -> None:
        time.sleep(1.2 * late)
        loop.call_soon(answer, connection)  # All timers ring before it is read.

    def answer(connection: Connection) -> None:
        connection.answer(202)
        loop.call_soon(look)

    def look() -> None:
        outbox = run.dispatcher.outboxes.busy(entry)
        stored.append(outbox is not None and outbox.stored)

    loop = asyncio.get_running_loop()
    consumer = sinks.add(hang_with_the_gateway)
    async with engine(store_url, prefetch=2) as run:
        entry = await run.subscribe(consumer.url)
        run.publish(1)
        await run.at_rest(delivered=1)
    assert stored == [False]


async def test_parallel_where_order_is_not_asked_for(run: Engine, sinks: Consumers) -> None:
    watching = Watching()
    consumer = sinks.add(hang)
    await run.subscribe(consumer.url, ordered=False)
    run.publish(*numbered(20))
    await consumer.have(8)
    consumer.behaviour = watching
    for connection in list(sinks.connections):
        connection.answer(202)
    await consumer.have(20)
    await run.at_rest(delivered=20)
    assert watching.most <= 8
    assert sorted(consumer.numbers, key=int) == numbered(20)


async def test_window_overflows_into_the_store(run: Engine, sinks: Consumers) -> None:
    """What is beyond the window is held, and comes in order, with what comes meanwhile."""
    consumer = sinks.add(hang)
    await run.subscribe(consumer.url)
    run.publish(*numbered(100))
    await consumer.have(1)
    # Nothing was answered: what is settled stands in the store.
    await until(lambda: sum(one.settled for one in run.deliveries) > 50)
    consumer.behaviour = slow(0.01)
    for connection in list(sinks.connections):
        connection.answer(202)
    await consumer.have(10)
    run.publish(*numbered(50, 101))
    assert await consumer.have(150) == numbered(150)
    await run.at_rest(delivered=150)


async def test_slow_consumer_has_its_messages_in_the_store_while_others_wait(
    store_url: str, sinks: Consumers
) -> None:
    """It answers each attempt in time, but has all that the messaging system hands out."""
    late, other = sinks.add(slow(0.02)), sinks.add()
    async with engine(store_url, prefetch=64, window=64) as run:
        for url in (late.url, other.url):
            await run.subscribe(url)
        entries = [run.entries[:1]] * 200 + [run.entries[1:]] * 20

        async def hand_out() -> None:
            for number, to in enumerate(entries, 1):
                await until(lambda: sum(not one.settled for one in run.deliveries) < 64)
                run.publish(number, to=to)

        handing_out = asyncio.create_task(hand_out())
        await other.have(20)
        assert late.count < 40  # One after the other it would have had 150.
        await handing_out
        assert await late.have(200) == numbered(200)
        assert other.numbers == numbered(20, 201)
        await run.at_rest(delivered=220)


@pytest.mark.parametrize(
    ("unsettled", "hurried"),
    [
        pytest.param({"": 7, "acme": 0}, set(), id="less than half of the window"),
        pytest.param({"": 8, "acme": 0}, {""}, id="no tenants"),
        pytest.param({"": 1, "acme": 12}, {"acme"}, id="a tenant that floods"),
        pytest.param({"": 12, "acme": 1}, {""}, id="the default tenant floods"),
        pytest.param({"acme": 6, "umbrella": 6}, {"acme", "umbrella"}, id="two that flood"),
        pytest.param({"": 2, "acme": 9, "umbrella": 3}, {"acme"}, id="one of three floods"),
    ],
)
async def test_who_takes_the_window_has_less_time_and_nobody_else(
    tmp_path: Path, sinks: Consumers, unsettled: dict[str, int], hurried: set[str]
) -> None:
    consumer = sinks.add(hang)
    async with engine(tmp_path, prefetch=16) as run:
        entry = await run.subscribe(consumer.url)
        patience_for = run.dispatcher.patience_for
        for tenant, number in unsettled.items():
            source = f"{source_in(tenant)}user:a" if tenant else "urn:dragoman:publisher:user:a"
            for one in range(number):
                event = replace(notification(f"{tenant}{one}"), source=source)
                run.dispatcher.accept(FakeDelivery(event), [entry])
        assert {one for one in unsettled if patience_for(one) < PATIENCE} == hurried
        run.dispatcher.end(entry)
        await until(lambda: all(patience_for(one) == PATIENCE for one in unsettled))


@on_each_store
async def test_consumer_that_was_late_once_catches_up(store_url: str, sinks: Consumers) -> None:
    """What it could not take goes to the store; what comes when it takes messages again does not."""
    consumer = sinks.add()
    async with engine(store_url, prefetch=16, window=16) as run:
        await run.subscribe(consumer.url)
        held: list[int] = []

        def late_once(connection: Connection, receipt: Receipt) -> None:
            number = int(receipt.number)
            if run.deliveries[number - 1].settled:  # Before it was answered.
                held.append(number)
            if number == 100:
                asyncio.get_running_loop().call_later(0.5, connection.answer, 202)
            else:
                connection.answer(202)

        def has_room() -> bool:
            unsettled = sum(not one.settled for one in run.deliveries[-64:])
            return unsettled < 16 and len(run.deliveries) - consumer.count < 40

        consumer.behaviour = late_once
        for number in range(1, 801):
            await until(has_room)
            run.publish(number)
        assert await consumer.have(800) == numbered(800)
        await run.at_rest(delivered=800)
        assert 101 in held
        assert len(held) < 400


@on_each_store
async def test_hung_attempt_is_held_and_not_repeated(run: Engine, sinks: Consumers) -> None:
    """After a second its message is settled; the answer that comes at last removes the row."""
    consumer = sinks.add(hang)
    other = sinks.add()
    await run.subscribe(consumer.url)
    await run.subscribe(other.url)
    run.publish(1, 2)
    await run.settled()
    await run.conservation_when(waiting=1, in_flight=1, delivered=2)
    consumer.behaviour = accept
    next(c for c in sinks.connections if not c.answered).answer(202)
    assert await consumer.have(2) == ["1", "2"]
    await run.at_rest(delivered=4)


@pytest.mark.parametrize(
    "failing",
    [
        pytest.param(status(500), id="500"),
        pytest.param(status(404), id="404"),
        pytest.param(status(500, FAULT % b"Receiver"), id="fault of the receiver"),
        pytest.param(status(202, FAULT % b"Receiver"), id="fault in a 202"),
        pytest.param(reset, id="reset"),
        pytest.param(status(302, Location="http://127.0.0.1/"), id="redirect"),
    ],
)
@ON_CONNECTIONS
async def test_retry_then_success(
    run: Engine, sinks: Consumers, failing: Behaviour, kept: bool
) -> None:
    """The same message id each time, and nothing overtakes."""
    consumer = sinks.add(accept)
    entry = await run.subscribe(consumer.url)
    if kept:
        await keep_a_connection(run, consumer)
    consumer.behaviour = failing
    run.publish(*numbered(3))
    await consumer.have(3)
    consumer.behaviour = accept
    await run.at_rest(delivered=3 + kept)
    assert set(consumer.numbers) == {"1", "2", "3"}
    assert sorted(consumer.numbers) == consumer.numbers
    ids = {receipt.id for receipt in consumer.received if receipt.number == "1"}
    assert ids == {delivery_id(notification("1"), entry.id)}


@pytest.mark.parametrize(
    ("answer", "code", "text"),
    [
        pytest.param(status(400, b"no such thing"), 400, "no such thing", id="400"),
        pytest.param(status(413, b"x" * 5000), 413, "x" * 1024, id="413"),
        pytest.param(status(500, FAULT % b"Sender"), 500, "Sender", id="fault of the sender"),
        pytest.param(status(200, FAULT % b"Sender"), 200, "Sender", id="fault in a 200"),
    ],
)
@ON_CONNECTIONS
async def test_permanent_failure(
    run: Engine, sinks: Consumers, answer: Behaviour, code: int, text: str, kept: bool
) -> None:
    consumer = sinks.add(accept)
    entry = await run.subscribe(consumer.url)
    if kept:
        await keep_a_connection(run, consumer)
    consumer.behaviour = answer
    run.publish(1)
    await run.at_rest(dead=1)
    [letter] = await run.dead()
    death = letter.death
    assert consumer.numbers == ["1"]
    assert (death.subscription, death.owner) == (entry.id, "anonymous:127.0.0.1")
    assert death.delivery_id == consumer.received[0].id
    assert (death.reason, death.status, death.failure) == (
        DeathReason.REJECTED,
        code,
        f"answered {code} {HTTPStatus(code).phrase}{' with a fault' if code < 300 else ''}",
    )
    assert text in death.answer
    assert len(death.answer) <= 1024
    assert death.attempts == 1
    assert 0 <= death.died - death.since < 10
    consumer.behaviour = accept
    run.publish(2)
    await run.at_rest(dead=1, delivered=1 + kept)


async def test_gone(run: Engine, sinks: Consumers) -> None:
    consumer = sinks.add(status(410))
    entry = await run.subscribe(consumer.url)
    run.publish(1)
    await run.at_rest(dead=1)
    assert [given for given, _ in run.given_up] == [entry]


async def test_forbidden_address(run: Engine) -> None:
    """Not sent; tried twice more; then the subscription ends."""
    entry = await run.subscribe("http://10.0.0.1:80/")
    run.publish(1)
    await run.at_rest(dead=1)
    [letter] = await run.dead()
    assert letter.death.reason is DeathReason.EGRESS_FORBIDDEN
    assert letter.death.attempts == 3
    assert [given for given, _ in run.given_up] == [entry]


@on_each_store
async def test_exhausted(run: Engine, sinks: Consumers) -> None:
    consumer = sinks.add(reset)
    await run.subscribe(consumer.url)
    run.publish(1)
    await run.at_rest(dead=1)
    [letter] = await run.dead()
    assert (letter.death.reason, letter.death.failure) == (
        DeathReason.EXHAUSTED,
        "the connection was closed before the answer",
    )
    assert letter.death.attempts == QUICK.attempts
    assert consumer.count >= QUICK.attempts


@on_each_store
async def test_answered_with_failures(store_url: str, sinks: Consumers) -> None:
    """A consumer that can be reached and fails delays those behind for so long only; the last
    has nobody behind it, and its whole schedule."""
    consumer = sinks.add(status(500))
    async with engine(store_url, Schedule(delays=(0.02,) * 3, probe=0.02, answered=2)) as run:
        await run.subscribe(consumer.url)
        run.publish(1, 2)
        await run.at_rest(dead=2)
        first, second = sorted(await run.dead(), key=lambda letter: letter.death.since)
    assert (first.death.attempts, second.death.attempts) == (2, 4)
    assert {first.death.reason, second.death.reason} == {DeathReason.EXHAUSTED}


@on_each_store
async def test_away_behind_a_proxy(store_url: str, sinks: Consumers) -> None:
    """A proxy that answers for a consumer that is away says nothing about a message: each gets its
    whole schedule, whoever waits behind it."""
    consumer = sinks.add(status(503))
    async with engine(store_url, Schedule(delays=(0.02,) * 3, probe=0.02, answered=2)) as run:
        await run.subscribe(consumer.url)
        run.publish(1, 2)
        await run.at_rest(dead=2)
        assert [letter.death.attempts for letter in await run.dead()] == [4, 4]


@on_each_store
async def test_backlog_is_bounded_by_number(store_url: str, sinks: Consumers) -> None:
    consumer = sinks.add(hang)
    async with engine(store_url, most=10) as run:
        await run.subscribe(consumer.url)
        run.publish(*numbered(60))
        await consumer.have(1)
        await run.conservation_when(dead=50, waiting=9, in_flight=1)
        consumer.behaviour = accept
        next(c for c in sinks.connections if not c.answered).answer(202)
        assert (await consumer.have(10)) == ["1", *numbered(9, 52)]
        await run.at_rest(dead=50, delivered=10)
        assert {letter.death.reason for letter in await run.dead()} == {DeathReason.EXPIRED_BACKLOG}


@on_each_store
async def test_overflow_ends_what_is_in_a_sequence(store_url: str, sinks: Consumers) -> None:
    """None of it may be left out."""
    await sinks.leave()
    consumer = sinks.add()
    patient = Schedule(delays=(30.0,))
    async with engine(store_url, patient, most=5) as run:
        entry = await run.subscribe(consumer.url, delivery=DeliveryMode(reliable="1.1"))
        run.publish(*numbered(5))
        await run.conservation_when(waiting=5)
        assert not run.given_up
        run.publish("6")
        await until(lambda: bool(run.given_up))
        assert run.given_up[0] == (entry, "More waits for the consumer than is kept.")
        await run.conservation_when(dead=0, waiting=6, in_flight=0)


@on_each_store
async def test_overflow_may_end_the_subscription(store_url: str, sinks: Consumers) -> None:
    await sinks.leave()
    consumer = sinks.add()
    patient = Schedule(delays=(30.0,))
    async with engine(store_url, patient, most=5, end_on_overflow=True) as run:
        entry = await run.subscribe(consumer.url)
        run.publish(*numbered(5))
        await run.conservation_when(waiting=5)
        assert not run.given_up
        run.publish("6")
        await until(lambda: bool(run.given_up))
        assert run.given_up[0] == (entry, "More waits for the consumer than is kept.")
        await run.conservation_when(dead=0, waiting=6, in_flight=0)


@on_each_store
async def test_backlog_is_bounded_by_octets(store_url: str, sinks: Consumers) -> None:
    await sinks.leave()
    consumer = sinks.add()
    async with engine(store_url, most_octets=100_000) as run:
        await run.subscribe(consumer.url)
        run.publish(*numbered(30), filling=10_000)
        await run.conservation_when(dead=21, waiting=9)
        await sinks.listen()
        await run.at_rest(dead=21, delivered=9)
        assert consumer.numbers == numbered(9, 22)


@on_each_store
async def test_backlog_is_bounded_by_age(store_url: str, sinks: Consumers) -> None:
    await sinks.leave()
    consumer = sinks.add()
    patient = Schedule(delays=(60.0,), probe=60.0)
    async with engine(store_url, patient) as run:
        await run.subscribe(consumer.url)
        run.publish(*numbered(3))
        await run.conservation_when(waiting=3, in_flight=0)
    old = Schedule(delays=(60.0,), probe=60.0, age=0.0)
    async with engine(store_url, old) as run:
        run.dispatcher.clear_old()
        await run.at_rest(dead=3)
        assert {letter.death.reason for letter in await run.dead()} == {DeathReason.EXPIRED_BACKLOG}


async def test_too_old_backlogs_have_their_turns(
    store_url: str, sinks: Consumers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of the first take all that one transaction may bury; the others are next, and not an
    hour later."""
    many = 4
    monkeypatch.setattr(backlog, "BURIED", 2)
    await sinks.leave()
    patient = Schedule(delays=(3600.0,), probe=3600.0)
    async with engine(store_url, patient) as run:
        for _ in range(many):
            await run.subscribe(sinks.add().url)
        run.publish(*numbered(3))
        await run.conservation_when(waiting=3 * many, in_flight=0)
    async with engine(store_url, Schedule(delays=(3600.0,), probe=3600.0, age=0.0)) as run:
        run.dispatcher.clear_old()
        await run.at_rest(dead=3 * many)


async def test_breaker_of_a_subscription(run: Engine, sinks: Consumers) -> None:
    """It opens after failures in a row, and one success closes it; another path of the same
    host is not concerned."""
    consumer = sinks.add(reset)
    beside = Consumer(consumer.url.replace("/c1", "/beside"))
    sinks.by_path["/beside"] = beside
    entry = await run.subscribe(consumer.url)
    other = await run.subscribe(beside.url)
    run.publish(1)
    await consumer.have(FAILURES)
    outbox = run.dispatcher.outboxes.busy(entry)
    assert outbox is not None
    run.publish(2)
    beside_it = run.dispatcher.outboxes.busy(other)
    assert beside_it is None or not beside_it.breaker.open
    assert await beside.have(2) == ["1", "2"]
    assert run.dispatcher.scheduler.open_breakers == 0
    consumer.behaviour = accept
    await run.at_rest(delivered=4)


async def test_breaker_of_a_destination(run: Engine, sinks: Consumers) -> None:
    """Twenty subscriptions of one host that is away: probes, not twenty attempts at a time; then
    all are delivered, in order, at a low rate first."""
    first = sinks.add()
    several = [first]
    for number in range(19):
        path = f"/several{number}"
        several.append(Consumer(first.url.replace("/c1", path)))
        sinks.by_path[path] = several[-1]
    await sinks.leave()
    for one in several:
        await run.subscribe(one.url)
    run.publish(1, 2)
    await run.conservation_when(waiting=40, in_flight=0)
    assert run.dispatcher.scheduler.open_breakers == 1
    await sinks.listen()
    await run.at_rest(delivered=40)
    assert all(one.numbers == ["1", "2"] for one in several)
    assert run.dispatcher.scheduler.open_breakers == 0


@on_each_store
async def test_probes_come_in_time_though_others_wait(store_url: str, sinks: Consumers) -> None:
    """While a probe is under way the next is far; a timer set then must not delay the one after
    its failure."""
    consumer = sinks.add(status(500))
    async with engine(store_url, Schedule(delays=(0.01,) * 40, probe=0.05, answered=99)) as run:
        await run.subscribe(consumer.url)
        for number in range(1, 9):
            run.publish(number)  # Each becomes a row, and looks whether it can be sent.
            await consumer.have(number)
        consumer.behaviour = accept
        await run.at_rest(delivered=8)


async def test_retry_after(run: Engine, sinks: Consumers) -> None:
    consumer = sinks.add(status(503, Retry_After="1"))
    await run.subscribe(consumer.url)
    run.publish(1, 2)
    await consumer.have(1)
    consumer.behaviour = accept
    await consumer.have(3)
    first, second, _ = consumer.received
    assert second.at - first.at >= 1.0
    await run.at_rest(delivered=2)


async def test_pause_and_resume(run: Engine, sinks: Consumers) -> None:
    """What is published meanwhile is skipped; what was matched before waits."""
    consumer = sinks.add(hang)
    entry = await run.subscribe(consumer.url)
    run.publish(1, 2)
    await consumer.have(1)
    run.pause(entry, True)
    run.publish(3, 4)
    consumer.behaviour = accept
    next(c for c in sinks.connections if not c.answered).answer(202)
    await run.conservation_when(delivered=1, waiting=1, skipped=2, in_flight=0)
    assert consumer.numbers == ["1"]
    run.pause(entry, False)
    run.publish(5)
    assert await consumer.have(3) == ["1", "2", "5"]
    await run.at_rest(delivered=3, skipped=2)


@pytest.mark.parametrize("expired", [False, True])
async def test_end_with_deliveries_in_every_state(
    run: Engine, sinks: Consumers, expired: bool
) -> None:
    """Under way, in memory and in the store: all are accounted for, and nothing starts."""
    hung, away, fresh = sinks.add(hang), sinks.add(reset), sinks.add(hang)
    first, second = await run.subscribe(hung.url), await run.subscribe(away.url)
    run.publish(*numbered(3))
    await run.conservation_when(waiting=5, in_flight=1, delivered=0)
    third = await run.subscribe(fresh.url)
    run.publish(*numbered(40, 4))
    await fresh.have(1)
    for entry in (first, second, third):
        await run.end(entry, expired=expired)
    seen = [consumer.count for consumer in (hung, away, fresh)]
    run.publish(99)
    for connection in list(sinks.connections):
        if not connection.answered:
            connection.answer(202)
    law = await run.at_rest(matched=3 + 3 + 3 * 40)
    ended = law.totals.expired if expired else law.totals.cancelled
    assert ended + law.totals.delivered == law.totals.matched
    assert law.totals.delivered <= 1
    assert [consumer.count for consumer in (hung, away, fresh)] == seen
    assert all(run.dispatcher.outboxes.busy(entry) is None for entry in run.entries)


@on_each_store
async def test_redrive_and_purge(run: Engine, sinks: Consumers) -> None:
    """The same message id, behind nothing, and no longer dead."""
    consumer = sinks.add(status(400))
    await run.subscribe(consumer.url)
    run.publish(*numbered(3))
    await run.at_rest(dead=3)
    consumer.behaviour = accept
    await run.redrive()
    law = await run.at_rest(delivered=3, dead=0)
    assert law.dead_letters == 0
    assert consumer.numbers == numbered(3) * 2
    assert [one.id for one in consumer.received[:3]] == [one.id for one in consumer.received[3:]]


async def test_redrive_while_others_are_under_way(run: Engine, sinks: Consumers) -> None:
    consumer = sinks.add(status(400))
    await run.subscribe(consumer.url)
    run.publish(1)
    await run.at_rest(dead=1)
    consumer.behaviour = hang
    run.publish(2, 3)
    await consumer.have(2)
    await run.redrive()
    run.publish(4)
    consumer.behaviour = accept
    next(c for c in sinks.connections if not c.answered).answer(202)
    await run.at_rest(delivered=4, dead=0)
    assert sorted(consumer.numbers[1:]) == ["1", "2", "3", "4"]


@on_each_store
async def test_counts_of_what_is_released_at_a_stop_are_committed(
    run: Engine, sinks: Consumers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The event waits for one of its two consumers: its counts come when the row of that one is
    in the store, while the stop waits for all that it had to commit."""
    settlement, may_commit = run.dispatcher.settlement, threading.Event()
    drained = settlement.drained

    async def commit_and_drain() -> bool:
        may_commit.set()  # The row is committed while this waits, and not before.
        return await drained()

    monkeypatch.setattr(settlement, "drained", commit_and_drain)
    quick, late = sinks.add(), sinks.add(hang)
    entries = [await run.subscribe(quick.url), await run.subscribe(late.url)]
    run.publish("1")
    await quick.have(1)
    await late.have(1)
    await until(lambda: settlement.uncommitted.delivered == 1)
    run.store.submit(lambda _: may_commit.wait())
    await run.dispatcher.stop(0.0)
    ids = [entry.id for entry in entries]
    counted = await run.store.submit(partial(totals.read_some, subscriptions=ids))
    assert counted[ids[0]] == Totals(matched=1, delivered=1)
    assert counted[ids[1]] == Totals(matched=1)


async def test_restart_keeps_order(store_url: str, sinks: Consumers) -> None:
    """What waits is sent before what is new."""
    consumer = sinks.add(hang)
    async with engine(store_url) as run:
        await run.subscribe(consumer.url)
        run.publish(*numbered(50))
        await consumer.have(1)
        consumer.behaviour = accept
        next(c for c in sinks.connections if not c.answered).answer(202)
        await consumer.have(5)
        consumer.behaviour = hang
        await consumer.have(6)
        for connection in list(sinks.connections):
            connection.transport.abort()
    consumer.behaviour = accept
    async with engine(store_url) as run:
        run.publish(*numbered(5, 51))
        await run.at_rest(delivered=55)
    assert list(dict.fromkeys(consumer.numbers)) == numbered(55)


@on_each_store
async def test_crash_between_the_row_and_the_settlement(store_url: str, sinks: Consumers) -> None:
    """The messaging system yields again what is a row already: it is not matched twice."""
    await sinks.leave()
    consumer = sinks.add()
    async with engine(store_url, Schedule(delays=(60.0,), probe=60.0)) as run:
        await run.subscribe(consumer.url)
        run.publish(*numbered(3))
        await run.conservation_when(waiting=3, in_flight=0)
    await sinks.listen()
    async with engine(store_url) as run:
        execute(store_url, "UPDATE held SET due = 0")
    async with engine(store_url) as run:
        run.publish(*numbered(4))
        law = await run.at_rest(delivered=4)
        assert law.totals.matched == 4
        assert consumer.numbers == numbered(4)


@on_each_store
async def test_store_takes_nothing_for_a_while(
    run: Engine, store_url: str, sinks: Consumers
) -> None:
    """Nothing is lost, nothing overtakes, and it goes on by itself."""
    consumer, failing = sinks.add(), sinks.add(status(500))
    await run.subscribe(consumer.url)
    await run.subscribe(failing.url)
    run.publish(*numbered(5))
    await consumer.have(5)
    with outage(store_url):
        run.publish(*numbered(30, 6))
        await consumer.have(20)
        await until(lambda: not run.store.writable)
        assert not all(one.settled for one in run.deliveries)
        failing.behaviour = accept
    await run.at_rest(delivered=70)
    assert consumer.numbers == numbered(35)
    assert list(dict.fromkeys(failing.numbers)) == numbered(35)


@on_each_store
async def test_store_recovers_without_being_asked(run: Engine, store_url: str) -> None:
    """Readiness depends on it, and a gateway that is not ready is not asked."""
    with outage(store_url):
        with pytest.raises(StoreUnavailable):
            await run.conservation()
        assert not run.store.writable
    await until(lambda: run.store.writable)


async def test_memory_is_given_back(
    run: Engine, sinks: Consumers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When all is delivered no message is kept, and few outboxes and destinations."""
    monkeypatch.setattr("gateway.delivery.outboxes.RESTING", 1)
    consumer, failing = sinks.add(), sinks.add(status(500))
    await run.subscribe(consumer.url)
    await run.subscribe(failing.url)
    deliveries = [FakeDelivery(notification(str(number))) for number in range(40)]
    for delivery in deliveries:
        run.dispatcher.accept(delivery, run.entries)
    await failing.have(2)
    failing.behaviour = accept
    await run.at_rest(delivered=80)
    messages = [weakref.ref(delivery) for delivery in deliveries]
    del delivery
    deliveries.clear()

    def are_gone() -> bool:
        gc.collect()
        return all(message() is None for message in messages)

    await until(are_gone)
    assert all(run.dispatcher.outboxes.busy(entry) is None for entry in run.entries)
    assert len(run.dispatcher.outboxes) == len(run.dispatcher.scheduler._destinations) == 1
    for entry in run.entries:
        await run.end(entry)
    assert not run.dispatcher.outboxes
    assert not run.dispatcher.scheduler._destinations


async def test_loads_are_bounded(store_url: str, sinks: Consumers) -> None:
    """Many outboxes with large messages at a start: they are loaded as they are sent."""
    await sinks.leave()
    those = [sinks.add(keep=False) for _ in range(100)]
    async with engine(store_url, Schedule(delays=(0.01,) * 100, probe=0.01)) as run:
        for consumer in those:
            await run.subscribe(consumer.url)
        for number in range(4):
            run.publish(number, filling=2**20)
        await run.conservation_when(waiting=400, in_flight=0)
    await sinks.listen()
    async with engine(store_url) as run:
        await run.at_rest(delivered=400)
        assert run.dispatcher.backlog._octets == 0
    assert all(consumer.numbers == ["0", "1", "2", "3"] for consumer in those)
