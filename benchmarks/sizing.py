"""What to give a gateway: memory and disk for subscriptions, and for what waits.

Question: what does an idle gateway take, and what does each subscription, each waiting delivery,
and each message in a mailbox add, in resident memory and on the disk? Payloads have 587 bytes.
Figures of memory and disk do not depend on how busy the machine is.

    .venv/bin/python -m benchmarks.sizing [--subscriptions 20000] [--messages 5000] [--page]

With ``--page`` they are written into ``docs/sizing.md``.
"""

import argparse
import asyncio
import json
import tempfile
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import uvloop

from benchmarks.fanout import connect
from benchmarks.machine import describe, pin
from benchmarks.rig import Poster, Running, gateway, publish_request, subscribe_request
from filters import dialects
from gateway.client.signals import end_as_by_interrupt
from mediation.model.versions import Version

PAGE = Path(__file__).parents[1] / "docs" / "sizing.md"
_MARKS = ("<!-- figures: python -m benchmarks.sizing --page -->\n", "<!-- end -->\n")
_SPEC = Version.WSN_1_3
_NOBODY = 9
"""A port of this machine at which nobody listens."""
_SETTLING = 3.0
"""Seconds in which writes that follow an answer reach the disk."""


@dataclass(frozen=True)
class Footprint:
    """Bytes of resident memory, and on the disk."""

    memory: float
    disk: float

    def each(self, before: "Footprint", number: int) -> "Footprint":
        """What each of *number* has added since *before*."""
        return Footprint((self.memory - before.memory) / number, (self.disk - before.disk) / number)


@dataclass(frozen=True)
class Measured:
    """A gateway and its data folder."""

    running: Running
    folder: Path

    async def footprint(self) -> Footprint:
        """What it takes now, once it is at rest."""
        await asyncio.sleep(_SETTLING)
        blocks = sum(path.stat().st_blocks for path in self.folder.rglob("*") if path.is_file())
        return Footprint(self.running.rss(), blocks * 512)


@contextmanager
def measured() -> Iterator[Measured]:
    """A gateway with data of its own, whose limits let one subscription keep what is measured."""
    with tempfile.TemporaryDirectory(dir=".", prefix=".benchmark-") as folder:
        environment = {"DRAGOMAN_RETRY_DELAYS": "[600]"}
        with gateway(folder=folder, environment=environment) as running:
            yield Measured(running, Path(folder))


async def subscriptions(number: int, request: Callable[[int], bytes]) -> Footprint:
    """What each of *number* subscriptions takes; *request* makes the Subscribe of each."""
    with measured() as gateway:
        poster = await connect(gateway.running)
        await _subscribe(poster, range(1000), _to("first"))
        before = await gateway.footprint()
        await _subscribe(poster, range(1000, 1000 + number), request)
        poster.close()
        return (await gateway.footprint()).each(before, number)


async def waiting(number: int, consumers: int) -> Footprint:
    """What each of *number* messages takes that wait for *consumers* that are away."""
    with measured() as gateway:
        poster = await connect(gateway.running)
        await _subscribe(poster, range(consumers), _to("storms"))
        return await _of_each_message(gateway, poster, number)


async def kept(number: int) -> Footprint:
    """What each of *number* messages takes in a mailbox that nobody reads."""
    with measured() as gateway:
        asked = urllib.request.Request(
            f"{gateway.running.url}/mailboxes",
            json.dumps({"topic": "storms"}).encode(),
            {"Content-Type": "application/json"},
        )
        with await asyncio.to_thread(urllib.request.urlopen, asked, timeout=30):
            pass
        return await _of_each_message(gateway, await connect(gateway.running), number)


async def _of_each_message(gateway: Measured, poster: Poster, number: int) -> Footprint:
    await _publish(poster, 200)  # What the first of them take, others do not.
    before = await gateway.footprint()
    await _publish(poster, number)
    poster.close()
    return (await gateway.footprint()).each(before, number)


async def idle() -> Footprint:
    """What a gateway takes that has just started."""
    with measured() as gateway:
        return await gateway.footprint()


def _consumer(number: int) -> str:
    return f"http://127.0.0.1:{_NOBODY}/consumer/{number}"


def _to(topic: str, *, of_its_own: bool = False) -> Callable[[int], bytes]:
    """The Subscribe of each to *topic*, which has its number behind it where it is *of its own*."""
    return lambda number: subscribe_request(
        _SPEC, _consumer(number), f"{topic}{number}" if of_its_own else topic
    )


def _by_xpath(number: int) -> bytes:
    """A Subscribe with an XPath filter that no other has."""
    content = (
        f'<n:MessageContent Dialect="{dialects.XPATH_1_0}" xmlns:w="urn:weather">'
        f"/w:Warning[w:level &gt; {number}]</n:MessageContent></n:Filter>"
    )
    request = subscribe_request(_SPEC, _consumer(number))
    return request.replace(b"</n:Filter>", content.encode())


async def _subscribe(
    poster: Poster, numbers: Iterable[int], request: Callable[[int], bytes]
) -> None:
    for number in numbers:
        status, body = await poster.post(request(number))
        if status != 200:
            raise SystemExit(f"Subscribe was refused: {status} {body[:300]!r}")


async def _publish(poster: Poster, number: int) -> None:
    for one in range(number):
        status, body = await poster.post(publish_request(_SPEC, one))
        if status != 202:
            raise SystemExit(f"an event was refused: {status} {body[:300]!r}")


async def table(numbers: argparse.Namespace) -> str:
    """The figures, as a table in Markdown."""
    many, messages = numbers.subscriptions, numbers.messages
    rows = {
        "a gateway that has just started": await idle(),
        f"a subscription to one topic, of {many:,}": await subscriptions(many, _to("storms")),
        f"a subscription to a topic of its own, of {many:,}": await subscriptions(
            many, _to("storms", of_its_own=True)
        ),
        f"a subscription by an XPath of its own, of {many:,}": await subscriptions(many, _by_xpath),
        f"a message that waits for 1 consumer, of {messages:,}": await waiting(messages, 1),
        f"a message that waits for 10 consumers, of {messages:,}": await waiting(messages, 10),
        f"a message in a mailbox, of {messages:,}": await kept(messages),
    }
    lines = ["| what | memory | disk |", "|---|---:|---:|"]
    lines += [f"| {name} | {_size(one.memory)} | {_size(one.disk)} |" for name, one in rows.items()]
    return "\n".join([*lines, "", f"{describe()}. Payloads of 587 bytes.", ""])


def _size(octets: float) -> str:
    if octets >= 10 * 2**20:
        return f"{octets / 2**20:,.0f} MiB"
    return f"{octets / 1024:,.1f} KiB"


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--subscriptions", type=int, default=20_000)
    parser.add_argument("--messages", type=int, default=5_000)
    parser.add_argument("--page", action="store_true", help="write the figures into docs/sizing.md")
    options = parser.parse_args()
    pin(1)
    figures = await table(options)
    print(figures)
    if options.page:
        before, begin, rest = PAGE.read_text().partition(_MARKS[0])
        _, end, after = rest.partition(_MARKS[1])
        PAGE.write_text(f"{before}{begin}\n{figures}\n{end}{after}")


if __name__ == "__main__":
    end_as_by_interrupt()
    uvloop.run(main())
