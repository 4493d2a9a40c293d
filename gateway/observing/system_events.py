"""Events of the gateway itself, for those who subscribed to topics of ``urn:dragoman:system:1``.

    {urn:dragoman:system:1}subscription/created, /renewed, /failing, /recovered, /ended
    {urn:dragoman:system:1}adapter/away, /back
    {urn:dragoman:system:1}deadletter

Parts tell what happens (`SystemEvents.tell`), which costs a test while nobody has subscribed; a few
hundred wait in memory, and what exceeds them is counted and lost: nothing waits for them. They do
not go through the messaging system, whose absence is one of them. An event about a subscription to
system topics, or about one of its deliveries, is never told: it would make the next one.
"""

import asyncio
import re
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping
from datetime import UTC, datetime
from uuid import uuid4

import structlog

from filters import Filter, Topic, parse_clark
from gateway.observing.samples import Sample, counters
from mediation.model.messages import Notification, Subscription
from mediation.names import DRAGOMAN_SYSTEM
from mediation.soap.envelopes import xml_attribute, xml_text

MOST = 512
"""Events that wait at most."""
LONGEST = 500
"""Characters of a field."""
_PREFIX = f"{{{DRAGOMAN_SYSTEM}}}"
CREATED, RENEWED, ENDED = (
    parse_clark(f"{_PREFIX}subscription/{what}") for what in ("created", "renewed", "ended")
)
FAILING, RECOVERED = (
    parse_clark(f"{_PREFIX}subscription/{what}") for what in ("failing", "recovered")
)
AWAY, BACK = (parse_clark(f"{_PREFIX}adapter/{what}") for what in ("away", "back"))
DEAD_LETTER = parse_clark(f"{_PREFIX}deadletter")
TOPICS = (CREATED, RENEWED, FAILING, RECOVERED, ENDED, AWAY, BACK, DEAD_LETTER)
_NOT_IN_XML = re.compile("[\x00-\x1f\ud800-\udfff\ufffe\uffff]")
_log = structlog.get_logger("dragoman")


def is_system_topic(topic: Topic | None) -> bool:
    """Return True if *topic* is of the gateway's own namespace."""
    return topic is not None and topic.steps[0].namespace == DRAGOMAN_SYSTEM


def asks_for_system_topics(filter: Filter) -> bool:
    """Return True if one of the filter's topic expressions names the gateway's own namespace: who
    asks for everything gets none of its events."""
    return any(
        DRAGOMAN_SYSTEM in one.text or DRAGOMAN_SYSTEM in dict(one.namespaces).values()
        for one in filter.topics
    )


class SystemEvents:
    """Events that happened here, and wait to be delivered.

    Args:
        source: The URI of the gateway, as the publisher of its events.
    """

    def __init__(self, source: str) -> None:
        self._source = source
        self._waiting: deque[tuple[Notification, str]] = deque()
        """Each with the owner of what it is about; empty: it is about the gateway."""
        self._came = asyncio.Event()
        self.wanted = False
        """Whether anybody has subscribed to them."""
        self.told = self.lost = 0

    def tell(self, topic: Topic, /, *, about: str = "", **fields: object) -> None:
        """Note that something happened; the names of *fields* are elements of the payload.

        Args:
            about: The owner of what it happened to; empty: it is the gateway's own.
        """
        if not self.wanted:
            return
        if len(self._waiting) >= MOST:
            self.lost += 1
            return
        now = datetime.now(UTC)
        payload = write_event(topic, now, fields)
        id_ = f"urn:uuid:{uuid4()}"
        self._waiting.append((Notification(id_, self._source, payload, now, topic), about))
        self._came.set()

    def tell_of(self, subscription: Subscription, topic: Topic, /, **fields: object) -> None:
        """Note that something happened to *subscription*, unless that asks for such events."""
        if self.wanted and not asks_for_system_topics(subscription.filter):
            owner = subscription.owner
            self.tell(topic, about=owner, subscription=subscription.id, owner=owner, **fields)

    async def run(self, deliver: Callable[[Notification, str], Awaitable[None]]) -> None:
        """Have *deliver* take each event, with the owner of what it is about, for ever; one that it
        cannot take is lost."""
        while True:
            await self._came.wait()
            self._came.clear()
            while self._waiting:
                notification, about = self._waiting.popleft()
                try:
                    await deliver(notification, about)
                except Exception:  # Work that ends would end the gateway.
                    self.lost += 1
                    _log.exception("system-event.lost", topic=str(notification.topic))
                else:
                    self.told += 1

    def metrics(self) -> Iterator[Sample]:
        """Events that were told, and lost: for want of room, or by an error."""
        yield counters(
            "system_events",
            "Events of the gateway itself, by what became of them.",
            "outcome",
            {"told": self.told, "lost": self.lost},
        )


def write_event(topic: Topic, now: datetime, fields: Mapping[str, object]) -> bytes:
    """The payload: an element ``Event``, with an element for each of *fields* that is there."""
    name = "/".join(step.name for step in topic.steps)
    inner = "".join(
        f"<{key}>{xml_text(_shortened(value))}</{key}>"
        for key, value in fields.items()
        if value is not None
    )
    time = now.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return (
        f"<Event xmlns={xml_attribute(DRAGOMAN_SYSTEM)} kind={xml_attribute(name)} "
        f'time="{time}">{inner}</Event>'
    ).encode()


def _shortened(value: object) -> str:
    """*value* as text of XML 1.0: control characters and lone surrogates are blanks."""
    return _NOT_IN_XML.sub(" ", str(value)[:LONGEST])
