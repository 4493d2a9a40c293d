"""Messages of programs that know nothing of Dragoman, read as notifications.

A notification's payload is one XML element in UTF-8. The body of a native message need not be: a
body that is not such an element becomes the text of one (`mediation.packaging.data`). So no message
is refused, only to come again for ever.
"""

import logging
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from functools import lru_cache

from adapters.broker.destinations import Destination, Destinations
from adapters.broker.encodings import decode as decode_body
from adapters.broker.events import NO_ATTRIBUTES, notification_in, without_attributes
from filters import Reason, Refused, Topic
from filters.topics import is_namespace
from mediation.model.errors import MediationError
from mediation.model.messages import Notification
from mediation.names import BROKER_USER
from mediation.packaging.data import is_plain, payload_of, wrap
from mediation.packaging.records import CONTENT_TYPE, MAX_REFERENCES, decode
from mediation.tenants import tenant_of_topic, topic_in

logger = logging.getLogger(__name__)


def notification_of(
    body: bytes,
    properties: Mapping[str, str],
    media_type: str | None,
    *,
    id: str,
    source: str,
    time: datetime,
    topic: Topic | None,
    expires: datetime | None = None,
    encoding: str | None = None,
    typed: Mapping[str, object] = NO_ATTRIBUTES,
) -> tuple[Notification, bool]:
    """Read any message as a notification. Returns it, and True if the message had to be forced into
    one.

    Args:
        properties: Those of the record, as `mediation.packaging.records` says.
        media_type: Of the body.
        id, source, time, topic: What holds where *properties* do not say it.
        expires: When the broker lets go of it; the life of an event ends then, if not earlier.
        encoding: The codings of the body, as `adapters.broker.encodings` reads them.
        typed: Properties that are attributes of a CloudEvent, in their types.

    Raises:
        EncodingError: The body cannot be decoded.
    """
    body, coded = decode_body(body, encoding)
    if media_type is not None and media_type.lower().startswith("multipart/related"):
        properties = {**properties, CONTENT_TYPE: media_type}
    event = notification_in(body, properties, media_type, time=time, topic=topic, typed=typed)
    if event is not None and coded:
        event = replace(event, payload=wrap(body, media_type, coded))
    if event is not None:
        properties = without_attributes(properties)
    try:
        if event is not None:
            return _with_event(event, properties, expires), False
        notification = decode(
            body, properties, id=id, source=source, time=time, topic=topic, expires=expires
        )
        _check(notification, properties)
        forced = False
    except (Refused, ValueError, TypeError):
        # Properties that cannot be read are left aside; the body still arrives.
        notification = Notification(
            id=id, source=source, payload=body, time=time, topic=topic, expires=expires
        )
        forced = True
    if coded:
        return replace(notification, payload=wrap(body, media_type, coded)), True
    payload, wrapped = payload_of(
        notification.payload, None if notification.attachments else media_type
    )
    if payload is not notification.payload:
        notification = replace(notification, payload=payload)
    return notification, forced or wrapped


def published_by(notification: Notification, user: str, own: str) -> Notification:
    """*notification* as its broker's *user* published it, whatever it says itself; as it is where
    that is our *own* user, as whom gateways publish for others, or where the broker names none."""
    if not user or user == own:
        return notification
    return replace(notification, source=BROKER_USER + user)


def _with_event(
    event: Notification, properties: Mapping[str, str], expires: datetime | None
) -> Notification:
    """The notification of a CloudEvent with what else its message says in *properties*, which the
    broker lets go of when it *expires*.

    Raises:
        MediationError: They cannot be read.
    """
    rest = decode(event.payload, properties, id=event.id, source=event.source, time=event.time)
    notification = replace(
        rest,
        topic=rest.topic or event.topic,
        action=rest.action or event.action,
        expires=min(filter(None, (rest.expires, event.expires, expires)), default=None),
        properties={**rest.properties, **event.properties},
    )
    _check(notification, notification.properties)
    return notification


def _check(notification: Notification, properties: Mapping[str, str]) -> None:
    """Refuse what would fail only when it is written: into an envelope, or into the store.

    Raises:
        Refused: A header block, or a part of the producer reference, is not one element; the
            namespace of the topic is not a URI.
        ValueError: A text has half a surrogate pair.
        TypeError: A property is not a text.
    """
    "".join(properties.values()).encode()
    if "ws_properties" in properties:
        "".join(notification.properties.values()).encode()
        "".join(notification.properties).encode()
    parts = notification.headers
    if notification.topic_header is not None:
        parts = (*parts, notification.topic_header)
    if (producer := notification.producer) is not None:
        "".join((producer.address,)).encode()
        parts = (*parts, *producer.properties, *producer.parameters, *producer.metadata)
    if not all(map(_is_plain_part, parts)):
        raise MediationError(Reason.MESSAGE_INVALID, "a header block is not one element")
    if notification.topic is not None:
        for step in notification.topic.steps:
            if step.namespace and not is_namespace(step.namespace):
                raise MediationError(Reason.TOPIC_INVALID, "the topic's namespace is not a URI")


def in_tenant_of(
    notification: Notification, destinations: Destinations, origin: Destination
) -> Notification:
    """*notification* as one of the tenant whose destination it was published to: a message may name
    any topic, but its destination is one that the broker let its sender publish to."""
    tenant = destinations.tenant(origin)
    if tenant_of_topic(notification.topic) == tenant:
        return notification
    topic = destinations.topic(origin)
    if tenant_of_topic(topic) != tenant:
        topic = topic_in(tenant, None)
    return replace(notification, topic=topic)


class ForcedCount:
    """Counts native messages that were not notifications and were made into some."""

    def __init__(self, adapter: str) -> None:
        self._adapter = adapter
        self.total = 0

    def add(self, origin: str | None) -> None:
        """Count a message from the destination *origin*, and log every doubling of the total."""
        self.total += 1
        if self.total & (self.total - 1) == 0:  # The 1st, 2nd, 4th, 8th …
            logger.warning(
                "adapter.messages_wrapped",
                extra={
                    "adapter": self._adapter,
                    "total": self.total,
                    "origin": (origin or "")[:200],
                },
            )


_remembered = lru_cache(maxsize=256)(is_plain)


def _is_plain_part(part: bytes) -> bool:
    """Return `is_plain` of a header block, remembered because header blocks recur from message to
    message."""
    return _remembered(part) if len(part) <= MAX_REFERENCES else is_plain(part)
