"""A notification as a message of STOMP: the record of `mediation.packaging.records`, in headers.

header          carries
content-type    application/xml, or multipart/related with attachments
content-length  bytes of the body; not of a text message for Artemis
persistent      true
priority        that of its property ``priority``, where it has one
ws_unicode      a JSON object in ASCII: properties with characters beyond U+FFFF once more
others          all properties of the record

For JMS it is a text message, with attachments a bytes message. ActiveMQ (5.17) loses characters
beyond U+FFFF in properties when it reads them from its disk.
"""

import json
import uuid
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from adapters.broker.native import notification_of, published_by
from adapters.broker.priorities import PRIORITY, priority_of
from adapters.broker.unreadable import remains_of
from adapters.protocol import AdapterError
from adapters.stomp.frames import Frame
from adapters.stomp.javatext import from_java, has_beyond, to_java
from adapters.stomp.systems import MESSAGE_TYPE, TEXT
from filters import Reason, Topic
from mediation.model.messages import Notification
from mediation.packaging.records import CONTENT_TYPE, encode

MAX_HEADER = 10 * 2**10
"""Bytes of one header as it is written: ActiveMQ takes no longer ones."""

MOST_BYTES = 4
"""The most bytes of one character in a header: of one beyond U+FFFF. An escape has two."""

_ESCAPED = "\\\r\n:"
"""Characters that stomp.py writes as two."""

NUL = b"\0"
"""Ends a body without ``content-length``."""

XML = "application/xml"
CONTENT_LENGTH = "content-length"
UNICODE = "ws_unicode"

OF_STOMP = frozenset(
    (
        *("ack", MESSAGE_TYPE, "amqp-message-id", CONTENT_LENGTH, "correlation-id"),
        *("destination", "destination-type", "durable", "exclusive", "expires", "expiration"),
        *("message-id", "original-destination"),
        *("persistent", "priority", "receipt", "redelivered", "reply-to", "subscription"),
        *("timestamp", "transaction", "transformation", "transformation-error", "type"),
    )
)
"""Headers of SEND and MESSAGE that mean something to STOMP or a broker."""

ENCODINGS = ("content-encoding", "Content-Encoding", "JMS_AMQP_ContentEncoding")
"""Properties that name the codings of a body."""

_OF_BROKERS = ("x-", "X-", "activemq.", "_AMQ_", "__AMQ_")
USER = "JMSXUserID"
"""The header with the broker's user who sent a message (JMS 1.1, section 3.5.9)."""
_HIGHEST, _USUAL = 9, "4"
"""The highest priority of JMS, and that of messages whose sender says none."""
_MILLISECONDS = 10**11
"""A timestamp beyond is in milliseconds, not in seconds."""


def write(
    notification: Notification, *, java: bool, sized: bool, lossy: bool
) -> tuple[dict[str, str], bytes]:
    """Write *notification* as the headers, without a destination, and the body of a SEND.

    Args:
        java: The text of text messages is Java's.
        sized: A text message has a ``content-length``, too.
        lossy: Properties lose characters beyond U+FFFF.

    Raises:
        Refused: One of its properties is too large for a header.
    """
    record = encode(notification, reserved=OF_STOMP)
    headers = record.properties
    if lossy:
        beyond = {name: value for name, value in headers.items() if has_beyond(value)}
        if beyond:
            headers[UNICODE] = json.dumps(beyond)
    for name, value in headers.items():
        if len(name) + 1 + MOST_BYTES * len(value) < MAX_HEADER:
            continue
        escapes = sum(map(value.count, _ESCAPED))
        if len(name) + 1 + len(value.encode()) + escapes >= MAX_HEADER:
            raise AdapterError(
                Reason.TOO_LARGE, f"a property of the notification exceeds {MAX_HEADER} octets"
            )
    headers.setdefault(CONTENT_TYPE, XML)
    body = record.body if notification.attachments or not java else to_java(record.body)
    if sized or notification.attachments or NUL in body:
        headers[CONTENT_LENGTH] = str(len(body))
    headers["persistent"] = "true"
    priority = priority_of(notification.properties, _HIGHEST)
    if priority is not None:
        headers[PRIORITY] = str(priority)
    return headers, body


def read(
    frame: Frame,
    *,
    id_header: str,
    java: bool,
    source: str,
    topic: Topic | None,
    own_user: str | None = None,
) -> tuple[Notification, bool]:
    """Read the notification in a MESSAGE. Returns it, and True if the message had to be forced into
    one.

    Args:
        id_header: The id of a message that names none.
        java: The text of text messages is Java's.
        source: Of a message that names none. One with a ``JMSXUserID`` is that user's, unless it
            is *own_user*; None: the broker does not write that header, and anybody may.
        topic: That of its destination, which ``ws_topic`` overrules.
    """
    headers: Mapping[str, str] = frame.headers
    text = CONTENT_LENGTH not in headers or headers.get(MESSAGE_TYPE) == TEXT
    body: bytes = from_java(frame.body) if java and text else frame.body
    properties = {name: value for name, value in headers.items() if _is_carried(name)}
    encoding = ", ".join(filter(None, [properties.pop(name, "") for name in ENCODINGS]))
    if UNICODE in properties:
        with suppress(ValueError, AttributeError, RecursionError):
            beyond = json.loads(properties.pop(UNICODE))
            properties |= {name: value for name, value in beyond.items() if isinstance(value, str)}
    priority = headers.get(PRIORITY, _USUAL)  # A notification of ours has its own there.
    if priority != _USUAL and "ws_properties" not in properties:
        properties[PRIORITY] = priority
    notification, forced = notification_of(
        body,
        properties,
        headers.get(CONTENT_TYPE),
        id=headers.get(id_header) or f"urn:uuid:{uuid.uuid4()}",
        source=source,
        time=sent_at(headers) or datetime.now(UTC),
        topic=topic,
        expires=_expiry(headers, datetime.now(UTC)),
        encoding=encoding,
    )
    if own_user is not None:
        notification = published_by(notification, headers.get(USER, ""), own_user)
    return notification, forced


def _expiry(headers: Mapping[str, str], now: datetime) -> datetime | None:
    """Return when a message expires: ``expires`` is in milliseconds since 1970, 0 is never;
    ``expiration``, of RabbitMQ, in milliseconds from when it was published: at the latest now."""
    try:
        if said := int(headers.get("expires", "0")):
            return datetime.fromtimestamp(said / 1000, UTC)
        return now + timedelta(milliseconds=int(headers["expiration"]))
    except (KeyError, ValueError, OverflowError, OSError):
        return None


def salvage(frame: Frame, *, id_header: str, source: str, topic: Topic | None) -> Notification:
    """Make a notification of what is left of a MESSAGE that cannot be read; the arguments are those
    of `read`."""
    headers: Mapping[str, str] = frame.headers
    return remains_of(
        frame.body,
        {name: value for name, value in headers.items() if _is_carried(name)},
        id=headers.get(id_header) or f"urn:uuid:{uuid.uuid4()}",
        source=source,
        time=sent_at(headers) or datetime.now(UTC),
        topic=topic,
    )


@lru_cache(maxsize=1024)
def _is_carried(name: str) -> bool:
    """Return True if a header of that name belongs to the notification."""
    return name not in OF_STOMP and not name.startswith(_OF_BROKERS)


def sent_at(headers: Mapping[str, str]) -> datetime | None:
    """Return the time at which the broker got the message; None if it does not say."""
    try:
        number = int(headers.get("timestamp", ""))
        return datetime.fromtimestamp(number / 1000 if number > _MILLISECONDS else number, UTC)
    except (ValueError, OverflowError, OSError):
        return None
