"""A gateway that stops: it holds what it still delivers until that is let go of, however long it
takes, and takes nothing more."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, cast

import pytest

from adapters import Delivery
from gateway.delivery import Dispatcher, Dispatchers, Entry, PartitionShare
from gateway.replicas import alone, membership, partitions
from gateway.replicas.alone import Alone
from gateway.replicas.membership import enter
from gateway.replicas.partitions import Replicas
from gateway.replicas.room import SharingRoom
from gateway.rooms import Room
from gateway.store import Store, replicas
from gateway.store.replicas import HOUSE
from tests.gateway.server.test_application import application
from tests.rigs.stores import execute, sqlite_url
from tests.rigs.waiting import until

COUNT = 2
"""Partitions."""


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (membership, partitions, alone):
        monkeypatch.setattr(module, "RENEW", 0.02)
    monkeypatch.setattr(partitions, "HUNGRY", 0.02)


class Partitions:
    """An adapter that yields nothing, and notes which partitions it was told of."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def share(self) -> None: ...

    async def adopt(self, interest: object) -> None: ...

    def take(self, partition: int) -> None:
        self.told.append(f"take {partition}")

    async def release(self, partition: int) -> None:
        self.told.append(f"release {partition}")

    def arrived(self, delivery: Delivery) -> float:
        return 0.0


class Attempt:
    """A dispatcher whose attempt under way ends once *ends* has returned."""

    def __init__(self, share: PartitionShare, ends: Callable[["Attempt"], Any]) -> None:
        self.share = share
        self.settlement = self
        self.stopped = 0
        self.committed = False
        self._ends = ends

    async def start(self, entries: object) -> None: ...

    async def stop(self, seconds: float) -> None:
        self.stopped += 1
        await self._ends(self)

    async def drained(self) -> bool:
        await asyncio.sleep(0)
        self.committed = True
        return True

    def abandon(self) -> None: ...


class Nothing:
    """Neither subscriptions, nor news of them."""

    entries: tuple[Entry, ...] = ()
    learnt = 0

    def by_id(self, id_: str) -> None: ...

    async def learn(self) -> None:
        self.learnt += 1


class Held(Dispatchers):
    """The dispatchers, without what they send with."""

    def __init__(self) -> None:
        self._of = {}


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    store = Store(sqlite_url(tmp_path))
    await store.start()
    yield store
    await store.close()


class Gateway:
    """The sharing of one gateway, as `SharingRoom` starts it."""

    def __init__(self, store: Store, ends: Callable[[Attempt], Any]) -> None:
        self.adapter, self.nothing, self.held = Partitions(), Nothing(), Held()
        self.attempts: list[Attempt] = []
        self.replicas = Replicas(store, self.adapter, count=COUNT, replica="one", number=1)
        self._ends = ends
        self.room = SharingRoom(
            self.replicas,
            self.held,
            self.nothing,
            learn=self.nothing.learn,
            make_dispatcher=self._make,
            drain=10.0,
        )

    def _make(self, share: PartitionShare) -> Dispatcher:
        self.attempts.append(made := Attempt(share, self._ends))
        return cast(Dispatcher, made)

    async def holds_all(self) -> None:
        await until(lambda: self.replicas._held.keys() == {HOUSE, *range(COUNT)})


def holders(folder: Path) -> list[tuple[object, ...]]:
    """The holders of all partitions, in their order."""
    rows = execute(sqlite_url(folder), "SELECT holder FROM partitions ORDER BY partition")
    return rows[-COUNT:]  # Without that of the house.


async def is_renewed(share: PartitionShare) -> None:
    """Return once the lease of *share* has been renewed."""
    before = share.until
    await until(lambda: share.until > before)


async def test_leases_are_renewed_until_what_is_under_way_has_ended(
    store: Store, tmp_path: Path
) -> None:
    """And whoever holds a partition then has noted how its deliveries ended."""

    async def ends(attempt: Attempt) -> None:
        await is_renewed(attempt.share)
        await is_renewed(attempt.share)
        assert holders(tmp_path)[attempt.share.partition or 0] == ("one",)

    await enter(store, "one", alone=False)
    one = Gateway(store, ends)
    await one.room.start()
    work = asyncio.create_task(one.replicas.run())
    await one.holds_all()
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)
    await one.replicas.stop(10.0)
    assert [attempt.committed for attempt in one.attempts] == [True] * COUNT
    assert holders(tmp_path) == [(None,)] * COUNT


class Behind(Room):
    """A room that is closed before the one that shares the work, and takes its time."""

    def __init__(self, one: Gateway) -> None:
        self._one = one

    async def close(self) -> None:
        for attempt in self._one.attempts:
            await is_renewed(attempt.share)


async def test_leases_are_renewed_while_other_rooms_are_closed(
    store: Store, tmp_path: Path
) -> None:
    await enter(store, "one", alone=False)
    one = Gateway(store, lambda attempt: is_renewed(attempt.share))
    made = application(tmp_path, one.room, Behind(one))
    await made.start()
    await one.holds_all()
    await made.stop()
    assert [attempt.stopped for attempt in one.attempts] == [1] * COUNT


async def test_who_is_to_stop_takes_nothing_more(store: Store, tmp_path: Path) -> None:
    await enter(store, "one", alone=False)
    one = Gateway(store, lambda attempt: is_renewed(attempt.share))
    made = application(tmp_path, one.room)
    made.drain()
    await made.start()
    await until(lambda: one.nothing.learnt > 3)  # Rounds, of which the first would take all.
    assert not one.replicas._held
    await made.stop()


async def test_what_is_being_let_go_of_at_a_stop_is_let_go_of_once(
    store: Store, tmp_path: Path
) -> None:
    """It had begun to leave, for another gateway had come."""
    may_end = asyncio.Event()
    await enter(store, "one", alone=False)
    one = Gateway(store, lambda _: may_end.wait())
    await one.room.start()
    work = asyncio.create_task(one.replicas.run())
    await one.holds_all()
    await enter(store, "two", alone=False)
    await until(lambda: any(attempt.stopped for attempt in one.attempts))
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)
    stopping = asyncio.create_task(one.replicas.stop(10.0))
    await until(lambda: all(attempt.stopped for attempt in one.attempts))
    may_end.set()
    await stopping
    assert [attempt.stopped for attempt in one.attempts] == [1] * COUNT
    assert [attempt.committed for attempt in one.attempts] == [True] * COUNT
    assert sorted(one.adapter.told)[:COUNT] == [f"release {n}" for n in range(COUNT)]


async def test_a_partition_that_is_lost_and_taken_again_is_not_let_go_of(store: Store) -> None:
    """Who was letting go of it meant the lease before."""
    may_end = asyncio.Event()
    await enter(store, "one", alone=False)
    one = Gateway(store, lambda _: may_end.wait())
    await one.room.start()
    work = asyncio.create_task(one.replicas.run())
    await one.holds_all()
    lost = one.replicas._held[1]
    one.replicas._begin_to_let_go(1, 10.0)
    await until(lambda: any(attempt.stopped for attempt in one.attempts))
    lost.share.lost()  # As where a transaction finds that the lease is over.
    await store.submit(lambda c: replicas.release(c, "one", lost.lease))
    await until(lambda: one.replicas._held.get(1) not in (None, lost))
    may_end.set()
    await until(lambda: not one.replicas._leaving)
    assert one.held.of(1) is not None
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)
    await one.replicas.stop(10.0)


class Under(Held):
    """Dispatchers whose stop takes until this gateway has given a sign of life."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self._url = url

    async def stop(self, seconds: float) -> None:
        execute(self._url, "UPDATE replicas SET heartbeat = 0")
        await until(lambda: execute(self._url, "SELECT heartbeat FROM replicas") != [(0,)])


async def test_one_that_is_alone_is_alive_until_its_deliveries_have_ended(
    store: Store, tmp_path: Path
) -> None:
    """Else a second one starts with its store, and sends what it still sends."""
    number = await enter(store, "one", alone=True)
    one = Alone(store, replica="one", number=number)
    one._dispatchers = Under(sqlite_url(tmp_path))
    await one.stop(10.0)
    assert execute(sqlite_url(tmp_path), "SELECT * FROM replicas") == []
