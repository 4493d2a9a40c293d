"""What brokers that speak STOMP will never take is refused, and stops nothing else."""

import json
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from adapters import Adapter, load
from adapters.testing.refusals import RefusalContract
from filters import Step, Topic
from mediation.model.messages import Notification
from tests.rigs.activemq import ActiveMQ, activemq_broker, needs_activemq
from tests.rigs.stomp_adapters import AUTHORIZATION

needs_activemq()
LARGEST = 3 * 2**20


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(f"?wireFormat.maxDataLength={LARGEST}", id="data length"),
        pytest.param(
            f"?wireFormat.maxFrameSize={LARGEST}", id="frame size", marks=pytest.mark.nightly
        ),
    ],
)
def broker(request: pytest.FixtureRequest) -> Iterator[ActiveMQ]:
    with activemq_broker(authorization=AUTHORIZATION, query=request.param) as node:
        yield node


class TestRefusals(RefusalContract):
    """Too large; a topic that may only be read."""

    @pytest.fixture(autouse=True)
    def _refusing(self, broker: ActiveMQ) -> None:
        self.url = broker.url
        self.settings = {
            "name": f"refusing-{uuid.uuid4().hex[:8]}",
            "destinations": json.dumps([{"topic": "orders.>", "namespace": "urn:orders"}]),
        }

    def make_adapter(self, data: Path) -> Adapter:
        return load(self.url, data=data, settings=self.settings)

    def unacceptable(self) -> Sequence[Notification]:
        forbidden = Topic((Step("urn:orders", "orders"), Step(None, "new")))
        return [
            self.notification(payload=f"<a>{'x' * LARGEST}</a>"),
            replace(self.notification(), topic=forbidden),
        ]
