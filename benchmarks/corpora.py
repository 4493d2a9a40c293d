"""Measures matching over folders of any XML: what a message costs, and what each true filter adds.

Question: 100,000 filters are made of the paths and values of messages that nobody has tuned the
engine for; what does one of these messages cost then, its tree parsed, on one core?

    .venv/bin/python -m benchmarks.corpora FOLDER ... [--predicates 0 1 3] [--filters 100000]

Each *FOLDER* is a corpus: its ``*.xml`` are messages, and so is the key ``xml`` of each line of its
``*.jsonl`` and ``*.jsonl.gz``. Times are processor time a message, the least of several passes over
all messages. ``aim us`` is what is wanted: 15 us, and 10 ns for each filter that is true. ``parse
us`` is what libxml2 takes to parse a message and to free it, called by ctypes; ``bytes to verdict
us`` is what parsing and matching take in one call, at most 1.6 times the sum of both alone.
"""

import argparse
import ctypes
import gzip
import json
import multiprocessing
import random
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

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
    *("parse us", "bytes to verdict us", "ratio"),
)
PARSE_OPTIONS = 1 << 11 | 1 << 14 | 1 << 16 | 1 << 22
"""No network, no CDATA sections, compact, long line numbers: those of `filters.documents`."""
AIM_US, AIM_NS = 15, 10

Item = TypeVar("Item")


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
    documents = documents[:MESSAGES]
    roots = [parse_document(octets) for octets in documents]
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
        *whole_way(index, documents, roots),
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


def whole_way(
    index: Index, documents: Sequence[bytes], roots: Sequence[etree._Element]
) -> tuple[str, str, str]:
    """What libxml2 takes to parse a message, what *index* takes from its bytes to its verdict, in
    microseconds, and the ratio of that to parsing and matching alone."""
    if index.find_in(documents[0], checked=True) is None:
        return "", "", ""
    parse, ask = libxml2_parser(), partial(index.find_in, checked=True)
    parsing = matching = together = float("inf")
    for _ in range(PASSES):  # In turn, so that a busy machine slows all alike.
        parsing = min(parsing, each(parse, documents))
        matching = min(matching, each(index.find, roots))
        together = min(together, each(ask, documents))
    return f"{parsing:.1f}", f"{together:.1f}", f"{together / (parsing + matching):.2f}"


def each(act: Callable[[Item], object], items: Sequence[Item]) -> float:
    """Microseconds of processor time that *act* takes for each of *items*."""
    started = time.process_time()
    for item in items:
        act(item)
    return (time.process_time() - started) / len(items) * 1e6


def libxml2_parser() -> Callable[[bytes], None]:
    """What parses with lxml's libxml2 and frees the tree, in a context that it keeps."""
    library = ctypes.CDLL(etree.__file__)
    library.xmlNewParserCtxt.restype = library.xmlCtxtReadMemory.restype = ctypes.c_void_p
    library.xmlCtxtReadMemory.argtypes = (
        *(ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int),
        *(ctypes.c_char_p, ctypes.c_char_p, ctypes.c_int),
    )
    library.xmlFreeDoc.argtypes = (ctypes.c_void_p,)
    context = library.xmlNewParserCtxt()

    def parse(octets: bytes) -> None:
        read = library.xmlCtxtReadMemory(context, octets, len(octets), None, None, PARSE_OPTIONS)
        library.xmlFreeDoc(read)

    return parse


if __name__ == "__main__":
    main()
