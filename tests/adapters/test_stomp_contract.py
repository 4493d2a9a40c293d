"""The contract of an adapter, proved with a real ActiveMQ, which evaluates selectors itself."""

import uuid
from pathlib import Path

import pytest

from adapters import Adapter, load
from adapters.testing import DialectContract
from filters import Expression
from tests.activemq import ActiveMQ, activemq, needs_activemq

needs_activemq()


@pytest.fixture(scope="module")
def broker() -> ActiveMQ:
    return activemq()


class TestActiveMQ(DialectContract):
    durable = True

    @pytest.fixture(autouse=True)
    def _broker(self, broker: ActiveMQ) -> None:
        self.url = broker.url
        # A root of its own keeps a test from what others left, and fills no queues of theirs.
        name = f"contract-{uuid.uuid4().hex[:8]}"
        self.settings = {"name": name, "root": name}

    def make_adapter(self, data: Path) -> Adapter:
        return load(self.url, data=data, settings=self.settings)

    def selecting(self, dialect: str, value: str) -> Expression:
        return Expression(f"severity = '{value}'", dialect)

    def broken(self, dialect: str) -> Expression:
        return Expression("severity = = 9", dialect)  # Only the broker sees that.
