"""Room for the events of a signer, which many ask for at once."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gateway.security.quotas import QuotaExceeded
from gateway.signed_topics import signer_quotas
from gateway.signed_topics.signer_quotas import SignerQuotas
from gateway.store import Store, signed_events
from mediation.event_signatures import EventSignature

NOW = datetime.now(UTC)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    opened = Store.at(tmp_path)
    await opened.start()
    yield opened
    await opened.close()


@pytest.mark.runs_once("it counts how often the store is asked")
@pytest.mark.parametrize(
    ("rooms", "asked", "taken"),
    [
        pytest.param([0], 200, 0, id="full"),
        pytest.param([10], 200, 10, id="almost full"),
        pytest.param([1000, 1000, 0], 3000, 2000, id="one part after the other"),
        pytest.param([1_000_000], 5000, 5000, id="empty"),
    ],
)
async def test_the_store_is_asked_once_for_many(
    store: Store, rooms: list[int], asked: int, taken: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To count takes it a tenth of a second, in which nobody else writes."""
    answers = iter(rooms)
    monkeypatch.setattr(signed_events, "room", lambda *_, **__: next(answers))
    quotas = SignerQuotas(store)
    signature = EventSignature("North mole", "CN=North mole", "e-1", "urn:1", "storms", NOW)
    takes = [quotas.take(signature, NOW.timestamp()) for _ in range(asked)]
    results = await asyncio.gather(*takes, return_exceptions=True)
    refused = [one for one in results if one is not None]
    assert all(isinstance(one, QuotaExceeded) for one in refused)
    assert asked - len(refused) == taken
    assert next(answers, None) is None, "it was asked so often, and no more"


async def test_it_is_asked_again_later(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    free = 0
    monkeypatch.setattr(signed_events, "room", lambda *_, **__: free)
    monkeypatch.setattr(signer_quotas, "AGAIN", 0.0)
    quotas = SignerQuotas(store)
    signature = EventSignature("North mole", "CN=North mole", "e-1", "urn:1", "storms", NOW)
    with pytest.raises(QuotaExceeded):
        await quotas.take(signature, NOW.timestamp())
    free = 1
    await quotas.take(signature, NOW.timestamp())
