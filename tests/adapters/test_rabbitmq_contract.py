"""The contract of an adapter, proved with a real RabbitMQ."""

from pathlib import Path

import pytest

from adapters import Adapter, load
from adapters.testing import AdapterContract
from tests.brokers import RabbitMQ, needs_rabbitmq, rabbitmq

needs_rabbitmq()


@pytest.fixture(scope="module")
def broker() -> RabbitMQ:
    return rabbitmq()


class TestRabbitMQ(AdapterContract):
    durable = True
    topics_in_order = False

    @pytest.fixture(autouse=True)
    def _broker(self, broker: RabbitMQ) -> None:
        self.url = broker.url

    def make_adapter(self, data: Path) -> Adapter:
        return load(self.url, data=data, settings={})


class TestOnePartition(TestRabbitMQ):
    topics_in_order = True

    def make_adapter(self, data: Path) -> Adapter:
        return load(self.url, data=data, settings={"partitions": "1", "name": "one"})


class TestQuorumQueues(TestRabbitMQ):
    def make_adapter(self, data: Path) -> Adapter:
        return load(self.url, data=data, settings={"queue-type": "quorum", "name": "quorum"})
