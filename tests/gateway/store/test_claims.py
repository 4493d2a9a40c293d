"""Messages and proofs that count once, on each store."""

import sqlite3
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest
import pytest_asyncio
from sqlalchemy import Connection, select

from gateway.model.advertisements import AdvertisementLimits, Claimed
from gateway.store import Store, claims
from gateway.store.claims import PROOF
from gateway.store.schema import discovery_claims, discovery_messages
from tests.rigs.stores import on_each_store, sqlite_url

NOW = 1_000.0


@pytest_asyncio.fixture
async def store(store_url: str) -> AsyncIterator[Store]:
    store = Store(store_url)
    await store.start()
    yield store
    await store.close()


@on_each_store
async def test_a_message_is_answered_once(store: Store) -> None:
    claim = partial(claims.claim, sender="e-1", expires=1_030.0, limits=AdvertisementLimits())
    one = partial(claim, message="m", notification="n", now=NOW)
    assert await store.submit(one) is Claimed.YES
    assert await store.submit(one) is Claimed.YES  # The same one, after a crash.
    other = partial(claim, message="m", notification="copy")
    assert await store.submit(partial(other, now=1_029.0)) is Claimed.REPLAYED


@on_each_store
async def test_what_is_claimed_is_bounded(store: Store) -> None:
    few = AdvertisementLimits(requests=3)

    async def claim(message: str, sender: str = "e-1", now: float = NOW) -> Claimed:
        operation = partial(
            claims.claim, sender=sender, message=message, notification=message,
            expires=now + 30.0, now=now, limits=few, kind="create", most=2,
        )  # fmt: skip
        return await store.submit(operation)

    assert [await claim(str(n)) for n in range(3)] == [
        Claimed.YES, Claimed.YES, Claimed.TOO_OFTEN,
    ]  # fmt: skip
    assert [await claim("x", sender) for sender in ("e-2", "e-3")] == [
        Claimed.YES, Claimed.CROWDED,
    ]  # fmt: skip
    assert await claim("3", now=NOW + 61.0) is Claimed.YES


@on_each_store
async def test_one_sender_crowds_nobody_out(store: Store) -> None:
    few = AdvertisementLimits(requests=4, requests_of_sender=2, proofs_of_sender=3)

    async def claim(sender: str, number: int, kind: str = "") -> Claimed:
        message = f"{kind}{number}"
        operation = partial(
            claims.claim, sender=sender, message=message, notification=message,
            expires=NOW + 30.0, now=NOW, limits=few, kind=kind,
        )  # fmt: skip
        return await store.submit(operation)

    yes, crowded = Claimed.YES, Claimed.CROWDED
    assert [await claim("e-1", n) for n in range(3)] == [yes, yes, crowded]
    assert [await claim("e-2", n) for n in range(2)] == [yes, yes]
    assert await claim("e-3", 0) is crowded, "all together"
    assert [await claim("e-1", n, PROOF) for n in range(4)] == [yes, yes, yes, crowded]
    assert [await claim(f"e-{n}", n, PROOF) for n in (2, 3)] == [yes, crowded]


def counted(connection: Connection) -> dict[str, tuple[int, int]]:
    return {
        one: (proofs, requests)
        for one, proofs, requests in connection.execute(select(discovery_claims))
    }


def claimed(
    connection: Connection, sender: str, number: int, kind: str = "", *, now: float = NOW
) -> Claimed:
    return claims.claim(
        connection, sender=sender, message=str(number), notification="n", expires=now + 30.0,
        now=now, limits=AdvertisementLimits(), kind=kind,
    )  # fmt: skip


@on_each_store
async def test_what_is_counted_is_what_is_there(store: Store) -> None:
    def fill(connection: Connection) -> None:
        for number in range(3):
            claimed(connection, "e-1", number, PROOF)
            claimed(connection, "e-2", number, now=NOW + number)

    await store.submit(fill)
    assert await store.submit(counted) == {"": (3, 3), "e-1": (3, 0), "e-2": (0, 3)}
    # The same message, which has expired, and all others that have.
    later = partial(claimed, sender="e-2", number=0, now=NOW + 30.5)
    assert await store.submit(later) is Claimed.YES
    assert await store.submit(counted) == {"": (0, 3), "e-2": (0, 3)}
    assert not await store.submit(partial(claims.forget_expired, now=NOW + 99.0))
    assert await store.submit(counted) == {"": (0, 0)}


@on_each_store
async def test_what_expires_at_once_is_forgotten_in_pieces(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims, "AT_ONCE", 2)

    def fill(connection: Connection) -> None:
        for number in range(9):
            claimed(connection, "e-1", number)

    await store.submit(fill)
    again = partial(claimed, sender="e-1", number=8, now=NOW + 40.0)
    assert await store.submit(again) is Claimed.YES, "the last of them"
    assert await store.submit(counted) == {"": (0, 7), "e-1": (0, 7)}
    few = partial(
        claims.claim, sender="e-1", message="x", notification="n", expires=NOW + 90.0,
        now=NOW + 40.0, limits=AdvertisementLimits(requests=2),
    )  # fmt: skip
    assert await store.submit(few) is Claimed.YES, "where there is no room, all are"
    assert await store.submit(counted) == {"": (0, 2), "e-1": (0, 2)}
    assert await store.submit(partial(few, message="y")) is Claimed.CROWDED


async def test_a_claim_costs_the_same_however_many_are_remembered(tmp_path: Path) -> None:
    store = Store(sqlite_url(tmp_path))
    await store.start()

    def steps_of(connection: Connection, number: int) -> int:
        """Steps of SQLite's machine that claims take."""
        own = connection.connection.driver_connection
        assert isinstance(own, sqlite3.Connection)
        steps = 0

        def step() -> int:
            nonlocal steps
            steps += 1
            return 0

        own.set_progress_handler(step, 1)
        claimed(connection, "e-1", number, PROOF)
        own.set_progress_handler(None, 1)
        return steps

    def compare(connection: Connection) -> tuple[int, int]:
        for number in range(20):
            claimed(connection, "e-1", number, PROOF)
        before = steps_of(connection, 20)
        for number in range(21, 300):
            claimed(connection, "e-1", number, PROOF)
        return before, steps_of(connection, 300)

    before, after = await store.submit(compare)
    await store.close()
    assert after < 2 * before, (before, after)


@on_each_store
async def test_what_an_older_version_did_not_count_is_counted(store: Store) -> None:
    """It remembers messages, and forgets those of others, without a word to the counts."""

    def old(connection: Connection) -> None:
        for sender, message, kind in (("e-1", "x", PROOF), ("e-3", "y", ""), ("e-3", "z", "")):
            connection.execute(
                discovery_messages.insert().values(
                    sender=sender, message=message, notification="n", kind=kind, at=NOW,
                    expires=NOW + 30.0,
                )
            )  # fmt: skip
        connection.execute(discovery_messages.delete().where(discovery_messages.c.sender == "e-2"))

    assert not await store.submit(claims.recount)
    for sender in ("e-1", "e-2"):
        await store.submit(partial(claimed, sender=sender, number=1))
    assert not await store.submit(claims.recount), "they are right"
    await store.submit(old)
    assert await store.submit(counted) == {"": (0, 2), "e-1": (0, 1), "e-2": (0, 1)}
    assert await store.submit(claims.recount)
    assert await store.submit(counted) == {"": (1, 3), "e-1": (1, 1), "e-3": (0, 2)}
    assert not await store.submit(partial(claims.forget_expired, now=NOW + 99.0))
    assert await store.submit(counted) == {"": (0, 0)}
