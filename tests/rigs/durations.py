"""How many seconds each file of tests took when all tests last ran and were recorded: what takes
longest runs first, and `make quick` leaves it out."""

import functools
import json
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
RECORD = ROOT / "tests/durations.json"
LEAST = 0.5
"""Seconds; of a file that takes less nothing is kept."""
MARKS = frozenset({"needs_server", "slow"})
"""Of tests that `make quick` leaves out one by one. A report has the names of folders among its
marks, so that no folder of tests may be called like a mark: ``server`` was."""


class Seconds(NamedTuple):
    """The seconds of a file's tests: of all, and of those that need no server and are not marked as
    slow."""

    all: float = LEAST
    light: float = LEAST


@functools.cache
def recorded() -> Mapping[str, Seconds]:
    """The seconds of each file, by its path from the root of the repository."""
    if not RECORD.is_file():
        return {}
    return {path: Seconds(*pair) for path, pair in json.loads(RECORD.read_text()).items()}


def seconds_of(path: str) -> Seconds:
    """The seconds of the file at *path*; little where it was never recorded."""
    return recorded().get(path, Seconds())


class Recorder:
    """Adds up the reports of a run."""

    def __init__(self) -> None:
        self._all: defaultdict[str, float] = defaultdict(float)
        self._light: defaultdict[str, float] = defaultdict(float)

    def add(self, report: pytest.TestReport) -> None:
        path = report.nodeid.partition("::")[0]
        self._all[path] += report.duration
        if not MARKS & report.keywords.keys():
            self._light[path] += report.duration

    def write(self, target: Path) -> None:
        """Write *target* anew; files that did not run keep what is recorded."""
        known = {path: pair for path, pair in recorded().items() if (ROOT / path).is_file()}
        ran = {path: Seconds(self._all[path], self._light[path]) for path in self._all}
        lines = [
            f"{json.dumps(path)}: [{seconds.all:.1f}, {seconds.light:.1f}]"
            for path, seconds in sorted({**known, **ran}.items())
            if seconds.all >= LEAST
        ]
        target.write_text("{\n" + ",\n".join(lines) + "\n}\n")
