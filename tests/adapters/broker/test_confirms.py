"""Publishers that are told in time."""

import asyncio

import pytest

from adapters import AdapterUnavailable
from adapters.broker.confirms import Deadlines, Publication

SOON, LATER = 0.05, 0.1


async def test_each_is_refused_when_its_time_is_over() -> None:
    loop = asyncio.get_running_loop()
    waiting: list[Publication] = []
    deadlines = Deadlines(lambda: waiting, retry_after=3.0)
    for seconds in (SOON, SOON, LATER, LATER):
        waiting.append(one := Publication(loop.time() + seconds))
        deadlines.watch(one)
    confirmed, late, last, given_up = waiting
    confirmed.confirm()
    given_up.done.cancel()
    async with asyncio.timeout(60):
        with pytest.raises(AdapterUnavailable, match="in time") as refused:
            await late.done
        assert refused.value.retry_after == 3.0
        assert late.deadline <= loop.time()
        if loop.time() < last.deadline:
            assert not last.done.done()
        with pytest.raises(AdapterUnavailable, match="in time"):
            await last.done
        assert last.deadline <= loop.time()
    await confirmed.done
    late.confirm()  # Too late: that says nothing.
    late.refuse("something else", 1.0)
    assert str(late.done.exception()) == str(refused.value)


async def test_the_timer_begins_again() -> None:
    loop = asyncio.get_running_loop()
    waiting: list[Publication] = []
    deadlines = Deadlines(lambda: waiting, retry_after=1.0)
    for _ in range(2):
        waiting[:] = [Publication(loop.time() + SOON)]
        deadlines.watch(waiting[0])
        async with asyncio.timeout(60):
            with pytest.raises(AdapterUnavailable):
                await waiting[0].done


async def test_nothing_waits_any_more() -> None:
    """A closed one may be used again."""
    loop = asyncio.get_running_loop()
    waiting = [Publication(loop.time() + SOON), Publication(loop.time() + LATER)]
    deadlines = Deadlines(lambda: waiting, retry_after=1.0)
    deadlines.watch(waiting[0])
    deadlines.close()
    deadlines.close()
    deadlines.watch(waiting[1])
    async with asyncio.timeout(60):
        with pytest.raises(AdapterUnavailable):
            await waiting[1].done
