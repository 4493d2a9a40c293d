"""Dead letters on both databases: buried without their bodies, chosen, bounded by bytes."""

import asyncio
import sqlite3
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from functools import partial
from pathlib import Path

import pytest
import pytest_asyncio
from sqlalchemy import Connection, event

from gateway.delivery import backlog as module
from gateway.model.dead_letter_reasons import Death, DeathReason
from gateway.store import Store, Totals, dead_letter_counts, dead_lettering, dead_letters, totals
from gateway.store import waiting_deliveries as rows
from gateway.store.dead_letter_counts import Buried
from gateway.store.dead_lettering import CHARGED, Overflow
from gateway.store.dead_letters import ALL, Selection
from gateway.store.waiting_deliveries import HeldRow
from mediation.rendering import delivery_id
from tests.gateway.web.test_api import SPEAKER, metrics
from tests.rigs.consumers import Consumers
from tests.rigs.dispatching import notification
from tests.rigs.gateways import running
from tests.rigs.stores import check_store, execute, on_each_store, sqlite_url

LARGE = 200_000


@pytest_asyncio.fixture
async def store(store_url: str) -> AsyncIterator[Store]:
    one = Store(store_url)
    await one.start()
    yield one
    _, _, letters = await one.submit(totals.overall)
    assert letters.error == 0
    charged = execute(store_url, "SELECT coalesce(sum(charged), 0) FROM dead_letters")
    assert charged == [(letters.octets,)]
    await one.close()
    check_store(store_url)


def held(connection: Connection, names: str, *numbers: int, filling: int = 100) -> None:
    """Let messages with these numbers wait for each of the subscriptions *names*."""
    for number in numbers:
        message = notification(str(number), filling)
        work = [
            (message, HeldRow(name, number, message.octets, float(number), attempts=number % 2))
            for name in names
        ]
        rows.hold(connection, work)


def overflow(name: str, number: int, **said: object) -> Overflow:
    chosen = {"octets": 0, "before": 0.0, "spared": frozenset(), "failure": "connect", **said}
    return Overflow(name, f"owner of {name}", f"http://{name}/", number, **chosen)  # type: ignore[arg-type]


def dead(name: str, owner: str = "me", died: float = 1.0) -> Death:
    reason = DeathReason.REJECTED
    return Death(name, owner, f"urn:{name}", "storms", reason, 400, None, "", 1, 0.0, died)


@on_each_store
async def test_what_overflows_is_buried_without_its_bodies(store: Store) -> None:
    await store.submit(lambda c: held(c, "ab", 1, 2, 3, 4))
    statements: list[str] = []

    def bury(connection: Connection) -> list[tuple[int, int]]:
        note = event.listens_for(connection, "before_cursor_execute")
        note(lambda *said: statements.append(said[2]))
        overflows = [overflow("a", 2, spared={2}), overflow("b", 9)]
        return dead_lettering.bury_oldest(connection, overflows, died=7.0, limit=5)

    size = notification("1", 100).octets
    assert await store.submit(bury) == [(2, 2 * size), (3, 3 * size)]
    assert not [statement for statement in statements if "body" in statement]
    letters = await store.submit(dead_letters.listed)
    assert [(one.death.subscription, one.death.delivery_id) for one in letters] == [
        (name, delivery_id(notification(str(number), 100), name))
        for name, number in (("a", 1), ("a", 3), ("b", 1), ("b", 2), ("b", 3))
    ]
    assert [letter.death.failure for letter in letters] == [
        *("connect", "connect"),
        *("connect", None, "connect"),
    ]
    assert {letter.death.consumer for letter in letters} == {"http://a/", "http://b/"}
    assert {letter.death.topic for letter in letters} == {None}
    a, b = [await store.submit(partial(totals.read, subscription=name)) for name in "ab"]
    assert (a, b) == (Totals(matched=4, dead=2), Totals(matched=4, dead=3))


@on_each_store
async def test_a_message_is_charged_to_one_of_its_letters(store: Store) -> None:
    """What many died of is stored once; it counts until the last of its letters goes."""
    message = notification("1", LARGE)
    for name in "abc":
        death = dead(name, owner=name)
        await store.submit(lambda c, death=death: dead_lettering.bury_fresh(c, message, death))  # type: ignore[misc]
    whole = message.octets + CHARGED
    for left in ("abc", "bc", "c"):
        charged = await store.submit(dead_letter_counts.by_owner)
        assert charged == {name: whole if name == left[0] else CHARGED for name in left}
        purged = await store.submit(lambda c: dead_letters.purge(c, ALL, limit=1))
        assert purged.chosen == Counter(rejected=1)
    await store.submit(dead_letter_counts.fold)
    assert await store.submit(dead_letter_counts.overall) == Buried(3, 3, 0)


def buried(connection: Connection, name: str, died: Sequence[float], *, octets: int = 10) -> None:
    for number, when in enumerate(died):
        message = notification(f"{name}{number}", octets)
        dead_lettering.bury_fresh(connection, message, dead(name, died=when))


@on_each_store
async def test_what_is_old_goes_slice_by_slice(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letters, "SLICE_OCTETS", 2 * LARGE + 1000)
    await store.submit(partial(buried, name="a", died=[9.0, 1.0, 5.0, 4.0], octets=LARGE))
    await store.submit(partial(buried, name="b", died=[2.0, 6.0, 3.0]))
    old = partial(dead_letters.purge_died, before=5.0, limit=3)
    assert [await store.submit(old) for _ in range(3)] == [3, 1, 0]
    left = [letter.death.died for letter in await store.submit(dead_letters.listed)]
    assert sorted(left) == [5.0, 6.0, 9.0]
    large = partial(dead_letters.purge_died, before=99.0)
    monkeypatch.setattr(dead_letters, "SLICE_OCTETS", LARGE)
    assert [await store.submit(large) for _ in range(4)] == [1, 1, 1, 0]


async def test_what_is_not_old_is_not_read(tmp_path: Path) -> None:
    store = Store(sqlite_url(tmp_path))
    await store.start()

    def steps_of(connection: Connection) -> int:
        """Steps of SQLite's machine that a look takes which finds nothing."""
        own = connection.connection.driver_connection
        assert isinstance(own, sqlite3.Connection)
        steps = 0

        def step() -> int:
            nonlocal steps
            steps += 1
            return 0

        own.set_progress_handler(step, 1)
        assert dead_letters.purge_died(connection, 5.0) == 0
        own.set_progress_handler(None, 1)
        return steps

    await store.submit(partial(buried, name="a", died=[6.0] * 10))
    few = await store.submit(steps_of)
    await store.submit(partial(buried, name="b", died=[7.0] * 200))
    many = await store.submit(steps_of)
    await store.close()
    assert many < 2 * few, (few, many)


async def test_old_letters_are_purged_to_the_last(tmp_path: Path) -> None:
    async with running(tmp_path) as run:
        now = time.time()
        died = [now - dead_letters.KEPT - 1.0] * (dead_letters.SLICE + 3) + [now]
        await run.gateway.store.submit(partial(buried, name="a", died=died))
        await run.gateway.dead_letters.purge_old()
        [left] = await run.gateway.store.submit(dead_letters.listed)
        assert left.death.died == now


@on_each_store
async def test_slices_are_bounded_and_miss_nothing(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letters, "LOOKED", 2)
    monkeypatch.setattr(dead_letters, "SLICE_OCTETS", 3 * LARGE + 1000)
    for number in range(40):
        death = dead("ab"[number % 2], died=float(number))
        message = notification(str(number), LARGE if number < 20 else 10)
        await store.submit(lambda c, m=message, d=death: dead_lettering.bury_fresh(c, m, d))  # type: ignore[misc]
    chosen = Selection(topic=lambda topic: topic == "storms", since=5.0, subscription="b")
    upto = await store.submit(dead_letters.newest)
    after: int | None = 0
    seen = []
    while after is not None:
        work = partial(dead_letters.purge, selection=chosen, after=after, upto=upto, limit=4)
        slice_ = await store.submit(work)
        assert slice_.chosen.total() <= 4 and slice_.octets <= 3 * LARGE + 1000
        seen.append(slice_.chosen.total())
        after = slice_.last
    left = [letter.death for letter in await store.submit(dead_letters.listed)]
    assert sum(seen) == 18 and len(seen) > 4
    assert [death.died for death in left if death.subscription == "b"] == [1.0, 3.0]
    assert len(left) == 22


async def test_the_oldest_letters_of_who_has_most_go_first(tmp_path: Path) -> None:
    bounds = {"dead_letter_bytes": 10 * LARGE, "dead_letter_bytes_per_owner": 8 * LARGE}
    async with running(tmp_path, adapter="embedded:", **bounds) as run:
        store, letters = run.gateway.store, run.gateway.dead_letters
        for number in range(20):
            owner = "small" if number < 2 else "large"
            death, message = dead("a", owner), notification(str(number), LARGE)
            await store.submit(lambda c, m=message, d=death: dead_lettering.bury_fresh(c, m, d))  # type: ignore[misc]
        limits = {"most": 10 * LARGE, "most_of_owner": 8 * LARGE}
        gone = await letters.bound(**limits)
        assert await letters.bound(**limits) == 0
        left = [one.death.owner for one in await store.submit(dead_letters.listed)]
        assert left.count("small") == 2 and left.count("large") == 18 - gone > 4
        assert (await store.submit(dead_letter_counts.overall)).octets <= 10 * LARGE
        assert (await metrics(run))["dragoman_dead_letters_purged_total"] == gone


@pytest.mark.slow
async def test_a_backlog_that_overflows_is_in_nobodys_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many consumers that never answer, and large messages: what overflows is buried a little at a
    time, and a healthy consumer has what came last before all of it is buried."""
    monkeypatch.setattr(module, "BURIED", 1)

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(2**16):
            pass
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, running(tmp_path, adapter="embedded:") as run, Consumers() as consumer:
        [dispatcher] = run.gateway.dispatchers.by_partition.values()
        dispatcher.backlog._most_octets = 300_000
        for number in range(60):
            url = f"http://127.0.0.1:{port}/{number}"
            await run.subscribe(SPEAKER, SPEAKER.wse_subscribe(url))
        url = consumer.fresh()
        await run.subscribe(SPEAKER, SPEAKER.wsn_subscribe(url))
        outboxes = dispatcher.outboxes
        for number in range(20):
            await run.publish(f"<a>{'x' * 100_000}</a>")
            await consumer.next(url)
            if number == 0:
                await run.until(lambda: sum(bool(one.held) for one in outboxes.values()) == 60)
        await run.publish("<small/>")
        last = await consumer.next(url)
        law = await run.gateway.dispatchers.conservation()
        assert b"<small" in last.body
        assert 0 < law.totals.dead < 60 * 17
        run.stop.set()
