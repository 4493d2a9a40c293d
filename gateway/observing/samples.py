"""The numbers of ``/metrics``, as the parts that count them say them.

Each part has a ``metrics()`` beside its counts; `gateway.web.metrics` puts them together. Samples
of one name from several parts are added up.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum


class MetricType(Enum):
    """The type that Prometheus gives a metric."""

    COUNTER = "counter"
    GAUGE = "gauge"


@dataclass(frozen=True, slots=True)
class Sample:
    """One metric at one moment.

    Attributes:
        name: Without ``dragoman_``, and for a counter without ``_total``.
        labels: The names of the labels; none where the metric is one number.
        values: The numbers, by the values of the labels. One with labels may have none yet.
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
