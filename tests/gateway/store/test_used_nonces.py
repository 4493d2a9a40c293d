"""A nonce counts once until it is forgotten; too many are refused."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from gateway.soap.replay_cache import ReplayCache
from gateway.store import Store, StoreUnavailable, used_nonces
from gateway.store.used_nonces import NoncesFull, use


@pytest_asyncio.fixture
async def store(store_url: str) -> AsyncIterator[Store]:
    opened = Store(store_url)
    await opened.start()
    yield opened
    await opened.close()


async def take(store: Store, user: str, nonce: bytes, *, now: float = 0.0) -> bool:
    return await store.submit(
        lambda connection: use(connection, user, nonce, now=now, until=now + 600)
    )


async def test_a_nonce_counts_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    nonce = b"\xff" * 16
    assert await take(store, "a", nonce)
    assert not await take(store, "a", nonce, now=599.0)
    assert await take(store, "b", nonce)
    monkeypatch.setattr(used_nonces, "EACH", 1)
    assert await take(store, "a", nonce, now=601.0)  # It forgets the others first.
    assert not await take(store, "a", nonce, now=601.0)


async def test_one_that_is_used_several_times(store: Store) -> None:
    """It counts as often as the number of its uses is greater than before, for each user apart."""
    used = ReplayCache(store)
    for user, uses, counts in (
        ("a", 2, True), ("a", 2, False), ("a", 1, False), ("a", 3, True), ("b", 1, True),
        ("a", 2**32 - 1, True), ("a", 4, False), ("a", 0, False),
    ):  # fmt: skip
        assert await used.use(user, b"1", uses) is counts, (user, uses)
    together = [used.use("c", b"1", uses) for uses in (1, 1, 1, 2, 2)]
    assert sorted(await asyncio.gather(*together)) == [False, False, False, True, True]


async def test_too_many(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever nonces somebody chooses: they are counted, and others are taken."""
    monkeypatch.setattr(used_nonces, "EACH", 1)
    monkeypatch.setattr(used_nonces, "MOST_OF_ONE", 3)
    monkeypatch.setattr(used_nonces, "MOST", 5)
    for each in range(3):
        assert await take(store, "a", bytes([255, each]))
    with pytest.raises(NoncesFull) as full:
        await take(store, "a", b"\xff\xff")
    assert full.value.of_one
    for each in range(2):
        assert await take(store, "b", bytes([255, each]))
    with pytest.raises(NoncesFull) as full:
        await take(store, "c", b"\xff\xff")
    assert not full.value.of_one
    assert await take(store, "a", b"\x00\x01", now=601.0)


async def test_who_uses_too_many_is_refused_alone(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(used_nonces, "EACH", 1)
    monkeypatch.setattr(used_nonces, "MOST_OF_ONE", 1)
    used = ReplayCache(store)
    assert await used.use("a", b"1")
    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            await used.use("a", b"2")
    assert await used.use("b", b"1")
