"""Events whose life is over: nobody gets them, wherever they wait, and they are counted."""

import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from gateway.delivery import Schedule
from mediation.model.delivery_modes import DeliveryMode, Mode
from tests.rigs.consumers import Consumers, accept, acknowledge, consumers, slow, status
from tests.rigs.dispatching import engine
from tests.rigs.stores import on_each_store
from tests.rigs.waiting import until

SHORT = 0.4
"""Seconds of the life of what is to expire."""
LONG = 3600.0
PATIENT = Schedule(delays=(0.05,) * 1000, probe=0.05, answered=1000)


@pytest_asyncio.fixture
async def sinks() -> AsyncIterator[Consumers]:
    async with consumers() as all_of_them:
        yield all_of_them


async def life_is_over() -> None:
    over = time.time() + SHORT + 0.05
    await until(lambda: time.time() > over)


@on_each_store
async def test_what_is_expired_when_it_comes_is_not_delivered(
    store_url: str, sinks: Consumers
) -> None:
    async with engine(store_url, PATIENT) as run:
        consumer = sinks.add(accept)
        await run.subscribe(consumer.url)
        run.publish("gone", life=-1.0)
        run.publish("kept", life=LONG)
        await run.at_rest(matched=2, delivered=1, expired=1, dead_letters=0)
        assert consumer.numbers == ["kept"]


@on_each_store
async def test_what_expires_while_its_consumer_is_away_is_not_delivered(
    store_url: str, sinks: Consumers
) -> None:
    """It is tried, becomes a row, and is taken out of the store when its turn comes again."""
    async with engine(store_url, PATIENT) as run:
        consumer = sinks.add(status(503))
        await run.subscribe(consumer.url)
        run.publish("gone", life=SHORT)
        run.publish("behind", life=LONG)
        await until(lambda: consumer.count > 0)
        await life_is_over()
        tried = consumer.count
        consumer.behaviour = accept
        await run.at_rest(matched=2, delivered=1, expired=1, dead_letters=0)
        assert "gone" not in consumer.numbers[tried:]
        assert consumer.numbers[-1] == "behind"


async def test_what_expires_behind_a_slow_one_is_not_delivered(
    tmp_path: Path, sinks: Consumers
) -> None:
    """It waits in memory."""
    async with engine(tmp_path, PATIENT) as run:
        consumer = sinks.add(slow(2 * SHORT))
        await run.subscribe(consumer.url)
        run.publish("slow", life=LONG)
        run.publish("gone 1", "gone 2", life=SHORT)
        run.publish("kept", life=LONG)
        await run.at_rest(matched=4, delivered=2, expired=2, dead_letters=0)
        assert consumer.numbers == ["slow", "kept"]


async def test_what_expires_in_a_pause_is_not_delivered(tmp_path: Path, sinks: Consumers) -> None:
    async with engine(tmp_path, PATIENT) as run:
        consumer = sinks.add(slow(SHORT))
        entry = await run.subscribe(consumer.url)
        run.publish("first", "kept")
        run.publish("gone 1", "gone 2", life=SHORT)
        await until(lambda: consumer.count > 0)
        run.pause(entry, True)
        await life_is_over()
        consumer.behaviour = accept
        run.pause(entry, False)
        await run.at_rest(matched=4, delivered=2, expired=2, dead_letters=0)
        assert not any("gone" in number for number in consumer.numbers)


async def test_what_expires_between_two_runs_is_not_delivered(
    tmp_path: Path, sinks: Consumers
) -> None:
    consumer = sinks.add(status(503))
    async with engine(tmp_path, PATIENT) as run:
        await run.subscribe(consumer.url)
        run.publish("gone", life=SHORT)
        await until(lambda: consumer.count > 0)
    await life_is_over()
    tried, consumer.behaviour = consumer.count, accept
    async with engine(tmp_path, PATIENT) as run:
        run.publish("kept")
        await run.at_rest(matched=2, delivered=1, expired=1)
        assert consumer.numbers[tried:] == ["kept"]


@pytest.mark.parametrize("held", [False, True])
async def test_what_expires_is_left_out_of_a_batch(
    tmp_path: Path, sinks: Consumers, held: bool
) -> None:
    async with engine(tmp_path, PATIENT) as run:
        consumer = sinks.add(status(503) if held else acknowledge)
        mode = DeliveryMode(Mode.EVENTS, max_elements=10, max_time=2 * SHORT)
        await run.subscribe(consumer.url, delivery=mode)
        run.publish("a", life=LONG)
        run.publish("gone", life=SHORT)
        run.publish("b", life=LONG)
        if held:
            await until(lambda: consumer.count > 0)
            await life_is_over()
            consumer.behaviour = acknowledge
        await run.at_rest(matched=3, delivered=2, expired=1)
        last = consumer.received[-1]
        assert b"gone" not in last.body
