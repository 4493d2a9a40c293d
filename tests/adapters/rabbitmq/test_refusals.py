"""What RabbitMQ will never take is refused, and stops nothing else."""

import json
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from adapters import Adapter, load
from adapters.testing.refusals import RefusalContract
from mediation.model.messages import Notification
from tests.rigs.brokers import needs_rabbitmq, own_rabbitmq
from tests.rigs.rabbitmq_adapters import Refusing, refusing

needs_rabbitmq()


@pytest.fixture(scope="module")
def forbidden() -> Iterator[Refusing]:
    with refusing(own_rabbitmq(), f"refusing-{uuid.uuid4().hex[:8]}") as found:
        yield found


class TestRefusals(RefusalContract):
    """Too large; an exchange that may only be read; one that is internal; one that is missing, and
    may not be made."""

    @pytest.fixture(autouse=True)
    def _named(self, forbidden: Refusing) -> None:
        self.forbidden = forbidden
        self.name = f"{forbidden.user}-{uuid.uuid4().hex[:8]}"

    def make_adapter(self, data: Path) -> Adapter:
        rows = [
            {"exchange": exchange, "pattern": "#", "namespace": f"urn:{exchange}"}
            for exchange in self.forbidden.exchanges
        ]
        settings = {"name": self.name, "exchange": self.name, "destinations": json.dumps(rows)}
        return load(self.forbidden.url, data=data, settings=settings)

    def unacceptable(self) -> Sequence[Notification]:
        large = self.notification(payload=f"<a>{'x' * self.forbidden.octets}</a>")
        exchanges = self.forbidden.exchanges
        return [large, *(self.forbidden.on(self.notification(), each) for each in exchanges)]
