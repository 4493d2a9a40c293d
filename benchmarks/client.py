"""The client's package: publications a second from one process, and what importing it takes.

``python -m benchmarks.client [COUNT]`` publishes COUNT events to a sink that answers 202 at once:
with bare posts of aiohttp, with the asynchronous client (one task, and 32 that share it), and with
the synchronous one (one thread, and 8). The sink is a process of its own.
"""

import asyncio
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from statistics import median

import aiohttp

from benchmarks.machine import describe
from benchmarks.rig import Sinks
from dragoman.client import WsnClient
from dragoman.sync import WsnClient as SyncClient
from gateway.client.messaging import fresh_id
from gateway.client.signals import end_as_by_interrupt
from mediation.client import SPECS, write_publish
from mediation.model.versions import Version
from mediation.soap.envelopes import http_headers

COUNT = 3000
TASKS, THREADS = 32, 8
ROUNDS = 3
EVENT = b'<reading xmlns="urn:example"><sensor>buoy-7</sensor><speed>120.5</speed></reading>'


def main(arguments: list[str]) -> None:
    """Measure, and print a table."""
    count = int(arguments[0]) if arguments else COUNT
    print(describe())
    for module in ("dragoman.client", "dragoman.sync"):
        print(f"import {module}: {median(import_times(module)):.3f} s of processor time")
    with Sinks(1) as sinks:
        url = f"http://127.0.0.1:{sinks.ports[0]}/"
        rates = {
            name: median(measure(url, count) for _ in range(ROUNDS))
            for name, measure in MEASURES.items()
        }
        of_processor = {
            name: of_processor_time(measure, url, count) for name, measure in MEASURES.items()
        }
    for name, rate in rates.items():
        print(f"{name:42} {rate:7.0f} publications/s")
    for name, rate in of_processor.items():
        print(f"{name:42} {rate:7.0f} publications per second of processor time")
    print(f"async / bare posts {rates[_MANY] / rates[_BARE]:.2f}")
    print(f"sync / async, one at a time {rates[_SYNC] / rates[_ONE]:.2f}")
    print(f"sync / async, shared {rates[_THREADS] / rates[_MANY]:.2f}")


def of_processor_time(measure: Callable[[str, int], float], url: str, count: int) -> float:
    """Publications per second of this process's processor time, which others do not slow down."""
    begin = time.process_time()
    measure(url, count)
    return count / (time.process_time() - begin)


def import_times(module: str) -> list[float]:
    """Seconds of processor time in which a fresh interpreter imports *module*."""
    script = (
        f"import time; begin = time.process_time(); import {module}; "
        "print(time.process_time() - begin)"
    )
    return [float(subprocess.check_output([sys.executable, "-c", script])) for _ in range(5)]


async def shared(one: Callable[[], Awaitable[object]], count: int, tasks: int) -> float:
    """Calls a second of *one*, by so many tasks."""

    async def some() -> None:
        for _ in range(count // tasks):
            await one()

    begin = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(tasks):
            group.create_task(some())
    return count / (time.perf_counter() - begin)


def bare(url: str, count: int) -> float:
    """Posts of one prepared envelope."""
    spec = SPECS[Version.WSN_1_3]
    action, body = write_publish(
        spec, to=url, payload=EVENT, message_id=fresh_id(), topic="readings"
    )
    headers = dict(http_headers(spec.soap, action))

    async def measure() -> float:
        async with aiohttp.ClientSession() as session:

            async def post() -> None:
                async with session.post(url, data=body, headers=headers) as answer:
                    await answer.read()

            return await shared(post, count, TASKS)

    return asyncio.run(measure())


def asynchronous(url: str, count: int, tasks: int) -> float:
    """Publications of tasks that share a client."""

    async def measure() -> float:
        async with WsnClient(url) as client:
            return await shared(lambda: client.publish(EVENT, topic="readings"), count, tasks)

    return asyncio.run(measure())


def synchronous(url: str, count: int, threads: int) -> float:
    """Publications of threads that share a client."""
    with SyncClient(url) as client, ThreadPoolExecutor(threads) as pool:

        def some(_: int) -> None:
            for _ in range(count // threads):
                client.publish(EVENT, topic="readings")

        client.publish(EVENT, topic="readings")
        begin = time.perf_counter()
        list(pool.map(some, range(threads)))
        return count / (time.perf_counter() - begin)


_BARE, _ONE = f"bare posts of aiohttp, {TASKS} tasks", "asynchronous, 1 task"
_MANY, _SYNC = f"asynchronous, {TASKS} tasks", "synchronous, 1 thread"
_THREADS = f"synchronous, {THREADS} threads"
MEASURES: dict[str, Callable[[str, int], float]] = {
    _BARE: bare,
    _ONE: lambda url, count: asynchronous(url, count, 1),
    _MANY: lambda url, count: asynchronous(url, count, TASKS),
    _SYNC: lambda url, count: synchronous(url, count, 1),
    _THREADS: lambda url, count: synchronous(url, count, THREADS),
}

if __name__ == "__main__":
    end_as_by_interrupt()
    main(sys.argv[1:])
