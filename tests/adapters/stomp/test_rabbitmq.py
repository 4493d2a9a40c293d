"""RabbitMQ's own STOMP plug-in, through the adapter of ActiveMQ."""

import asyncio
import uuid
from pathlib import Path

import pytest

from adapters import AdapterUnavailable
from adapters.testing import Inbox
from tests.rigs.adapters import SECONDS, published, reasons, storm
from tests.rigs.broker_trials import ContractOverAWire
from tests.rigs.brokers import RabbitMQ, needs_rabbitmq, rabbitmq
from tests.rigs.stomp_adapters import running, settings_of_a_test
from tests.rigs.waiting import until

needs_rabbitmq()


@pytest.fixture(scope="module")
def broker() -> RabbitMQ:
    return rabbitmq()


def url_of(broker: RabbitMQ) -> str:
    return broker.at(broker.stomp_port).replace("amqp:", "stomp:")


class TestRabbitMQsPlugIn(ContractOverAWire):
    """One queue a root, as with ActiveMQ."""

    def port(self, broker: RabbitMQ) -> int:
        return broker.stomp_port

    def url_at(self, broker: RabbitMQ, port: int) -> str:
        return broker.at(port).replace("amqp:", "stomp:")

    def make_settings(self) -> dict[str, str]:
        return {**settings_of_a_test(), "system": "rabbitmq"}


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
