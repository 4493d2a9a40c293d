"""Failed attempts: those in a row of one subscription or destination (`Trouble`), and the sums by
destination since the gateway started (`FailureCounts`).

A subscription forgets its failures when one attempt succeeds; the sums stay.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import nlargest

KEPT = 1000
"""Destinations that are counted: those whose last failure is the longest ago are forgotten."""


@dataclass(slots=True)
class Trouble:
    """Attempts in a row that failed. Times are POSIX seconds."""

    failures: int
    """Attempts in a row that failed; 0 once one has succeeded."""
    since: float
    """When the first of them failed."""
    at: float
    """When the last one failed."""
    error: str
    said: bool = False
    """The log was told."""

    def failed(self, error: str, now: float) -> None:
        self.failures += 1
        self.at, self.error = now, error


@dataclass(slots=True)
class DestinationFailures:
    """The failed attempts to one destination. ``last_at`` is in POSIX seconds."""

    destination: str
    failures: int = 0
    last_error: str = ""
    last_at: float = 0.0


class FailureCounts:
    """The failed attempts to the destinations that failed last, *kept* at most."""

    def __init__(self, kept: int = KEPT) -> None:
        self._kept = kept
        self._counts: OrderedDict[tuple[str, str], DestinationFailures] = OrderedDict()
        """By tenant and destination."""

    def note(self, destination: str, error: str, now: float, tenant: str = "") -> None:
        """Count one more failed attempt, of a *tenant*."""
        key = tenant, destination
        count = self._counts.get(key)
        if count is None:
            count = self._counts[key] = DestinationFailures(destination)
            if len(self._counts) > self._kept:
                self._counts.popitem(last=False)
        count.failures += 1
        count.last_error, count.last_at = error, now
        self._counts.move_to_end(key)

    def most(self, number: int, tenant: str | None = None) -> Sequence[DestinationFailures]:
        """The destinations with the most failed attempts, that with the most first; of one
        *tenant*, or of all together."""
        sums: dict[str, DestinationFailures] = {}
        for (whose, destination), count in self._counts.items():
            if tenant not in (None, whose):
                continue
            known = sums.setdefault(destination, DestinationFailures(destination))
            known.failures += count.failures
            if count.last_at >= known.last_at:
                known.last_error, known.last_at = count.last_error, count.last_at
        return nlargest(number, sums.values(), key=lambda count: count.failures)
