"""Measures whether one tenant's flood delays another's messages.

Question: how long does an event of a quiet tenant take from its publisher to its consumer, while
nobody else sends, while another tenant floods the gateway, and while that one is bounded by its
quota of messages? The flood is eight publishers that wait for nothing but their 202, each event to
twenty consumers; the quiet tenant publishes at a rate, whatever becomes of it. And what do turns
cost a delivery?

    .venv/bin/python -m benchmarks.tenants [--seconds 10] [--rate 20] [--repetitions 3]
        [--adapter amqp://127.0.0.1]
"""

import argparse
import asyncio
import itertools
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median

import uvloop

from adapters.tenant_turns import TenantTurns
from benchmarks.identity import tenants as cost_of_turns
from benchmarks.machine import describe, pin, spread
from benchmarks.rig import (
    PAYLOAD_OCTETS,
    TOPIC,
    Poster,
    Running,
    Sinks,
    gateway,
    publish_request,
    subscribe_request,
)
from gateway.client.signals import end_as_by_interrupt
from gateway.identities.file_editing import add_key, add_user, create_identities
from mediation.model.versions import Version

QUIET, FLOOD = "quiet", "flood"
PUBLISHERS, CONSUMERS = 8, 20
QUOTA = 20.0
"""Events a second of the tenant that floods, where it has a quota."""
AT_ONCE = 20.0
"""Seconds after which it has used up what its quota admits at once, and that is delivered."""
SPOKEN = Version.WSN_1_3


def make_file(folder: Path, quota: float | None, *, apart: bool = True) -> dict[str, str]:
    """A file of identities with both tenants, and a user of each, or, not *apart*, two of one;
    ``Authorization`` by the users' names."""
    file = folder / "identities.toml"
    file.unlink(missing_ok=True)
    create_identities(file)
    rows = "".join(f'\n[[tenants]]\nname = "{name}"\n' for name in (QUIET, FLOOD))
    if quota is not None:
        rows += f"messages = {quota}\n"
    rows += '\n[[rights]]\nwho = ["everybody"]\nmay = ["publish", "subscribe", "manage"]\n'
    file.write_text(file.read_text() + rows)
    said = {}
    for name in (QUIET, FLOOD):
        add_user(file, name, None, [], tenant=name if apart else FLOOD)
        said[name] = f"Authorization: Bearer {add_key(file, name)}\r\n"
    return said


async def connect(running: Running, headers: str) -> Poster:
    host, port = running.url.removeprefix("http://").split(":")
    return await Poster.connect(host, int(port), "/soap", headers=headers)


async def subscribe(poster: Poster, ports: list[int], topic: str = TOPIC) -> None:
    for number, port in enumerate(ports):
        request = subscribe_request(SPOKEN, f"http://127.0.0.1:{port}/consumer/{number}", topic)
        status, body = await poster.post(request)
        if status != 200:
            raise SystemExit(f"Subscribe was refused: {status} {body[:300]!r}")


@asynccontextmanager
async def flooding(
    running: Running,
    headers: str,
    warm_up: float,
    *,
    publishers: int = PUBLISHERS,
    topic: str = TOPIC,
) -> AsyncIterator[list[int]]:
    """Publish as fast as the gateway takes events, from *warm_up* seconds before; the number of
    those that it took."""
    counter, taken, over = itertools.count(), [0], asyncio.Event()

    async def publish() -> None:
        poster = await connect(running, headers)
        while not over.is_set():
            event = publish_request(SPOKEN, next(counter), topic=topic)
            status, _ = await poster.post(event)
            taken[0] += status == 202
            if status != 202:  # Its quota: a program that is refused waits.
                await asyncio.sleep(0.05)

    tasks = [asyncio.create_task(publish()) for _ in range(publishers)]
    try:
        await asyncio.sleep(warm_up)
        yield taken
    finally:
        over.set()
        await asyncio.gather(*tasks)


async def at_a_rate(poster: Poster, rate: float, seconds: float) -> list[float]:
    """Publish *rate* events a second; the milliseconds until each was taken. What an event takes
    counts from when it is due: one that the gateway kept waiting is not left out."""
    clock = time.CLOCK_MONOTONIC
    began, taken = time.clock_gettime(clock), list[float]()
    for number in range(int(rate * seconds)):
        due = began + number / rate
        await asyncio.sleep(max(0.0, due - time.clock_gettime(clock)))
        status, body = await poster.post(publish_request(SPOKEN, number, due))
        if status != 202:
            raise SystemExit(f"an event was refused: {status} {body[:300]!r}")
        taken.append((time.clock_gettime(clock) - due) * 1000)
    return taken


async def latencies(
    quota: float | None,
    rate: float,
    seconds: float,
    *,
    flood: bool,
    adapter: str = "embedded:",
) -> tuple[float, float, float, float]:
    """Milliseconds that half, and 99 %, of the quiet tenant's events took to their consumer, and
    half of them to be taken; and the other's deliveries a second."""
    with (
        tempfile.TemporaryDirectory() as folder,
        Sinks(1) as own,
        Sinks(CONSUMERS) as others,
    ):
        said = make_file(Path(folder), quota)
        environment = {
            "DRAGOMAN_IDENTITIES": f"{folder}/identities.toml",
            "DRAGOMAN_EGRESS_AGREED": "*",
        }
        with gateway(adapter=adapter, environment=environment) as running:
            quiet = await connect(running, said[QUIET])
            await subscribe(quiet, own.ports)
            await subscribe(await connect(running, said[FLOOD]), others.ports)
            await at_a_rate(quiet, rate, 1.0)
            await asyncio.sleep(1.0)
            own.times()
            if not flood:
                taken = await at_a_rate(quiet, rate, seconds)
                return (*await _received(own, len(taken)), median(taken), 0.0)
            async with flooding(running, said[FLOOD], 1.0 if quota is None else AT_ONCE):
                others.times()
                taken = await at_a_rate(quiet, rate, seconds)
                number = others.times()[0]
                found = await _received(own, len(taken))
                return (*found, median(taken), number / seconds)


async def cost(seconds: float, *, apart: bool) -> float:
    """Microseconds of the gateway's processor for a delivery, while two users publish as fast as it
    takes events, each on a topic with consumers of its own: *apart* in two tenants, or in one."""
    with (
        tempfile.TemporaryDirectory() as folder,
        Sinks(CONSUMERS // 2) as first,
        Sinks(CONSUMERS // 2) as second,
    ):
        said = make_file(Path(folder), None, apart=apart)
        environment = {
            "DRAGOMAN_IDENTITIES": f"{folder}/identities.toml",
            "DRAGOMAN_EGRESS_AGREED": "*",
        }
        half = PUBLISHERS // 2
        with gateway(environment=environment) as running:
            for name, sinks in ((QUIET, first), (FLOOD, second)):
                await subscribe(await connect(running, said[name]), sinks.ports, name)
            async with (
                flooding(running, said[QUIET], 0.0, publishers=half, topic=QUIET),
                flooding(running, said[FLOOD], 1.5, publishers=half, topic=FLOOD),
            ):
                for sinks in (first, second):
                    sinks.times()
                before = running.cpu()
                await asyncio.sleep(seconds)
                taken = running.cpu() - before
                return taken / (first.times()[0] + second.times()[0]) * 1e6


def turns_of_two(messages: int) -> float:
    """Microseconds of a message for turns, where two tenants have something to send."""
    turns: TenantTurns[int] = TenantTurns()
    for each in range(16):
        turns.append(each, QUIET if each % 2 else FLOOD)
    started = time.perf_counter()
    for _ in range(messages):
        each = turns.popleft()
        tenant = QUIET if each % 2 else FLOOD
        turns.sent(tenant, PAYLOAD_OCTETS)
        turns.append(each, tenant)
    return (time.perf_counter() - started) / messages * 1e6


async def _received(sinks: Sinks, number: int) -> tuple[float, float]:
    await asyncio.sleep(2.0)
    count, (half, _, most) = sinks.times()
    if count < number:
        print(f"  {number - count} of {number} have not come after 2 s")
    return half * 1000, most * 1000


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--rate", type=float, default=20.0)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--adapter", default="embedded:")
    options = parser.parse_args()
    pin(1)
    print(describe())
    ways: dict[str, tuple[float | None, bool]] = {
        "beside nobody": (None, False),
        "beside a flood": (None, True),
        f"flood, {QUOTA:.0f}/s": (QUOTA, True),
    }
    found: dict[str, list[tuple[float, float, float, float]]] = {name: [] for name in ways}
    for _ in range(options.repetitions):
        for name, (quota, flood) in ways.items():
            found[name].append(
                await latencies(
                    quota, options.rate, options.seconds, flood=flood, adapter=options.adapter
                )
            )
    for name, rows in found.items():
        columns = list(zip(*rows, strict=True))
        half, most, taken, others = (median(each) for each in columns)
        ranges = " ".join(f"{min(each):.1f}-{max(each):.1f}" for each in columns[:2])
        print(f"{name:<16} p50 {half:7.2f} ms  p99 {most:7.2f} ms  ({ranges})", end="")
        print(f"  taken after {taken:.2f} ms", end="")
        print(f"  others {others:,.0f} deliveries/s" if others else "")
    costs: dict[str, list[float]] = {"one tenant": [], "two tenants": []}
    for _ in range(options.repetitions):
        for name, each in costs.items():
            each.append(await cost(options.seconds / 2, apart=name != "one tenant"))
    for name, each in costs.items():
        print(f"{name:<16} {spread(each)} us a delivery")
    one, two = cost_of_turns(1_000_000), turns_of_two(1_000_000)
    print(f"turns: {one:.2f} us a message where there is one tenant, {two:.2f} where there are two")


if __name__ == "__main__":
    end_as_by_interrupt()
    uvloop.run(main())
