"""Fixtures of the gateway's tests."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from gateway.store import Store
from tests.rigs import compiled_statements, store_copies
from tests.rigs.consumers import Consumers
from tests.rigs.gateways import Running, running
from tests.rigs.postgresql import fresh_database, needs_postgresql
from tests.rigs.stores import sqlite_url


@pytest.fixture(scope="session", autouse=True)
def _make_stores_quickly() -> Iterator[None]:
    with store_copies.installed(), compiled_statements.shared():
        yield


@pytest.fixture
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """An empty database: of SQLite, or as `tests.rigs.stores.on_each_store` says."""
    if getattr(request, "param", "sqlite") == "sqlite":
        yield sqlite_url(tmp_path)
        return
    needs_postgresql()
    with fresh_database() as url:
        yield url


@pytest.fixture
def postgresql_url() -> Iterator[str]:
    """An empty database of PostgreSQL."""
    needs_postgresql()
    with fresh_database() as url:
        yield url


@pytest.fixture
async def store(store_url: str) -> AsyncIterator[Store]:
    """A store on an empty database."""
    store = Store(store_url)
    await store.start()
    yield store
    await store.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Running]:
    """One gateway for all tests of a module, with the settings that its GATEWAY names."""
    settings = getattr(request.module, "GATEWAY", {})
    async with running(tmp_path_factory.mktemp("gateway"), **settings) as run:
        yield run


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def consumer() -> AsyncIterator[Consumers]:
    """One listener for all tests of a module; each asks for a fresh URL."""
    async with Consumers() as one:
        yield one
