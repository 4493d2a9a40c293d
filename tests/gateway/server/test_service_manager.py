"""What a gateway tells the service manager, and what it does when that asks it to reload."""

import asyncio
import signal
import socket
from pathlib import Path

import pytest

from gateway.server.service_manager import READY, notify
from tests.rigs.processes import gateway_process
from tests.rigs.waiting import until

SECONDS = 60.0


async def told(manager: socket.socket) -> bytes:
    """What comes next."""
    async with asyncio.timeout(SECONDS):
        return await asyncio.get_running_loop().sock_recv(manager, 100)


async def test_ready_reloaded_stopping(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(f"\0dragoman-{tmp_path.name}-{id(tmp_path)}")
        manager.setblocking(False)
        address = manager.getsockname().decode().replace("\0", "@", 1)
        environment = {"NOTIFY_SOCKET": address}
        async with gateway_process(tmp_path / "data", environment) as gateway:
            assert await told(manager) == b"READY=1"
            assert gateway.process is not None
            gateway.process.send_signal(signal.SIGHUP)
            await until(lambda: "tls.none-to-renew" in gateway.log.read_text(), SECONDS)
            assert (await gateway.request("GET", "/readyz")).status == 200
        assert await told(manager) == b"STOPPING=1"


def test_a_manager_that_is_gone_is_no_reason_to_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "nobody"))
    notify(READY)
