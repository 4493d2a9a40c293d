"""Measures what an event of Grid SOAP Events costs.

Question: how many events of 1,431 bytes are written, and read, in a second on one core (the paper
of 2001 had 9,000 and 1,260 in C++ on a 440 MHz UltraSPARC-III); what do ``xsi:type`` and namespaces
cost, and what does a prepared call save; and how many does a gateway take from programs over one
connection, and over many?

    .venv/bin/python -m benchmarks.grid_events [--rounds 9] [--seconds 5] [--gateway URL]
"""

import argparse
import asyncio
import re
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from statistics import median

from benchmarks.machine import describe, pin
from benchmarks.mediation import UNUSUAL_LIMITS
from filters.documents import DEFAULT_LIMITS
from gateway.client.grid_events import (
    TYPES,
    MachineUtilizationEvent,
    Publisher,
    prepared,
    read_event,
)
from gateway.client.signals import end_as_by_interrupt
from mediation.detect import read
from mediation.grid_events import CHANNEL, Template, write_handle_event
from mediation.model.requests import Arrival

OCTETS = 1431
"""The length of the paper's message."""
RENDERED, PARSED = 40_000, 15_000
"""The aims, a second: of what programs read, and of what the gateway does."""
_WANTED = {
    "rendered from a template": RENDERED,
    "parsed": PARSED,
    "parsed by the gateway": PARSED,
    "parsed by the gateway, as a whole": PARSED,
}
CALLS = 500
"""Events of one round."""
CONNECTIONS = (1, 16)
_EVENT = MachineUtilizationEvent(
    event_namespace="http://www.extreme.indiana.edu/soap/events/resdat#MachineUtilizationEvent",
    event_type="resdata.machine.utilization",
    source="node3.cluster.example.org",
    timestamp=982862312897,
    seq_no=17,
    message="",
    handback="desk-5",
    cpu_utilization=0.88,
    memory_used=123988,
)
_VARYING = ("timestamp", "seq_no", "cpu_utilization", "memory_used")


def sample() -> tuple[MachineUtilizationEvent, Template]:
    """An event, and the prepared call with it, of `OCTETS`."""
    event, template = _EVENT, _prepared(_EVENT)
    assert template.length is not None
    event = replace(event, message="x" * (OCTETS - template.length))
    return event, _prepared(event)


def _prepared(event: MachineUtilizationEvent) -> Template:
    constants = {
        attribute: getattr(event, attribute)
        for attribute, _, _ in TYPES.of(MachineUtilizationEvent).fields
        if attribute not in _VARYING
    }
    return prepared(MachineUtilizationEvent, **constants)


def values(number: int) -> dict[str, object]:
    """What fills the holes of `sample`'s call."""
    return {
        "timestamp": 982862312897 + number,
        "seqNo": number,
        "cpuUtilization": 0.88,
        "memoryUsed": 123988 + number,
    }


def untyped(octets: bytes) -> bytes:
    """The same call without ``xsi:type`` but that of the event itself."""
    return re.sub(rb" xsi:type='xsd:\w+'", b"", octets)


def qualified(octets: bytes, *, everywhere: bool) -> bytes:
    """The same call with fields in a namespace, declared once, or by each of them."""
    fields = (
        rb"(event(?:Namespace|Type)|source|timestamp|seqNo|message|handback|cpuU\w+|memoryU\w+)"
    )
    if everywhere:
        return (
            re.sub(rb"<" + fields + rb"(?=[ >])", rb"<f:\1 xmlns:f='urn:example:fields'", octets)
            .replace(b"</", b"</f:")
            .replace(b"</f:SOAP-ENV:", b"</SOAP-ENV:")
            .replace(b"</f:m:", b"</m:")
            .replace(b"</f:p1", b"</p1")
        )
    octets = re.sub(rb"<(/?)" + fields + rb"(?=[ >])", rb"<\1f:\2", octets)
    return octets.replace(b"<p1 ", b"<p1 xmlns:f='urn:example:fields' ")


def rate(work: Callable[[int], object], rounds: int) -> float:
    """How often *work* is done in a second of the processor: the median of the rounds."""
    rates = []
    for _ in range(rounds):
        began = time.process_time()
        for number in range(CALLS):
            work(number)
        rates.append(CALLS / (time.process_time() - began))
    return median(rates)


def codec(rounds: int) -> dict[str, float]:
    """Events a second, of each way."""
    event, template = sample()
    octets = template.fill(values(17))
    assert len(octets) == OCTETS
    forms = {
        "parsed": octets,
        "parsed, without xsi:type": untyped(octets),
        "parsed, fields in a namespace": qualified(octets, everywhere=False),
        "parsed, each declares it": qualified(octets, everywhere=True),
    }
    for form in forms.values():
        found = read_event(form)
        assert isinstance(found, MachineUtilizationEvent)
        assert found.memory_used == 123988 + 17
    works: dict[str, Callable[[int], object]] = {
        "rendered from a template": lambda number: template.fill(values(number)),
        "rendered without": lambda _: write_handle_event(TYPES.write(event), binding=CHANNEL),
    }
    arrival = Arrival("publisher", datetime(2026, 1, 31, tzinfo=UTC), "urn:uuid:fresh")
    calls = [template.fill(values(number)) for number in range(50)]
    for name, limits in (("", DEFAULT_LIMITS), (", as a whole", UNUSUAL_LIMITS)):
        works[f"parsed by the gateway{name}"] = lambda number, limits=limits: read(  # type: ignore[misc]
            calls[number % len(calls)], arrival, limits=limits
        )
    works |= {name: (lambda _, form=form: read_event(form)) for name, form in forms.items()}  # type: ignore[misc]
    for work in works.values():
        rate(work, 1)
    return {name: rate(work, rounds) for name, work in works.items()}


async def end_to_end(url: str, connections: int, seconds: float) -> float:
    """Events a second that a gateway takes, each when it is durable."""
    _, template = sample()
    taken, end = 0, time.monotonic() + seconds

    async def publish(at: int) -> None:
        nonlocal taken
        number = at
        async with Publisher(url) as publisher:
            while time.monotonic() < end:
                number += connections
                await publisher.fill(template, values(number) | {"seqNo": 0})
                taken += 1

    began = time.monotonic()
    await asyncio.gather(*(publish(at) for at in range(connections)))
    return taken / (time.monotonic() - began)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--gateway", help="the URL of one that runs, for the rates end to end")
    chosen = parser.parse_args()
    if chosen.gateway is None:
        pin(0)
    print(describe())
    for name, found in codec(chosen.rounds).items():
        wanted = _WANTED.get(name)
        said = "" if wanted is None else f"  (wanted: {wanted:,})"
        print(f"{name:<36}{found:>10,.0f} a second{said}")
    if chosen.gateway is not None:
        for connections in CONNECTIONS:
            found = asyncio.run(end_to_end(chosen.gateway, connections, chosen.seconds))
            print(f"{f'end to end, connections: {connections}':<36}{found:>10,.0f} a second")


if __name__ == "__main__":
    end_as_by_interrupt()
    main()
