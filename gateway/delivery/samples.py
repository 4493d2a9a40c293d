"""The numbers of delivery for ``/metrics``."""

from collections.abc import Callable, Iterable, Iterator

from gateway.delivery.dispatchers import Dispatchers
from gateway.delivery.entry import Entry
from gateway.delivery.settlement import Conservation
from gateway.observing.samples import Sample, counter, counters, gauge, histograms


def delivery_samples(
    dispatchers: Dispatchers, entries: Callable[[], Iterable[Entry]]
) -> Iterator[Sample]:
    """The counts of the dispatchers and their scheduler, in memory; *entries* are all that they
    deliver for."""
    scheduler = dispatchers.scheduler
    yield gauge("unsettled", "Messages unsettled in the messaging system.", dispatchers.unsettled)
    yield gauge(
        "failing_subscriptions",
        "Subscriptions that this gateway delivers for, and whose state is failing.",
        dispatchers.failing(entries()),
    )
    yield gauge(
        "open_breakers",
        "Destinations and subscriptions to which only a probe is sent now and then.",
        scheduler.open_breakers + dispatchers.open_breakers,
    )
    yield counters(
        "attempts",
        "Delivery attempts, by verdict.",
        "verdict",
        {verdict.value: number for verdict, number in scheduler.verdicts.items()},
    )
    yield histograms(
        "attempt_seconds",
        "Seconds that delivery attempts took, by verdict.",
        "verdict",
        {verdict.value: seconds for verdict, seconds in scheduler.seconds.items()},
    )
    yield counter(
        "attachments_dropped",
        "Attachments left out for want of a packaging that the consumer reads.",
        scheduler.attachments_dropped,
    )


def conservation_samples(law: Conservation) -> Iterator[Sample]:
    """The sides of the conservation law."""
    for name in ("matched", "delivered", "dead", "expired", "cancelled", "skipped"):
        yield counter(name, f"Deliveries {name}.", getattr(law.totals, name))
    yield counter("dead_letters_purged", "Dead letters forgotten.", law.letters.purged)
    yield gauge("waiting", "Deliveries that wait.", law.waiting)
    yield gauge("in_flight", "Deliveries under way.", law.in_flight)
    yield gauge("dead_letters", "Dead letters kept.", law.dead_letters)
    yield gauge(
        "dead_letters_bytes",
        "Bytes that count for the bounds of dead letters.",
        law.letters.octets,
    )
    yield gauge(
        "conservation_error", "What the conservation law leaves over; 0 at rest.", law.error
    )
