"""Drives Dragoman's engine, or libxml2 one expression after the other, over a folder of messages
and patterns: ``python -m benchmarks.engines.python_drivers dragoman|libxml2 FOLDER``.

Prints JSON: microseconds of processor time to add a pattern, to parse a message, to match it, and
to do both; and how many patterns are true of all messages.
"""

import itertools
import json
import sys
import time
from array import array
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from lxml import etree

from filters import Expression, parse_document
from filters.matching.engines.choice import make_index

SECONDS = 0.5
"""For how long a step is repeated."""
FEWEST = 20
"""Messages of which a step is measured: one by one, 100,000 patterns take 0.1 s of each."""

Item = TypeVar("Item")
Match = Callable[[etree._Element], int]


def main() -> None:
    name, folder = sys.argv[1], Path(sys.argv[2])
    messages = (folder / "messages.xml").read_bytes().splitlines()
    patterns = (folder / "patterns.xpath").read_text().splitlines()
    started = time.process_time()
    match = {"dragoman": dragoman, "libxml2": libxml2}[name](patterns)
    built = (time.process_time() - started) / len(patterns) * 1e6
    roots = [parse_document(octets) for octets in messages]
    figures = {
        "build_us": built,
        "parse_us": mean(parse_document, messages),
        "match_us": mean(match, roots),
        "together_us": mean(lambda octets: match(parse_document(octets)), messages),
        "true": sum(map(match, roots)),
    }
    print(json.dumps(figures))


def dragoman(patterns: Sequence[str]) -> Match:
    """All at once. Equal patterns are one filter: each counts as often as it is there."""
    index = make_index("native")
    users = Counter(index.add(Expression(text)) for text in patterns)
    counts = array("I", [users[number] for number in range(max(users) + 1)])

    def match(root: etree._Element) -> int:
        return sum(map(counts.__getitem__, index.find(root).true))

    return match


def libxml2(patterns: Sequence[str]) -> Match:
    compiled = [etree.XPath(f"boolean({text})") for text in patterns]

    def match(root: etree._Element) -> int:
        return sum(1 for xpath in compiled if xpath(root))

    return match


def mean(act: Callable[[Item], object], items: Sequence[Item]) -> float:
    """Return the microseconds of processor time that *act* takes of one of *items*, the mean of as
    many as fit in `SECONDS`, in turn, and of `FEWEST` at least; what comes before is not counted.
    """
    took, count = 0.0, 0
    for _ in range(2):
        turns = itertools.cycle(items)
        took, count, started = 0.0, 0, time.process_time()
        while took < SECONDS:
            for item in itertools.islice(turns, FEWEST):
                act(item)
            took, count = time.process_time() - started, count + FEWEST
    return took / count * 1e6


if __name__ == "__main__":
    main()
