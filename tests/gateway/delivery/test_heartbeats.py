"""Heartbeats: sent to sinks that asked for them, while there is no event to send."""

import asyncio
import time
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from gateway.delivery import Entry, Schedule
from gateway.delivery.consequences import REFUSALS
from gateway.delivery.destinations.breaker import FAILURES
from gateway.delivery.destinations.destination import AGAIN
from gateway.delivery.entry import DeliveryState
from gateway.delivery.heartbeats import EARLY, FEW, SLICE, Heartbeats
from gateway.delivery.verdicts import Verdict
from mediation.model.delivery_modes import DeliveryMode, Mode
from mediation.names import WSMAN_HEARTBEAT
from tests.rigs.consumers import (
    Consumers,
    acknowledge,
    consumers,
    hang,
    refuse_deliveries,
    status,
)
from tests.rigs.dispatching import Engine, engine
from tests.rigs.waiting import until

INTERVAL = 0.2
BEATING = DeliveryMode(Mode.PUSH_WITH_ACK, heartbeats=INTERVAL)


@pytest_asyncio.fixture
async def sinks() -> AsyncIterator[Consumers]:
    async with consumers() as all_of_them:
        yield all_of_them


@pytest_asyncio.fixture
async def run(store_url: str) -> AsyncIterator[Engine]:
    async with engine(store_url) as one:
        yield one


@pytest_asyncio.fixture
async def heartbeats(run: Engine) -> AsyncIterator[Heartbeats]:
    beats = Heartbeats(lambda: run.dispatcher)
    yield beats
    beats.close()


def is_heartbeat(body: bytes) -> bool:
    return f"Action>{WSMAN_HEARTBEAT}<".encode() in body


async def test_while_nothing_happens(run: Engine, heartbeats: Heartbeats, sinks: Consumers) -> None:
    """They are no deliveries: the law knows nothing of them."""
    sink = sinks.add(acknowledge)
    entry = await run.subscribe(sink.url, delivery=BEATING)
    heartbeats.watch(entry)
    await sink.have(3)
    assert all(is_heartbeat(receipt.body) for receipt in sink.received)
    assert len({receipt.id for receipt in sink.received}) == sink.count
    assert sink.received[0].message.body == []
    await run.at_rest()


async def test_an_event_is_one_too(run: Engine, heartbeats: Heartbeats, sinks: Consumers) -> None:
    sink = sinks.add(acknowledge)
    entry = await run.subscribe(sink.url, delivery=BEATING)
    heartbeats.watch(entry)
    run.publish(1)
    await sink.have(2)
    first, second = sink.received[:2]
    assert not is_heartbeat(first.body)
    assert is_heartbeat(second.body)
    assert second.at - first.at > EARLY * INTERVAL * 0.9
    await run.at_rest(delivered=1)


async def test_what_waits_for_its_batch_goes_instead(
    run: Engine, heartbeats: Heartbeats, sinks: Consumers
) -> None:
    sink = sinks.add(acknowledge)
    wanted = DeliveryMode(Mode.EVENTS, max_elements=9, max_time=3600.0, heartbeats=INTERVAL)
    entry = await run.subscribe(sink.url, delivery=wanted)
    run.publish(1, 2)
    heartbeats.watch(entry)
    assert (await sink.next()).events == ["1", "2"]
    await run.at_rest(delivered=2)


async def test_none_while_an_event_is_under_way(
    run: Engine, heartbeats: Heartbeats, sinks: Consumers
) -> None:
    sink = sinks.add(hang)
    entry = await run.subscribe(sink.url, delivery=BEATING)
    heartbeats.watch(entry)
    run.publish(1)
    await sink.have(1)
    beats: list[float] = []
    for _ in range(3):
        beats.append(run.dispatcher.beat(entry))
        await asyncio.sleep(0)
    assert beats == [0.0] * 3
    sink.behaviour = acknowledge
    for connection in list(sinks.connections):
        connection.transport.abort()
    await run.at_rest(delivered=1)


async def test_one_that_fails_counts_against_the_sink(
    run: Engine, heartbeats: Heartbeats, sinks: Consumers
) -> None:
    sink = sinks.add(status(503))
    entry = await run.subscribe(sink.url, delivery=BEATING)
    heartbeats.watch(entry)
    await sink.have(1)
    await until(lambda: entry.state.trouble is not None)
    sink.behaviour = acknowledge
    run.publish(1)
    await run.at_rest(delivered=1)


async def test_a_sink_that_refuses_one_ends_its_subscription(
    run: Engine, heartbeats: Heartbeats, sinks: Consumers
) -> None:
    sink = sinks.add(refuse_deliveries)
    entry = await run.subscribe(sink.url, delivery=BEATING)
    heartbeats.watch(entry)
    await until(lambda: bool(run.given_up))
    assert run.given_up[0] == (entry, REFUSALS[Verdict.UNWANTED])
    await run.end(entry)
    await until(lambda: len(heartbeats) == 0)


async def test_one_may_be_the_probe_of_its_sink(
    run: Engine, heartbeats: Heartbeats, sinks: Consumers
) -> None:
    """Nothing else might ever be."""
    sink = sinks.add(status(503))
    entry = await run.subscribe(sink.url, delivery=BEATING)
    heartbeats.watch(entry)
    await until(lambda: run.dispatcher.outboxes.open_breakers == 1)
    sink.behaviour = acknowledge
    await sink.have(sink.count + 2)
    await until(lambda: run.dispatcher.outboxes.open_breakers == 0)


async def test_one_may_be_the_probe_of_its_destination(
    run: Engine, heartbeats: Heartbeats, sinks: Consumers
) -> None:
    sink = sinks.add(acknowledge)
    entry = await run.subscribe(sink.url, delivery=BEATING)
    await sinks.leave()
    heartbeats.watch(entry)
    scheduler = run.dispatcher.scheduler
    await until(lambda: scheduler.open_breakers == 1)
    await sinks.listen()
    await sink.have(2)
    assert scheduler.open_breakers == 0


async def test_none_before_the_time_of_the_probe(run: Engine, sinks: Consumers) -> None:
    """Who asks is told when it is worth while to ask again, and nothing waits for it."""
    sink = sinks.add(status(503, Retry_After="50"))
    entry = await run.subscribe(sink.url, delivery=BEATING)
    assert run.dispatcher.beat(entry) == 0.0
    await until(lambda: run.dispatcher.outboxes.open_breakers == 1)
    assert 40 < run.dispatcher.beat(entry) <= 50
    assert run.dispatcher.outboxes.busy(entry) is None
    assert sink.count == 1 < FAILURES


async def test_a_probe_that_fails_puts_off_the_next(store_url: str, sinks: Consumers) -> None:
    sink = sinks.add(status(503))
    async with engine(store_url, Schedule(probe=0.5)) as run:
        entry = await run.subscribe(sink.url, delivery=BEATING)
        for number in range(FAILURES + 1):
            await until(lambda: run.dispatcher.beat(entry) == 0.0)
            await sink.have(number + 1)
            await until(lambda: run.dispatcher.outboxes.busy(entry) is None)
        assert run.dispatcher.beat(entry) == AGAIN


async def test_many_at_one_host_have_their_turns(run: Engine, sinks: Consumers) -> None:
    """Though it gets few at a time."""
    sink = sinks.add(acknowledge)
    entries = [await run.subscribe(sink.url, delivery=BEATING) for _ in range(30)]
    assert [run.dispatcher.beat(entry) for entry in entries] == [0.0] * 30
    await sink.have(30)
    await until(lambda: all(entry.state.attempted for entry in entries))
    assert sink.count == 30
    assert all(run.dispatcher.outboxes.busy(entry) is None for entry in entries)


async def test_one_waits_behind_what_is_sent_to_its_host(run: Engine, sinks: Consumers) -> None:
    """And an event that comes meanwhile takes its place."""
    sink = sinks.add(hang)
    others = [await run.subscribe(sink.url) for _ in range(10)]
    beating, gets_event = [await run.subscribe(sink.url, delivery=BEATING) for _ in range(2)]
    run.publish(1, to=others)
    assert [run.dispatcher.beat(entry) for entry in (beating, gets_event)] == [0.0, 0.0]
    run.publish(2, to=[gets_event])
    await sink.have(8)
    sink.behaviour = acknowledge
    for connection in list(sinks.connections):
        connection.answer(202)
    await run.at_rest(delivered=11)
    waiting = (beating, gets_event)
    await until(lambda: not any(run.dispatcher.outboxes.busy(entry) for entry in waiting))
    assert [is_heartbeat(receipt.body) for receipt in sink.received].count(True) == 1


async def test_those_that_wait_are_bounded(
    run: Engine, sinks: Consumers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What may not wait leaves nothing in memory but what rests."""
    monkeypatch.setattr("gateway.delivery.destinations.destination.HEARTBEATS", 3)
    monkeypatch.setattr("gateway.delivery.outboxes.RESTING", 2)
    sink = sinks.add(hang)
    entries = [await run.subscribe(sink.url, delivery=BEATING) for _ in range(30)]
    asked = [run.dispatcher.beat(entry) for entry in entries]
    assert asked == [0.0] * 11 + [AGAIN] * 19
    assert sum(entry in run.dispatcher.outboxes for entry in entries) == 11 + 2
    sink.behaviour = acknowledge
    await sink.have(8)
    for connection in list(sinks.connections):
        connection.transport.abort()
    await until(lambda: all(run.dispatcher.outboxes.busy(entry) is None for entry in entries))
    assert [run.dispatcher.beat(entry) for entry in entries[-3:]] == [0.0] * 3  # There is room.


async def test_one_that_waits_ends_with_its_subscription(
    run: Engine, sinks: Consumers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And leaves its place to others."""
    monkeypatch.setattr("gateway.delivery.destinations.destination.HEARTBEATS", 1)
    sink = sinks.add(hang)
    others = [await run.subscribe(sink.url) for _ in range(8)]
    ends, another = [await run.subscribe(sink.url, delivery=BEATING) for _ in range(2)]
    run.publish(1, to=others)
    assert [run.dispatcher.beat(entry) for entry in (ends, another)] == [0.0, AGAIN]
    await run.end(ends)
    assert run.dispatcher.beat(another) == 0.0
    await sink.have(8)
    sink.behaviour = acknowledge
    for connection in list(sinks.connections):
        connection.answer(202)
    await sink.have(9)
    await run.at_rest(delivered=8)
    assert (ends.state.attempted, sink.count) == (0.0, 9)


async def test_none_waits_for_who_is_paused(run: Engine, sinks: Consumers) -> None:
    sink = sinks.add(hang)
    others = [await run.subscribe(sink.url) for _ in range(8)]
    entry = await run.subscribe(sink.url, delivery=BEATING)
    run.publish(1, to=others)
    assert run.dispatcher.beat(entry) == 0.0
    run.pause(entry, True)
    assert run.dispatcher.outboxes.busy(entry) is None
    await sink.have(8)
    for connection in list(sinks.connections):
        connection.answer(202)
    await run.at_rest(delivered=8)
    run.pause(entry, False)
    sink.behaviour = acknowledge
    assert run.dispatcher.beat(entry) == 0.0
    await sink.have(9)
    assert is_heartbeat(sink.received[-1].body)


class Counting:
    """A sender that counts what it is asked for."""

    def __init__(self) -> None:
        self.beats: list[tuple[Entry, float]] = []

    def beat(self, entry: Entry) -> float:
        self.beats.append((entry, time.time()))
        entry.state.attempted = time.time()
        return 0.0


async def test_one_timer_for_all(run: Engine) -> None:
    """Each in its own interval; who wants none costs nothing."""
    counting = Counting()
    beats = Heartbeats(lambda: counting)
    often = [
        await run.subscribe(f"http://127.0.0.1:9999/{number}", delivery=BEATING)
        for number in range(3)
    ]
    seldom = await run.subscribe(
        "http://127.0.0.1:9999/seldom", delivery=DeliveryMode(heartbeats=3600.0)
    )
    never = await run.subscribe("http://127.0.0.1:9999/never")
    for entry in (seldom, never, *often):
        beats.watch(entry)
    assert len(beats) == 4
    await until(lambda: len(counting.beats) >= 9)
    assert {entry for entry, _ in counting.beats} == set(often)
    beats.close()


async def test_many_that_are_due_let_others_run(run: Engine) -> None:
    turns = 0
    at_turn: list[int] = []

    class Noting(Counting):
        def beat(self, entry: Entry) -> float:
            at_turn.append(turns)
            return super().beat(entry)

    sender = Noting()
    beats = Heartbeats(lambda: sender)
    entry = await run.subscribe("http://127.0.0.1:9999/", delivery=BEATING)
    for _ in range(5 * SLICE):
        one = Entry(entry.subscription, entry.recipient, entry.target)
        beats.watch(one)
    while len(at_turn) < 5 * SLICE:
        turns += 1
        await asyncio.sleep(0)
    assert max(at_turn.count(turn) for turn in set(at_turn)) <= SLICE
    beats.close()


class Watched(DeliveryState):
    """The state of an entry that counts how often it is looked at."""

    __slots__ = ("last", "looks")

    looks: int
    last: float

    @property
    def attempted(self) -> float:
        self.looks += 1
        return self.last

    @attempted.setter
    def attempted(self, at: float) -> None:
        self.looks, self.last = 0, at


async def test_while_another_gateway_sends_them(
    run: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody looks at each; who has them next sends them."""
    monkeypatch.setattr("gateway.delivery.heartbeats.AGAIN", 0.001)
    counting = Counting()
    asked = 0
    looks: list[int] = []

    def sender() -> Counting | None:
        nonlocal asked
        asked += 1
        if asked < 20:
            return None
        looks.extend(state.looks for state in states)
        return counting

    often = DeliveryMode(Mode.PUSH_WITH_ACK, heartbeats=0.01)
    one = await run.subscribe("http://127.0.0.1:9999/", delivery=often)
    entries = [Entry(one.subscription, one.recipient, one.target) for _ in range(10)]
    states = [Watched() for _ in entries]
    for entry, state in zip(entries, states, strict=True):
        entry.state = state
    beats = Heartbeats(sender)
    for entry in entries:
        beats.watch(entry)
    await until(lambda: {entry for entry, _ in counting.beats} == set(entries))
    assert looks[:10] == [0] * 10
    beats.close()


async def test_those_that_have_ended_are_let_go_of(
    run: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Long before their next one would be due."""
    seldom = DeliveryMode(Mode.PUSH_WITH_ACK, heartbeats=366 * 86400.0)
    one = await run.subscribe("http://127.0.0.1:9999/", delivery=seldom)
    beats = Heartbeats(lambda: None)

    def watch() -> Entry:
        entry = Entry(one.subscription, one.recipient, one.target)
        beats.watch(entry)
        return entry

    kept = [watch() for _ in range(100)]
    for _ in range(2000):
        watch().ended = True
        assert len(beats) <= 2 * len(kept) + FEW + 1
    beats.close()
    monkeypatch.setattr("gateway.delivery.heartbeats.SWEEP", 0.01)
    beats = Heartbeats(lambda: None)
    watch().ended = True
    watch()
    await until(lambda: len(beats) == 1)
    beats.close()
