"""Nobody waits for consumers on SOAP.TCP that accept and never read."""

import asyncio
import socket
import statistics
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from mediation.packaging.dime import Decoder
from tests.gateway.server.test_strangers import CEILING, turns
from tests.rigs.consumers import Consumer, Consumers, consumers
from tests.rigs.processes import gateway_process
from tests.rigs.waiting import until

HUNG = 1000
GOOD = 10
"""Of each transport."""
FILLING = 32 * 1024
"""More than the system of a consumer that does not read takes in for it."""
COUNT = 20


class _Reading(asyncio.Protocol):
    def __init__(self, consumer: Consumer, those: set[asyncio.Transport]) -> None:
        self._consumer = consumer
        self._those = those
        self._decoder = Decoder()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._those.add(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._those.discard(self._transport)

    def data_received(self, data: bytes) -> None:
        for message in self._decoder.feed(data):
            self._consumer.receive(None, message.envelope)  # type: ignore[arg-type]


class _Hung(asyncio.Protocol):
    def __init__(self, those: set[asyncio.Transport]) -> None:
        self._those = those

    def connection_lost(self, exc: Exception | None) -> None:
        self._those.discard(self._transport)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        # Not now: the asyncio of Python 3.11.2 begins to read after this, paused or not.
        asyncio.get_running_loop().call_soon(transport.pause_reading)
        self._those.add(transport)


def _nothing(*_: object) -> None:
    """SOAP.TCP is not answered."""


@asynccontextmanager
async def good_ones(sinks: Consumers) -> AsyncIterator[list[Consumer]]:
    those = [sinks.add(keep=False) for _ in range(GOOD)]
    loop, servers, transports = asyncio.get_running_loop(), [], set[asyncio.Transport]()
    for _ in range(GOOD):
        consumer = Consumer("", _nothing, keep=False)
        make = partial(_Reading, consumer, transports)
        server = await loop.create_server(make, "127.0.0.1", 0)
        servers.append(server)
        consumer.url = f"soap.tcp://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        those.append(consumer)
    try:
        yield those
    finally:
        await end(servers, transports)


@asynccontextmanager
async def hung_ones() -> AsyncIterator[tuple[list[str], set[asyncio.Transport]]]:
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.bind(("0.0.0.0", 0))
    port = sock.getsockname()[1]
    transports: set[asyncio.Transport] = set()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Hung(transports), sock=sock, backlog=4096)
    hosts = [f"127.1.{1 + number // 250}.{1 + number % 250}" for number in range(HUNG)]
    try:
        yield [f"soap.tcp://{host}:{port}/" for host in hosts], transports
    finally:
        await end([server], transports)


async def end(servers: Iterable[asyncio.Server], transports: set[asyncio.Transport]) -> None:
    """Close *servers*, and all *transports*, also those that are accepted meanwhile."""
    for server in servers:
        server.close()
    for _turn in range(5):
        for transport in list(transports):
            transport.abort()
        await asyncio.sleep(0)
    await until(lambda: not transports)


async def test_who_never_reads_delays_nobody(tmp_path: Path) -> None:
    async with (
        consumers() as sinks,
        good_ones(sinks) as good,
        hung_ones() as (hung, transports),
        gateway_process(tmp_path / "data", {"DRAGOMAN_DRAIN": "0.5"}) as gateway,
    ):
        for consumer in good:
            await gateway.subscribe(consumer.url)
        alone = statistics.median(await turns(gateway, good, COUNT, filling=FILLING))
        for url in hung:
            await gateway.subscribe(url)
        await turns(gateway, good, 1, filling=FILLING)
        await until(lambda: len(transports) == HUNG)
        together = statistics.median(await turns(gateway, good, COUNT, filling=FILLING))
        memory, metrics = gateway.memory(), await gateway.metrics()
        figures = (
            f"a turn of {2 * GOOD} good ones: {alone * 1e3:.0f} ms, with {HUNG} hung ones "
            f"{together * 1e3:.0f} ms; resident {memory >> 20} MiB; in flight "
            f"{metrics['in_flight']:.0f}"
        )
        print(figures)
        assert metrics["in_flight"] >= HUNG, figures
        assert together < alone * (2 * GOOD + HUNG) / (2 * GOOD), figures
        assert memory < CEILING, figures
        assert metrics["conservation_error"] == 0
