"""The contract of an adapter, proved with a real RabbitMQ."""

import pytest

from tests.rigs.broker_trials import ContractOverAWire
from tests.rigs.brokers import RabbitMQ, needs_rabbitmq, rabbitmq

needs_rabbitmq()


@pytest.fixture(scope="module")
def broker() -> RabbitMQ:
    return rabbitmq()


class TestRabbitMQ(ContractOverAWire):
    topics_in_order = False


class TestOnePartition(ContractOverAWire):
    def make_settings(self) -> dict[str, str]:
        return {"partitions": "1", "name": "one"}


@pytest.mark.nightly
class TestQuorumQueues(TestRabbitMQ):
    def make_settings(self) -> dict[str, str]:
        return {"queue-type": "quorum", "name": "quorum"}
