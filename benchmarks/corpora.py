"""Measures matching over folders of any XML: what a message costs, and what each true filter adds.

Question: 100,000 filters are made of the paths and values of messages that nobody has tuned the
engine for; what does one of these messages cost then, its tree parsed, on one core?

    .venv/bin/python -m benchmarks.corpora FOLDER ... [--predicates 0 1 3] [--filters 100000]

Each *FOLDER* is a corpus: its ``*.xml`` are messages, and so is the key ``xml`` of each line of its
``*.jsonl`` and ``*.jsonl.gz``. Times are processor time a message, the least of several passes over
all messages. ``aim`` is what is wanted: 15 us, and 10 ns for each filter that is true.
"""

import argparse
import gzip
import json
import multiprocessing
import random
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from lxml import etree

from benchmarks.machine import describe, pin
from filters import FilterError, engine, parse_document
from filters.matching.engines.choice import make_index
from filters.matching.engines.index import Index
from filters.workloads import Vocabulary, expressions

MESSAGES = 300
PASSES = 15
STYLES = {0: "xm0", 1: "xm1", 3: "xm3"}
COLUMNS = (
    *("corpus", "predicates", "distinct filters", "elements", "us", "mean us", "true"),
    *("ns for each true one", "left to libxml2", "aim us"),
)
AIM_US, AIM_NS = 15, 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folders", type=Path, nargs="+", metavar="FOLDER")
    parser.add_argument("--predicates", type=int, nargs="+", choices=STYLES, default=list(STYLES))
    parser.add_argument("--filters", type=int, default=100_000)
    options = parser.parse_args()
    print(f"{describe()}; engine: {engine()}\n")
    print("| " + " | ".join(COLUMNS) + " |")
    print("|---" * len(COLUMNS) + "|")
    for folder in options.folders:
        for predicates in options.predicates:
            # A process of its own each: what one leaves in the caches and the heap is not the
            # next one's cost.
            process = multiprocessing.get_context("spawn").Process(
                target=measure, args=(folder, predicates, options.filters)
            )
            process.start()
            process.join()
            if process.exitcode:
                raise SystemExit(process.exitcode)


def measure(folder: Path, predicates: int, count: int) -> None:
    """Print the row of one corpus with so many predicates in each of *count* filters."""
    pin(1)
    documents = [octets for octets in read(folder) if is_readable(octets)]
    random.Random(1).shuffle(documents)
    index = make_index()
    for expression in expressions(STYLES[predicates], count, 7, Vocabulary(documents)):
        index.add(expression)
    roots = [parse_document(octets) for octets in documents[:MESSAGES]]
    best, mean, true, doubtful = timed(index, roots)
    elements = sum(sum(1 for _ in root.iter(etree.Element)) for root in roots) / len(roots)
    row = (
        folder.name,
        str(predicates),
        f"{len(index):,}",
        f"{elements:.0f}",
        f"{best:.1f}",
        f"{mean:.1f}",
        f"{true:,.0f}",
        f"{best * 1000 / max(true, 1):.0f}",
        f"{doubtful:.1f}",
        f"{AIM_US + AIM_NS * true / 1000:.0f}",
    )
    print("| " + " | ".join(row) + " |", flush=True)


def read(folder: Path) -> Iterator[bytes]:
    """The messages of a corpus."""
    for path in sorted(folder.rglob("*")):
        if path.suffix == ".xml":
            yield path.read_bytes()
        elif path.name.endswith((".jsonl", ".jsonl.gz")):
            octets = path.read_bytes()
            lines = gzip.decompress(octets) if path.suffix == ".gz" else octets
            for line in lines.splitlines():
                yield json.loads(line)["xml"].encode()


def is_readable(octets: bytes) -> bool:
    try:
        parse_document(octets)
    except FilterError:
        return False
    return True


def timed(index: Index, roots: Sequence[etree._Element]) -> tuple[float, float, float, float]:
    """Microseconds of processor time a message, at least and in the mean of all passes but the
    first; how many filters are true of one, and how many the engine leaves to libxml2."""
    passes, true, doubtful = [], 0, 0
    for _ in range(PASSES):
        true = doubtful = 0
        started = time.process_time()
        for root in roots:
            found = index.find(root)
            true += len(found.true)
            doubtful += len(found.doubtful)
        passes.append((time.process_time() - started) / len(roots) * 1e6)
    mean = sum(passes[1:]) / len(passes[1:])
    return min(passes), mean, true / len(roots), doubtful / len(roots)


if __name__ == "__main__":
    main()
