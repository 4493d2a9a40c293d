"""What operators cost who look: watching what passes, the overview, and a long list.

Question: how much more processor time does the gateway take for a delivery while somebody watches
500 messages a second, with and without an XPath, than while nobody does; and how long do the
overview and a list of all take with 10,000 subscriptions?

    .venv/bin/python -m benchmarks.console [--rounds 5] [--seconds 6] [--subscriptions 10000]
"""

import argparse
import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from statistics import median
from urllib.parse import quote

import uvloop

from benchmarks.fanout import check_law, connect, subscribe
from benchmarks.machine import describe, percentile, pin
from benchmarks.rig import Poster, Running, Sinks, gateway, off_disk, publish_request
from gateway.client import Administration
from gateway.client.signals import end_as_by_interrupt
from mediation.model.versions import Version

RATE = 500
"""Messages a second."""
CONSUMERS = 4
"""Subscriptions that get each message."""
POSTERS = 4
LOOKS = 10
"""Requests of which the median is said."""
AIM_WATCHED = 1.05
WATCHERS = {
    "nobody": "",
    "topic": "topic=storms",
    "XPath": f"xpath={quote('/w:Warning[w:x]')}&ns=w%3Durn:weather",
    "payloads": "payload=true",
}
"""Queries of ``/api/v1/tap``, by what is watched."""


async def publish(posters: list[Poster], seconds: float) -> int:
    """Publish `RATE` messages a second for so many *seconds*; how many."""
    count = int(RATE * seconds)
    began = time.perf_counter()

    async def some(first: int) -> None:
        for number in range(first, count, POSTERS):
            await asyncio.sleep(max(0.0, began + number / RATE - time.perf_counter()))
            status, body = await posters[first].post(publish_request(Version.WSN_1_3, number))
            if status != 202:
                raise SystemExit(f"an event was refused: {status} {body[:300]!r}")

    await asyncio.gather(*(some(first) for first in range(POSTERS)))
    return count


@contextlib.asynccontextmanager
async def watching(running: Running, query: str) -> AsyncIterator[Callable[[], int]]:
    """A watcher, where *query* is any; what is yielded tells how many messages it was told of."""
    told = 0
    if not query:
        yield lambda: told
        return
    host, port = running.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(f"GET /api/v1/tap?{query} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
    await reader.readuntil(b"retry: ")  # It watches now.

    async def read() -> None:
        nonlocal told
        async for line in reader:
            told += line == b"event: message\n"

    reading = asyncio.create_task(read())
    try:
        yield lambda: told
    finally:
        reading.cancel()
        writer.close()


async def one_round(running: Running, sinks: Sinks, query: str, seconds: float) -> float:
    """Microseconds of the gateway's processor time for each delivery, while *query* is watched."""
    posters = [await connect(running) for _ in range(POSTERS)]
    async with watching(running, query) as told:
        sinks.expect(int(RATE * seconds) * CONSUMERS)
        before = running.cpu()
        count = await publish(posters, seconds)
        await sinks.all_received()
        used = running.cpu() - before
        if query:
            await asyncio.sleep(1.0)  # What passed is told half a second later.
            if told() != count:
                raise SystemExit(f"of {count} messages {told()} were told")
    for poster in posters:
        poster.close()
    return used / (count * CONSUMERS) * 1e6


async def watched(rounds: int, seconds: float) -> None:
    """Print what watching costs, by what is watched; all in turn."""
    found: dict[str, list[float]] = {name: [] for name in WATCHERS}
    with Sinks(CONSUMERS) as sinks, gateway(folder=off_disk()) as running:
        poster = await connect(running)
        await subscribe(poster, Version.WSN_1_3, sinks.ports)
        await one_round(running, sinks, "", 2.0)
        for _ in range(rounds):
            for name, query in WATCHERS.items():
                found[name].append(await one_round(running, sinks, query, seconds))
        poster.close()
        check_law(running)
    print(f"\n{RATE} messages a second to {CONSUMERS} consumers; aim: {AIM_WATCHED} times nobody's")
    print("| watched | microseconds of processor time a delivery | times nobody's |")
    print("|---|---|---|")
    for name, values in found.items():
        ratios = [one / other for one, other in zip(values, found["nobody"], strict=True)]
        spread = f"{median(values):.0f} ({min(values):.0f} to {max(values):.0f})"
        print(f"| {name} | {spread} | {median(ratios):.2f} |")


async def looked_at(subscriptions: int) -> None:
    """Print how long the overview and a list of all take."""
    with gateway(folder=off_disk()) as running:
        posters = [await connect(running) for _ in range(POSTERS)]
        share = subscriptions // POSTERS
        ports = [9 + number % 50_000 for number in range(share)]  # Nobody sends there.
        await asyncio.gather(*(subscribe(one, Version.WSN_1_3, ports) for one in posters))
        async with Administration(running.url) as administration:
            first = await _seconds(administration.overview)
            overviews = []
            for _ in range(LOOKS):
                await asyncio.sleep(1.1)  # One serves all who ask within a second.
                overviews.append(await _seconds(administration.overview))
            began = time.perf_counter()
            listed = [one["id"] async for one in administration.subscriptions()]
            took = time.perf_counter() - began
        for one in posters:
            one.close()
    worst = percentile(overviews, 1.0)
    print(f"\nwith {len(listed)} subscriptions; aim: an overview within 1 s")
    print(f"overview: the first {first * 1000:.0f} ms, then {median(overviews) * 1000:.0f} ms")
    print(f"  (at most {worst * 1000:.0f} ms); all subscriptions, in pages of 500: {took:.1f} s")


async def _seconds(ask: Callable[[], Awaitable[object]]) -> float:
    began = time.perf_counter()
    await ask()
    return time.perf_counter() - began


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--subscriptions", type=int, default=10_000)
    parser.add_argument("--only", choices=("watched", "looked-at"))
    options = parser.parse_args()
    pin(1)
    print(describe())
    if options.only != "looked-at":
        await watched(options.rounds, options.seconds)
    if options.only != "watched":
        await looked_at(options.subscriptions)


if __name__ == "__main__":
    end_as_by_interrupt()
    uvloop.run(main())
