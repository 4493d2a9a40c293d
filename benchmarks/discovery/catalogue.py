"""Question: how long does a program wait for the answer of a node that knows 100,000 advertised
topics, each with a document of 1 KB, in each dialect; and how long does such a node take to start?

Queries are those of `benchmarks.queries`, each with other values every time, for 100 answers at
most. Each goes to the gateway over HTTP and onto its disk, and the answer, encrypted, back in the
same way. Asked are 50 ms for words and SQL, 150 ms for regular expressions, 1 s for XPath, at the
95th percentile; XQuery is cut short, and says so. So is XPath that no index narrows down: how long
does a word take, while another program asks for that again and again?
"""

import asyncio
import os
import random
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import aclosing, contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from uuid import uuid4

from benchmarks.discovery.setting import Spoken, make_advertisement, node, speaking, store
from benchmarks.machine import percentile
from benchmarks.queries import DIALECTS, thing
from benchmarks.rig import Running
from gateway.client.discovery.exchange import OutgoingRequest
from gateway.discovery.topic_descriptions import describe, row_of
from gateway.model.advertisements import AdvertisementLimits, AdvertisementRow
from gateway.store import Store, advertisements
from mediation.discovery import (
    Descriptors,
    Property,
    PropertyType,
    Query,
    Scope,
    SynopsisType,
    TopicDiscoveryRequest,
    TopicDiscoveryResponse,
    check_advertisement,
    queries_of,
)
from tests.rigs.discovery_keys import parties

KNOWN = 100_000
SHARE = 250
"""Advertisements that one process makes at a time."""
WARM_UP = 3
PATIENCE = 20.0
_KINDS = {int: PropertyType.LONG, float: PropertyType.DOUBLE, str: PropertyType.STRING}


def rows(number: int) -> Iterator[list[AdvertisementRow]]:
    """Signed and checked advertisements, as they are kept."""
    parties()  # Made before there are other processes, which inherit them.
    cores = set(range(os.cpu_count() or 1))
    with ProcessPoolExecutor(
        len(cores), initializer=os.sched_setaffinity, initargs=(0, cores)
    ) as pool:
        yield from pool.map(_some, range(0, number, SHARE))


def _some(first: int) -> list[AdvertisementRow]:
    chance, verifier, now = random.Random(first), parties().verifier(), datetime.now(UTC)
    found = []
    for number in range(first, first + SHARE):
        octets = make_advertisement(_described(number, chance), SynopsisType.PATH, uuid4())
        checked = check_advertisement(octets, verifier, now=now)
        found.append(row_of(checked, describe(checked.advertisement, checked.signed)))
    return found


def _described(number: int, chance: random.Random) -> Descriptors:
    one = thing(number, chance)
    return Descriptors(
        one.paths,
        one.texts,
        one.keywords,
        tuple(
            Property(name, str(value), _KINDS[type(value)])
            for name, value in one.properties.items()
        ),
        # Only what is signed has such an ID.
        tuple(document.replace(b' ID="adv-', b' number="') for document in one.documents),
    )


async def fill(url: str, number: int) -> None:
    """Put *number* advertisements into a store."""
    limits = AdvertisementLimits(number, number)
    where = Store(url, power_safe=False)
    await where.start()
    for some in rows(number):
        keep = partial(advertisements.keep, rows=some, limits=limits, now=time.time())
        await where.submit(keep)
    await where.close()


@contextmanager
def filled(kind: str, number: int, folder: str, query_time: float) -> Iterator[Running]:
    """A node that knows *number* advertisements."""
    with tempfile.TemporaryDirectory(prefix=".benchmark-", dir=folder) as data, store(kind) as url:
        where = url or f"sqlite:///{Path(data).absolute()}/store.db"
        began = time.perf_counter()
        asyncio.run(fill(where, number))
        print(f"\n{kind}: {number:,} advertisements made in {time.perf_counter() - began:.0f} s")
        settings = {"xquery": True, "query_time": query_time, "advertisements": 2 * number}
        began = time.perf_counter()
        with node(folder=folder, url=where, **settings) as running:
            print(
                f"the node knows them {time.perf_counter() - began:.1f} s after its start, and has "
                f"{running.rss() / 2**20:,.0f} MiB"
            )
            yield running


async def measure(running: Running, dialects: Sequence[str], runs: int, most: int) -> None:
    """Ask for at most *most* topics, and print what was found."""
    async with speaking(running, parties().consumer) as seeker:
        for name in dialects:
            dialect, aim, queries = DIALECTS[name]
            chance = random.Random(2)
            all_of_them: list[float] = []
            for kind, write in queries.items():
                for _ in range(WARM_UP):
                    await _ask(seeker, Query(dialect, write(chance)), most)
                times: list[float] = []
                found = cut = 0
                cpu = running.cpu()
                for _ in range(runs):
                    took, answer = await _ask(seeker, Query(dialect, write(chance)), most)
                    times.append(took * 1000)
                    found += len(answer.advertisements)
                    cut += answer.more and len(answer.advertisements) < most
                cpu = (running.cpu() - cpu) * 1000 / runs
                all_of_them += times
                print(
                    f"{name}, {kind}: median {percentile(times, 0.5):,.1f} ms, p95 "
                    f"{percentile(times, 0.95):,.1f}; {cpu:,.0f} ms of the gateway's processor "
                    f"time; {found / runs:,.1f} found"
                    + (f", {cut} of {runs} cut short" if cut else "")
                )
            print(f"{name}: p95 {percentile(all_of_them, 0.95):,.1f} ms, aim {aim * 1e3:,.0f} ms")


async def beside(running: Running, runs: int, most: int) -> None:
    """Ask for a word alone, and while another asks for what takes long, and print the times."""
    dialect, _, queries = DIALECTS["words"]
    word, dear = queries["a rare word"], DIALECTS["xpath"][2]["a language"]
    chance = random.Random(3)

    async def asked_again(seeker: Spoken) -> None:
        while True:
            await _ask(seeker, Query(DIALECTS["xpath"][0], dear(chance)), most)

    async with (
        speaking(running, parties().consumer) as seeker,
        speaking(running, parties().producer) as another,
    ):
        for what in ("alone", "beside XPath that takes long"):
            asking = [
                asyncio.create_task(asked_again(another)) for _ in range(2 * (what != "alone"))
            ]
            times = []
            for _ in range(runs):
                took, _ = await _ask(seeker, Query(dialect, word(chance)), most)
                times.append(took * 1000)
            for each in asking:
                each.cancel()
            await asyncio.gather(*asking, return_exceptions=True)
            print(
                f"a rare word {what}: median {percentile(times, 0.5):,.1f} ms, p95 "
                f"{percentile(times, 0.95):,.1f}"
            )


async def _ask(spoken: Spoken, query: Query, most: int) -> tuple[float, TopicDiscoveryResponse]:
    """The answer of the node, and the seconds until it was there."""
    exchange, to = spoken.entity._exchange, parties().node_id
    began = time.perf_counter()
    request = TopicDiscoveryRequest(exchange.head(to), query, max_results=most, scope=Scope.NODES)
    answers = exchange.ask([OutgoingRequest(request, queries_of(to))], PATIENCE)
    async with aclosing(answers):
        async for answer in answers:
            if not isinstance(answer.message, TopicDiscoveryResponse):
                raise SystemExit(f"{query.text}: {answer.message}")
            return time.perf_counter() - began, answer.message
    raise SystemExit(f"{query.text} was not answered")


def report(
    kinds: Sequence[str],
    number: int,
    dialects: Sequence[str],
    runs: int,
    most: int,
    query_time: float,
    folder: str,
) -> None:
    """Measure at each kind of store, and print the figures."""
    for kind in kinds:
        with filled(kind, number, folder, query_time) as running:
            asyncio.run(measure(running, dialects, runs, most))
            asyncio.run(beside(running, runs, most))
