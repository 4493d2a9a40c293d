"""The contract of an adapter, proved with a real ActiveMQ, which evaluates selectors itself."""

import pytest

from tests.rigs.activemq import ActiveMQ, activemq, needs_activemq
from tests.rigs.broker_trials import SelectorContractOverAWire
from tests.rigs.stomp_adapters import settings_of_a_test

needs_activemq()


@pytest.fixture(scope="module")
def broker() -> ActiveMQ:
    return activemq()


class TestActiveMQ(SelectorContractOverAWire):
    def make_settings(self) -> dict[str, str]:
        return settings_of_a_test()
