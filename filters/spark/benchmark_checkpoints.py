"""Keeps what a benchmark has measured on the disk, part by part, so that a run that ended early
goes on where it was; and says how far it is."""

import hashlib
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from filters.spark.benchmark_plan import Plan

FILE = "unfinished.jsonl"


class OtherPlan(Exception):
    """What is kept belongs to a run of other options; the text says so."""


class Unfinished:
    """The parts of a run in the folder *folder*, by name: what each added to the outcome.

    Args:
        resume: Go on with what is there; else it is removed.

    Raises:
        OtherPlan: What is there was measured with another plan.
        OSError: The file cannot be read or written.
    """

    def __init__(self, folder: Path, plan: Plan, *, resume: bool = False) -> None:
        self.path = folder / FILE
        self._parts: dict[str, Any] = {}
        digest = hashlib.sha256(repr(plan).encode()).hexdigest()
        if resume and self.path.exists():
            first, *lines = self.path.read_text(encoding="utf-8").splitlines(keepends=True)
            if json.loads(first) != {"plan": digest}:
                raise OtherPlan(f"{self.path}: of a run with other options, filters or messages")
            # The last line is cut where the machine stopped while it was written.
            whole = [line for line in lines if line.endswith("\n")]
            self._parts = dict(json.loads(line) for line in whole)
            self.path.write_text(first + "".join(whole), encoding="utf-8")
        else:
            self._write({"plan": digest}, "w")

    def __len__(self) -> int:
        """Return the number of parts that are there."""
        return len(self._parts)

    def part(self, name: str) -> Any:
        """Return what the part called *name* added; None where it was not measured."""
        return self._parts.get(name)

    def keep(self, name: str, added: Any) -> None:
        """Keep what the part called *name* added, safe from a power loss."""
        self._write([name, added], "a")
        self._parts[name] = added

    def remove(self) -> None:
        """Remove the file: the run is done, or nothing that it measured is to be believed."""
        self.path.unlink(missing_ok=True)

    def _write(self, value: Any, mode: str) -> None:
        with self.path.open(mode, encoding="utf-8") as file:
            file.write(json.dumps(value) + "\n")
            file.flush()
            os.fsync(file.fileno())


class Progress:
    """Says what was done, of how much, since when, and for how long still."""

    def __init__(self, tell: Callable[[str], None], steps: int) -> None:
        self._tell = tell
        self._steps = steps
        self._done = self._before = 0
        self._started = time.monotonic()

    def step(self, text: str) -> None:
        """Say that one more step was done."""
        self._done += 1
        self._say(text)

    def skip(self, steps: int, text: str) -> None:
        """Say that some steps were done by a run before."""
        self._done += steps
        self._before += steps
        self._say(text)

    def _say(self, text: str) -> None:
        passed = time.monotonic() - self._started
        done = self._done - self._before
        left = passed / done * (self._steps - self._done) if done else 0.0
        to_go = f", about {_minutes(left)} to go" if done > 2 and self._done < self._steps else ""
        self._tell(f"[{self._done}/{self._steps}] {_minutes(passed)}{to_go}  {text}")


def _minutes(seconds: float) -> str:
    return "{}:{:02}".format(*divmod(int(seconds), 60))


class Figures(Protocol):
    """The part of an outcome that is kept."""

    rows: list[dict[str, Any]]
    startup: list[tuple[str, float]]
    verdicts: int


class Keeper:
    """Runs the parts of a benchmark that were not measured before, and keeps each."""

    def __init__(self, figures: Figures, progress: Progress, unfinished: Unfinished | None) -> None:
        self._figures = figures
        self._progress = progress
        self._unfinished = unfinished
        self._name = ""
        self._before = (0, 0, 0)

    def begins(self, name: str, steps: int) -> bool:
        """Begin the part called *name*, of so many *steps*; false where its figures are there."""
        figures = self._figures
        added = self._unfinished and self._unfinished.part(name)
        if added:
            figures.rows += added["rows"]
            figures.startup += [(what, seconds) for what, seconds in added["startup"]]
            figures.verdicts += added["verdicts"]
            self._progress.skip(steps, f"{name}: measured before")
            return False
        self._name = name
        self._before = (len(figures.rows), len(figures.startup), figures.verdicts)
        return True

    def ends(self) -> None:
        """Keep what the part that was begun last added."""
        rows, startup, verdicts = self._before
        figures = self._figures
        if self._unfinished is not None:
            added = {
                "rows": figures.rows[rows:],
                "startup": figures.startup[startup:],
                "verdicts": figures.verdicts - verdicts,
            }
            self._unfinished.keep(self._name, added)
