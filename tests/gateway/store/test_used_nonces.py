"""A nonce counts once until it is forgotten; too many are refused."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from gateway.store import Store, used_nonces
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


async def test_a_nonce_counts_once(store: Store) -> None:
    first, tidies = b"\xff" * 16, b"\x00" * 16
    assert await take(store, "a", first)
    assert not await take(store, "a", first, now=599.0)
    assert await take(store, "b", first)
    assert await take(store, "a", tidies, now=601.0)  # Forgets the others.
    assert await take(store, "a", first, now=601.0)
    assert not await take(store, "a", tidies, now=601.0)


async def test_too_many(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(used_nonces, "MOST", 3)
    for each in range(3):
        assert await take(store, "a", bytes([255, each]))
    with pytest.raises(NoncesFull):
        await take(store, "a", b"\x00\x00")
    assert await take(store, "a", b"\x00\x01", now=601.0)
