"""RabbitMQ's own STOMP plug-in, through the adapter of ActiveMQ."""

import uuid
from pathlib import Path

import pytest

from adapters import Adapter, load
from adapters.testing import AdapterContract
from tests.brokers import RabbitMQ, needs_rabbitmq, rabbitmq

needs_rabbitmq()


@pytest.fixture(scope="module")
def broker() -> RabbitMQ:
    return rabbitmq()


def url_of(broker: RabbitMQ) -> str:
    return broker.at(broker.stomp_port).replace("amqp:", "stomp:")


class TestRabbitMQsPlugIn(AdapterContract):
    """One queue a root, as with ActiveMQ."""

    durable = True

    @pytest.fixture(autouse=True)
    def _broker(self, broker: RabbitMQ) -> None:
        self.url = url_of(broker)
        name = f"contract-{uuid.uuid4().hex[:8]}"
        self.settings = {"name": name, "root": name, "system": "rabbitmq"}

    def make_adapter(self, data: Path) -> Adapter:
        return load(self.url, data=data, settings=self.settings)
