"""The contract of an adapter, proved with a real NATS server."""

import json
import signal
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from server import FORBIDDEN, MAX_PAYLOAD, Server

from adapters import Adapter, load
from adapters.testing import AdapterContract
from filters import Step, Topic
from mediation.model.messages import Notification


class TestNats(AdapterContract):
    durable = True

    @pytest.fixture(autouse=True)
    def _server(self, server: Server) -> None:
        self.url = server.url
        self.server = server

    async def interrupt(self) -> None:
        self.server.stop(signal.SIGKILL)

    async def resume(self) -> None:
        await self.server.start_meanwhile()

    def unacceptable(self) -> Sequence[Notification]:
        """Too large; on a subject that may not be published to."""
        forbidden = Topic((Step("urn:" + FORBIDDEN, FORBIDDEN), Step(None, "orders")))
        return [
            self.notification(payload=f"<a>{'x' * MAX_PAYLOAD}</a>"),
            replace(self.notification(), topic=forbidden),
        ]

    def make_adapter(self, data: Path) -> Adapter:
        rows = json.dumps({f"{FORBIDDEN}.>": "urn:" + FORBIDDEN})
        return load(self.url, data=data, settings={"subjects": rows})
