"""Findings: the results of checks."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from functools import partial


class Verdict(Enum):
    """The value is what is printed."""

    OK = "ok"
    WARN = "warn"
    FAIL = "FAIL"


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding about *what*; the text of a bad one also says how to mend it."""

    verdict: Verdict
    what: str
    text: str


ok = partial(Finding, Verdict.OK)
warn = partial(Finding, Verdict.WARN)
fail = partial(Finding, Verdict.FAIL)
Check = Callable[[], Iterator[Finding]]
