"""The contract of an adapter, proved with a real RabbitMQ."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from adapters import Adapter, load
from adapters.testing import AdapterContract
from tests.rigs.brokers import RabbitMQ, Wire, needs_rabbitmq, rabbitmq, wire_to

needs_rabbitmq()


@pytest.fixture(scope="module")
def broker() -> RabbitMQ:
    return rabbitmq()


class TestRabbitMQ(AdapterContract):
    durable = True
    topics_in_order = False

    wire: Wire

    @pytest_asyncio.fixture(autouse=True)
    async def _broker(self, broker: RabbitMQ) -> AsyncIterator[None]:
        async with wire_to(broker.port) as self.wire:
            self.url = broker.at(self.wire.port)
            yield

    async def interrupt(self) -> None:
        await self.wire.cut()

    async def resume(self) -> None:
        await self.wire.join()

    def make_adapter(self, data: Path) -> Adapter:
        return load(self.url, data=data, settings={})


class TestOnePartition(TestRabbitMQ):
    topics_in_order = True

    def make_adapter(self, data: Path) -> Adapter:
        return load(self.url, data=data, settings={"partitions": "1", "name": "one"})


class TestQuorumQueues(TestRabbitMQ):
    def make_adapter(self, data: Path) -> Adapter:
        return load(self.url, data=data, settings={"queue-type": "quorum", "name": "quorum"})
