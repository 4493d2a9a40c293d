"""Threads that take several transactions at a time."""

import asyncio
import threading
from functools import partial

import pytest

from gateway.client.reliable import StorageUnavailable
from gateway.client.reliable.transaction_threads import TOGETHER, Pool


@pytest.fixture
def pool() -> Pool:
    return Pool(2, "test")


async def test_each_gets_what_its_own_came_to(pool: Pool) -> None:
    def work(number: int) -> int:
        if number % 7 == 0:
            raise ValueError(str(number))
        return number

    found = await asyncio.gather(
        *(pool.run(partial(work, number)) for number in range(10 * TOGETHER)),
        return_exceptions=True,
    )
    for number, one in enumerate(found):
        assert str(one) == str(number)
        assert isinstance(one, ValueError) is (number % 7 == 0)
    pool.close(60)


async def test_one_that_hangs_holds_up_what_one_thread_took_and_no_more(pool: Pool) -> None:
    release = threading.Event()
    begun = threading.Event()

    def hang() -> None:
        begun.set()
        release.wait(60)

    hanging = asyncio.ensure_future(pool.run(hang))
    await asyncio.to_thread(begun.wait, 60)
    async with asyncio.timeout(60):
        assert await pool.run(lambda: "done") == "done"
    release.set()
    await hanging
    pool.close(60)


async def test_who_is_cancelled_disturbs_nobody(pool: Pool) -> None:
    release = threading.Event()
    first = asyncio.ensure_future(pool.run(lambda: release.wait(60)))
    await asyncio.sleep(0)
    first.cancel()
    release.set()
    with pytest.raises(asyncio.CancelledError):
        await first
    assert await pool.run(lambda: 1) == 1
    pool.close(60)


def test_a_loop_that_is_closed_is_no_error(pool: Pool) -> None:
    release = threading.Event()

    async def begin() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await pool.run(lambda: release.wait(60))

    asyncio.run(begin())
    release.set()

    async def again() -> int:
        return await pool.run(lambda: 2)

    assert asyncio.run(again()) == 2
    pool.close(60)


async def test_a_closed_pool_takes_nothing(pool: Pool) -> None:
    pool.close(60)
    async with asyncio.timeout(60):
        with pytest.raises(StorageUnavailable):
            await pool.run(lambda: 1)
    pool.close(60)


async def test_what_waits_behind_threads_that_hang_fails_when_it_is_closed(pool: Pool) -> None:
    release = threading.Event()
    begun = threading.Barrier(3)

    def hang() -> str:
        begun.wait(60)
        release.wait(60)
        return "done"

    hanging = [asyncio.ensure_future(pool.run(hang)) for _ in range(2)]
    await asyncio.to_thread(begun.wait, 60)
    waiting = asyncio.ensure_future(pool.run(lambda: 1))
    await asyncio.sleep(0)
    await asyncio.to_thread(pool.close, 0.01)
    async with asyncio.timeout(60):
        with pytest.raises(StorageUnavailable):
            await waiting
    release.set()
    assert await asyncio.gather(*hanging) == ["done", "done"]
    await asyncio.to_thread(pool.close, 60)
