"""RabbitMQ's own STOMP plug-in, through the adapter of ActiveMQ."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from adapters import Adapter, AdapterUnavailable, load
from adapters.testing import AdapterContract, Inbox
from tests.rigs.adapters import SECONDS, published, reasons, storm
from tests.rigs.brokers import RabbitMQ, Wire, needs_rabbitmq, rabbitmq, wire_to
from tests.rigs.stomp_adapters import running
from tests.rigs.waiting import until

needs_rabbitmq()


@pytest.fixture(scope="module")
def broker() -> RabbitMQ:
    return rabbitmq()


def url_of(broker: RabbitMQ) -> str:
    return broker.at(broker.stomp_port).replace("amqp:", "stomp:")


class TestRabbitMQsPlugIn(AdapterContract):
    """One queue a root, as with ActiveMQ."""

    durable = True

    wire: Wire

    @pytest_asyncio.fixture(autouse=True)
    async def _broker(self, broker: RabbitMQ) -> AsyncIterator[None]:
        name = f"contract-{uuid.uuid4().hex[:8]}"
        self.settings = {"name": name, "root": name, "system": "rabbitmq"}
        async with wire_to(broker.stomp_port) as self.wire:
            self.url = broker.at(self.wire.port).replace("amqp:", "stomp:")
            yield

    async def interrupt(self) -> None:
        await self.wire.cut()

    async def resume(self) -> None:
        await self.wire.join()

    def make_adapter(self, data: Path) -> Adapter:
        return load(self.url, data=data, settings=self.settings)


async def test_a_queue_is_deleted(broker: RabbitMQ, tmp_path: Path) -> None:
    """It is made again, and what comes from then on arrives."""
    name = f"test-{uuid.uuid4().hex[:12]}"
    async with running(url_of(broker), name, tmp_path, system="rabbitmq") as adapter:
        inbox = Inbox(adapter, SECONDS)
        await adapter.publish([first := storm()])
        assert (await inbox.take(1))[0].notification == first
        await asyncio.to_thread(broker.control, "delete_queue", f"{name}.{name}.>")
        arriving = asyncio.create_task(inbox.next())

        async def arrived() -> bool:
            await published(adapter, storm())  # RabbitMQ confirms what has no queue.
            return arriving.done()

        await until(arrived, SECONDS)
        (await arriving).settle()


async def test_the_wrong_system(
    broker: RabbitMQ, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(url_of(broker), f"test-{uuid.uuid4().hex[:12]}", tmp_path) as adapter:
        with pytest.raises(AdapterUnavailable):
            await adapter.publish([storm()])
    assert "calls itself 'RabbitMQ/" in reasons(caplog)
    assert "see the setting 'system'" in reasons(caplog)
