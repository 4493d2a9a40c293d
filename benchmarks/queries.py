"""Measures how long a catalogue of described things takes to answer queries.

Question: of 100,000 things, each with a path, a text, two keywords, four properties and a document
of 1 KB, how long does one query take in each dialect, for 100 answers at most, on one core; how
many things are added in a second, and what does one weigh? Asked are 50 ms for words and conditions
over properties, 150 ms for regular expressions, 1 s for XPath, at the 95th percentile.

    .venv/bin/python -m benchmarks.queries [--things 100000] [--rounds 3] [--only words xquery]

Without ``--only`` all dialects but XQuery are measured, which answers within a second or says that
it was cut short. Each kind of query has other values each time. Times are those of the
processor, and in parentheses of the clock, which other work on the machine makes longer (for XQuery
only that counts: its work is another process's).
"""

import argparse
import gc
import os
import random
import resource
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from benchmarks.machine import describe, percentile, pin
from filters.dialects import QUERY_REGEX, QUERY_SQL, QUERY_STRING, QUERY_XQUERY, XPATH_1_0
from filters.queries import (
    Catalogue,
    Described,
    XQueryWorker,
    compile_query,
    query_dialects,
    seconds,
)

PLACES = [f"{name}{number}" for number in range(100) for name in ("harbour", "mast", "buoy")]
KINDS = ["wind", "rain", "tide", "pressure", "humidity", "snow", "storm", "current"]
UNITS = ["m/s", "mm", "cm", "hPa", "%", "kn"]
WEATHER = "http://example.org/weather"
BUDGET, BUDGET_OF_XQUERY = 10.0, 1.0
"""Seconds of one query; what takes longer is cut short."""

Queries = Mapping[str, Callable[[random.Random], str]]

_ID = f"*[local-name()='id' and namespace-uri()='{WEATHER}']"
DIALECTS: Mapping[str, tuple[str, float, Queries]] = {
    "words": (
        QUERY_STRING,
        0.05,
        {
            "a rare word": lambda r: f"station{r.randrange(100_000)}",
            "three common words": lambda r: f"{r.choice(KINDS)} every seconds",
            "a common and a rare one": lambda r: f"measured {r.choice(PLACES)} {r.choice(KINDS)}",
            "a phrase": lambda r: f'"{r.choice(KINDS)} at {r.choice(PLACES)}"',
            "none": lambda r: f"measured nothing{r.random()}",
        },
    ),
    "sql": (
        QUERY_SQL,
        0.05,
        {
            "equal": lambda r: f"station = {r.randrange(100_000)}",
            "equal and LIKE": lambda r: (
                f"unit = '{r.choice(UNITS)}' AND place LIKE 'mast{r.randrange(99)}%'"
            ),
            "a narrow range": lambda r: (
                f"height BETWEEN {(n := r.random() * 900):.2f} AND {n + 0.2:.2f}"
            ),
            "a wide range": lambda r: f"height > {r.random() * 900:.2f} AND unit <> 'mm'",
            "IN or equal": lambda r: f"unit IN ('kn', '%') OR station = {r.randrange(100_000)}",
            "LIKE, any beginning": lambda r: f"place LIKE '%y{r.randrange(99)}'",
            "calculated": lambda r: f"height * 2 > {r.randrange(1900)} AND unit = 'cm'",
        },
    ),
    "regex": (
        QUERY_REGEX,
        0.15,
        {
            "a text": lambda r: f"station{r.randrange(100_000)}",
            "anchored": lambda r: f"^Weather/{r.choice(PLACES)}/{r.choice(KINDS)}$",
            "alternatives": lambda r: f"(mast|buoy){r.randrange(99)} .*(snow|storm)",
            "classes": lambda r: rf"\b[a-d]{{3,}}[0-9]+z{r.randrange(9)}\b",
            "any case": lambda r: f"(?i)STATION{r.randrange(100_000)}$",
            "nested repetitions": lambda r: f"(x+x+)+y{r.randrange(99)}",
        },
    ),
    "xpath": (
        XPATH_1_0,
        1.0,
        {
            "equal to a number": lambda r: f"//{_ID} = {r.randrange(100_000)}",
            "equal to a text": lambda r: f"//*[local-name()='place'] = '{r.choice(PLACES)}'",
            "two values": lambda r: (
                f"//*[local-name()='height'][@unit='{r.choice(UNITS)}'] > {r.randrange(900)}"
            ),
            "a missing name": lambda r: f"//*[local-name()='none{r.randrange(99)}'] > 1",
            "contains, of few": lambda r: (
                f"contains(//*[local-name()='remark'], 'number {r.randrange(100_000)} ')"
            ),
            "contains, in any element": lambda r: (
                f"//*[contains(., 'mast{r.randrange(100, 999)}x')]"
            ),
            "true of none": lambda r: f"//*[local-name()='height'] > {r.randrange(2000, 3000)}",
            "counted": lambda r: f"count(//*) > {r.randrange(100, 999)}",
            "a long text": lambda r: f"string-length(.) > {r.randrange(9000, 9999)}",
            "a language": lambda r: f"lang('x{r.randrange(99)}')",
        },
    ),
    "xquery": (
        QUERY_XQUERY,
        BUDGET_OF_XQUERY,
        {
            "of many": lambda r: f"//*:height > {r.randrange(500)}",
            "of few": lambda r: f"//*:id = {r.randrange(100_000)}",
        },
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--things", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3, help="times ten queries of each kind")
    parser.add_argument("--only", nargs="*", choices=list(DIALECTS))
    options = parser.parse_args()
    print(describe())
    print("load average before:", *(f"{load:.1f}" for load in os.getloadavg()))
    pin(1)
    catalogue = filled(options.things)
    worker = XQueryWorker() if "xquery" in (options.only or ()) else None
    for name, (dialect, aim, queries) in DIALECTS.items():
        if name not in (options.only or ("words", "sql", "regex", "xpath")):
            continue
        if dialect not in query_dialects(worker):
            print(f"{name}: not offered here")
            continue
        of_it = worker if dialect == QUERY_XQUERY else None
        measured(catalogue, name, aim, queries, 10 * options.rounds, of_it)
    if worker is not None:
        worker.close()
    print("load average after:", *(f"{load:.1f}" for load in os.getloadavg()))


def filled(number: int) -> Catalogue[int]:
    """A catalogue with things; says how long that took, and what one weighs."""
    chance = random.Random(1)
    things = [thing(each, chance) for each in range(number)]
    catalogue: Catalogue[int] = Catalogue(max_things=number)
    before = resident()
    started = time.process_time()
    for key, one in enumerate(things):
        catalogue.add(key, one)
    took = time.process_time() - started
    weight = (resident() - before) / number
    octets = sum(len(one.documents[0]) for one in things) / number
    print(
        f"{number:,} things, documents of {octets:,.0f} bytes: {number / took:,.0f} added in a"
        f" second, {weight:,.0f} bytes of indexes each"
    )
    return catalogue


def resident() -> int:
    """Bytes of memory that the process has."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def thing(number: int, chance: random.Random) -> Described:
    place, kind, unit = chance.choice(PLACES), chance.choice(KINDS), chance.choice(UNITS)
    height = round(chance.random() * 1000, 2)
    remarks = " ".join(chance.choice(KINDS) + chance.choice(PLACES) for _ in range(48))
    document = (
        f'<advertisement xmlns="urn:example:advertisement" ID="adv-{number}">'
        f"<creator>e-{number % 1000:032x}</creator><path>Weather/{place}/{kind}</path>"
        f'<property name="station">{number}</property><property name="unit">{unit}</property>'
        f'<station xmlns="{WEATHER}"><id>{number}</id><place>{place}</place>'
        f'<height unit="{unit}">{height}</height><remark>number {number} {remarks}</remark>'
        "</station></advertisement>"
    )
    return Described(
        created=datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=number),
        creator=f"e-{number % 1000:032x}",
        paths=(f"Weather/{place}/{kind}",),
        texts=(f"The {kind} at {place}, station{number}, measured every ten seconds",),
        keywords=(kind, place),
        properties={"station": number, "unit": unit, "height": height, "place": place},
        documents=(document.encode(),),
    )


def measured(
    catalogue: Catalogue[int],
    name: str,
    aim: float,
    queries: Queries,
    number: int,
    worker: XQueryWorker | None,
) -> None:
    dialect = DIALECTS[name][0]
    budget = BUDGET if worker is None else BUDGET_OF_XQUERY
    chance = random.Random(2)
    all_of_them: list[float] = []
    for kind, write in queries.items():
        times: list[float] = []
        clock: list[float] = []
        found = cut = 0
        for _ in range(number):
            text = write(chance)
            started, began = time.process_time(), time.perf_counter()
            query = compile_query(dialect, text, xquery=worker)
            answer = catalogue.find(query, seconds_left=seconds(budget))
            times.append(time.process_time() - started)
            clock.append(time.perf_counter() - began)
            found += len(answer.keys)
            cut += not answer.complete
        all_of_them += times
        print(
            f"{name}, {kind}: {shown(times)} ({shown(clock)}); {found / number:,.1f} found"
            + (f", {cut} of {number} cut short" if cut else "")
        )
    reached = percentile(all_of_them, 0.95)
    print(f"{name}: p95 {reached * 1e3:,.1f} ms, aim {aim * 1e3:,.0f} ms")


def shown(times: Sequence[float]) -> str:
    return (
        f"median {percentile(times, 0.5) * 1e3:,.1f} ms, p95 {percentile(times, 0.95) * 1e3:,.1f}"
    )


if __name__ == "__main__":
    main()
