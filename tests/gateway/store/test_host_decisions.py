"""Decisions about hosts as rows, in both databases."""

import asyncio
from collections.abc import AsyncIterator

import pytest_asyncio

from gateway.model.host_decisions import Decision, HostDecision
from gateway.store import Store, host_decisions
from tests.rigs.stores import on_each_store


@pytest_asyncio.fixture
async def stores(store_url: str) -> AsyncIterator[tuple[Store, Store]]:
    """Those of two gateways."""
    one, other = Store(store_url), Store(store_url)
    await one.start()
    await other.start()
    yield one, other
    await one.close()
    await other.close()


async def write(store: Store, host: str, decision: Decision, most: int = 9) -> bool:
    kept = HostDecision(host, decision, "user:a", 1.0)
    return await store.submit(lambda rows: host_decisions.write(rows, kept, most=most))


async def test_a_bound_keeps_no_other_decision_about_a_host(stores: tuple[Store, Store]) -> None:
    store, _ = stores
    for host in ("a", "b"):
        assert await write(store, host, Decision.FORBIDDEN)
    assert not await write(store, "c", Decision.FORBIDDEN, most=2)
    assert await write(store, "a", Decision.APPROVED, most=1)
    found = await store.submit(host_decisions.load)
    assert [(one.host, one.decision) for one in found] == [
        ("a", Decision.APPROVED), ("b", Decision.FORBIDDEN)
    ]  # fmt: skip


@on_each_store
async def test_gateways_that_decide_at_once(stores: tuple[Store, Store]) -> None:
    for _ in range(10):
        both = (write(one, "a", Decision.FORBIDDEN) for one in stores)
        assert await asyncio.gather(*both) == [True, True]
        await stores[0].submit(lambda rows: host_decisions.delete(rows, "a"))
