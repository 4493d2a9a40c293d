"""Group commit as a property: every order of threads, tasks, cancellations and failures has nobody
answered before the commit of his item, everybody answered by the outcome of his own, and no item
committed twice, out of order, or forgotten."""

import asyncio
import queue
import random
import signal
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.group_commit import CommitQueue, GroupCommit
from tests.rigs.waiting import until

MOST = 4


@given(st.lists(st.sampled_from(["comes", "takes", "ends"]), max_size=60))
def test_one_leads_while_somebody_waits(steps: Sequence[str]) -> None:
    commits: CommitQueue[int] = CommitQueue(MOST)
    came, leader, taken = 0, None, None
    committed: list[int] = []
    for step in steps:
        if step == "comes":
            if commits.add(came):
                assert leader is None
                leader = came
            came += 1
        elif step == "takes" and leader is not None and taken is None:
            taken = commits.take()
            assert leader in taken, "who leads has its own item committed"
            assert len(taken) == min(MOST, came - len(committed))
            committed += taken
        elif step == "ends" and taken is not None:
            leader, taken = commits.end(), None
        assert commits.led == (leader is not None)
        assert leader is not None or not commits.waiting, "who waits is not forgotten"
    assert committed == list(range(len(committed)))


class Disk:
    """What is committed, slowly; an item fails if its number is divisible by 7, and with it, at
    times, the commit as a whole."""

    def __init__(self, seed: int) -> None:
        self.committed: list[int] = []
        self.batches: list[int] = []
        self._random = random.Random(seed)
        self._busy = threading.Lock()

    def commit(self, items: Sequence[int]) -> list[int | Exception]:
        assert self._busy.acquire(blocking=False), "two commits at once"
        try:
            time.sleep(self._random.random() / 500)
            self.batches.append(len(items))
            if all(item % 7 == 0 for item in items):
                raise OSError("nothing was written")
            self.committed += [item for item in items if item % 7]
            return [-item if item % 7 else ValueError(str(item)) for item in items]
        finally:
            self._busy.release()

    def check(self, item: int, outcome: object) -> None:
        if item % 7:
            assert outcome == -item and item in self.committed, "answered before the commit"
        else:
            assert isinstance(outcome, (ValueError, OSError))
            assert isinstance(outcome, OSError) or str(outcome) == str(item), "another's failure"


@pytest.mark.parametrize("seed", range(4))
async def test_threads_and_tasks_share_commits(seed: int) -> None:
    disk, chance = Disk(seed), random.Random(seed)
    commits: GroupCommit[int, int] = GroupCommit(disk.commit, MOST)
    cancelled: set[int] = set()

    def of_thread(first: int) -> None:
        for item in range(first, first + 10):
            try:
                outcome: object = commits.run(item)
            except Exception as error:
                outcome = error
            disk.check(item, outcome)

    async def of_task(first: int) -> None:
        for item in range(first, first + 10):
            future = commits.submit(item)
            if chance.random() < 0.2:
                await asyncio.sleep(chance.random() / 200)
                if future.cancel():
                    cancelled.add(item)
                    continue
            try:
                outcome: object = await future
            except Exception as error:
                outcome = error
            disk.check(item, outcome)

    async with asyncio.timeout(50):
        with ThreadPoolExecutor(8) as pool:
            loop = asyncio.get_running_loop()
            works = [loop.run_in_executor(pool, of_thread, 1000 * n) for n in range(1, 7)]
            await asyncio.gather(*works, *(of_task(1000 * n) for n in range(11, 17)))
            await loop.run_in_executor(pool, commits.close, 50)
    whole = {1000 * n + m for n in (*range(1, 7), *range(11, 17)) for m in range(10)}
    assert len(disk.committed) == len(set(disk.committed)), "committed twice"
    must = {item for item in whole if item % 7} - cancelled
    assert must <= set(disk.committed) <= whole
    assert len(commits) == 0 and commits.began is None
    assert max(disk.batches) <= MOST and sum(disk.batches) / len(disk.batches) > 1.5, "not shared"
    for n in (*range(1, 7), *range(11, 17)):
        mine = [item for item in disk.committed if item // 1000 == n]
        assert mine == sorted(mine), "out of order"


class Held:
    """A commit that waits until it is let go; what it commits is in *batches*."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.begun: queue.SimpleQueue[None] = queue.SimpleQueue()
        self.go: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()

    def commit(self, items: Sequence[int]) -> list[int | Exception]:
        self.batches.append(list(items))
        self.begun.put(None)
        self.go.get(timeout=50)()
        return list(items)

    async def begins(self) -> None:
        await asyncio.to_thread(self.begun.get, True, 50)


def goes_on() -> None:
    pass


def raises(error: BaseException) -> Callable[[], None]:
    def fail() -> None:
        raise error

    return fail


@pytest.mark.parametrize("leaves_out", [True, False])
async def test_a_cancelled_task_leaves_the_others_alone(leaves_out: bool) -> None:
    held = Held()
    commits: GroupCommit[int, int] = GroupCommit(held.commit, 8, leaves_out_cancelled=leaves_out)
    first = commits.submit(0)
    await held.begins()
    others = [commits.submit(item) for item in range(1, 4)]
    first.cancel()  # Too late: it is being committed.
    others[1].cancel()
    for _ in range(2):
        held.go.put(goes_on)
    async with asyncio.timeout(50):
        assert [await others[0], await others[2]] == [1, 3]
    assert held.batches == [[0], [1, 3] if leaves_out else [1, 2, 3]]
    commits.close()


async def test_what_is_refused_is_never_committed() -> None:
    held = Held()
    commits: GroupCommit[int, int] = GroupCommit(held.commit, 8)
    first = commits.submit(0)
    await held.begins()
    others = [commits.submit(item) for item in range(1, 5)]
    commits.refuse(lambda item: item < 3, TimeoutError)
    assert len(commits) == 2 and list(commits.under_way) == [0]
    for _ in range(2):
        held.go.put(goes_on)
    async with asyncio.timeout(50):
        found: list[Any] = await asyncio.gather(first, *others, return_exceptions=True)
    assert [type(each) for each in found] == [int, TimeoutError, TimeoutError, int, int]
    assert held.batches == [[0], [3, 4]]
    commits.close()


@pytest.mark.parametrize("end", [SystemExit(), KeyboardInterrupt()], ids=["exit", "interrupt"])
async def test_a_leader_that_is_ended_hands_the_lead_on(end: BaseException) -> None:
    held = Held()
    commits: GroupCommit[int, int] = GroupCommit(held.commit, 8)
    with ThreadPoolExecutor(4) as pool:
        threads = [pool.submit(commits.run, 0)]
        await held.begins()
        threads.append(pool.submit(commits.run, 1))
        await until(lambda: len(commits) == 1)
        task = commits.submit(2)
        held.go.put(raises(end))
        held.go.put(goes_on)
        async with asyncio.timeout(50):
            assert await task == 2
        assert type(threads[0].exception(50)) is type(end)
        assert threads[1].result(50) == 1
    assert held.batches == [[0], [1, 2]]
    commits.close()


def test_a_thread_that_is_interrupted_still_leads_when_it_is_its_turn() -> None:
    held = Held()
    commits: GroupCommit[int, int] = GroupCommit(held.commit, 1)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    def disturb() -> None:
        while len(commits) < 2:
            time.sleep(0.001)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)
        time.sleep(0.05)
        for _ in range(3):
            held.go.put(goes_on)

    former = signal.signal(signal.SIGUSR1, interrupt)
    try:
        with ThreadPoolExecutor(3) as pool:
            first = pool.submit(commits.run, 0)
            held.begun.get(timeout=50)
            disturbed = pool.submit(disturb)
            last = pool.submit(commits_after, commits, 1)
            with pytest.raises(KeyboardInterrupt):
                commits.run(1)
            disturbed.result(50)
            assert [first.result(50), last.result(50)] == [0, 2]
    finally:
        signal.signal(signal.SIGUSR1, former)
    assert held.batches == [[0], [1], [2]]


def commits_after(commits: GroupCommit[int, int], others: int) -> int:
    while len(commits) < others:
        time.sleep(0.001)
    return commits.run(2)


@pytest.mark.parametrize(
    "end", [SystemExit, asyncio.CancelledError, GeneratorExit, KeyboardInterrupt, BaseException]
)
async def test_an_item_that_ends_its_thread_does_not_end_that_of_all(
    end: type[BaseException],
) -> None:
    held = Held()
    commits: GroupCommit[int, int] = GroupCommit(held.commit, 8)
    first = commits.submit(0)
    held.go.put(raises(end()))
    async with asyncio.timeout(50):
        with pytest.raises(RuntimeError, match="ended"):
            await first
        held.go.put(goes_on)
        assert await commits.submit(1) == 1
    commits.close()


def test_a_thread_that_leads_before_it_slept() -> None:
    """It was given the lead between entering the queue and looking whether it has it."""
    began, may_end, has_ended = threading.Event(), threading.Event(), threading.Event()

    def commit(items: Sequence[str]) -> list[str]:
        if items[0] == "first":
            began.set()
            may_end.wait(10)
        return list(items)

    commits: GroupCommit[str, str] = GroupCommit(commit, 1)
    lock = commits._lock

    class Slow:
        """The lock; a thread named ``second`` is stopped when it has left it."""

        def __enter__(self) -> None:
            lock.acquire()

        def __exit__(self, *_: object) -> None:
            lock.release()
            if threading.current_thread().name == "second" and not has_ended.is_set():
                may_end.set()
                has_ended.wait(10)

    commits._lock = Slow()  # type: ignore[assignment]
    with ThreadPoolExecutor(3) as threads:

        def run(name: str) -> str:
            threading.current_thread().name = name
            return commits.run(name)

        first = threads.submit(run, "first")
        assert began.wait(10)
        second = threads.submit(run, "second")
        assert first.result(10) == "first"
        has_ended.set()
        assert second.result(10) == "second"
        assert threads.submit(run, "third").result(10) == "third"
    assert not commits._queue.led


def test_a_commit_with_too_few_results() -> None:
    """Whoever waits for it is told, and others go on."""
    commits: GroupCommit[int, int] = GroupCommit(lambda items: list(items)[: items[0]], 9)
    with pytest.raises(RuntimeError, match="had 0 results"):
        commits.run(0)
    assert commits.run(1) == 1


def test_nothing_is_left_for_a_thread_that_is_not_there() -> None:
    commits: GroupCommit[int, int] = GroupCommit(list, 9)
    commits.close()
    assert [commits.run(number) for number in range(3)] == [0, 1, 2]
    assert commits._calls.empty()


async def test_the_committing_thread_ends_when_nothing_waits_and_begins_again() -> None:
    held, ended = Held(), threading.Event()
    commits: GroupCommit[int, int] = GroupCommit(held.commit, 1, at_end=ended.set)
    for first in (0, 10):
        ended.clear()
        futures = [commits.submit(first + item) for item in range(3)]
        await held.begins()
        commits.close()
        assert not ended.is_set()
        for _ in futures:
            held.go.put(goes_on)
        async with asyncio.timeout(50):
            assert await asyncio.gather(*futures) == [first, first + 1, first + 2]
        assert await asyncio.to_thread(ended.wait, 50)
        while not held.begun.empty():
            held.begun.get()


def test_tasks_of_several_loops_and_of_a_closed_one() -> None:
    held = Held()
    commits: GroupCommit[int, int] = GroupCommit(held.commit, 8)

    async def submit(item: int) -> "asyncio.Future[int]":
        return commits.submit(item)

    async def run(item: int) -> int:
        return await commits.submit(item)

    gone = asyncio.new_event_loop()
    gone.run_until_complete(submit(0))
    held.begun.get(timeout=50)
    with ThreadPoolExecutor(2) as pool:
        others = [pool.submit(asyncio.run, run(item)) for item in (1, 2)]
        while len(commits) < 2:
            time.sleep(0.001)
        gone.close()
        for _ in range(2):
            held.go.put(goes_on)
        assert [each.result(50) for each in others] == [1, 2]
    assert [sorted(batch) for batch in held.batches] == [[0], [1, 2]]
    commits.close()
