"""The WS-Messenger paper's figure 5 anew, then the throughput of delivery.

Question: how long does one 587-octet event take to N consumers, for each pair of the publisher's
and the consumer's specification; and how many deliveries a second does one process make on one
core, against a bare socket loop that writes the same octets to the same consumers?

    .venv/bin/python -m benchmarks.fanout [--rounds 30] [--seconds 8] [--consumers 1,10,100,1000]
"""

import argparse
import asyncio
import itertools
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from statistics import median

import uvloop

from benchmarks.machine import describe, fit, percentile, pin, spread
from benchmarks.rig import Poster, Running, Sinks, gateway, publish_request, subscribe_request
from benchmarks.sinks import SHARES
from gateway.client.signals import end_as_by_interrupt
from mediation.model.versions import Version

WARM_UP = 10
PUBLISHERS = 8
_COLUMNS = "".join(
    f"{name:>10}" for name in ("mean ms", "last", "p50", "p95", "p99", "pub p50", "p95", "p99")
)
"""Names of the columns; ``pub`` is what the publisher waits for its answer."""
_MANAGER = re.compile(rb"<wsa:Address[^>]*>([^<]*/subscriptions/[^<]*)<")


@dataclass(frozen=True)
class Point:
    """Milliseconds: the mean over consumers, and the last receipt, each over all rounds; what 50,
    95 and 99 % of all receipts took at most; and until the publisher was answered, likewise."""

    consumers: int
    mean: float
    last: float
    received: int
    expected: int
    shares: list[float]
    answered: list[float]

    def __str__(self) -> str:
        figures = (self.mean, self.last, *self.shares, *self.answered)
        columns = "".join(f"{figure:10.2f}" for figure in figures)
        return f"  {self.consumers:9}{columns}  {self.received} of {self.expected}"


async def connect(running: Running) -> Poster:
    """A connection to the gateway's SOAP endpoint."""
    host, port = running.url.removeprefix("http://").split(":")
    return await Poster.connect(host, int(port), "/soap")


async def subscribe(poster: Poster, version: Version, ports: list[int]) -> list[str]:
    """Subscribe a consumer at each of *ports*; the ids are the managers' addresses."""
    managers = []
    for number, port in enumerate(ports):
        request = subscribe_request(version, f"http://127.0.0.1:{port}/consumer/{number}")
        status, body = await poster.post(request)
        found = _MANAGER.search(body)
        if status != 200 or found is None:
            raise SystemExit(f"Subscribe was refused: {status} {body[:300]!r}")
        managers.append(found[1].decode())
    return managers


async def latency(
    poster: Poster, sinks: Sinks, event: Callable[[int], bytes], consumers: int, rounds: int
) -> Point:
    """Publish one event at a time, by its number; the next only after all have received."""
    means, lasts, answered = list[float](), list[float](), list[float]()
    for number in range(WARM_UP + rounds):
        if number == WARM_UP:
            sinks.times()
        sinks.expect(consumers)
        request = event(number)
        asked = time.perf_counter()
        status, body = await poster.post(request)
        took = time.perf_counter() - asked
        if status != 202:
            raise SystemExit(f"an event was refused: {status} {body[:300]!r}")
        mean, last = await sinks.all_received()
        if number >= WARM_UP:
            means.append(mean * 1000)
            lasts.append(last * 1000)
            answered.append(took * 1000)
    received, shares = sinks.times()
    return Point(
        consumers,
        sum(means) / len(means),
        sum(lasts) / len(lasts),
        received,
        consumers * rounds,
        [share * 1000 for share in shares],
        [percentile(answered, share) for share in SHARES],
    )


async def throughput(
    running: Running, sinks: Sinks, publisher: Version, consumers: int, seconds: float
) -> float:
    """Deliveries a second while publishers wait for nothing but their 202."""
    posters = [await connect(running) for _ in range(PUBLISHERS)]
    counter = itertools.count()
    rate = await _sample_rate(posters[0], sinks, publisher, consumers)
    events = max(PUBLISHERS, int(rate * seconds / consumers))
    sinks.expect(events * consumers)
    started = time.perf_counter()

    async def publish(poster: Poster) -> None:
        while (number := next(counter)) < events:
            status, body = await poster.post(publish_request(publisher, number))
            if status != 202:
                raise SystemExit(f"an event was refused: {status} {body[:300]!r}")

    await asyncio.gather(*(publish(poster) for poster in posters))
    await sinks.all_received()
    elapsed = time.perf_counter() - started
    for poster in posters:
        poster.close()
    return events * consumers / elapsed


async def _sample_rate(poster: Poster, sinks: Sinks, publisher: Version, consumers: int) -> float:
    """A first estimate, to choose how many events make a run of the wanted length."""
    events = max(20, 2000 // consumers)
    sinks.expect(events * consumers)
    started = time.perf_counter()
    for number in range(events):
        await poster.post(publish_request(publisher, number))
    await sinks.all_received()
    return events * consumers / (time.perf_counter() - started)


async def bare(sinks: Sinks, ports: list[int], body: bytes, seconds: float) -> float:
    """Deliveries a second of a loop that writes *body* to each consumer, one in flight each."""
    posters = [await Poster.connect("127.0.0.1", port, "/consumer/0") for port in ports]
    until = time.perf_counter() + seconds
    sent = 0

    async def loop(poster: Poster) -> None:
        nonlocal sent
        while time.perf_counter() < until:
            await poster.post(body)
            sent += 1

    started = time.perf_counter()
    await asyncio.gather(*(loop(poster) for poster in posters))
    elapsed = time.perf_counter() - started
    for poster in posters:
        poster.close()
    return sent / elapsed


async def figure_5(numbers: list[int], rounds: int) -> None:
    versions = (Version.WSE_2004_08, Version.WSN_1_3)
    for publisher, consumer in itertools.product(versions, versions):
        print(f"\n{publisher.value} publisher -> {consumer.value} consumers")
        print(f"  consumers{_COLUMNS}  received")
        points = []
        for number in numbers:
            with Sinks(number) as sinks, gateway() as running:
                poster = await connect(running)
                await subscribe(poster, consumer, sinks.ports)
                event = partial(publish_request, publisher)
                points.append(await latency(poster, sinks, event, number, rounds))
                poster.close()
                check_law(running)
            print(points[-1], flush=True)
        if len(points) > 2:
            for name in ("mean", "last"):
                slope, start, r2 = fit(
                    [point.consumers for point in points],
                    [getattr(point, name) for point in points],
                )
                print(f"  {name}: {slope * 1000:.1f} us a consumer + {start:.2f} ms, R2 {r2:.4f}")


async def rates(seconds: float, repetitions: int) -> None:
    consumers = 100
    for version in (Version.WSE_2004_08, Version.WSN_1_3):
        through, limit = [], []
        for _ in range(repetitions):
            with Sinks(consumers) as sinks:
                with gateway() as running:
                    poster = await connect(running)
                    await subscribe(poster, version, sinks.ports)
                    through.append(await throughput(running, sinks, version, consumers, seconds))
                    poster.close()
                    check_law(running)
                pin(0)
                limit.append(await bare(sinks, sinks.ports[:32], publish_request(version, 0), 3.0))
                pin(1)
        print(f"\nthroughput to {consumers} {version.value} consumers, one process on one core")
        print(f"  gateway      {spread(through)} deliveries/s")
        print(f"  bare sockets {spread(limit)} deliveries/s")
        print(f"  ratio        {median(through) / median(limit):.2f}")


def check_law(running: Running) -> None:
    """Wait until nothing is under way; end the program where messages do not add up."""
    deadline = time.monotonic() + 10
    while running.metric("dragoman_unsettled") and time.monotonic() < deadline:
        time.sleep(0.05)
    error = running.metric("dragoman_conservation_error")
    if error:
        raise SystemExit(f"the conservation law is off by {error}")


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--consumers", default="1,10,100,1000")
    parser.add_argument("--only", choices=("figure5", "throughput"))
    options = parser.parse_args()
    pin(1)
    print(describe())
    if options.only != "throughput":
        await figure_5([int(number) for number in options.consumers.split(",")], options.rounds)
    if options.only != "figure5":
        await rates(options.seconds, options.repetitions)


if __name__ == "__main__":
    end_as_by_interrupt()
    uvloop.run(main())
