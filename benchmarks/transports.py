"""Measures what SOAP.TCP costs, and what it saves, beside HTTP.

Questions: how many deliveries a second does one process make over SOAP.TCP, and how many over HTTP
with connections that are kept, the same messages to as many consumers, in turn in one run; how fast
are DIME records read, beside a copy of the same octets; what do idle connections take; and what do
peers that send an octet every few seconds do to those that behave?

    .venv/bin/python -m benchmarks.transports [--only delivery|decoder|idle|slow]
"""

import argparse
import asyncio
import itertools
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from statistics import median

import uvloop

from benchmarks.connections import idle, slow
from benchmarks.fanout import check_law, connect
from benchmarks.machine import describe, pin, spread
from benchmarks.rig import (
    Poster,
    Running,
    Sinks,
    gateway,
    off_disk,
    publish_request,
    subscribe_request,
)
from gateway.client.signals import end_as_by_interrupt
from mediation.model.versions import Soap, Version
from mediation.packaging.dime import Decoder, DimeMessage, Encoder

VERSION = Version.WSE_2004_08
CONSUMERS = 100
PUBLISHERS = 8
READ = 256 * 1024
"""Octets that a transport hands over at once, as uvloop does."""
PASSES = 7
_DEADLINE = 60.0
"""Seconds for a round, however slow the machine."""


@dataclass
class Measured:
    """The figures of each round: deliveries a second, and microseconds of the gateway's processor
    time each."""

    rates: list[float] = field(default_factory=list)
    costs: list[float] = field(default_factory=list)


async def delivery(seconds: float, rounds: int) -> None:
    """HTTP and SOAP.TCP in turn, so that what else the machine does meets both."""
    measured = {"http": Measured(), "soap.tcp": Measured()}
    with gateway(folder=off_disk()) as running, ExitStack() as stack:
        all_sinks = {scheme: stack.enter_context(Sinks(CONSUMERS, scheme)) for scheme in measured}
        poster = await connect(running)
        for scheme, sinks in all_sinks.items():
            for port in sinks.ports:
                consumer = f"{scheme}://127.0.0.1:{port}/consumer"
                status, body = await poster.post(subscribe_request(VERSION, consumer, scheme))
                if status != 200:
                    raise SystemExit(f"Subscribe was refused: {status} {body[:300]!r}")
        poster.close()
        events = {
            scheme: await _estimate(running, sinks, scheme, seconds)
            for scheme, sinks in all_sinks.items()
        }
        for number in range(rounds):
            for scheme, sinks in all_sinks.items():
                rate, cost = await _round(running, sinks, scheme, events[scheme])
                measured[scheme].rates.append(rate)
                measured[scheme].costs.append(cost)
                print(
                    f"  round {number + 1}, {scheme:8}  {rate:9,.0f}/s  {cost:6.1f} us",
                    flush=True,
                )
            check_law(running)
    print(f"\ndeliveries to {CONSUMERS} {VERSION.value} consumers, one process on one core")
    for scheme, one in measured.items():
        print(f"  {scheme:8}  {spread(one.rates)}/s, {median(one.costs):.1f} us of it each")
    http, tcp = measured.values()
    ratios = [b / a for a, b in zip(http.rates, tcp.rates, strict=True)]
    costs = [a / b for a, b in zip(http.costs, tcp.costs, strict=True)]
    print(f"  ratio     {median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")
    print(f"  by processor time {median(costs):.2f} ({min(costs):.2f} to {max(costs):.2f})")


async def _round(running: Running, sinks: Sinks, topic: str, events: int) -> tuple[float, float]:
    posters = [await connect(running) for _ in range(PUBLISHERS)]
    counter = itertools.count()
    sinks.expect(events * CONSUMERS)
    cpu, started = running.cpu(), time.perf_counter()

    async def publish(poster: Poster) -> None:
        while (number := next(counter)) < events:
            status, body = await poster.post(publish_request(VERSION, number, topic=topic))
            if status != 202:
                raise SystemExit(f"an event was refused: {status} {body[:300]!r}")

    await asyncio.gather(*(publish(poster) for poster in posters))
    try:
        await sinks.all_received(_DEADLINE)
    except TimeoutError:
        waiting = running.metric("dragoman_waiting")
        raise SystemExit(f"not all was delivered; {waiting:.0f} deliveries wait") from None
    elapsed, spent = time.perf_counter() - started, running.cpu() - cpu
    for poster in posters:
        poster.close()
    return events * CONSUMERS / elapsed, spent / (events * CONSUMERS) * 1e6


async def _estimate(running: Running, sinks: Sinks, topic: str, seconds: float) -> int:
    """Estimate how many events make a round of the wanted length; it warms up, too."""
    rate, _ = await _round(running, sinks, topic, 40)
    return max(PUBLISHERS, int(rate * seconds / CONSUMERS))


def decoder() -> None:
    """One core, processor time, the best of some passes."""
    print(f"\nDIME, read in pieces of {READ // 1024} KiB; best of {PASSES} passes")
    for size, count in ((64 * 1024, 400), (1024, 20_000)):
        message = Encoder().encode(DimeMessage(Soap.V1_1, b"<" + b"x" * (size - 1)))
        stream = message * count
        pieces = [stream[at : at + READ] for at in range(0, len(stream), READ)]
        read, copied = [], []
        for _ in range(PASSES):
            started = time.process_time()
            reader = Decoder()
            found = sum(1 for piece in pieces for _ in reader.feed(piece))
            read.append(time.process_time() - started)
            if found != count:
                raise SystemExit(f"{found} of {count} messages were read")
            started = time.process_time()
            _copy(pieces, len(message))
            copied.append(time.process_time() - started)
        octets, seconds, bare = len(stream), min(read), min(copied)
        print(
            f"  records of {size // 1024:2} KiB: {octets / seconds / 1e6:,.0f} MB/s, "
            f"{count / seconds:,.0f} records/s; copied alone: {octets / bare / 1e6:,.0f} MB/s, "
            f"{count / bare:,.0f}/s; ratio {bare / seconds:.2f}",
            flush=True,
        )


def _copy(pieces: list[bytes], length: int) -> None:
    """Copy all octets, *length* at a time."""
    for piece in pieces:
        for at in range(0, len(piece), length):
            piece[at : at + length]


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", choices=("delivery", "decoder", "idle", "slow"))
    parser.add_argument("--seconds", type=float, default=4.0, help="of a round of deliveries")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--connections", type=int, default=10_000, help="idle ones")
    parser.add_argument("--slow", type=int, default=1000, help="connections that send slowly")
    options = parser.parse_args()
    pin(1)
    print(describe())
    if options.only in (None, "decoder"):
        decoder()
    if options.only in (None, "delivery"):
        await delivery(options.seconds, options.rounds)
    if options.only in (None, "idle"):
        await idle(options.connections)
    if options.only in (None, "slow"):
        await slow(options.slow, options.rounds)


if __name__ == "__main__":
    end_as_by_interrupt()
    uvloop.run(main())
