"""The store: one writer, all or nothing, in order; and what it says when it cannot."""

import asyncio
import shutil
import sqlite3
import threading
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import pytest_asyncio
from sqlalchemy import Connection, text

from gateway.model.dead_letter_reasons import Death, DeathReason
from gateway.store import (
    HeldRow,
    Store,
    StoreUnavailable,
    Totals,
    dead_letter_counts,
    dead_lettering,
    run_apart,
    totals,
)
from gateway.store import waiting_deliveries as rows
from gateway.store.dead_letter_counts import Died
from gateway.store.engine import MAX_BATCH, MAX_WAITING
from gateway.store.opening import BUSY
from mediation.model.messages import Notification
from tests.rigs.dispatching import notification
from tests.rigs.stores import check_store, on_each_store, outage
from tests.rigs.waiting import until


@pytest_asyncio.fixture
async def store(store_url: str) -> AsyncIterator[Store]:
    one = Store(store_url, probe=0.05)
    await one.start()
    yield one
    await one.close()
    check_store(store_url)


def death(subscription: str, reason: DeathReason = DeathReason.REJECTED) -> Death:
    return Death(subscription, "me", "urn:x", None, reason, 400, None, "no", 1, 0.0, 1.0)


def one_row(subscription: str, position: int) -> HeldRow:
    return HeldRow(subscription, position, 10, 0.0)


async def law(store: Store) -> tuple[Totals, int, int]:
    sums, held, dead = await store.submit(totals.overall)
    assert sums.matched == sums.settled() + held
    assert dead.error == 0
    return sums, held, dead.kept


@on_each_store
async def test_hold_once(store: Store) -> None:
    """A row, or a dead letter, of one message for one subscription is there once."""
    message = notification("1")
    work = [(message, one_row("a", 1)), (message, one_row("b", 1)), (message, one_row("a", 2))]
    assert await store.submit(lambda c: rows.hold(c, work)) == [True, True, False]
    assert await store.submit(lambda c: rows.hold(c, work)) == [False, False, False]
    assert await store.submit(
        lambda c: rows.hold_all(c, message, ["a", "b", "c"], position=9, octets=1, since=0.0)
    ) == [False, False, True]
    assert await store.submit(lambda c: dead_lettering.bury_held(c, 1, death("a")))
    assert await store.submit(lambda c: rows.hold(c, work[:1])) == [False]
    sums, held, dead = await law(store)
    assert (sums.matched, sums.dead, held, dead) == (3, 1, 2, 1)


@pytest.mark.parametrize("name", ["a?b=1", "c#d", "e%20f", "g[1]", "h i", "k:@l", "m\\n"])
async def test_a_folder_may_have_any_name(tmp_path: Path, name: str) -> None:
    """It is part of a URL, in which these mean something."""
    folder = tmp_path / name
    folder.mkdir()
    store = Store.at(folder)
    await store.start()
    await store.close()
    assert [path.name for path in folder.glob("*.db")] == ["store.db"]
    assert [path.name for path in tmp_path.iterdir()] == [name]


@on_each_store
async def test_many_of_one_message(store: Store) -> None:
    subscriptions = [f"s{number}" for number in range(3000)]
    message = notification("1", 1000)
    kept = await store.submit(
        lambda c: rows.hold_all(c, message, subscriptions, position=1, octets=1000, since=0.0)
    )
    assert all(kept)
    again = [(message, one_row(name, 5)) for name in subscriptions]
    assert not any(await store.submit(lambda c: rows.hold(c, again)))
    await store.submit(lambda c: rows.delivered(c, [(name, 1) for name in subscriptions[:2999]]))
    sums, held, _ = await law(store)
    assert (sums.matched, sums.delivered, held) == (3000, 2999, 1)


@on_each_store
async def test_the_newest_dead_letters_are_counted_by_reason(store: Store) -> None:
    assert await store.submit(rows.oldest) is None
    work = [(notification(str(n)), one_row("a", n)._replace(since=50.0 - n)) for n in range(5)]
    await store.submit(lambda c: rows.hold(c, work))
    for n, reason in enumerate((DeathReason.REJECTED, DeathReason.EXHAUSTED, DeathReason.REJECTED)):
        died = replace(death("a", reason), died=100.0 + n)
        await store.submit(partial(dead_lettering.bury_held, position=n, death=died))
    assert await store.submit(rows.oldest) == 46.0
    counted = await store.submit(partial(dead_letter_counts.by_reason, since=101.5))
    assert counted == {"rejected": Died(2, 1), "exhausted": Died(1, 0)}
    newest = await store.submit(partial(dead_letter_counts.by_reason, since=0.0, newest=1))
    assert newest == {"rejected": Died(1, 1)}


@on_each_store
async def test_delivered_takes_what_is_named_alone(store: Store) -> None:
    """Two subscriptions share positions; a row that is gone counts for nothing."""
    for number in (1, 2):
        message = notification(str(number))
        work = [(message, one_row(name, number)) for name in ("a", "b")]
        await store.submit(lambda c, work=work: rows.hold(c, work))  # type: ignore[misc]
    await store.submit(lambda c: rows.delivered(c, [("a", 1), ("b", 2), ("b", 3), ("c", 1)]))
    left = await store.submit(
        lambda c: [
            (row.subscription, row.position)
            for name in ("a", "b")
            for row, _ in rows.load(c, name, limit=9)
        ]
    )
    assert left == [("a", 2), ("b", 1)]
    sums, _, _ = await law(store)
    assert sums.delivered == 2


@on_each_store
async def test_load_in_order_and_bounded(store: Store) -> None:
    for number in range(10):
        work = [(notification(str(number), 400_000), HeldRow("a", 100 - number, 400_000, 0.0))]
        await store.submit(lambda c, work=work: rows.hold(c, work))  # type: ignore[misc]
    loaded = await store.submit(lambda c: rows.load(c, "a", limit=16))
    assert [row.position for row, _ in loaded] == [91, 92]
    assert loaded[0][1] == notification_like(loaded[0][1], "9", 400_000)


def notification_like(read: Notification, number: str, filling: int) -> Notification:
    """What was stored; times lose nothing on the way."""
    return replace(notification(number, filling), time=read.time, properties=read.properties)


@on_each_store
async def test_leftovers_of_ended_subscriptions(store: Store) -> None:
    """A crash between the end of a subscription and that of its last rows."""
    work = [(notification("1"), one_row("ended", 1))]
    await store.submit(lambda c: rows.hold(c, work))
    await store.submit(lambda c: rows.drop_without_subscription(c))
    sums, held, _ = await law(store)
    assert (sums.matched, sums.cancelled, held) == (1, 1, 0)
    assert await store.submit(lambda c: totals.read(c, totals.ENDED)) == sums


@on_each_store
async def test_a_large_backlog_ends_in_slices(store: Store, store_url: str) -> None:
    """The law holds after each; what a crash leaves goes in slices, too."""
    number = 2 * rows.DROPPED + 1
    for name in ("ended", "crashed"):
        work = [(notification(f"{name} {each}"), one_row(name, each + 1)) for each in range(number)]
        await store.submit(lambda c, work=work: rows.hold(c, work))  # type: ignore[misc]
    slices = [
        (await store.submit(lambda c: rows.drop(c, "ended", expired=True)), await law(store))
        for _ in range(3)
    ]
    assert [done for done, _ in slices] == [False, False, True]
    for (_, (sums, waiting, _)), gone in zip(slices, (256, 512, 513), strict=True):
        assert (sums.matched, sums.expired, waiting) == (2 * number, gone, 2 * number - gone)
    leftovers = 0
    while not await store.submit(rows.drop_without_subscription):
        leftovers += 1
    assert leftovers == 3
    sums, waiting, _ = await law(store)
    assert (sums.expired, sums.cancelled, waiting) == (number, number, 0)
    assert await store.submit(lambda c: totals.read(c, totals.ENDED)) == sums
    check_store(store_url)


@on_each_store
async def test_a_few_large_messages_are_a_slice(store: Store) -> None:
    half = rows.DROPPED_OCTETS // 2
    work = [(notification(str(each)), HeldRow("a", each, half, 0.0)) for each in range(1, 4)]
    await store.submit(lambda c: rows.hold(c, work))
    assert not await store.submit(lambda c: rows.drop(c, "a", expired=False))
    assert (await law(store))[1] == 1
    assert await store.submit(lambda c: rows.drop(c, "a", expired=False))


@on_each_store
async def test_one_error_spoils_nobody_else(store: Store) -> None:
    """They share a commit; each by itself, the bad one fails and the others are there."""

    def bad(connection: Connection) -> None:
        totals.add(connection, {"bad": Totals(matched=1, delivered=1)})
        connection.execute(text("INSERT INTO totals (subscription) VALUES (NULL)"))

    def good(name: str) -> "asyncio.Future[None]":
        change = {name: Totals(matched=1, delivered=1)}
        return store.submit(lambda connection: totals.add(connection, change))

    first, wrong, last = good("first"), store.submit(bad), good("last")
    await first
    with pytest.raises(Exception, match=r"(?i)not.null"):
        await wrong
    await last
    assert store.writable, "nothing is wrong with the database"
    assert (await law(store))[0].matched == 2


@on_each_store
async def test_savepoints(store: Store) -> None:
    def good(connection: Connection) -> str:
        totals.add(connection, {"good": Totals(matched=1, delivered=1)})
        return "done"

    def bad(connection: Connection) -> str:
        totals.add(connection, {"bad": Totals(matched=1, delivered=1)})
        raise KeyError("bad")

    results = await store.submit(lambda connection: run_apart([good, bad, good], connection))
    assert results[0] == results[2] == "done"
    assert isinstance(results[1], KeyError)
    assert (await law(store))[0].matched == 2


@on_each_store
async def test_locked_out(store: Store, store_url: str) -> None:
    """Refused in the time of one try, however many wait; and it comes back by itself."""
    with outage(store_url):
        clock = asyncio.get_running_loop().time
        began = clock()
        with pytest.raises(StoreUnavailable):
            await store.submit(lambda c: totals.read(c, "x"))
        one = clock() - began
        began = clock()
        several = [store.submit(lambda c: totals.read(c, "x")) for _ in range(100)]
        for outcome in await asyncio.gather(*several, return_exceptions=True):
            assert isinstance(outcome, StoreUnavailable)
        assert clock() - began < 20 * (one + BUSY), "each waited for its own try"
        assert not store.writable
    await until(lambda: store.writable)
    await store.submit(lambda c: totals.read(c, "x"))


@on_each_store
async def test_too_many_wait(store: Store) -> None:
    leave = threading.Event()
    first = store.submit(lambda _: leave.wait(10))
    waiting = []
    with pytest.raises(StoreUnavailable):
        for _ in range(MAX_WAITING + MAX_BATCH + 2):
            waiting.append(store.submit(lambda _: None))
    leave.set()
    await asyncio.gather(first, *waiting)


async def test_not_a_database(tmp_path: Path) -> None:
    (tmp_path / "store.db").write_bytes(b"This is no database, but it is somebody's file." * 100)
    store = Store.at(tmp_path)
    with pytest.raises(StoreUnavailable, match="not a database"):
        await store.start()
    async with asyncio.timeout(20):  # Nothing has begun that a close would wait for.
        await store.close()
    assert (tmp_path / "store.db").read_bytes().startswith(b"This is")


async def test_damaged_after_an_unclean_end(tmp_path: Path) -> None:
    """It is looked at before it is used, and never replaced."""
    store = Store.at(tmp_path / "made")
    (tmp_path / "made").mkdir()
    await store.start()
    for number in range(200):
        work = [(notification(str(number), 2000), one_row("a", number))]
        await store.submit(lambda c, work=work: rows.hold(c, work))  # type: ignore[misc]
    left = tmp_path / "left"
    shutil.copytree(tmp_path / "made", left)  # As kill -9 leaves it: the log is not empty.
    await store.close()
    assert (left / "store.db-wal").stat().st_size
    again = Store.at(left)
    await again.start()
    await again.close()
    with sqlite3.connect(left / "store.db") as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    octets = bytearray((left / "store.db").read_bytes())
    for page in range(4, len(octets) // 4096, 3):
        octets[page * 4096 : page * 4096 + 64] = b"\xff" * 64
    (left / "store.db").write_bytes(octets)
    (left / "store.db-wal").write_bytes(b"x" * 100)
    with pytest.raises(StoreUnavailable, match=r"damaged|malformed"):
        await Store.at(left).start()
    assert (left / "store.db").read_bytes() == octets
