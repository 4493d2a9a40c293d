"""Measures how fast the filter engines match, beside libxml2 evaluating every filter.

Questions: how many microseconds does one message take against N content filters, the tree already
parsed, on one core; how many times faster is that than precompiled lxml expressions, one by one, in
the same run; what does a filter weigh; what do adding and removing cost.

    .venv/bin/python -m benchmarks.filters [--corpus DIR] [--only xm1 ...]

*DIR* has message corpora as JSON lines with a key ``xml``: ``xmark/*.jsonl.gz`` for the path
styles, ``winevent/*.jsonl.gz`` for the event styles, ``filters/wef.jsonl`` with published
event-forwarding filters (keys ``xpath``, ``namespaces``). Without it, messages are generated, and
there are no published filters. Times are the mean over the messages of the best of five passes, and
in parentheses the mean of all passes but the first.
"""

import argparse
import ctypes
import gc
import gzip
import json
import multiprocessing
import os
import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from lxml import etree

from benchmarks.machine import describe, percentile, pin
from filters import PAYLOAD, Event, Expression, Filter, FilterSet, engine, engine_note
from filters.matching.engines.choice import make_index
from filters.matching.engines.index import Index
from filters.workloads import Vocabulary, expressions, family_of, messages
from filters.xpath import compile_xpath

MESSAGES = 300
PASSES = 5
NAIVE = 2_000
"""The number of distinct filters that lxml evaluates one by one; all others are as slow."""
CORPORA = {"auctions": "xmark", "events": "winevent"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--corpus", type=Path)
    parser.add_argument(
        "--only", nargs="*", help="xm0 xm1 xm3 ev million wef reference churn memory"
    )
    options = parser.parse_args()
    print(describe())
    print(f"engine: {engine()}{': ' + note if (note := engine_note()) else ''}")
    for name, step in steps():
        if not options.only or name in options.only:
            # A process of its own each: what one leaves in the caches and the heap is not the next
            # one's cost.
            if step is memory:
                os.environ["PYTHONMALLOC"] = "malloc"
            process = multiprocessing.get_context("spawn").Process(
                target=run, args=(step, options.corpus, name)
            )
            process.start()
            process.join()
            if process.exitcode:
                raise SystemExit(process.exitcode)


def steps() -> Iterator[tuple[str, Callable[[Path | None, str], None]]]:
    for style in ("xm0", "xm1", "xm3", "ev"):
        yield style, hundred_thousand
    yield "million", million
    yield "wef", published
    yield "reference", reference
    yield "churn", churn
    yield "memory", memory


def run(step: Callable[[Path | None, str], None], corpus: Path | None, name: str) -> None:
    pin(1)
    step(corpus, name)


def hundred_thousand(corpus: Path | None, style: str) -> None:
    documents = read(corpus, style)
    filters = expressions(style, 100_000, 7, Vocabulary(documents))
    index, build = built(filters)
    roots = parsed(documents)
    best, mean, true = timed(index, roots)
    naive = one_by_one(filters, roots)
    print(
        f"{style}, {len(filters):,} filters, {len(index):,} distinct: {best:.1f} us ({mean:.1f});"
        f" {true:,.0f} of them true, {best * 1000 / max(true, 1):,.0f} ns for each;"
        f" naive {naive:.2f} us a filter, {naive * len(index) / best:,.0f} times slower;"
        f" built in {build:.0f} us a filter"
    )


def million(corpus: Path | None, name: str) -> None:
    documents = read(corpus, "ev")
    vocabulary = Vocabulary(documents)
    started = time.process_time()
    filters = filled("ev", 1_000_000, 1, vocabulary)
    took = (time.process_time() - started) / len(filters) * 1e6
    index = filters._contents[PAYLOAD].index
    best, mean, true = timed(index, parsed(documents))
    print(
        f"ev, {len(filters):,} filters in a FilterSet, {len(index):,} distinct: {best:.1f} us"
        f" ({mean:.1f}); {true:,.0f} of them true, {best * 1000 / max(true, 1):,.0f} ns for each;"
        f" made and added in {took:.0f} us each"
    )


def memory(corpus: Path | None, name: str) -> None:
    """Measure the memory of a FilterSet with everything in it, its keys (integers) included."""
    for style, count in (("xm1", 100_000), ("xm3", 100_000), ("ev", 100_000), ("ev", 1_000_000)):
        documents = read(corpus, style)
        filters: FilterSet[int] = FilterSet()  # the former one goes
        vocabulary = Vocabulary(documents)
        events = [Event(document) for document in documents[:MESSAGES]]
        del documents
        filled(style, 1_000, 0, vocabulary)  # what is made once
        before = in_use()
        index = make_index()
        for expression in portions(style, count, 1, vocabulary):
            index.add(expression)
        alone = (in_use() - before) / len(index)
        del index
        before = in_use()
        filters = filled(style, count, 1, vocabulary)
        built_in = in_use() - before
        fresh = matched(filters, events) - before
        distinct = len(filters._contents[PAYLOAD].index)
        again = ""
        if count == 100_000:
            for turn in range(10):
                for key, other in enumerate(portions(style, count, 10 + turn, vocabulary)):
                    filters.add(key, Filter(contents=(other,)))
            after = matched(filters, events) - before
            again = f"; {after / fresh:.2f} of that after every filter was replaced ten times"
        print(
            f"memory, {style}, {count:,} filters, {distinct:,} distinct:"
            f" {alone:,.0f} octets a distinct filter in an index;"
            f" {built_in / distinct:,.0f} in a FilterSet ({built_in / count:,.0f} a key),"
            f" {fresh / distinct:,.0f} after {len(events)} messages{again}"
        )


def filled(style: str, count: int, seed: int, vocabulary: Vocabulary) -> FilterSet[int]:
    """A set of so many filters, with numbers as keys."""
    filters: FilterSet[int] = FilterSet()
    for key, expression in enumerate(portions(style, count, seed, vocabulary)):
        filters.add(key, Filter(contents=(expression,)))
    return filters


def portions(style: str, count: int, seed: int, vocabulary: Vocabulary) -> Iterator[Expression]:
    """Filters that are made as they are needed: what is measured is what a set keeps of them."""
    for portion in range(count // 1000):
        yield from expressions(style, 1000, seed * 1_000_000 + portion, vocabulary)


def published(corpus: Path | None, name: str) -> None:
    if corpus is None:
        print("wef: no corpus, no published filters")
        return
    rows = map(json.loads, (corpus / "filters" / "wef.jsonl").read_text().splitlines())
    filters = list(
        dict.fromkeys(
            Expression(row["xpath"], namespaces=tuple(sorted(row["namespaces"].items())))
            for row in rows
            if row["xpath"]
        )
    )
    documents = read(corpus, "ev")
    index, _ = built(filters)
    roots = parsed(documents)
    best, mean, true = timed(index, roots)
    naive = one_by_one(filters, roots)
    print(
        f"wef, {len(filters)} published filters: {best:.1f} us ({mean:.1f}); {true:.1f} true;"
        f" naive {naive * len(filters):,.0f} us, {naive * len(filters) / best:,.0f} times slower"
    )


def reference(corpus: Path | None, name: str) -> None:
    for style in ("xm1", "ev"):
        documents = read(corpus, style)
        filters = expressions(style, 10_000, 7, Vocabulary(documents))
        index, _ = built(filters, "reference")
        best, mean, _ = timed(index, parsed(documents))
        print(f"reference, {style}, {len(filters):,} filters: {best:.1f} us ({mean:.1f})")


def churn(corpus: Path | None, name: str) -> None:
    """Filters come and go one by one, each time the next message is matched.

    Processor time, beside that of a message when nothing changes. Adding is from the text on.
    """
    for style in ("xm1", "xm3", "ev"):
        documents = read(corpus, style)
        vocabulary = Vocabulary(documents)
        others = expressions(style, 20_000, 8, vocabulary)
        events = [Event(document) for document in documents[:MESSAGES]]
        filters = filled(style, 100_000, 1, vocabulary)
        matched(filters, events)
        unchanged = []
        for event in events * 3:
            started = time.process_time()
            filters.match(event)
            unchanged.append((time.process_time() - started) * 1e6)
        adds, removes, rounds = [], [], []
        chance = random.Random(3)
        for number, other in enumerate(others):
            key = chance.randrange(len(filters))
            event = events[number % len(events)]
            started = time.process_time()
            filters.remove(key)
            removed = time.process_time()
            filters.add(key, Filter(contents=(other,)))
            added = time.process_time()
            filters.match(event)
            rounds.append((time.process_time() - removed) * 1e6)
            removes.append((removed - started) * 1e6)
            adds.append((added - removed) * 1e6)
        print(
            f"churn, {style}, 100,000 filters: add {told(adds)}, remove {told(removes)},"
            f" add and the next message, parsed, {told(rounds)};"
            f" a message without a change {told(unchanged)}"
        )


def told(times: Sequence[float]) -> str:
    return f"{statistics.median(times):.0f} us (p99 {percentile(times, 0.99):.0f})"


def matched(filters: FilterSet[int], events: Sequence[Event]) -> int:
    """Octets in use, once *filters* knows *events*."""
    for event in events:
        filters.match(event)
    return in_use()


def read(corpus: Path | None, style: str) -> list[bytes]:
    """The messages of a style, in an order of chance."""
    family = family_of(style)
    if corpus is None:
        return messages(family, 3_000, 1)
    documents = [
        json.loads(line)["xml"].encode()
        for path in sorted((corpus / CORPORA[family]).glob("*.jsonl.gz"))
        for line in gzip.decompress(path.read_bytes()).splitlines()
    ]
    random.Random(1).shuffle(documents)
    return documents


def built(filters: Sequence[Expression], name: str | None = None) -> tuple[Index, float]:
    """An index of *filters*, and the microseconds that each took."""
    started = time.process_time()
    index = make_index(name)
    for expression in filters:
        index.add(expression)
    return index, (time.process_time() - started) / len(filters) * 1e6


def parsed(documents: Sequence[bytes]) -> list[etree._Element]:
    return [etree.fromstring(document) for document in documents[:MESSAGES]]


def timed(index: Index, roots: Sequence[etree._Element]) -> tuple[float, float, float]:
    """Microseconds a message, at best and as a rule, and how many filters are true of one."""
    best = [float("inf")] * len(roots)
    later, true = [], 0
    for number in range(PASSES + 1):
        for at, root in enumerate(roots):
            started = time.perf_counter()
            found = index.find(root)
            took = (time.perf_counter() - started) * 1e6
            best[at] = min(best[at], took)
            if number:
                later.append(took)
                true += len(found.true)
    return statistics.mean(best), statistics.mean(later), true / len(later)


def one_by_one(filters: Sequence[Expression], roots: Sequence[etree._Element]) -> float:
    """Microseconds that a precompiled lxml expression takes on a message."""
    distinct = sorted(set(filters), key=lambda expression: expression.text)
    chosen = random.Random(2).sample(distinct, min(NAIVE, len(distinct)))
    compiled = [compile_xpath(one.text, one.namespaces) for one in chosen]
    passes = []
    for _ in range(3):
        started = time.perf_counter()
        for root in roots[:40]:
            for xpath in compiled:
                xpath(root)
        passes.append(time.perf_counter() - started)
    return min(passes) / len(compiled) / len(roots[:40]) * 1e6


class _Heap(ctypes.Structure):
    """``struct mallinfo2`` of glibc."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in [
            "arena",
            "ordblks",
            "smblks",
            "hblks",
            "hblkhd",
            "usmblks",
            "fsmblks",
            "uordblks",
            "fordblks",
            "keepcost",
        ]
    ]


def in_use() -> int:
    """Octets that were allocated and not freed; Python's own too, as ``PYTHONMALLOC=malloc`` says.

    What a process has of the system depends on what was freed before; this does not.
    """
    gc.collect()
    mallinfo2 = ctypes.CDLL(None).mallinfo2
    mallinfo2.restype = _Heap
    heap = mallinfo2()
    return int(heap.uordblks + heap.hblkhd)


if __name__ == "__main__":
    main()
