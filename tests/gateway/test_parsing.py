"""Where messages are parsed: libxml2 keeps every name that a thread has met for its life."""

import asyncio
import threading
from collections.abc import Iterator

import pytest

from gateway.parsing import DOCUMENTS, LARGE, LEARNT, SMALL, UNREAD, Busy, Parsing
from tests.rigs.waiting import DEADLINE


@pytest.fixture
def parsing() -> Iterator[Parsing]:
    one = Parsing(wait=0.05)
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


async def test_a_thread_learns_no_more_than_so_many_names(parsing: Parsing) -> None:
    def learn(names: Names) -> int:
        if names is not None:
            names.update(str(number) for number in range(LEARNT))
        return here()

    assert await parsing.run_parser(100, learn, trusted=False) == here()
    assert await parsing.run_parser(100, learn, trusted=False) != here()


async def test_what_cannot_be_read_teaches_names_too(parsing: Parsing) -> None:
    """The names of what is not well-formed are not known, and kept all the same."""
    where = []

    def fail(_: Names) -> None:
        where.append(here())
        raise ValueError

    for _ in range(UNREAD // SMALL + 1):
        with pytest.raises(ValueError):
            await parsing.run_parser(SMALL, fail, trusted=False)
    assert set(where[:-1]) == {here()} and where[-1] != here()


async def test_threads_are_replaced(parsing: Parsing) -> None:
    def thread(_: Names) -> threading.Thread:
        return threading.current_thread()

    threads = [
        await parsing.run_parser(SMALL + 1, thread, trusted=False) for _ in range(3 * DOCUMENTS)
    ]
    assert len(set(threads)) >= 2
    assert max(threads.count(one) for one in set(threads)) <= DOCUMENTS + 1


async def test_few_large_messages_at_a_time(parsing: Parsing) -> None:
    go_on = threading.Event()

    def wait(_: Names) -> bool:
        return go_on.wait(DEADLINE)

    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(parsing.run_parser(LARGE + 1, wait, trusted=False)) for _ in range(2)
        ]
        await asyncio.sleep(0)
        with pytest.raises(Busy):
            await parsing.run_parser(LARGE + 1, here, trusted=False)
        go_on.set()
    assert all(task.result() for task in tasks)
    assert await parsing.run_parser(LARGE + 1, here, trusted=False) != here()
