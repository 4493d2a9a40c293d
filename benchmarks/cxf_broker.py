"""The WS-Messenger paper's figure 5 with two curves: Apache CXF's WS-Notification broker, and ours.

Question: how long does one 587-octet event take to N consumers, from a WS-Notification publisher to
WS-Notification consumers, in the gateway and in CXF's broker? The gateway flushes each event to its
disk before it answers; CXF's ``Service`` keeps events in memory. Both run on the first core, in
turn.

    mvn -q -f benchmarks/cxf_broker.pom.xml dependency:copy-dependencies -DoutputDirectory=FOLDER
    .venv/bin/python -m benchmarks.cxf_broker FOLDER [--rounds 20] [--figure FILE.svg]

It needs Java 8 to 17 and ``taskset``.
"""

import argparse
import asyncio
import contextlib
import math
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from xml.sax.saxutils import escape

import uvloop

from benchmarks.fanout import WARM_UP, Point, check_law, connect, latency, subscribe
from benchmarks.machine import describe, pin
from benchmarks.rig import Poster, Running, Sinks, gateway, publish_request, subscribe_request
from gateway.client.signals import end_as_by_interrupt
from mediation.model.versions import Soap, Version
from mediation.soap.envelopes import http_headers
from tests.rigs.ports import free_ports

WSN = Version.WSN_1_3
OURS, THEIRS = "Dragoman", "Apache CXF"
START, SUBSCRIBING = 120.0, 60.0
_COLOURS = {OURS: "#4477aa", THEIRS: "#ee6677"}
_WIDTH, _HEIGHT, _MARGIN = 640, 400, 60


class CxfBroker:
    """CXF's notification broker in a process of its own."""

    def __init__(self, port: int, pid: int) -> None:
        self._port = port
        self.url = f"http://127.0.0.1:{port}/wsn/NotificationBroker"
        self.process = Running(self.url, pid)

    async def publisher(self) -> Poster:
        """A connection to it; a JAX-WS endpoint speaks one version of SOAP, here 1.1."""
        return await Poster.connect(
            "127.0.0.1", self._port, "/wsn/NotificationBroker", soap=Soap.V1_1
        )

    def subscribe(self, ports: Sequence[int], topic: str) -> None:
        """Subscribe a consumer at each of *ports*."""
        headers = dict(http_headers(Soap.V1_1, ""))
        for number, port in enumerate(ports):
            consumer = f"http://127.0.0.1:{port}/consumer/{number}"
            body = in_soap_1_1(subscribe_request(WSN, consumer, topic))
            request = urllib.request.Request(self.url, body, headers)
            with urllib.request.urlopen(request, timeout=SUBSCRIBING) as answer:
                answer.read()


def in_soap_1_1(envelope: bytes) -> bytes:
    """*envelope* in the other version of SOAP."""
    return envelope.replace(Soap.V1_2.value.encode(), Soap.V1_1.value.encode())


@contextlib.contextmanager
def cxf_broker(libraries: Path) -> Iterator[CxfBroker]:
    """CXF's broker with the jars in a folder, on the first core."""
    [port] = free_ports(1)
    root = f"http://127.0.0.1:{port}/wsn"
    service = "org.apache.cxf.wsn.services.Service"
    command = ["taskset", "-c", "0", "java", "-cp", f"{libraries}/*", service, "-rootUrl", root]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    broker = CxfBroker(port, process.pid)
    try:
        wait_for(broker.url, process)
        yield broker
    finally:
        process.terminate()
        process.wait(30)


def wait_for(url: str, process: "subprocess.Popen[bytes]") -> None:
    """Wait until there is a WSDL at *url*; end the program where the process ends before."""
    until = time.monotonic() + START
    while process.poll() is None and time.monotonic() < until:
        try:
            with urllib.request.urlopen(f"{url}?wsdl", timeout=10):
                return
        except OSError:
            time.sleep(0.5)
    raise SystemExit("CXF's broker did not start: are all its jars there, is Java 8 to 17?")


@dataclass(frozen=True)
class Measured:
    """One measurement: times, and milliseconds of processor time for each delivery."""

    point: Point
    processor: float


async def measure(
    running: Running,
    poster: Poster,
    sinks: Sinks,
    event: Callable[[int], bytes],
    consumers: int,
    rounds: int,
) -> Measured:
    """Publish *rounds* events, after some to warm up, one after another."""
    before = running.cpu()
    point = await latency(poster, sinks, event, consumers, rounds)
    deliveries = (WARM_UP + rounds) * consumers
    return Measured(point, (running.cpu() - before) * 1000 / deliveries)


async def ours(consumers: int, rounds: int) -> Measured:
    """One measurement of the gateway."""
    with Sinks(consumers) as sinks, gateway() as running:
        poster = await connect(running)
        await subscribe(poster, WSN, sinks.ports)
        event = partial(publish_request, WSN)
        found = await measure(running, poster, sinks, event, consumers, rounds)
        poster.close()
        check_law(running)
    return found


async def theirs(broker: CxfBroker, consumers: int, rounds: int, topic: str) -> Measured:
    """One measurement of CXF, on a topic of its own: consumers of others are gone."""

    def event(number: int) -> bytes:
        return in_soap_1_1(publish_request(WSN, number, topic=topic))

    with Sinks(consumers) as sinks:
        await asyncio.to_thread(broker.subscribe, sinks.ports, topic)
        poster = await broker.publisher()
        found = await measure(broker.process, poster, sinks, event, consumers, rounds)
        poster.close()
    return found


Curve = Mapping[int, float]
"""Milliseconds until the last receipt, by the number of consumers."""


def figure(curves: Mapping[str, Curve], title: str) -> str:
    """Draw *curves* as an SVG document; both axes are logarithmic."""
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        'font-family="sans-serif" font-size="12">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#ffffff"/>',
        f'<text x="{_MARGIN}" y="24" font-size="14">{escape(title)}</text>',
    ]
    across = _scale([n for curve in curves.values() for n in curve], _MARGIN, _WIDTH - 120)
    up = _scale(
        [ms for curve in curves.values() for ms in curve.values()], _HEIGHT - _MARGIN, _MARGIN
    )
    for value in _decades(curves):
        y = up(value)
        lines.append(
            f'<line x1="{_MARGIN}" x2="{_WIDTH - 120}" y1="{y:.1f}" y2="{y:.1f}" stroke="#dddddd"/>'
            f'<text x="{_MARGIN - 6}" y="{y + 4:.1f}" text-anchor="end">{value:g} ms</text>'
        )
    for number in sorted({n for curve in curves.values() for n in curve}):
        at = f'x="{across(number):.1f}" y="{_HEIGHT - _MARGIN + 20}"'
        lines.append(f'<text {at} text-anchor="middle">{number}</text>')
    lines.append(
        f'<text x="{_WIDTH / 2 - 60:.0f}" y="{_HEIGHT - 14}" text-anchor="middle">consumers</text>'
    )
    for name, curve in curves.items():
        places = [(across(n), up(ms)) for n, ms in sorted(curve.items())]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        colour, (x, y) = _COLOURS[name], places[-1]
        lines.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        lines += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in places]
        lines.append(f'<text x="{x + 8:.1f}" y="{y + 4:.1f}" fill="{colour}">{name}</text>')
    return "\n".join((*lines, "</svg>\n"))


def _scale(values: Sequence[float], begin: float, end: float) -> "_Logarithmic":
    return _Logarithmic(min(values), max(values), begin, end)


class _Logarithmic:
    """Places of values between two ends."""

    def __init__(self, least: float, most: float, begin: float, end: float) -> None:
        self._least, self._begin = math.log(least), begin
        self._step = (end - begin) / ((math.log(most) - self._least) or 1.0)

    def __call__(self, value: float) -> float:
        return self._begin + (math.log(value) - self._least) * self._step


def _decades(curves: Mapping[str, Curve]) -> list[float]:
    """The powers of ten between the least and the greatest value."""
    values = [ms for curve in curves.values() for ms in curve.values()]
    first, last = math.ceil(math.log10(min(values))), math.floor(math.log10(max(values)))
    return [10.0**power for power in range(first, last + 1)]


def line(name: str, number: int, found: Sequence[Measured]) -> str:
    """A line of the table: medians."""
    mean, last = (median(getattr(one.point, what) for one in found) for what in ("mean", "last"))
    processor = median(one.processor for one in found)
    return (
        f"{name:12} {number:6} consumers: mean {mean:8.2f} ms, last {last:8.2f} ms, "
        f"{processor:6.2f} ms of processor time a delivery"
    )


async def main() -> None:
    """Measure both in turn, print a table, and draw the figure."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0], allow_abbrev=False)
    parser.add_argument("libraries", type=Path, metavar="FOLDER")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--consumers", default="1,10,100,1000")
    parser.add_argument("--figure", type=Path)
    options = parser.parse_args()
    numbers = [int(number) for number in options.consumers.split(",")]
    pin(1)
    print(describe())
    curves: dict[str, dict[int, float]] = {OURS: {}, THEIRS: {}}
    with cxf_broker(options.libraries) as broker:
        for number in numbers:
            found: dict[str, list[Measured]] = {OURS: [], THEIRS: []}
            for turn in range(options.turns):
                found[OURS].append(await ours(number, options.rounds))
                topic = f"storms-{number}-{turn}"
                found[THEIRS].append(await theirs(broker, number, options.rounds, topic))
            for name, measured in found.items():
                curves[name][number] = median(one.point.last for one in measured)
                print(line(name, number, measured), flush=True)
    if options.figure:
        title = "One event to N consumers, WS-Notification: the last has it after"
        options.figure.write_text(figure(curves, title))


if __name__ == "__main__":
    end_as_by_interrupt()
    uvloop.run(main())
