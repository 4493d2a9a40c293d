"""Question: how long does a program wait until a topic of its own is made and made known, and until
1, 10 and 100 topics are found (tables 2 and 3 of Pallickara, Fox, Gadgil: On the Discovery of
Topics in Distributed Publish/Subscribe Systems, 2005), for each type of synopsis?

The node is a process of its own and takes everything to its disk first; what is answered to the
program is sent to it over HTTP. Creation ends when the gateway has taken the advertisement.
Discovery ends when the program has the topics, from an answer that it has decrypted and whose
signature it has checked; with ``checked`` also when both signatures of each topic are.
"""

import asyncio
import math
import os
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks.discovery.setting import PLACEHOLDERS, Spoken, node, speaking, wind
from benchmarks.rig import Running
from gateway.client.discovery import Found
from mediation.discovery import Purpose, SynopsisType
from tests.rigs.discovery_keys import parties

RUNS = 100
SIZES = (1, 10, 100)
AWAY = (0.0, 20.0)
"""Milliseconds to the node, and as many back."""
WARM_UP = 5
PATIENCE = 100
PAPER = {"creation": (211.26, 641.06), "1 found": (65.86, 236.86)}
PAPER |= {"10 found": (104.25, 378.33), "100 found": (480.72, 829.69)}
"""The means of the paper: local (table 3), and wide area (table 2)."""
AIMS = {"creation": 30.0, "1 found": 10.0, "10 found": 15.0, "100 found": 60.0}
"""Milliseconds in the mean, where the node is on the same machine."""
STEPS = (
    "search for nodes",
    "offer of the node",
    "request for a topic",
    "topic of the node",
    "advertisement",
)
"""Of the paper's six, the fourth (the node makes the advertisement) and the fifth (its answer) are
one: no clock of the program sees what is between them. `shares` has what the node does in them."""


@dataclass
class Rows:
    """Milliseconds of each run, by what was measured."""

    runs: dict[str, list[float]] = field(default_factory=dict)

    def add(self, name: str, seconds: float) -> None:
        self.runs.setdefault(name, []).append(seconds * 1000)

    def shown(self, *, away: bool) -> list[str]:
        """Lines of a table: mean, deviation, largest, smallest, error of the mean; the mean of the
        paper for what it has measured there."""
        return [
            f"| {name} | {statistics.mean(values):.2f} | {statistics.stdev(values):.2f} | "
            f"{max(values):.2f} | {min(values):.2f} | "
            f"{statistics.stdev(values) / math.sqrt(len(values)):.2f} | "
            f"{PAPER[name][away] if name in PAPER else ''} |"
            for name, values in self.runs.items()
        ]


async def measure(
    running: Running,
    kind: SynopsisType,
    *,
    away: float = 0.0,
    runs: int = RUNS,
    sizes: Sequence[int] = SIZES,
) -> Rows:
    """Make topics with synopses of a *kind*, and find them."""
    rows = Rows()
    async with (
        speaking(running, parties().producer, away=away) as creator,
        speaking(running, parties().consumer, away=away) as seeker,
    ):
        for number in range(WARM_UP):
            await _create(creator, kind, number, Rows(), ("warm",))
        for number in range(max(runs, *sizes)):
            words = [f"{kind.value}{size}" for size in sizes if number < size]
            await _create(creator, kind, number, rows, words)
        for values in rows.runs.values():
            del values[runs:]
        for size in sizes:
            text = f"wind {kind.value}{size}"
            for _ in range(PATIENCE):  # The last ones are on their way into the store.
                if len(await _discover(seeker, text, size, Rows())) == size:
                    break
            for _ in range(WARM_UP):
                await _discover(seeker, text, size, Rows())
            for _ in range(runs):
                await _discover(seeker, text, size, rows)
    return rows


async def _create(
    spoken: Spoken, kind: SynopsisType, number: int, rows: Rows, words: Sequence[str]
) -> None:
    entity, answered = spoken.entity, spoken.answered
    descriptors, placeholder = wind(number, *words), PLACEHOLDERS[kind]
    answered.clear()
    times = [time.perf_counter()]
    offers = await entity.find_nodes(Purpose.CREATE, enough=1)
    times += [answered[0], time.perf_counter()]
    created = await entity.create_topic(descriptors, placeholder, offers=offers)
    times += [answered[1], time.perf_counter()]
    await entity.advertise(created)
    times.append(time.perf_counter())
    rows.add("creation", times[-1] - times[0])
    for step, began, ended in zip(STEPS, times, times[1:], strict=False):
        rows.add(f"- {step}", ended - began)


async def _discover(spoken: Spoken, text: str, size: int, rows: Rows) -> list[Found]:
    began = time.perf_counter()
    found = [one async for one in spoken.entity.discover(text, most=size, creators=False)]
    rows.add(f"{size} found", time.perf_counter() - began)
    for one in found:
        one.check()
    rows.add(f"{size} found and checked", time.perf_counter() - began)
    return found


def report(
    kinds: Sequence[SynopsisType],
    ways: Sequence[float],
    runs: int,
    sizes: Sequence[int],
    folder: str,
) -> None:
    """Measure and print a table for each of *kinds*, at each distance in milliseconds."""
    for away in ways:
        for kind in kinds:
            where = f"{away:.0f} ms away" if away else "on this machine"
            load = os.getloadavg()[0]
            print(f"\nSynopses of type {kind.value}, the node {where}; ms, {runs} runs")
            print(f"(load {load:.1f})\n")
            print("| | mean | deviation | largest | smallest | error | paper's mean |")
            print("|---|---|---|---|---|---|---|")
            with node(folder=folder) as running:
                rows = asyncio.run(measure(running, kind, away=away / 1000, runs=runs, sizes=sizes))
            print("\n".join(rows.shown(away=bool(away))), flush=True)
            for name, aim in AIMS.items() if not away else ():
                if name in rows.runs and statistics.mean(rows.runs[name]) > aim:
                    print(f"{name}: the aim is {aim:.0f} ms")
