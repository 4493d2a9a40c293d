"""Rates of the last hour, in memory: how much was accepted, delivered, failed and refused a second,
and how long deliveries took.

Counters that exist anyway are read every `STEP` seconds, so that no message costs anything. The
differences stand in rings of `KEPT` values, whatever the traffic.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate

STEP = 10.0
"""Seconds from one look at the counters to the next."""
KEPT = 360
"""Looks that are kept: an hour."""


@dataclass(frozen=True, slots=True)
class Counters:
    """Numbers since the start, read at one moment.

    Attributes:
        seconds: Deliveries by the seconds that they took, in the buckets of a histogram; the last
            is of what took longer than all bounds.
    """

    accepted: int
    delivered: int
    failed: int
    refused: int
    seconds: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class Rate:
    """Numbers a second between two looks.

    Attributes:
        ended: When the second look was, in POSIX seconds.
        p50: Seconds within which half of the deliveries were made; None where there were none.
        p99: The same of 99 of 100.
    """

    ended: float
    accepted: float
    delivered: float
    failed: float
    refused: float
    p50: float | None = None
    p99: float | None = None


class Rates:
    """The rates of the last hour.

    Args:
        read: Reads the counters.
        bounds: The upper bounds of the buckets of `Counters.seconds`, which ascend.
        clock: Tells POSIX seconds.
    """

    def __init__(
        self,
        read: Callable[[], Counters],
        bounds: Sequence[float],
        *,
        clock: Callable[[], float],
        kept: int = KEPT,
    ) -> None:
        self._read = read
        self._bounds = tuple(bounds)
        self._clock = clock
        self._ring: deque[Rate] = deque(maxlen=kept)
        self._former = read()
        self._looked = clock()

    def look(self) -> None:
        """Read the counters, and keep the rates since they were read last."""
        now, counters = self._clock(), self._read()
        elapsed, former = now - self._looked, self._former
        if elapsed <= 0:  # The clock was set back: what follows is right again.
            self._looked, self._former = now, counters
            return
        buckets = [new - old for new, old in zip(counters.seconds, former.seconds, strict=True)]
        self._ring.append(
            Rate(
                now,
                (counters.accepted - former.accepted) / elapsed,
                (counters.delivered - former.delivered) / elapsed,
                (counters.failed - former.failed) / elapsed,
                (counters.refused - former.refused) / elapsed,
                quantile(self._bounds, buckets, 0.5),
                quantile(self._bounds, buckets, 0.99),
            )
        )
        self._looked, self._former = now, counters

    async def run(self) -> None:
        """Look every `STEP` seconds, for ever."""
        while True:
            await asyncio.sleep(STEP)
            self.look()

    def last_hour(self) -> list[Rate]:
        """The rates that are kept, the oldest first."""
        return list(self._ring)


def merge(rings: Sequence[Sequence[Rate]]) -> list[Rate]:
    """The rates of several gateways together, the oldest first. What was taken within the same
    `STEP` seconds is one: rates add up, ``p50`` is the mean, weighted by what each delivered, and
    ``p99`` the greatest, for more is not known of them together."""
    slots: dict[int, list[Rate]] = {}
    for ring in rings:
        for rate in ring:
            slots.setdefault(round(rate.ended / STEP), []).append(rate)
    return [_together(slots[slot]) for slot in sorted(slots)[-KEPT:]]


def _together(rates: Sequence[Rate]) -> Rate:
    if len(rates) == 1:
        return rates[0]
    halves = [(one.p50, one.delivered) for one in rates if one.p50 is not None]
    weight = sum(delivered for _, delivered in halves)
    return Rate(
        max(one.ended for one in rates),
        sum(one.accepted for one in rates),
        sum(one.delivered for one in rates),
        sum(one.failed for one in rates),
        sum(one.refused for one in rates),
        sum(p50 * delivered for p50, delivered in halves) / weight if weight else None,
        max((one.p99 for one in rates if one.p99 is not None), default=None),
    )


def quantile(bounds: Sequence[float], buckets: Sequence[int], share: float) -> float | None:
    """The value that a *share* of what is counted in *buckets* does not exceed, as if it were
    spread evenly in its bucket; None where nothing is counted.

    Args:
        bounds: The upper bounds of the buckets but the last, of which its lower bound is all that
            is known.
    """
    total = sum(buckets)
    if not total:
        return None
    wanted = share * total
    for n, below in enumerate(accumulate(buckets)):
        if below >= wanted and buckets[n]:
            break
    if n == len(bounds):
        return bounds[-1]
    lower = bounds[n - 1] if n else 0.0
    return bounds[n] - (bounds[n] - lower) * (below - wanted) / buckets[n]
