"""What operators cost who look: watching what passes, a viewer, the overview, and a long list.

Question: how much more processor time does the gateway take for a delivery while somebody watches
500 messages a second, with and without an XPath, than while nobody does; does a viewer in the
console get 500 a second over HTTP and over SOAP.TCP, at what cost; and how long do the overview
and a list of all take with 10,000 subscriptions?

    .venv/bin/python -m benchmarks.console [--rounds 5] [--seconds 6] [--subscriptions 10000]
"""

import argparse
import asyncio
import contextlib
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from statistics import median
from urllib.parse import quote

import aiohttp
import uvloop

from benchmarks.fanout import check_law, connect, subscribe
from benchmarks.machine import describe, percentile, pin
from benchmarks.rig import Poster, Running, Sinks, gateway, off_disk, publish_request
from filters import Expression, Filter, parse_clark
from gateway.client import Administration
from gateway.client.signals import end_as_by_interrupt
from gateway.observing.attempts import AttemptLog
from gateway.observing.taps import Taps, Watcher
from gateway.observing.traces import MessageTraces
from gateway.web.server_sent_events import write_event
from gateway.web.tap_streams import PayloadSelection
from gateway.web.views.tap import tap_message, write_tap_message
from mediation.model.messages import Notification
from mediation.model.versions import Version

RATE = 500
"""Messages a second."""
CONSUMERS = 4
"""Subscriptions that get each message."""
POSTERS = 4
BEHIND = 30.0
"""Seconds that a viewer may be behind."""
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


async def one_round(
    running: Running,
    sinks: Sinks,
    query: str,
    seconds: float,
    viewed: Callable[[], Awaitable[int]] | None = None,
) -> float:
    """Microseconds of the gateway's processor time for each delivery, while *query* is watched, or
    a viewer gets all, too, of which *viewed* tells how much it has."""
    posters = [await connect(running) for _ in range(POSTERS)]
    async with watching(running, query) as told:
        sinks.expect(int(RATE * seconds) * CONSUMERS)
        before = running.cpu()
        count = await publish(posters, seconds)
        await sinks.all_received()
        if viewed is not None:
            await _all_viewed(viewed, count)
        used = running.cpu() - before
        if query:
            await asyncio.sleep(1.0)  # What passed is told half a second later.
            if told() != count:
                raise SystemExit(f"of {count} messages {told()} were told")
    for poster in posters:
        poster.close()
    return used / (count * CONSUMERS) * 1e6


async def _all_viewed(viewed: Callable[[], Awaitable[int]], count: int) -> None:
    """Return once a viewer has so many messages, and print how far behind it was."""
    began = time.perf_counter()
    while (got := await viewed()) < count:
        behind = time.perf_counter() - began
        if behind > BEHIND:
            raise SystemExit(f"of {count} messages a viewer has {got} after {BEHIND:g} s")
        await asyncio.sleep(0.2)
    print(f"the viewer had all {time.perf_counter() - began:.1f} s after the consumers")


def unwatched() -> None:
    """Print what a message and an attempt cost for those who may look, while nobody does: counted
    in a tight loop, for it drowns in the spread of a run."""
    taps, log = Taps(), AttemptLog()
    names = [f"subscription-{number}" for number in range(100)]

    def look(count: int) -> None:
        for _ in range(count):
            if taps.watchers:
                raise SystemExit("nobody watches")

    def note(count: int) -> None:
        for number in range(count):
            attempt = (1.0, 0.001, "delivered", 202, None, "", "urn:m", 1, False)
            log.note(names[number % 100], attempt)

    def nothing(count: int) -> None:
        for number in range(count):
            names[number % 100]

    loops: dict[str, Callable[[int], None]] = {"look": look, "note": note, "nothing": nothing}
    spent = {name: min(_nanoseconds(loop) for _ in range(5)) for name, loop in loops.items()}
    note_ = spent["note"] - spent["nothing"]
    print("\nwhile nobody watches, in a tight loop, nanoseconds of processor time")
    print(f"a look whether anybody does, for a message or an attempt: {spent['look']:.0f}")
    print(f"to keep an attempt: {note_:.0f}; of a delivery of 100 microseconds")
    print(f"  that is {(2 * spent['look'] + note_) / 1000:.2f} %; aim: at most 1")


async def told() -> None:
    """Print what a message costs that a watcher is told, with `CONSUMERS` attempts: counted in a
    loop, as of the messages of a quarter of a second."""
    topic, now = parse_clark("storms"), datetime.now(UTC)
    payload = b'<w:Warning xmlns:w="urn:weather"><w:x>%b</w:x></w:Warning>' % (b"x" * 400)
    messages = [
        Notification(f"urn:m:{number}", "urn:p", payload, now, topic=topic)
        for number in range(RATE // 4)
    ]
    traces = MessageTraces()
    for one in messages:
        traces.accepted(one, "urn:p", now.timestamp())
    xpath = Expression("/w:Warning[w:x]", namespaces=(("w", "urn:weather"),))
    selection = PayloadSelection(Filter(contents=(xpath,)))
    print("\na message told, in a loop, microseconds of processor time")
    for name in ("topic", "XPath", "payloads"):
        spent = []
        for _ in range(20):
            began = time.process_time_ns()
            await _tell(messages, traces, selection if name == "XPath" else None, name)
            spent.append((time.process_time_ns() - began) / len(messages) / 1000)
        each, share = min(spent), min(spent) / CONSUMERS
        print(f"{name}: {each:.1f}; of a delivery of 250 that is {share / 2.5:.1f} %")
    selection.close()


async def _tell(
    messages: list[Notification],
    traces: MessageTraces,
    selection: PayloadSelection | None,
    name: str,
) -> None:
    attempt = (1.0, 0.001, "delivered", 202, None, "", "urn:m", 1, False)
    taps, watcher = Taps(), Watcher(lambda _: True)
    with taps.watching(watcher):
        for one in messages:
            taps.accepted(one, "urn:p", 1.0)
            for number in range(CONSUMERS):
                taps.attempted(one, f"subscription-{number}", attempt)
        passed = watcher.take(10.0)
    if selection is not None:
        passed = await selection.select(passed)
    for each in passed:
        notification = each.notification
        shown = notification.payload if name == "payloads" else None
        record = tap_message(each, traces.of(notification), payload=shown)
        write_event(write_tap_message(record), event="message")


def _nanoseconds(loop: Callable[[int], None], count: int = 200_000) -> float:
    before = time.process_time_ns()
    loop(count)
    return (time.process_time_ns() - before) / count


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


VIEWERS = {"nobody": "", "a viewer, HTTP": "push", "a viewer, SOAP.TCP": "tcp"}
"""The ways in which messages come to a viewer."""


@contextlib.asynccontextmanager
async def viewing(running: Running, way: str) -> AsyncIterator[Callable[[], Awaitable[int]]]:
    """A viewer in the console to which messages come in a *way*, where that is any; what is yielded
    tells how many it has received."""
    if not way:
        yield _none
        return
    async with aiohttp.ClientSession(running.url, headers={"sec-fetch-site": "none"}) as session:
        form = {"url": running.url, "spec": "wsn-1.3", "topic": "storms", "way": way}
        async with session.post("/console/viewer", data=form) as begun:
            path = begun.url.path

        async def page(path: str) -> str:
            async with session.get(path) as shown:
                return await shown.text()

        async def received() -> int:
            """Asked of the list, for the page of a viewer indents messages."""
            row = (await page("/console/viewer")).partition(path)[2].partition("</tr>")[0]
            found = re.search(r'"number">([0-9,]+)<', row)
            return int(found[1].replace(",", "")) if found else 0

        while "subscription: accepted" not in await page(path):  # noqa: ASYNC110  (Another process.)
            await asyncio.sleep(0.1)
        yield received
        async with session.post(path, data={"action": "stop"}):
            pass


async def _none() -> int:
    return 0


async def viewed(rounds: int, seconds: float) -> None:
    """Print what a viewer costs, by the way in which messages come to it; all in turn."""
    found: dict[str, list[float]] = {name: [] for name in VIEWERS}
    with Sinks(CONSUMERS) as sinks, gateway(folder=off_disk()) as running:
        poster = await connect(running)
        await subscribe(poster, Version.WSN_1_3, sinks.ports)
        await one_round(running, sinks, "", 2.0)
        for _ in range(rounds):
            for name, way in VIEWERS.items():
                async with viewing(running, way) as received:
                    used = await one_round(running, sinks, "", seconds, received if way else None)
                    found[name].append(used)
        poster.close()
    print(f"\n{RATE} messages a second to {CONSUMERS} consumers, and to a viewer; it got all")
    print("| viewer | microseconds of processor time a message | more than without |")
    print("|---|---|---|")
    for name, values in found.items():
        each = [one * CONSUMERS for one in values]
        without = [one * CONSUMERS for one in found["nobody"]]
        more = [one - other for one, other in zip(each, without, strict=True)]
        spread = f"{median(each):.0f} ({min(each):.0f} to {max(each):.0f})"
        print(f"| {name} | {spread} | {median(more):.0f} |")


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
    parser.add_argument("--only", choices=("unwatched", "watched", "viewed", "looked-at"))
    options = parser.parse_args()
    pin(1)
    print(describe())
    if options.only in (None, "unwatched"):
        unwatched()
        await told()
    if options.only in (None, "watched"):
        await watched(options.rounds, options.seconds)
    if options.only in (None, "viewed"):
        await viewed(options.rounds, options.seconds)
    if options.only in (None, "looked-at"):
        await looked_at(options.subscriptions)


if __name__ == "__main__":
    end_as_by_interrupt()
    uvloop.run(main())
