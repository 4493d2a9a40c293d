"""The numbers of ``/metrics``, as the parts that count them say them.

Each part has a ``metrics()`` beside its counts; `gateway.web.metrics` puts them together. Samples
of one name from several parts are added up.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum


class MetricType(Enum):
    """The type that Prometheus gives a metric."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Sample:
    """One metric at one moment.

    Attributes:
        name: Without ``dragoman_``, and for a counter without ``_total``.
        labels: The names of the labels; none where the metric is one number.
        values: The numbers, by the values of the labels. One with labels may have none yet. Those
            of a histogram have one more: the upper bound of a bucket, or `SUM`.
    """

    name: str
    text: str
    type: MetricType
    values: Mapping[tuple[str, ...], float]
    labels: tuple[str, ...] = ()

    def __add__(self, other: "Sample") -> "Sample":
        values = dict(self.values)
        for key, value in other.values.items():
            values[key] = values.get(key, 0) + value
        return Sample(self.name, self.text, self.type, values, self.labels)


SUM = "sum"
"""In the place of a bucket's bound: the sum of all that was observed."""


LATENCY_BOUNDS = (
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 3600.0,
)  # fmt: skip
"""The upper bounds of the buckets of seconds since an event came, which may wait for hours."""


class Histogram:
    """Counts of what was observed, in buckets up to each of *bounds*, which ascend."""

    __slots__ = ("_bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = tuple(bounds)
        self.counts = [0] * (len(self._bounds) + 1)
        """The last is of what is beyond all bounds."""
        self.sum = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self._bounds, value)] += 1
        self.sum += value

    @property
    def values(self) -> Mapping[str, float]:
        """How many values were at most as large as each bound, and `SUM`."""
        found, below = dict[str, float](), 0
        for bound, number in zip((*map(repr, self._bounds), "+Inf"), self.counts, strict=True):
            below += number
            found[bound] = below
        return {**found, SUM: self.sum}


def histograms(name: str, text: str, label: str, values: Mapping[str, Histogram]) -> Sample:
    """Histograms, by the value of *label*."""
    by_label: dict[tuple[str, ...], float] = {
        (key, bound): number for key, one in values.items() for bound, number in one.values.items()
    }
    return Sample(name, text, MetricType.HISTOGRAM, by_label, (label,))


def histogram(name: str, text: str, value: Histogram) -> Sample:
    """One histogram."""
    by_bound: dict[tuple[str, ...], float] = {
        (bound,): number for bound, number in value.values.items()
    }
    return Sample(name, text, MetricType.HISTOGRAM, by_bound)


def counter(name: str, text: str, value: float) -> Sample:
    """A number that only grows."""
    return Sample(name, text, MetricType.COUNTER, {(): value})


def gauge(name: str, text: str, value: float) -> Sample:
    """A number that grows and shrinks."""
    return Sample(name, text, MetricType.GAUGE, {(): value})


def counters(name: str, text: str, label: str, values: Mapping[str, float]) -> Sample:
    """Numbers that only grow, by the value of *label*."""
    by_label: dict[tuple[str, ...], float] = {(key,): value for key, value in values.items()}
    return Sample(name, text, MetricType.COUNTER, by_label, (label,))


def gauges(
    name: str, text: str, labels: tuple[str, ...], values: Mapping[tuple[str, ...], float]
) -> Sample:
    """Numbers that grow and shrink, by the values of *labels*."""
    return Sample(name, text, MetricType.GAUGE, values, labels)


def add_up(samples: Iterable[Sample]) -> list[Sample]:
    """*samples* in their order, those of one name as one."""
    sums: dict[str, Sample] = {}
    for sample in samples:
        known = sums.get(sample.name)
        sums[sample.name] = sample if known is None else known + sample
    return list(sums.values())
