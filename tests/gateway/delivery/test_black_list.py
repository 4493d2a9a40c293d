"""Consumers that do not answer in time, and are left alone for a while, as WS-Messenger does."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from gateway.delivery import BlackList, Schedule
from gateway.delivery.status import Condition, status_of
from gateway.egress.client_limits import ClientLimits
from gateway.model.dead_letter_reasons import DeathReason
from tests.rigs.consumers import Consumer, Consumers, accept, consumers, hang, status
from tests.rigs.dispatching import Engine, engine
from tests.rigs.waiting import until

LIMITS = ClientLimits(exchange=0.2)
LONG = 600.0


@pytest_asyncio.fixture
async def sinks() -> AsyncIterator[Consumers]:
    async with consumers() as all_of_them:
        yield all_of_them


def listing(seconds: float, *delays: float) -> Schedule:
    return Schedule(delays=delays, probe=0.05, black_list=BlackList(after=2, seconds=seconds))


async def reasons(run: Engine) -> list[DeathReason]:
    return [letter.death.reason for letter in await run.dead()]


async def dead(run: Engine, number: int) -> None:
    async def are_there() -> bool:
        return len(await run.dead()) == number

    await until(are_there)


async def publish_one_by_one(run: Engine, sink: Consumer, *numbers: int) -> None:
    """Each once the one before it has timed out."""
    for number in numbers:
        had = sink.count
        run.publish(number)
        await sink.have(had + 1)
        await run.conservation_when(in_flight=0)


async def test_nothing_is_sent_after_time_outs(tmp_path: Path, sinks: Consumers) -> None:
    """What comes meanwhile is a dead letter, though others get it, and operators see why."""
    late, other = sinks.add(hang), sinks.add()
    async with engine(tmp_path, listing(LONG), limits=LIMITS) as run:
        entry = await run.subscribe(late.url)
        await run.subscribe(other.url)
        await publish_one_by_one(run, late, 1, 2)
        await dead(run, 2)
        late.behaviour = accept
        run.publish(3, 4)
        await other.have(4)
        await run.at_rest(delivered=4, dead=4)
        assert late.count == 2
        assert await reasons(run) == [DeathReason.EXHAUSTED] + [DeathReason.BLACK_LISTED] * 3
        seen = status_of(entry, [])
        assert seen.state is Condition.FAILING
        assert seen.black_listed_until is not None and seen.last_error == "no answer within 0.2 s"
        now = asyncio.get_running_loop().time()
        assert LONG - 60 < entry.state.rests_until - now <= LONG


async def test_it_is_tried_again_when_the_time_is_over(tmp_path: Path, sinks: Consumers) -> None:
    late = sinks.add(hang)
    async with engine(tmp_path, listing(0.1), limits=LIMITS) as run:
        entry = await run.subscribe(late.url)
        await publish_one_by_one(run, late, 1, 2)
        late.behaviour = accept
        await until(lambda: entry.state.rests_until < asyncio.get_running_loop().time())
        run.publish(3)
        await late.have(3)
        await run.at_rest(delivered=1, dead=2)
        assert entry.state.timeouts == 0 and late.numbers == ["1", "2", "3"]
        seen = status_of(entry, [])
        assert (seen.state, seen.black_listed_until) == (Condition.ACTIVE, None)


async def test_an_answer_begins_the_count_anew(tmp_path: Path, sinks: Consumers) -> None:
    sink = sinks.add(hang)
    async with engine(tmp_path, listing(LONG), limits=LIMITS) as run:
        entry = await run.subscribe(sink.url)
        for number, behaviour in enumerate((hang, status(400), hang, accept, hang), 1):
            sink.behaviour = behaviour
            await publish_one_by_one(run, sink, number)
        await run.at_rest(delivered=1, dead=4)
        assert (entry.state.timeouts, entry.state.rests_until) == (1, 0.0)


async def test_what_waits_is_kept(tmp_path: Path, sinks: Consumers) -> None:
    """Only what comes while the consumer is black-listed is lost to it."""
    late = sinks.add(hang)
    async with engine(tmp_path, listing(0.3, 0.05, 0.05, 0.05), limits=LIMITS) as run:
        await run.subscribe(late.url)
        run.publish(1, 2, 3)
        await late.have(2)
        late.behaviour = accept
        await dead(run, 1)
        await run.at_rest(delivered=2, dead=1)
        assert late.numbers == ["1", "1", "2", "3"]
