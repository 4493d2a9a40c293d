"""The deadline of who waits for the store, and what `writable` says meanwhile."""

import asyncio
import gc
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager

import pytest
import pytest_asyncio
from sqlalchemy import Connection, text

from filters import Reason, Refused
from gateway.store import Store, StoreUnavailable, Totals, answered_in_time, totals
from gateway.store.deadline import StoreLate
from tests.rigs.postgresql import PostgreSQL, needs_postgresql, postgresql_cluster
from tests.rigs.waiting import DEADLINE, until

WAITS, LATE = 0.6, 0.3


@pytest_asyncio.fixture
async def store(tmp_path: object) -> AsyncIterator[Store]:
    one = Store(f"sqlite:///{tmp_path}/store.db", probe=0.05, waits=WAITS, late=LATE)
    await one.start()
    yield one
    await one.close()


def count(connection: Connection) -> None:
    totals.add(connection, {"a": Totals(matched=1, delivered=1)})


async def counted(store: Store) -> int:
    return (await store.submit(lambda c: totals.read(c, "a"))).matched


def stalling(go_on: threading.Event) -> Callable[[Connection], None]:
    """An operation whose disk stalls until *go_on* is set."""

    def operation(connection: Connection) -> None:
        count(connection)
        assert go_on.wait(DEADLINE)

    return operation


async def test_what_is_under_way_goes_on_and_its_caller_is_answered(store: Store) -> None:
    """The caller has 503 in time; the work ends as the store does, and memory follows the store."""
    go_on, ended, late = threading.Event(), asyncio.Event(), list[str]()

    async def work() -> str:
        await store.submit(stalling(go_on))
        ended.set()
        return "done"

    async def too_late(result: str) -> None:
        late.append(result)

    with pytest.raises(StoreLate) as raised:
        await answered_in_time(work(), too_late=too_late)
    assert raised.value.reason is Reason.UNAVAILABLE and not ended.is_set()
    go_on.set()
    await asyncio.wait_for(ended.wait(), DEADLINE)
    await until(lambda: late == ["done"])
    assert await counted(store) == 1


async def test_what_waits_in_the_queue_is_never_carried_out(store: Store) -> None:
    go_on = threading.Event()
    under_way = store.submit(stalling(go_on))
    await until(lambda: store._commits.began is not None)
    with pytest.raises(StoreUnavailable):
        await store.submit(count)
    with pytest.raises(StoreUnavailable):  # It is known by now: nobody waits.
        store.submit(count)
    go_on.set()
    await under_way
    assert await counted(store) == 1, "what was refused was carried out"


async def test_writable_is_of_now(store: Store) -> None:
    """Not writable while a commit is under way for long, and again when it has ended."""
    go_on = threading.Event()
    under_way = store.submit(stalling(go_on))
    await until(lambda: not store.writable)
    assert not under_way.done()
    go_on.set()
    await under_way
    await until(lambda: store.writable)


async def test_a_look_finds_what_no_commit_did(store: Store, tmp_path: object) -> None:
    """An idle store does not know that its file is locked, until somebody looks."""
    import sqlite3

    other = sqlite3.connect(f"{tmp_path}/store.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")

    def looks(writable: bool) -> bool:
        store.look()
        return store.writable is writable

    try:
        await until(lambda: looks(False))
    finally:
        other.execute("ROLLBACK")
        other.close()
    await until(lambda: looks(True))


async def test_a_close_does_not_wait_for_what_hangs(store: Store) -> None:
    go_on = threading.Event()
    under_way = store.submit(stalling(go_on))
    await until(lambda: store._commits.began is not None)
    behind = store.submit(count)
    await store.close(0.2)
    with pytest.raises(StoreUnavailable):
        await behind
    go_on.set()
    await under_way


async def test_a_refusal_leaves_nothing_behind(store: Store) -> None:
    """What is raised does not keep itself alive, with all that its frames have."""

    class Large:
        alive = 0

        def __init__(self) -> None:
            Large.alive += 1

        def __del__(self) -> None:
            Large.alive -= 1

    async def refuse() -> None:
        large = Large()
        await store.submit(count)
        raise Refused(Reason.QUOTA, f"no {type(large).__name__}")

    async def ask() -> None:
        with pytest.raises(Refused):
            await answered_in_time(refuse())

    gc.collect()
    gc.disable()
    try:
        for _ in range(20):
            await ask()
        await asyncio.sleep(0)
        assert Large.alive == 0
    finally:
        gc.enable()


@pytest.fixture(scope="module")
def cluster() -> Iterator[PostgreSQL]:
    """One that may be frozen."""
    needs_postgresql()
    with postgresql_cluster() as one:
        yield one


@pytest.mark.slow
@pytest.mark.parametrize("trouble", ["locked", "frozen"])
async def test_a_server_that_does_not_answer(cluster: PostgreSQL, trouble: str) -> None:
    """Somebody has locked all tables, or the server stands still: whoever asks is answered, and
    `writable` tells; then it goes on by itself, and nothing that was refused was done."""
    database = cluster.make_database()
    store = Store(cluster.url(database), probe=0.05, waits=WAITS, late=LATE)
    await store.start()
    await store.submit(count)
    in_trouble: AbstractContextManager[None] = getattr(cluster, trouble)(database)
    done = 0

    async def write() -> None:
        nonlocal done
        await store.submit(count)
        done += 1

    with in_trouble:
        for _ in range(3):
            with pytest.raises(StoreUnavailable):
                await asyncio.wait_for(answered_in_time(write()), DEADLINE)
        await until(lambda: not store.writable)

    async def takes() -> bool:
        try:
            return await store.submit(lambda c: c.execute(text("SELECT 1")).scalar()) == 1
        except StoreUnavailable:
            return False

    await until(takes)
    assert await counted(store) == 1 + done, "memory and store differ"
    assert store.writable
    await store.close()
