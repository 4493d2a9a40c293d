"""Advertisements of topics as rows, on each store."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from random import Random

import pytest
import pytest_asyncio

from gateway.model.advertisements import AdvertisementLimits, AdvertisementRow, Claimed, Kept
from gateway.store import Store, advertisements, claims, known_topics
from gateway.store.advertisements import LOCK
from tests.rigs.stores import on_each_store

NOW = 1_000.0
ROW = AdvertisementRow(
    "a", "e-1", "tdn-1", 900.0, 2_000.0, 950.0, b"claim", "{urn:t}A/u-a", "{}", b"<a/>"
)


@pytest_asyncio.fixture
async def store(store_url: str) -> AsyncIterator[Store]:
    store = Store(store_url)
    await store.start()
    yield store
    await store.close()


async def keep(
    store: Store,
    *rows: AdvertisementRow,
    limits: AdvertisementLimits = AdvertisementLimits(),  # noqa: B008  # A frozen value.
    now: float = NOW,
) -> list[Kept]:
    operation = partial(advertisements.keep, rows=rows, limits=limits, now=now)
    return await store.submit(operation, locks=(LOCK,))


def numbered(number: int, creator: str = "e-1") -> AdvertisementRow:
    return replace(ROW, topic_id=str(number), creator=creator, expires=2_000.0 + number)


@on_each_store
async def test_the_newer_one_wins(store: Store) -> None:
    newer = replace(ROW, issued=960.0, octets=b"<b/>")
    assert await keep(store, ROW, ROW, newer, ROW) == [
        Kept.NEW, Kept.KNOWN, Kept.NEWER, Kept.KNOWN,
    ]  # fmt: skip
    assert await store.submit(partial(advertisements.load, topic_ids=["a", "b"])) == [newer]
    assert await store.submit(advertisements.count) == (1, 0)


@on_each_store
async def test_another_claim_of_the_topic_changes_nothing(store: Store) -> None:
    await keep(store, ROW)
    assert await keep(store, replace(ROW, issued=999.0, claim=b"x")) == [Kept.CONFLICT]
    assert await store.submit(partial(advertisements.load, topic_ids=["a"])) == [ROW]


@on_each_store
async def test_what_is_withdrawn_stays_so_until_it_would_have_expired(store: Store) -> None:
    await keep(store, ROW)
    withdraw = partial(advertisements.withdraw, topic_id="a")
    assert not await store.submit(partial(withdraw, creator="e-2"))
    assert await store.submit(partial(withdraw, creator="e-1"))
    assert not await store.submit(partial(withdraw, creator="e-1"))
    assert await keep(store, replace(ROW, issued=999.0)) == [Kept.WITHDRAWN]
    assert await store.submit(advertisements.count) == (0, 1)
    await store.submit(partial(advertisements.purge, now=2_000.0))
    assert await store.submit(advertisements.count) == (0, 0)


@on_each_store
async def test_limits(store: Store) -> None:
    few = AdvertisementLimits(in_all=3, of_creator=2)
    rows = [numbered(1), numbered(2), numbered(3), numbered(4, "e-2"), numbered(5, "e-3")]
    assert await keep(store, *rows, limits=few) == [
        Kept.NEW, Kept.NEW, Kept.CREATOR_FULL, Kept.NEW, Kept.FULL,
    ]  # fmt: skip
    # One that expires makes room.
    assert await keep(store, numbered(3), limits=few, now=2_001.0) == [Kept.NEW]


@on_each_store
async def test_withdrawing_does_not_make_room_for_ever(store: Store) -> None:
    few = AdvertisementLimits(in_all=100, of_creator=2)
    kept = []
    for number in range(6):
        kept += await keep(store, numbered(number), limits=few)
        await store.submit(
            partial(advertisements.withdraw, topic_id=str(number), creator="e-1"), locks=(LOCK,)
        )
    assert kept == [Kept.NEW] * 4 + [Kept.CREATOR_FULL] * 2


async def newest_revision(store: Store) -> int:
    _, revision = await store.submit(partial(known_topics.extent, now=0.0))
    return revision


@on_each_store
async def test_replicas_learn_what_changed(store: Store) -> None:
    await keep(store, numbered(1), numbered(2))
    first = await store.submit(partial(advertisements.changed_since, revision=0, limit=10))
    assert [row.topic_id for _, row in first] == ["1", "2"]
    last = await newest_revision(store)
    await store.submit(partial(advertisements.withdraw, topic_id="1", creator="e-1"))
    changed = await store.submit(partial(advertisements.changed_since, revision=last, limit=10))
    assert [(row.topic_id, row.octets) for _, row in changed] == [("1", None)]


async def test_limits_hold_among_replicas(postgresql_url: str) -> None:
    async with AsyncExitStack() as stack:
        stores = Store(postgresql_url), Store(postgresql_url)
        for store in stores:
            await store.start()
            stack.push_async_callback(store.close)
        few = AdvertisementLimits(in_all=5, of_creator=100)
        came = [keep(stores[n % 2], numbered(n), limits=few) for n in range(20)]
        async with asyncio.timeout(50):
            kept = [one for [one] in await asyncio.gather(*came)]
        assert sorted(kept.count(kind) for kind in (Kept.NEW, Kept.FULL)) == [5, 15]


@on_each_store
async def test_many_at_once_are_kept_as_one_after_the_other(store: Store) -> None:
    few = AdvertisementLimits(in_all=5, of_creator=3)
    draw = Random(5)
    rows = [
        replace(
            ROW,
            topic_id=str(topic := number * 7 % 9 if number < 9 else draw.randrange(9)),
            creator=f"e-{topic % 3}",
            issued=950.0 + draw.randrange(4),
            claim=b"claim" if number < 9 or draw.random() < 0.9 else b"another",
            topic=draw.choice([None, "{urn:t}A"]),
            octets=b"<a/>",
        )
        for number in range(120)
    ]
    one_by_one = [kept for row in rows[:60] for kept in await keep(store, row, limits=few)]
    taken_back = partial(advertisements.withdraw, topic_id=rows[0].topic_id)
    await store.submit(partial(taken_back, creator=rows[0].creator), locks=(LOCK,))
    one_by_one += [kept for row in rows[60:] for kept in await keep(store, row, limits=few)]
    assert {*one_by_one} >= {Kept.NEW, Kept.NEWER, Kept.KNOWN, Kept.CONFLICT, Kept.WITHDRAWN}
    changed = await store.submit(partial(advertisements.changed_since, revision=0, limit=100))
    counted = await store.submit(advertisements.count)
    await store.submit(partial(advertisements.purge, now=3_000.0), locks=(LOCK,))
    last = await newest_revision(store)
    assert last == 0

    at_once = await keep(store, *rows[:60], limits=few)
    await store.submit(partial(taken_back, creator=rows[0].creator), locks=(LOCK,))
    at_once += await keep(store, *rows[60:], limits=few)
    assert at_once == one_by_one
    again = await store.submit(partial(advertisements.changed_since, revision=0, limit=100))
    assert [row for _, row in again] == [row for _, row in changed]
    assert await store.submit(advertisements.count) == counted


@on_each_store
async def test_claims_are_purged_in_several_transactions(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that forgot all that a burst left would keep everybody else waiting."""
    monkeypatch.setattr(claims, "AT_ONCE", 2)
    for number in range(3):
        claim = partial(
            claims.claim, sender="e-1", message=str(number), notification="n",
            expires=NOW + 30.0, now=NOW, limits=AdvertisementLimits(),
        )  # fmt: skip
        assert await store.submit(claim, locks=(LOCK,)) is Claimed.YES
    purge = partial(advertisements.purge, now=NOW + 60.0)
    assert [await store.submit(purge, locks=(LOCK,)) for _ in range(2)] == [True, False]
