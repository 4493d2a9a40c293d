"""Copies of published events in RabbitMQ, beside their delivery."""

import asyncio
import time
from collections.abc import Iterable, Iterator
from functools import partial

import structlog

from adapters.loading import EventCopies, load_event_copies
from gateway.model.dead_letter_reasons import NOBODY, Death, DeathReason
from gateway.observing.samples import Sample, counters, gauge
from gateway.settings.amqp_copies import AmqpCopies
from gateway.store import Store, StoreUnavailable
from gateway.store.dead_lettering import bury
from mediation.model.messages import Notification

CLOSE = 2.0
"""Seconds that copies which wait have when the gateway stops."""


MOST_LETTERS = 1_000
"""Refused events of one run that become dead letters: a broker that takes nothing must not fill the
store. Further ones are counted and logged alone."""
_log = structlog.get_logger("dragoman.copies")


class Copies:
    """Hands every accepted event on to be copied; no publisher waits for it, or hears of it. What
    the broker refuses becomes a dead letter, for operators."""

    def __init__(self, copies: EventCopies, store: Store) -> None:
        self._copies = copies
        self._store = store
        self._burials: set[asyncio.Task[None]] = set()
        self._letters = 0
        copies.on_refused = self._refused

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
        if self._burials:
            await asyncio.wait(self._burials, timeout=CLOSE)

    def _refused(self, notification: Notification, why: str) -> None:
        if self._letters >= MOST_LETTERS:
            return
        self._letters += 1
        burial = asyncio.get_running_loop().create_task(self._bury(notification, why))
        self._burials.add(burial)
        burial.add_done_callback(self._burials.discard)

    async def _bury(self, notification: Notification, why: str) -> None:
        death = _death(notification, why, time.time())
        try:
            await self._store.submit(partial(bury, notification=notification, death=death))
        except StoreUnavailable as error:
            _log.error("amqp-copies.letter-lost", message=notification.id, why=str(error))

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


def _death(notification: Notification, why: str, now: float) -> Death:
    return Death(
        subscription=NOBODY,
        owner=NOBODY,
        delivery_id=f"{notification.id}#copy",
        topic=str(notification.topic) if notification.topic is not None else None,
        reason=DeathReason.COPY_REFUSED,
        status=None,
        failure=f"RabbitMQ did not take the copy: {why}",
        answer="",
        attempts=1,
        since=notification.time.timestamp(),
        died=now,
    )


def load_copies(settings: AmqpCopies) -> EventCopies:
    """Load the copies that *settings* ask for.

    Raises:
        AdapterError: They cannot be made; the text is one line for a person.
    """
    return load_event_copies(
        settings.url.get_secret_value(),
        routing_keys=settings.routing_keys,
        every_event=settings.every_event or settings.routing_keys is None,
        prefix=settings.prefix,
        durable=settings.durable,
    )
