"""Copies of published events in RabbitMQ, beside their delivery."""

from collections.abc import Iterable, Iterator

from adapters.loading import EventCopies, load_event_copies
from gateway.observing.samples import Sample, counters, gauge
from gateway.settings.amqp_copies import AmqpCopies
from mediation.model.messages import Notification

CLOSE = 2.0
"""Seconds that copies which wait have when the gateway stops."""


class Copies:
    """Hands every accepted event on to be copied; no publisher waits for it, or hears of it."""

    def __init__(self, copies: EventCopies) -> None:
        self._copies = copies

    def start(self) -> None:
        """Begin to copy."""
        self._copies.start()

    def offer(self, notifications: Iterable[Notification]) -> None:
        """Copy *notifications* some time."""
        for notification in notifications:
            self._copies.offer(notification)

    async def close(self) -> None:
        """Copy what waits, for a moment."""
        await self._copies.close(CLOSE)

    def metrics(self) -> Iterator[Sample]:
        """The events that were copied, and that were not."""
        copies = self._copies
        yield counters(
            "amqp_copies",
            "Events for the copies in RabbitMQ, by what became of them.",
            "outcome",
            {"copied": copies.copied, "dropped": copies.dropped, "refused": copies.refused},
        )
        yield gauge("amqp_copies_waiting", "Events that wait to be copied.", copies.waiting)


def make_copies(settings: AmqpCopies) -> Copies:
    """Make the copies that *settings* ask for.

    Raises:
        AdapterError: They cannot be made; the text is one line for a person.
    """
    return Copies(
        load_event_copies(
            settings.url.get_secret_value(),
            routing_keys=settings.routing_keys,
            every_event=settings.every_event or settings.routing_keys is None,
            prefix=settings.prefix,
            durable=settings.durable,
        )
    )
