"""Deliveries that are looked for by their ids: what that costs is nobody else's."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gateway.observing.traces import MessageTraces
from gateway.security.quotas import QuotaExceeded
from gateway.store import Store, messages
from gateway.subscriptions.message_tracing import MOST_LOOKING, MessageTracing

UNKNOWN = "urn:uuid:00000000-0000-5000-8000-000000000000"


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    opened = Store.at(tmp_path)
    await opened.start()
    yield opened
    await opened.close()


async def test_many_at_once_are_looked_for_one_after_the_other(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Among what is the tenant's; others write in between, and other tenants do not wait."""
    under_way, most, tenants = 0, 0, set()
    submit = store.submit

    def count(*_: Any, tenant: str | None, **__: Any) -> list[str]:
        tenants.add(tenant)
        return []

    async def counted(operation: Any) -> Any:
        nonlocal under_way, most
        looks = getattr(operation, "func", None) is count
        under_way += looks
        most = max(most, under_way)
        try:
            return await submit(operation)
        finally:
            under_way -= looks

    monkeypatch.setattr(messages, "ids_delivered_as", count)
    monkeypatch.setattr(store, "submit", counted)
    tracing = MessageTracing(MessageTraces(), store)
    asked = [tracing.trace(UNKNOWN, "acme") for _ in range(3 * MOST_LOOKING)]
    answers = await asyncio.gather(*asked, tracing.trace(UNKNOWN, "few"), return_exceptions=True)
    refused = [one for one in answers if isinstance(one, QuotaExceeded)]
    assert len(refused) == 2 * MOST_LOOKING
    assert all(one == [] for one in answers if one not in refused)
    assert most == 2 and tenants == {"acme", "few"}
    assert await tracing.trace(UNKNOWN, "acme") == []
