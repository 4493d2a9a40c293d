"""Many connections: those that are idle, and those that send an octet every few seconds.

``python -m benchmarks.connections SCHEME PORT NUMBER`` is the process of the slow ones: it prints
a line when each has been open, and goes on, opening anew what is closed, until its standard input
ends; then it prints how many were closed."""

import asyncio
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median

import uvloop

from benchmarks.fanout import connect
from benchmarks.machine import percentile, pin
from benchmarks.rig import (
    Poster,
    Running,
    envelope,
    gateway,
    off_disk,
    publish_request,
    subscribe_request,
)
from benchmarks.sinks import Sink, Tally
from mediation.model.versions import Soap, Version, Wsa
from mediation.names import WSE_2004_08
from mediation.packaging.dime import DimeMessage, Encoder

MIB = 2**20
PUBLISHERS = 100
RATE = 200.0
"""Events a second, of all publishers together."""
PHASE = 15.0
"""Seconds with the slow connections, or without."""
PAUSE = 3.0
"""Seconds between two octets of a slow connection."""
PER_ADDRESS = 50
"""Slow connections from one address: fewer than a stranger may have."""
SETTLE = 3.0
_CONNECTING = 64
_DEADLINE = 30.0
_VERSION = Version.WSE_2004_08


def more_files() -> None:
    """Let this process, and what it starts, have as many descriptors as it may."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def address(number: int) -> str:
    """One of the loopback addresses that are not 127.0.0.1."""
    return f"127.1.{number // 250}.{1 + number % 250}"


def dime(body: bytes) -> bytes:
    return Encoder().encode(DimeMessage(Soap.V1_2, body))


# ---- Idle ----


class Idle(asyncio.Protocol):
    """A connection that asked one thing, got its answer, and is quiet."""

    def __init__(self) -> None:
        self.answered = asyncio.get_running_loop().create_future()
        self.open = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.open = True
        transport.write(_QUESTION)  # type: ignore[attr-defined]  # it is a stream's

    def data_received(self, data: bytes) -> None:
        if not self.answered.done():
            self.answered.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        self.open = False
        if not self.answered.done():
            self.answered.set_exception(exc or ConnectionResetError())


_QUESTION = dime(
    envelope(
        _VERSION,
        f"<wsa:Action>{WSE_2004_08}/GetStatus</wsa:Action>"
        "<wsa:MessageID>urn:benchmark:idle</wsa:MessageID>"
        f"<wsa:ReplyTo><wsa:Address>{Wsa.V2004_08.anonymous}</wsa:Address></wsa:ReplyTo>",
        f'<e:GetStatus xmlns:e="{WSE_2004_08}"/>',
    )
)


async def idle(number: int) -> None:
    """Resident memory of the gateway before and with *number* idle SOAP.TCP connections."""
    more_files()
    loop = asyncio.get_running_loop()
    with gateway(soap_tcp=True) as running:
        turn = asyncio.Semaphore(_CONNECTING)

        async def one(number: int) -> Idle:
            async with turn, asyncio.timeout(_DEADLINE):
                _, protocol = await loop.create_connection(
                    Idle, "127.0.0.1", running.soap_tcp_port, local_addr=(address(number % 50), 0)
                )
                await protocol.answered
                return protocol

        warm = [await one(n) for n in range(100)]
        before = running.rss()
        started = time.perf_counter()
        all_of_them = await asyncio.gather(*(one(n) for n in range(number)))
        took = time.perf_counter() - started
        await asyncio.sleep(SETTLE)
        after = running.rss()
        still = sum(protocol.open for protocol in (*warm, *all_of_them))
        if still != number + len(warm):
            raise SystemExit(f"only {still:,} of {number + len(warm):,} connections stayed")
    print(
        f"\n{number:,} idle SOAP.TCP connections, each after one request and its answer "
        f"(all within {took:.1f} s)\n"
        f"  resident before {before / MIB:.0f} MiB, with them {after / MIB:.0f} MiB: "
        f"{(after - before) / number:,.0f} octets each",
        flush=True,
    )


# ---- Slow ----


class Slow(asyncio.Protocol):
    """Sends *octets* one by one."""

    def __init__(self, octets: bytes) -> None:
        self._octets = iter(octets)
        self.lost = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._send()

    def _send(self) -> None:
        octet = next(self._octets, None)
        if octet is not None and not self.lost.done():
            self._transport.write(bytes([octet]))  # type: ignore[attr-defined]  # it is a stream's
            asyncio.get_running_loop().call_later(PAUSE, self._send)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.lost.done():
            self.lost.set_result(None)


async def send_slowly(scheme: str, port: int, number: int) -> None:
    """The process of the slow connections."""
    more_files()
    loop = asyncio.get_running_loop()
    octets = {
        "http": b"POST /soap HTTP/1.1\r\nHost: gateway\r\nX-Filling: " + b"x" * 100,
        "soap.tcp": dime(b"<" + b"x" * 1000),
    }[scheme]
    lost = 0
    opened: set[int] = set()

    async def one(index: int) -> None:
        nonlocal lost
        await asyncio.sleep(PAUSE * index / number)
        local = (address(index // PER_ADDRESS), 0)
        while True:
            try:
                _, protocol = await loop.create_connection(
                    lambda: Slow(octets), "127.0.0.1", port, local_addr=local
                )
                if len(opened) < number:
                    opened.add(index)
                    if len(opened) == number:
                        print("all were open", flush=True)
                await protocol.lost
            except OSError:
                pass
            lost += 1
            await asyncio.sleep(1.0)

    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    tasks = [asyncio.create_task(one(index)) for index in range(number)]
    await reader.read()
    for task in tasks:
        task.cancel()
    print(lost, flush=True)


@contextmanager
def slow_connections(scheme: str, port: int, number: int) -> Iterator[list[int]]:
    """Keep slow connections sending while this is open; afterwards the list has how many were
    closed."""
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.connections", scheme, str(port), str(number)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    closed: list[int] = []
    try:
        if process.stdout is None or not process.stdout.readline():
            raise SystemExit("the slow connections did not open")
        yield closed
    finally:
        out, _ = process.communicate("", timeout=_DEADLINE)
        closed.append(int(out))


class Latencies(Tally):
    """Milliseconds from when an event was due to its receipt by a consumer in this process."""

    def __init__(self) -> None:
        super().__init__()
        self.milliseconds: list[float] = []

    def received(self, body: bytes) -> None:
        super().received(body)
        self.milliseconds.append(self.sum * 1000)
        self.sum = 0.0


class DimePoster(asyncio.Protocol):
    """A connection that publishes over SOAP.TCP: nothing comes back."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    async def post(self, body: bytes) -> None:
        self._transport.write(dime(body))  # type: ignore[attr-defined]  # it is a stream's

    def close(self) -> None:
        self._transport.close()


async def _publisher(running: Running, scheme: str) -> Poster | DimePoster:
    if scheme == "http":
        return await connect(running)
    loop = asyncio.get_running_loop()
    _, poster = await loop.create_connection(DimePoster, "127.0.0.1", running.soap_tcp_port)
    return poster


async def _phase(publishers: list[Poster | DimePoster], latencies: Latencies) -> float:
    """The 99th percentile of one phase; an event counts from when it was due."""
    latencies.milliseconds.clear()
    latencies.done.clear()
    latencies.count, latencies.wanted = 0, int(RATE * PHASE)
    started = time.monotonic()

    async def publish(index: int) -> None:
        for number in range(index, latencies.wanted, len(publishers)):
            due = started + number / RATE
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            await publishers[index].post(publish_request(_VERSION, number, due))

    await asyncio.gather(*(publish(index) for index in range(len(publishers))))
    async with asyncio.timeout(_DEADLINE):
        await latencies.done.wait()
    return percentile(latencies.milliseconds, 0.99)


async def slow(number: int, rounds: int) -> None:
    """Measure what *number* slow connections do to publishers that behave, over HTTP and
    SOAP.TCP."""
    more_files()
    loop = asyncio.get_running_loop()
    # The slow ones come from other addresses, as strangers do.
    os.environ["DRAGOMAN_TRUSTED"] = "127.0.0.1/32"
    print(f"\n{PUBLISHERS} publishers, {RATE:.0f} events/s, {number:,} slow connections")
    for scheme in ("http", "soap.tcp"):
        latencies = Latencies()
        consumer = await loop.create_server(lambda: Sink(latencies), "127.0.0.1", 0)  # noqa: B023
        with gateway(adapter="memory:", soap_tcp=True, folder=off_disk()) as running:
            port = consumer.sockets[0].getsockname()[1]
            poster = await connect(running)
            await poster.post(subscribe_request(_VERSION, f"http://127.0.0.1:{port}/consumer"))
            publishers = [await _publisher(running, scheme) for _ in range(PUBLISHERS)]
            attacked = (
                running.soap_tcp_port
                if scheme == "soap.tcp"
                else int(running.url.rpartition(":")[2])
            )
            await _phase(publishers, latencies)
            without, within, closed = [], [], 0
            for round_ in range(rounds):
                without.append(await _phase(publishers, latencies))
                with slow_connections(scheme, attacked, number) as lost:
                    within.append(await _phase(publishers, latencies))
                closed += lost[0]
                print(
                    f"  round {round_ + 1}, {scheme:8}  p99 {without[-1]:.1f} ms without, "
                    f"{within[-1]:.1f} ms with them",
                    flush=True,
                )
            for publisher in (*publishers, poster):
                publisher.close()
        consumer.close()
        ratios = [b / a for a, b in zip(without, within, strict=True)]
        print(
            f"  {scheme:8}  p99 {median(without):.1f} ms without, {median(within):.1f} ms with, "
            f"ratio {median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}); "
            f"{closed:,} slow connections were closed",
            flush=True,
        )


if __name__ == "__main__":
    pin(1)
    uvloop.run(send_slowly(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
