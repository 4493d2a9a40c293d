"""Heartbeats: sent to sinks that asked for them, while there is no event to send."""

import asyncio
import time
from collections.abc import AsyncIterator

import pytest_asyncio

from gateway.delivery import Entry
from gateway.delivery.heartbeats import EARLY, Heartbeats
from gateway.delivery.policy import UNWANTED
from mediation import DeliveryMode, Mode
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
    beats: list[bool] = []
    for _ in range(3):
        beats.append(run.dispatcher.beat(entry))
        await asyncio.sleep(0)
    assert beats == [True] * 3
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
    await until(lambda: entry.trouble is not None)
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
    assert run.given_up[0] == (entry, UNWANTED)
    await run.end(entry)
    await until(lambda: len(heartbeats) == 0)


class Counting:
    """A sender that counts what it is asked for."""

    def __init__(self) -> None:
        self.beats: list[tuple[Entry, float]] = []

    def beat(self, entry: Entry) -> bool:
        self.beats.append((entry, time.time()))
        entry.attempted = time.time()
        return True


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
