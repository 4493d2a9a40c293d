"""A gateway and a consumer, which the tests of one foreign program share."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.rigs.consumers import Consumers
from tests.rigs.gateways import Running, running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Running]:
    async with running(tmp_path_factory.mktemp("gateway")) as run:
        yield run


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def consumer() -> AsyncIterator[Consumers]:
    async with Consumers() as one:
        yield one
