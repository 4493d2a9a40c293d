"""The line in front of a thread: bounded, fair, and left by whoever gives up."""

import asyncio
from collections import Counter

import pytest

from gateway.parsing import OF_ONE, WAITING, Busy, FairQueue
from gateway.parsing.fair_queue import AT_A_TIME, OCTETS_OF_ONE, OCTETS_WAITING

Turns = list[asyncio.Task[None]]


async def full(line: FairQueue, *owners: str, octets: int = 1) -> Turns:
    """Tasks that wait, one for each of *owners*, behind those whose turn it is."""
    for _ in range(AT_A_TIME):
        await line.take_turn("", 1)
    return await waiting(line, *owners, octets=octets)


async def waiting(line: FairQueue, *owners: str, octets: int = 1) -> Turns:
    tasks = [asyncio.create_task(line.take_turn(owner, octets)) for owner in owners]
    await asyncio.sleep(0)
    return tasks


async def cancel(tasks: Turns) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_turns_go_round() -> None:
    line = FairQueue()
    owners = ["a"] * 4 + ["b"] * 2 + ["c"]
    tasks = await full(line, *owners)
    order = []
    while tasks:
        line.leave()
        await asyncio.sleep(0)
        at = next(at for at, task in enumerate(tasks) if task.done())
        order.append(owners.pop(at))
        del tasks[at]
    assert order == ["a", "b", "c", "a", "b", "a", "a"]


async def test_one_owner_has_a_part_of_the_line() -> None:
    line = FairQueue()
    tasks = await full(line, *["a"] * OF_ONE)
    with pytest.raises(Busy):
        await line.take_turn("a", 1)
    tasks += await waiting(line, "b")
    assert not tasks[-1].done()
    await cancel(tasks)


async def test_octets_of_one_owner_are_bounded() -> None:
    line = FairQueue()
    tasks = await full(line, "a", octets=OCTETS_OF_ONE)
    with pytest.raises(Busy):
        await line.take_turn("a", 1)
    await cancel(tasks)
    tasks = await waiting(line, "a", octets=OCTETS_OF_ONE)
    assert not tasks[0].done(), "who gives up leaves the line"
    await cancel(tasks)


async def test_the_line_is_bounded() -> None:
    line = FairQueue()
    tasks = await full(line, *(str(number) for number in range(WAITING)))
    with pytest.raises(Busy):
        await line.take_turn("another", 1)
    await cancel(tasks)
    tasks = await waiting(line, *"abcd", octets=OCTETS_WAITING // 4)
    with pytest.raises(Busy):
        await line.take_turn("another", 1)
    await cancel(tasks)


async def test_who_waits_too_long_is_refused() -> None:
    line = FairQueue(wait=0.01)
    for _ in range(AT_A_TIME):
        await line.take_turn("", 1)
    with pytest.raises(Busy):
        await line.take_turn("a", 1)
    line.leave()
    await line.take_turn("b", 1)


async def test_a_turn_that_nobody_takes_any_more_is_passed_on() -> None:
    line = FairQueue()
    first, second = await full(line, "a", "b")
    line.leave()
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    await second
    assert Counter([first.cancelled(), second.done()]) == {True: 2}


async def test_a_closed_line_lets_nobody_wait() -> None:
    line = FairQueue()
    tasks = await full(line, "a", "b")
    line.close()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(result, Busy) for result in results)
    with pytest.raises(Busy):
        await line.take_turn("a", 1)
    for _ in range(AT_A_TIME):
        line.leave()
    await line.take_turn("a", 1)
