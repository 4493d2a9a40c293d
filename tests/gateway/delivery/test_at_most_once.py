"""Subscriptions that want each event at most once: one attempt, and nothing stored."""

from collections.abc import AsyncIterator
from http import HTTPStatus
from pathlib import Path

import pytest
import pytest_asyncio

from gateway.delivery import Dispatcher
from gateway.store import waiting_deliveries
from mediation.model.delivery_modes import DeliveryMode, Mode
from tests.rigs.consumers import Consumers, accept, consumers, hang, reset, slow, status
from tests.rigs.dispatching import Engine, engine
from tests.rigs.waiting import until

ONCE = DeliveryMode(at_most_once=True)


@pytest_asyncio.fixture
async def sinks() -> AsyncIterator[Consumers]:
    async with consumers() as all_of_them:
        yield all_of_them


@pytest_asyncio.fixture
async def run(tmp_path: Path) -> AsyncIterator[Engine]:
    async with engine(tmp_path) as one:
        yield one


async def stored(run: Engine) -> int:
    return sum(one.count for one in (await run.store.submit(waiting_deliveries.backlogs)).values())


async def test_what_is_taken_is_delivered(run: Engine, sinks: Consumers) -> None:
    consumer = sinks.add(accept)
    await run.subscribe(consumer.url, delivery=ONCE)
    run.publish(1, 2, 3)
    await run.at_rest(matched=3, delivered=3)
    assert consumer.numbers == ["1", "2", "3"]


@pytest.mark.parametrize(
    "behaviour", [status(503), status(500), status(400), reset], ids=["503", "500", "400", "reset"]
)
async def test_what_fails_is_tried_once(run: Engine, sinks: Consumers, behaviour: object) -> None:
    """And what comes behind it is tried, too."""
    failing, other = sinks.add(behaviour), sinks.add(accept)  # type: ignore[arg-type]  # Any.
    await run.subscribe(failing.url, delivery=ONCE)
    await run.subscribe(other.url)
    for number in range(12):
        run.publish(number)
        await run.conservation_when(in_flight=0, waiting=0)
    await run.at_rest(matched=24, delivered=12, cancelled=12, dead_letters=0)
    assert failing.numbers == other.numbers == [str(number) for number in range(12)]
    assert await stored(run) == 0
    assert not run.given_up


async def test_one_that_is_gone_ends_its_subscription(run: Engine, sinks: Consumers) -> None:
    gone = sinks.add(status(HTTPStatus.GONE))
    entry = await run.subscribe(gone.url, delivery=ONCE)
    run.publish(1)
    await run.at_rest(matched=1, cancelled=1, dead_letters=0)
    assert [each for each, _ in run.given_up] == [entry]


async def test_a_consumer_that_hangs_holds_up_nothing(tmp_path: Path, sinks: Consumers) -> None:
    """The messaging system waits for none of its events, and few are kept in memory."""
    async with engine(tmp_path) as run:
        hanging, other = sinks.add(hang), sinks.add(accept)
        await run.subscribe(hanging.url, delivery=ONCE)
        await run.subscribe(other.url)
        for number in range(100):
            run.publish(number)
        await run.settled()
        assert run.dispatcher.settlement.messages == 0
        law = await run.conservation_when(delivered=100)
        assert law.totals.cancelled >= 100 - 40
        assert await stored(run) == 0
        await end_attempts(run.dispatcher)
    async with engine(tmp_path) as run:
        await run.at_rest()


async def end_attempts(dispatcher: Dispatcher) -> None:
    """Stop at once, as a gateway does whose time to stop is over."""
    await dispatcher.stop(0.0)


async def test_a_pause_stores_nothing(run: Engine, sinks: Consumers) -> None:
    consumer = sinks.add(slow(0.2))
    entry = await run.subscribe(consumer.url, delivery=ONCE)
    run.publish(1, 2, 3)
    await until(lambda: consumer.count > 0)
    run.pause(entry, True)
    run.publish(4)
    await run.at_rest(matched=3, delivered=1, cancelled=2, skipped=1)
    run.pause(entry, False)
    run.publish(5)
    await run.at_rest(matched=4, delivered=2)
    assert consumer.numbers == ["1", "5"]


async def test_a_batch_is_tried_once(run: Engine, sinks: Consumers) -> None:
    consumer = sinks.add(status(503))
    mode = DeliveryMode(Mode.EVENTS, max_elements=3, max_time=5.0, at_most_once=True)
    await run.subscribe(consumer.url, delivery=mode)
    run.publish(1, 2, 3)
    await run.at_rest(matched=3, cancelled=3, dead_letters=0)
    assert consumer.count == 1
