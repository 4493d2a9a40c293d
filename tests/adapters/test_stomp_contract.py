"""The contract of an adapter, proved with a real ActiveMQ, and with RabbitMQ's STOMP plug-in."""

import uuid
from pathlib import Path

import pytest

from adapters import Adapter, load
from adapters.testing import AdapterContract
from tests.activemq import ActiveMQ, activemq, needs_activemq

needs_activemq()


@pytest.fixture(scope="module")
def broker() -> ActiveMQ:
    return activemq()


class TestActiveMQ(AdapterContract):
    durable = True

    @pytest.fixture(autouse=True)
    def _broker(self, broker: ActiveMQ) -> None:
        self.url = broker.url
        # A root of its own keeps a test from what others left unsettled, and fills no queue of theirs.
        name = f"contract-{uuid.uuid4().hex[:8]}"
        self.settings = {"name": name, "root": name}

    def make_adapter(self, data: Path) -> Adapter:
        return load(self.url, data=data, settings=self.settings)
