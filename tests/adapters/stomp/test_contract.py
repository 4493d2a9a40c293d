"""The contract of an adapter, proved with a real ActiveMQ, which evaluates selectors itself."""

import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from adapters import Adapter, load
from adapters.testing import DialectContract
from filters import Expression
from tests.rigs.activemq import ActiveMQ, activemq, needs_activemq
from tests.rigs.brokers import Wire, wire_to

needs_activemq()


@pytest.fixture(scope="module")
def broker() -> ActiveMQ:
    return activemq()


class TestActiveMQ(DialectContract):
    durable = True

    wire: Wire

    @pytest_asyncio.fixture(autouse=True)
    async def _broker(self, broker: ActiveMQ) -> AsyncIterator[None]:
        # A root of its own keeps a test from what others left, and fills no queues of theirs.
        name = f"contract-{uuid.uuid4().hex[:8]}"
        self.settings = {"name": name, "root": name}
        async with wire_to(broker.port) as self.wire:
            self.url = broker.at(self.wire.port)
            yield

    async def interrupt(self) -> None:
        await self.wire.cut()

    async def resume(self) -> None:
        await self.wire.join()

    def make_adapter(self, data: Path) -> Adapter:
        return load(self.url, data=data, settings=self.settings)

    def selecting(self, dialect: str, value: str) -> Expression:
        return Expression(f"severity = '{value}'", dialect)

    def broken(self, dialect: str) -> Expression:
        return Expression("severity = = 9", dialect)  # Only the broker sees that.
