"""The contract of an adapter, proved with a real NATS server."""

import signal
from pathlib import Path

import pytest
from server import Server

from adapters import Adapter, load
from adapters.testing import AdapterContract


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

    def make_adapter(self, data: Path) -> Adapter:
        return load(self.url, data=data, settings={})
