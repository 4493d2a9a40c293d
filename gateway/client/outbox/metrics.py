"""A collector of Prometheus for an outbox and an inbox (the package ``prometheus-client``)."""

import time
from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from gateway.client.outbox.administration import BOXES, StoredMessages
from gateway.client.outbox.databases import AnyDatabase
from gateway.client.outbox.tables import WAITING


class OutboxCollector(Collector):
    """Reads the counts of a database each time that it is scraped.

    ::

        prometheus_client.REGISTRY.register(OutboxCollector(engine))

    ``dragoman_outbox_messages`` and ``dragoman_inbox_messages`` have the labels ``topic`` and
    ``state`` (``waiting``, ``dead``), ``dragoman_outbox_oldest_seconds`` and
    ``dragoman_inbox_oldest_seconds`` the label ``topic``: the age of what waits.

    Args:
        database: As of `StoredMessages`.
    """

    def __init__(self, database: AnyDatabase) -> None:
        self._messages = StoredMessages(database)

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """The families without values: to register it asks no database."""
        for box in BOXES:
            yield from _families(box)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """The families with their values."""
        counts, now = self._messages.counts(), time.time()
        for box in BOXES:
            messages, oldest = _families(box)
            for each in counts:
                if each.box != box:
                    continue
                messages.add_metric([each.topic, each.state], each.number)
                if each.state == WAITING:
                    oldest.add_metric([each.topic], max(0.0, now - each.oldest_at))
            yield messages
            yield oldest


def _families(box: str) -> tuple[GaugeMetricFamily, GaugeMetricFamily]:
    return (
        GaugeMetricFamily(
            f"dragoman_{box}_messages",
            f"Messages in the {box} that wait, and dead letters.",
            labels=["topic", "state"],
        ),
        GaugeMetricFamily(
            f"dragoman_{box}_oldest_seconds",
            f"Age of the oldest message that waits in the {box}.",
            labels=["topic"],
        ),
    )
