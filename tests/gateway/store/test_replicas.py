"""What replicas share in the store: numbers, leases with fences, and changes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import TypeVar

import pytest
import pytest_asyncio
from sqlalchemy import text

from filters import Refused
from gateway.store import Store, Totals, replicas, totals
from gateway.store.replicas import Added, Changes, Fenced, Lease
from tests.rigs.stores import execute, on_each_store
from tests.rigs.waiting import DEADLINE, until

T = TypeVar("T")
LEASE = 0.5
LONG = 30.0
"""Seconds of leases: that are over soon, and that are not while a store commits slowly."""


@pytest_asyncio.fixture
async def stores(store_url: str) -> AsyncIterator[tuple[Store, Store]]:
    async with AsyncExitStack() as stack:
        both = Store(store_url), Store(store_url)
        for name, store in zip("ab", both, strict=True):
            await store.start()
            stack.push_async_callback(store.close)
            store.number(await store.submit(lambda c, name=name: replicas.register(c, name)))  # type: ignore[misc]
        await both[0].submit(lambda c: replicas.declare(c, range(3)))
        yield both


async def take(
    store: Store, replica: str, partition: int = 0, *, lease: float = LEASE
) -> Lease | None:
    return await store.submit(lambda c: replicas.take(c, replica, partition, lease=lease))


async def renew(
    store: Store, replica: str, *leases: Lease, lease: float = LEASE
) -> replicas.Standing:
    return await store.submit(lambda c: replicas.renew(c, replica, leases, lease=lease))


async def ended(other: Store, partition: int) -> None:
    """Wait until the lease of *partition* is over, as *other* sees it."""

    async def is_free() -> bool:
        return (await renew(other, "b")).holders[partition] is None

    await until(is_free)


async def check(store: Store, replica: str, lease: Lease) -> None:
    await store.submit(lambda c: replicas.check(c, replica, lease))


@on_each_store
async def test_one_holds_it(stores: tuple[Store, Store]) -> None:
    a, b = stores
    first = await take(a, "a", lease=LONG)
    assert first == Lease(0, 1)
    assert await take(b, "b", lease=LONG) is None
    await check(a, "a", first)
    for replica, lease in (("b", first), ("a", Lease(0, 2)), ("a", Lease(1, 1))):
        with pytest.raises(Fenced):
            await check(b, replica, lease)
    standing = await renew(a, "a", first, lease=LONG)
    assert standing.alive == ("a", "b") and standing.kept == {0}
    assert standing.holders == {0: "a", 1: None, 2: None}
    await a.submit(lambda c: replicas.release(c, "a", first))
    assert await take(b, "b", lease=LONG) == Lease(0, 2)
    with pytest.raises(Fenced):
        await check(a, "a", first)
    assert (await renew(a, "a", first, lease=LONG)).kept == frozenset()
    await a.submit(lambda c: replicas.release(c, "a", first))
    assert (await renew(b, "b", lease=LONG)).holders[0] == "b", (
        "a late release takes it from nobody"
    )


@on_each_store
async def test_a_lease_ends(stores: tuple[Store, Store]) -> None:
    """By the database's clock. While nobody else took it, it can be renewed."""
    a, b = stores
    first = await take(a, "a")
    assert first is not None
    await ended(b, 0)
    with pytest.raises(Fenced):
        await check(a, "a", first)
    standing = await renew(b, "b")
    assert standing.alive == ("b",) and standing.holders[0] is None
    assert (await renew(a, "a", first)).kept == {0}
    await check(a, "a", first)
    await ended(b, 0)
    assert await take(b, "b") == Lease(0, 2)
    assert (await renew(a, "a", first)).kept == frozenset()


@pytest.mark.runs_once("its transaction lasts until a lease has ended")
async def test_nobody_takes_it_within_a_transaction(postgresql_url: str) -> None:
    """What a holder does is committed before another one takes over, though its lease ended
    meanwhile; and who wants to take over does not wait for it."""
    async with AsyncExitStack() as stack:
        a, b = Store(postgresql_url), Store(postgresql_url)
        for store in (a, b):
            await store.start()
            stack.push_async_callback(store.close)
        await a.submit(lambda c: replicas.declare(c, range(1)))
        lease = await take(a, "a")
        assert lease is not None
        loop, leave = asyncio.get_running_loop(), asyncio.Event()

        def work(connection: object) -> None:
            replicas.check(connection, "a", lease)  # type: ignore[arg-type]
            asyncio.run_coroutine_threadsafe(leave.wait(), loop).result(DEADLINE)

        working = a.submit(work)
        await ended(b, 0)
        assert await asyncio.wait_for(take(b, "b"), DEADLINE / 2) is None
        leave.set()
        await working
        assert await take(b, "b") == Lease(0, 2)


@on_each_store
async def test_who_started_before_a_migration_is_refused_after_it(
    stores: tuple[Store, Store], store_url: str
) -> None:
    execute(store_url, "UPDATE versions SET version = 9999 WHERE name = 'oldest_schema'")
    with pytest.raises(Refused, match="needs schema 9999, and this one was written for 0"):
        await stores[0].submit(lambda c: replicas.register(c, "c"))


@on_each_store
async def test_numbers(stores: tuple[Store, Store], store_url: str) -> None:
    """The smallest that is free; a replica that starts again has let go of what it held."""
    a, b = stores
    assert execute(store_url, "SELECT id, number FROM replicas ORDER BY id") == [("a", 1), ("b", 2)]
    assert await take(a, "a") is not None
    await a.submit(lambda c: replicas.unregister(c, "a"))
    assert await b.submit(lambda c: replicas.register(c, "c")) == 1
    assert await take(b, "b") == Lease(0, 2)
    assert await b.submit(lambda c: replicas.register(c, "b")) == 2
    assert (await renew(a, "c")).holders[0] is None
    execute(store_url, "UPDATE replicas SET heartbeat = heartbeat - 100 WHERE id = 'c'")
    assert await a.submit(lambda c: replicas.alive(c, lease=8.0)) == ("b",)
    assert await a.submit(lambda c: replicas.register(c, "d")) == 1


@on_each_store
async def test_changes(stores: tuple[Store, Store]) -> None:
    a, b = stores
    known = await b.submit(replicas.version)
    assert await b.submit(lambda c: replicas.changes_since(c, known)) == Changes(known, ())
    for key in ("x", "y", "x"):
        await a.submit(lambda c, key=key: replicas.changed(c, key))  # type: ignore[misc]
    await a.submit(lambda c: replicas.changed(c, "z", {3: (2, 20), 5: (1, 10)}))
    found = await b.submit(lambda c: replicas.changes_since(c, known))
    assert found == Changes(known + 5, ("x", "y"), (Added("z", 3, 2, 20), Added("z", 5, 1, 10)))
    await a.submit(lambda c: c.execute(text("DELETE FROM changes WHERE version <= 2")))
    missed = await b.submit(lambda c: replicas.changes_since(c, known))
    assert missed == Changes(known + 5, None)


@on_each_store
async def test_totals_of_each_replica_are_one_sum(stores: tuple[Store, Store]) -> None:
    one = Totals(matched=1, delivered=1)
    for store in stores:
        await store.submit(lambda c: totals.add(c, {"x": one}))
        await store.submit(lambda c: totals.add_matched(c, ["x"]))
    assert await stores[0].submit(lambda c: totals.read(c, "x")) == Totals(matched=4, delivered=2)
    await stores[1].submit(lambda c: totals.retire(c, "x"))
    await stores[1].submit(lambda c: totals.retire(c, "x"))
    assert await stores[0].submit(lambda c: totals.read(c, "x")) == Totals()
    assert (await stores[0].submit(totals.overall))[0] == Totals(matched=4, delivered=2)
