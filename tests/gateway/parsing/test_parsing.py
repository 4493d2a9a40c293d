"""Where messages are parsed: libxml2 keeps every name that a thread has met for its life."""

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from gateway.parsing import (
    DOCUMENTS,
    LARGE,
    LEARNT,
    LEARNT_OF_ONE,
    SMALL,
    Busy,
    Parsing,
    RenewedThread,
)
from gateway.parsing.fair_queue import AT_A_TIME
from tests.rigs.waiting import DEADLINE


@pytest.fixture
def parsing() -> Iterator[Parsing]:
    one = Parsing()
    yield one
    one.close()


Names = set[str] | None


def here(_: Names = None) -> int:
    return threading.get_ident()


async def test_small_messages_stay_on_the_loop(parsing: Parsing) -> None:
    given: list[Names] = []
    await parsing.run_parser(SMALL, given.append, trusted=True)
    await parsing.run_parser(SMALL, given.append, trusted=False)
    assert given == [None, set()]
    assert await parsing.run_parser(SMALL, here, trusted=False) == here()
    assert await parsing.run_parser(SMALL + 1, here, trusted=True) != here()


async def test_who_teaches_many_names_pays_alone(parsing: Parsing) -> None:
    def learn(names: Names) -> int:
        if names is not None:
            names.update(f"{len(names)}.{number}" for number in range(LEARNT_OF_ONE))
        return here()

    assert await parsing.run_parser(100, learn, trusted=False, owner="one") == here()
    assert await parsing.run_parser(100, learn, trusted=False, owner="one") != here()
    assert await parsing.run_parser(100, here, trusted=False, owner="two") == here()


async def test_the_loops_thread_learns_no_more_than_so_many_names(parsing: Parsing) -> None:
    def learn(names: Names) -> None:
        if names is not None:
            names.update(f"{len(names)}.{number}" for number in range(LEARNT_OF_ONE))

    for number in range(LEARNT // LEARNT_OF_ONE):
        assert await parsing.run_parser(100, here, trusted=False, owner="new") == here()
        await parsing.run_parser(100, learn, trusted=False, owner=str(number))
    assert await parsing.run_parser(100, here, trusted=False, owner="new") != here()
    assert await parsing.run_parser(100, here, trusted=True) == here()


async def test_what_cannot_be_read_teaches_names_too(parsing: Parsing) -> None:
    """The names of what is not well-formed are not known, and kept all the same."""
    where = []

    def fail(_: Names) -> None:
        where.append(here())
        raise ValueError

    for _ in range(2):
        with pytest.raises(ValueError):
            await parsing.run_parser(SMALL, fail, trusted=False, owner="one")
    assert where[0] == here() != where[1]
    assert await parsing.run_parser(100, here, trusted=False, owner="two") == here()


async def test_threads_are_replaced(parsing: Parsing) -> None:
    def thread(_: Names) -> threading.Thread:
        return threading.current_thread()

    threads = [
        await parsing.run_parser(SMALL + 1, thread, trusted=False) for _ in range(3 * DOCUMENTS)
    ]
    assert len(set(threads)) >= 2
    assert max(threads.count(one) for one in set(threads)) <= DOCUMENTS + 1


async def test_what_does_not_count_names_is_not_run_on_the_loop(parsing: Parsing) -> None:
    for octets in (0, SMALL, SMALL + 1):
        assert await parsing.run_answer_parser(octets, here, counts=False) != here()
    assert await parsing.run_answer_parser(SMALL, here) == here()


async def test_a_thread_that_is_renewed_does_one_thing_after_the_other() -> None:
    thread, at_work, order = RenewedThread("test"), threading.Lock(), list[int]()

    def work(number: int) -> threading.Thread:
        assert at_work.acquire(blocking=False), "two at a time"
        time.sleep(0.0005)
        order.append(number)
        at_work.release()
        return threading.current_thread()

    numbers = range(3 * DOCUMENTS)
    used = await asyncio.gather(*(thread.run(partial(work, number)) for number in numbers))
    assert order == list(numbers)
    assert sorted(Counter(used).values()) == [DOCUMENTS - 2, DOCUMENTS + 1, DOCUMENTS + 1]
    last = await thread.run(threading.current_thread, documents=DOCUMENTS)
    assert await thread.run(threading.current_thread) is not last
    thread.close()


async def test_each_owner_has_a_turn(parsing: Parsing) -> None:
    """One of another waits for one message of who has sent fifty, not for all."""
    go_on, order = threading.Event(), list[str]()

    def parse(owner: str) -> Callable[[Names], None]:
        def work(_: Names) -> None:
            go_on.wait(DEADLINE)
            order.append(owner)

        return work

    async def send(owner: str) -> None:
        await parsing.run_parser(SMALL + 1, parse(owner), trusted=False, owner=owner)

    async with asyncio.TaskGroup() as group:
        for _ in range(50):
            group.create_task(send("one"))
        await asyncio.sleep(0)
        group.create_task(send("two"))
        group.create_task(send("three"))
        await asyncio.sleep(0)
        go_on.set()
    # Two had their turn before the others came.
    assert {"two", "three"} <= set(order[:6])


async def test_answers_do_not_wait_for_messages(parsing: Parsing) -> None:
    go_on = threading.Event()

    def wait(_: Names) -> bool:
        return go_on.wait(DEADLINE)

    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(parsing.run_parser(LARGE, wait, trusted=False, owner=str(number)))
            for number in range(10)
        ]
        await asyncio.sleep(0)
        fault = await parsing.fault_in(b"<a>" + b" " * SMALL + b"</a>")
        assert fault is None
        assert not any(task.done() for task in tasks)
        go_on.set()
    assert all(task.result() for task in tasks)


async def test_a_stop_refuses_what_waits() -> None:
    parsing, go_on = Parsing(), threading.Event()

    def wait(_: Names) -> bool:
        return go_on.wait(DEADLINE)

    tasks = [asyncio.create_task(parsing.run_parser(LARGE, wait, trusted=False)) for _ in range(10)]
    await asyncio.sleep(0)
    parsing.drain()
    results = await asyncio.gather(*tasks[AT_A_TIME:], return_exceptions=True)
    assert all(isinstance(result, Busy) for result in results)
    go_on.set()
    assert await asyncio.gather(*tasks[:AT_A_TIME]) == [True] * AT_A_TIME
    parsing.close()
