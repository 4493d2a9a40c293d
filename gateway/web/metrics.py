"""``/metrics``: the numbers of all parts, as Prometheus reads them."""

import itertools
import math
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)

from gateway.observing.samples import SUM, MetricType, Sample, add_up

FORMER_NAMES = {
    "accepted_bytes": "accepted_octets",
    "archive_bytes": "archive_octets",
    "mailbox_bytes": "mailbox_octets",
    "spool_bytes": "spool_octets",
}
"""Names that metrics had, under which they are told, too, until the next release."""
TENANT = "tenant"
"""The label that says whose a number is."""
FRESH = 5.0
"""Seconds for which the samples of one moment serve all tenants: many may ask, and each time all
subscriptions are looked at."""
_FAMILIES = {MetricType.COUNTER: CounterMetricFamily, MetricType.GAUGE: GaugeMetricFamily}
Family = CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily


class Metrics:
    """Puts together what the parts say.

    Args:
        sources: What each part says, at once.
        counted: The part that has to be counted in the store first.
    """

    def __init__(
        self,
        sources: Sequence[Callable[[], Iterable[Sample]]],
        counted: Callable[[], Awaitable[Iterable[Sample]]],
    ) -> None:
        self._sources = sources
        self._counted = counted
        self._of_tenants: tuple[float, Sequence[Sample]] = (-math.inf, ())
        """When the samples of tenants were taken, and these."""

    async def samples(self) -> list[Sample]:
        """All samples of this moment, each name once."""
        counted = await self._counted()
        samples = add_up(itertools.chain(*(source() for source in self._sources), counted))
        return [*samples, *_by_former_names(samples)]

    async def text(self, tenant: str | None = None) -> bytes:
        """The samples, and those of the process, in Prometheus' text format; of one *tenant* those
        alone that are counted for it, now or within the last `FRESH` seconds."""
        registry = CollectorRegistry()
        if tenant is None:
            ProcessCollector(registry=registry)
            registry.register(_Collector(await self.samples()))
        else:
            registry.register(_Collector(_of_tenant(self._tenants_samples(), tenant)))
        return generate_latest(registry)

    def _tenants_samples(self) -> Sequence[Sample]:
        """The samples that are told by tenant."""
        at, samples = self._of_tenants
        now = time.monotonic()
        if now - at >= FRESH:
            every = add_up(itertools.chain(*(source() for source in self._sources)))
            samples = [one for one in every if TENANT in one.labels]
            self._of_tenants = now, samples
        return samples


def _of_tenant(samples: Iterable[Sample], tenant: str) -> list[Sample]:
    """What *samples*, which are told by tenant, say of *tenant*."""
    found = []
    for sample in samples:
        place = sample.labels.index(TENANT)
        values = {key: one for key, one in sample.values.items() if key[place] == tenant}
        if values:
            found.append(replace(sample, values=values))
    return found


def _by_former_names(samples: Iterable[Sample]) -> Iterator[Sample]:
    for sample in samples:
        if sample.name in FORMER_NAMES:
            text = f"Former name of dragoman_{sample.name}."
            yield replace(sample, name=FORMER_NAMES[sample.name], text=text)


class _Collector:
    """Samples, as Prometheus' library collects them."""

    def __init__(self, samples: Iterable[Sample]) -> None:
        self._families = [_family(sample) for sample in samples]

    def collect(self) -> list[Family]:
        return self._families


def _family(sample: Sample) -> Family:
    if sample.type is MetricType.HISTOGRAM:
        return _histogram_family(sample)
    family: CounterMetricFamily | GaugeMetricFamily = _FAMILIES[sample.type](
        f"dragoman_{sample.name}", sample.text, labels=sample.labels
    )
    for labels, value in sorted(sample.values.items()):
        family.add_metric(labels, float(value))
    return family


def _histogram_family(sample: Sample) -> HistogramMetricFamily:
    family = HistogramMetricFamily(f"dragoman_{sample.name}", sample.text, labels=sample.labels)
    buckets: dict[tuple[str, ...], list[tuple[str, float]]] = {}
    for (*labels, bound), value in sample.values.items():  # Their bounds ascend.
        if bound != SUM:
            buckets.setdefault(tuple(labels), []).append((bound, value))
    for one, its in sorted(buckets.items()):
        family.add_metric(one, its, sample.values[(*one, SUM)])
    return family
