"""The store on PostgreSQL: what a network and other replicas can do to a transaction."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

import pytest
import pytest_asyncio
from sqlalchemy import Connection, event, text
from sqlalchemy.exc import OperationalError

from gateway.store import Store, StoreUnavailable, Totals, dead_lettering, totals
from gateway.store import waiting_deliveries as rows
from tests.gateway.store.test_store import death, one_row
from tests.rigs.dispatching import notification
from tests.rigs.stores import check_store, execute, outage
from tests.rigs.waiting import DEADLINE, until

ONE = Totals(matched=1, delivered=1)


@pytest_asyncio.fixture
async def stores(postgresql_url: str) -> AsyncIterator[tuple[Store, Store]]:
    """Two replicas' stores of one database."""
    async with AsyncExitStack() as stack:
        both = Store(postgresql_url, probe=0.05), Store(postgresql_url, probe=0.05)
        for store in both:
            await store.start()
            stack.push_async_callback(store.close)
        yield both
    check_store(postgresql_url)


def count(connection: Connection) -> None:
    totals.add(connection, {"a": ONE})


async def counted(store: Store) -> int:
    return (await store.submit(lambda c: totals.read(c, "a"))).matched


@pytest.mark.parametrize("committed", [True, False])
async def test_a_commit_without_an_answer(stores: tuple[Store, Store], committed: bool) -> None:
    """The connection breaks as a transaction is committed: it is done once, whether the server
    had done it or not."""
    store, other = stores
    broken: list[Any] = []

    def break_it(connection: Connection) -> None:
        if not broken:
            raw: Any = connection.connection.dbapi_connection
            broken.append(raw)
            if committed:
                raw.execute("COMMIT")
            raw.close()

    event.listen(store._engine, "commit", break_it)
    await asyncio.gather(store.submit(count), store.submit(count))
    assert broken
    assert await counted(other) == 2


async def test_a_commit_in_doubt_while_the_server_is_away(
    stores: tuple[Store, Store], postgresql_url: str
) -> None:
    """What comes meanwhile is refused; what is in doubt is known when the server is there again."""
    store, _ = stores
    away = outage(postgresql_url)

    broken: list[Any] = []

    def break_it(connection: Connection) -> None:
        if not broken:
            raw: Any = connection.connection.dbapi_connection
            broken.append(raw)
            raw.execute("COMMIT")
            raw.close()
            away.__enter__()

    event.listen(store._engine, "commit", break_it)
    doubtful = store.submit(count)
    await until(lambda: bool(broken))
    with pytest.raises(StoreUnavailable):
        async with asyncio.timeout(60):
            while True:
                await store.submit(lambda c: totals.read(c, "a"))
    assert not doubtful.done() and not store.writable
    away.__exit__(None, None, None)
    async with asyncio.timeout(60):
        await doubtful
    await until(lambda: store.writable)
    assert await counted(store) == 1


async def test_a_connection_that_broke_while_nobody_looked(
    stores: tuple[Store, Store], postgresql_url: str
) -> None:
    """One failure of a connection is none of the store."""
    store, _ = stores
    await store.submit(count)
    with outage(postgresql_url):
        pass
    await store.submit(count)
    assert await counted(store) == 2


async def test_replicas_in_each_others_way(stores: tuple[Store, Store]) -> None:
    """The same messages, in opposite orders, and messages that the other one removes."""
    messages = [notification(str(number)) for number in range(8)]

    def work(name: str, order: int) -> Any:
        def operation(connection: Connection) -> None:
            for number, message in list(enumerate(messages))[::order]:
                assert rows.hold(connection, [(message, one_row(name, number))]) == [True]

        return operation

    def done(name: str) -> Any:
        return lambda c: rows.delivered(c, [(name, number) for number in range(8)])

    async def run(store: Store, name: str, order: int) -> None:
        for turn in range(6):
            await store.submit(work(f"{name}{turn}", order))
            await store.submit(done(f"{name}{turn}"))

    async with asyncio.timeout(60):
        await asyncio.gather(run(stores[0], "a", 1), run(stores[1], "b", -1))
    sums, held, _ = await stores[0].submit(totals.overall)
    assert (sums.matched, sums.delivered, held) == (96, 96, 0)


async def test_a_transaction_that_hangs_is_ended(
    stores: tuple[Store, Store], postgresql_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A replica that is frozen within a transaction lets go of its rows."""
    frozen, other = stores
    await frozen.submit(count)
    begun, leave = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def hang(connection: Connection) -> None:
        connection.execute(text("SET idle_in_transaction_session_timeout = 300"))
        count(connection)
        loop.call_soon_threadsafe(begun.set)
        if not leave.is_set():
            asyncio.run_coroutine_threadsafe(leave.wait(), loop).result(DEADLINE)

    hanging = frozen.submit(hang)
    await begun.wait()
    await asyncio.wait_for(other.submit(count), DEADLINE)
    leave.set()
    await asyncio.wait_for(hanging, DEADLINE)
    assert await counted(other) == 3


async def test_text_that_postgresql_does_not_have(stores: tuple[Store, Store]) -> None:
    store, _ = stores
    message = replace(notification("1"), id="a\0b")
    died = replace(death("a"), answer="no\0", topic="t\0")
    await store.submit(lambda c: dead_lettering.bury_fresh(c, message, died))
    await store.submit(lambda c: rows.hold(c, [(message, one_row("b", 1))]))
    [(loaded, read)] = await store.submit(lambda c: rows.load(c, "b", limit=9))
    assert loaded.message and read.payload == message.payload


async def test_durability_is_not_the_databases_choice(postgresql_url: str) -> None:
    name = postgresql_url.rpartition("/")[2]
    execute(postgresql_url, f"ALTER DATABASE {name} SET synchronous_commit = off")
    for power_safe, expected in ((True, "on"), (False, "off")):
        store = Store(postgresql_url, power_safe=power_safe)
        await store.start()
        found = await store.submit(lambda c: c.execute(text("SHOW synchronous_commit")).scalar())
        await store.close()
        assert found == expected


async def test_what_exceeds_a_limit_of_the_server_is_no_outage(stores: tuple[Store, Store]) -> None:
    """An index takes 2,704 octets; what is longer spoils nothing but itself."""
    store, _ = stores

    def too_long(connection: Connection) -> None:
        row = {"id": random.Random(1).randbytes(6000).hex()}
        connection.execute(
            text("INSERT INTO replicas (number, id, heartbeat) VALUES (900, :id, 0)"), row
        )

    refused, counted_ = store.submit(too_long), store.submit(count)
    with pytest.raises(OperationalError):
        await refused
    await counted_
    assert store.writable
    assert await counted(store) == 1
