"""A receiver as its guide starts it, and clients as they come."""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from mediation.model.messages import EndpointReference
from mediation.model.versions import Soap, Wsa
from mediation.reliable_messaging import CreateSequence, Rm, RmSpec, write_message
from tests.conftest import ROOT
from tests.rigs.gateways import read_http
from tests.rigs.ports import free_ports
from tests.rigs.waiting import until

DEADLINE = 60.0
H2C = (
    b"Connection: Upgrade, HTTP2-Settings\r\n"
    b"HTTP2-Settings: AAEAAEAAAAIAAAAAAAMAAAAAAAQBAAAAAAUAAEAAAAYABgAA\r\n"
    b"Upgrade: h2c\r\n"
)
"""As Java's HttpClient sends them with the first request of a connection."""


def guide() -> str:
    """The warehouse of docs/reliable.md, as it stands there."""
    text = (ROOT / "docs/reliable.md").read_text()
    return text.partition("A warehouse, `warehouse.py`:\n\n```python\n")[2].partition("```")[0]


def create_sequence(number: int, port: int) -> bytes:
    spoken = RmSpec(Rm.V1_1, Soap.V1_2, Wsa.V2005_08)
    to = EndpointReference(f"http://127.0.0.1:{port}/orders", Wsa.V2005_08)
    back = EndpointReference("http://www.w3.org/2005/08/addressing/anonymous", Wsa.V2005_08)
    return write_message(spoken, CreateSequence(back), to=to, message_id=f"urn:id:{number}")[1]


def post(body: bytes) -> bytes:
    head = b"POST /orders HTTP/1.1\r\n%bContent-Length: %d\r\nHost: 127.0.0.1\r\n"
    head += b"User-Agent: Java-http-client/17.0.9\r\nContent-Type: application/soap+xml\r\n\r\n"
    return head % (H2C, len(body)) + body


@asynccontextmanager
async def started(folder: Path, command: list[str]) -> AsyncIterator[asyncio.subprocess.Process]:
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    process = await asyncio.create_subprocess_exec(*command, cwd=folder, env=environment)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        await asyncio.wait_for(process.wait(), DEADLINE)
    assert process.returncode in (0, -signal.SIGTERM)


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.slow
@pytest.mark.parametrize("way", ["serve", "module"])
async def test_the_guides_warehouse_takes_clients_that_offer_http2(
    way: str, tmp_path: Path
) -> None:
    (port,) = free_ports(1)
    program = guide().replace("8090", str(port))
    assert "app.serve(" in program
    (tmp_path / "warehouse.py").write_text(program)
    command = [sys.executable, "warehouse.py"]
    if way == "module":
        command = [sys.executable, "-m", "gateway.client.serving", "warehouse:app"]
        command += ["--port", str(port)]
    async with started(tmp_path, command) as process:
        await until(lambda: process.returncode is not None or listens(port))
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for number in range(3):
            writer.write(post(create_sequence(number, port)))
            first, _, body = await asyncio.wait_for(read_http(reader), DEADLINE)
            assert first.split(" ")[1] == "200", first
            assert b"CreateSequenceResponse" in body
        writer.close()
