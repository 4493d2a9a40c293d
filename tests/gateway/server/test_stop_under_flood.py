"""SIGTERM while strangers flood every door: the process ends by itself, with 0."""

import asyncio
import contextlib
import itertools
from pathlib import Path

from mediation.model.versions import Soap
from mediation.packaging.dime import DimeMessage, Encoder
from tests.rigs.envelopes import Speaker, notification_message, notify
from tests.rigs.gateways import http_request
from tests.rigs.ports import free_ports
from tests.rigs.processes import STOP, GatewayProcess
from tests.rigs.waiting import until

SPEAKER = Speaker()
FLOODS = 4
"""Connections of strangers at each door."""


def requests(port: int) -> dict[str, bytes]:
    """What strangers send again and again, by the door."""
    large = SPEAKER.envelope(f"<e>{'<a/>' * 20_000}</e>")
    several = SPEAKER.envelope(notify(*[notification_message("<e/>", "t")] * 200))
    subscribing = SPEAKER.envelope(SPEAKER.wse_subscribe("http://127.0.0.1:1/"))
    soap = {"Content-Type": SPEAKER.type}
    event = b'{"specversion":"1.0","id":"%b","source":"/s","type":"t"}' % (b"x" * 500)
    cloud = {"Content-Type": "application/cloudevents+json"}
    return {
        "events": http_request(port, "POST", "/soap", large, soap),
        "batches": http_request(port, "POST", "/soap", several, soap),
        "subscribers": http_request(port, "POST", "/soap", subscribing, soap),
        "CloudEvents": http_request(port, "POST", "/events", event, cloud),
        "boxes": http_request(
            port, "POST", "/mailboxes", b"{}", {"Content-Type": "application/json"}
        ),
        "unfinished": http_request(port, "POST", "/soap", large, soap)[:-100],
    }


class Flood:
    """Strangers at one door, each with a connection for every request."""

    def __init__(self, port: int, octets: bytes, host: str, *, hangs: bool = False) -> None:
        self._port, self._octets, self._host, self._hangs = port, octets, host, hangs
        self.sent = 0

    async def run(self) -> None:
        while True:
            with contextlib.suppress(OSError):
                await self._send()
            await asyncio.sleep(0)

    async def _send(self) -> None:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", self._port, local_addr=(self._host, 0)
        )
        try:
            writer.write(self._octets)
            await writer.drain()
            self.sent += 1
            if not self._hangs:
                await reader.read()
            else:
                await asyncio.sleep(0.05)
        finally:
            writer.transport.abort()


async def test_sigterm_in_a_flood_ends_with_0(tmp_path: Path) -> None:
    [tcp] = free_ports(1)
    gateway = GatewayProcess(tmp_path / "data", {"DRAGOMAN_SOAP_TCP_PORT": str(tcp)})
    await gateway.start()
    wires = requests(gateway.port)
    message = DimeMessage(Soap.V1_2, SPEAKER.envelope("<e/>"))
    dime = Encoder().encode(message) * 20
    hosts = (f"127.0.0.{number}" for number in itertools.count(9))
    floods = [
        Flood(gateway.port, wire, next(hosts), hangs=door == "unfinished")
        for door, wire in wires.items()
        for _ in range(FLOODS)
    ] + [Flood(tcp, dime, next(hosts), hangs=True) for _ in range(FLOODS)]
    tasks = [asyncio.create_task(flood.run()) for flood in floods]
    try:
        await until(lambda: all(flood.sent >= 3 for flood in floods))
        assert await gateway.end(seconds=STOP) == 0, gateway.log.read_text()[-2000:]
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if gateway.process is not None and gateway.process.returncode is None:
            await gateway.kill()
    assert "stop-forced" not in gateway.log.read_text()
