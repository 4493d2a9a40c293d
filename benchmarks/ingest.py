"""Measures how many notifications a second are accepted, durably.

Question: with the embedded adapter, how many events a second does one process answer 202 after
flushing its journal, with 32 concurrent publishers; and how long does an answer take at half of
that load? Beside it, in the same run, the same requests against a bare server that answers 202 at
once (uvicorn with the same protocol class), and a bare loop that flushes one row a commit.

    .venv/bin/python -m benchmarks.ingest [--seconds 10] [--repetitions 3]
"""

import argparse
import asyncio
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median

import uvloop

from benchmarks.machine import describe, percentile, pin, spread
from benchmarks.rig import Poster, gateway, publish_request
from gateway.client.signals import end_as_by_interrupt
from mediation.model.versions import Version

PUBLISHERS = 32


async def saturate(posters: list[Poster], version: Version, seconds: float) -> float:
    """Accepted events a second, each publisher sending the next when it has its 202."""
    until = time.perf_counter() + seconds
    accepted = 0

    async def publish(poster: Poster, start: int) -> None:
        nonlocal accepted
        number = start
        while time.perf_counter() < until:
            status, body = await poster.post(publish_request(version, number, 0.0))
            if status != 202:
                raise SystemExit(f"an event was refused: {status} {body[:300]!r}")
            number += PUBLISHERS
            accepted += 1

    started = time.perf_counter()
    await asyncio.gather(*(publish(poster, n) for n, poster in enumerate(posters)))
    return accepted / (time.perf_counter() - started)


async def paced(
    posters: list[Poster], version: Version, rate: float, seconds: float
) -> list[float]:
    """Milliseconds from when each event was due to its 202, at *rate* a second."""
    latencies: list[float] = []
    started = time.perf_counter()

    async def publish(poster: Poster, index: int) -> None:
        number = index
        while (due := started + number / rate) < started + seconds:
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            await poster.post(publish_request(version, number, 0.0))
            latencies.append((time.perf_counter() - due) * 1000)
            number += len(posters)

    await asyncio.gather(*(publish(poster, n) for n, poster in enumerate(posters)))
    return latencies


_BARE = """
import asyncio, socket, sys, uvicorn
from benchmarks.machine import pin
from gateway.http import ConnectionGate, HttpLimits, hardened
from gateway.security.networks import networks
from gateway.http import read_body
pin(0)
limits = HttpLimits()
LENGTH = [(b"content-length", b"0")]
async def app(scope, receive, send):
    await read_body(receive, scope, limits)
    await send({"type": "http.response.start", "status": 202, "headers": LENGTH})
    await send({"type": "http.response.body", "body": b""})
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
gate = ConnectionGate(limits, networks(["127.0.0.0/8"]))
http = hardened(limits, gate)
config = uvicorn.Config(app, http=http, log_config=None, lifespan="off", ws="none")
uvicorn.Server(config).run([listener])
"""


@contextmanager
def bare_server() -> Iterator[int]:
    """Run the same HTTP server with nothing behind it. Yields its port."""
    process = subprocess.Popen([sys.executable, "-c", _BARE], stdout=subprocess.PIPE)
    try:
        yield int(process.stdout.readline()) if process.stdout else 0
    finally:
        process.terminate()
        process.wait(10)


def flushes(seconds: float) -> float:
    """Commits a second of one row each, flushed, on this disk."""
    with tempfile.TemporaryDirectory(dir=".", prefix=".benchmark-") as folder:
        connection = sqlite3.connect(f"{folder}/x.db", isolation_level=None)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("CREATE TABLE t (body BLOB)")
        body = publish_request(Version.WSN_1_3, 0)
        count, until = 0, time.perf_counter() + seconds
        while time.perf_counter() < until:
            connection.execute("INSERT INTO t VALUES (?)", (body,))
            count += 1
        connection.close()
    return count / seconds


async def connect(port: int) -> list[Poster]:
    return [await Poster.connect("127.0.0.1", port, "/soap") for _ in range(PUBLISHERS)]


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--repetitions", type=int, default=3)
    options = parser.parse_args()
    pin(1)
    print(describe())
    print(f"flushes of one row: {flushes(2.0):,.0f}/s")
    for version in (Version.WSE_2004_08, Version.WSN_1_3):
        rates, bare, p50, p99 = [], [], [], []
        for _ in range(options.repetitions):
            with bare_server() as port:
                posters = await connect(port)
                bare.append(await saturate(posters, version, options.seconds / 3))
                for poster in posters:
                    poster.close()
            with gateway() as running:
                posters = await connect(int(running.url.rpartition(":")[2]))
                await saturate(posters, version, 1.0)
                rates.append(await saturate(posters, version, options.seconds))
                latencies = await paced(posters, version, rates[-1] / 2, options.seconds / 2)
                p50.append(percentile(latencies, 0.5))
                p99.append(percentile(latencies, 0.99))
                for poster in posters:
                    poster.close()
                if running.metric("dragoman_conservation_error"):
                    raise SystemExit("the conservation law is broken")
        print(
            f"\n{version.value}: {PUBLISHERS} publishers, embedded adapter, one process, one core"
        )
        print(f"  accepted     {spread(rates)} events/s")
        print(f"  bare server  {spread(bare)} requests/s")
        print(f"  ratio        {median(rates) / median(bare):.2f}")
        print(f"  at half load p50 {median(p50):.2f} ms, p99 {median(p99):.2f} ms")


if __name__ == "__main__":
    end_as_by_interrupt()
    uvloop.run(main())
