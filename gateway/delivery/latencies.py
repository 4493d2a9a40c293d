"""Seconds from the acceptance of an event until it was matched, first tried and delivered.

An event says when it was accepted (`Notification.time`), also where a messaging system carried it
from another gateway; the clock is that of the wall, and where it was set back 0 is noted.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from gateway.delivery.pending import Message, Pending
from gateway.observing.samples import LATENCY_BOUNDS, Histogram, Sample, histogram


class Latencies:
    """Histograms of seconds since events were accepted, for all partitions."""

    def __init__(self) -> None:
        self.matched = Histogram(LATENCY_BOUNDS)
        """Until it was known who gets the event; one for each event."""
        self.attempted = Histogram(LATENCY_BOUNDS)
        """Until the first attempt began; one for each delivery."""
        self.delivered = Histogram(LATENCY_BOUNDS)
        """Until the consumer accepted it; one for each delivery."""

    def match(self, message: Message, wall: float) -> None:
        """Note that *message* was matched at *wall*, in POSIX seconds."""
        self.matched.observe(max(0.0, wall - message.accepted))

    def attempt(self, message: Message, wall: float) -> None:
        """Note that the first attempt to deliver *message* began at *wall*."""
        self.attempted.observe(max(0.0, wall - message.accepted))

    def deliver(self, deliveries: Iterable[Pending[Any]], wall: float) -> None:
        """Note that *deliveries* were made at *wall*."""
        for one in deliveries:
            self.delivered.observe(max(0.0, wall - one.message.accepted))

    def metrics(self) -> Iterator[Sample]:
        """The three histograms."""
        yield histogram(
            "match_seconds",
            "Seconds from accepting an event until it was matched with all subscriptions.",
            self.matched,
        )
        yield histogram(
            "first_attempt_seconds",
            "Seconds from accepting an event until the first attempt of a delivery began.",
            self.attempted,
        )
        yield histogram(
            "delivery_seconds",
            "Seconds from accepting an event until a consumer had accepted it.",
            self.delivered,
        )
