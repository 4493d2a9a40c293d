"""A notification as a message of AMQP 0-9-1: the record of `mediation.packaging.records`, in
headers.

property        carries
content_type    application/xml, or multipart/related with attachments
message_id      the notification's id, where it fits into 255 octets
timestamp       its time, in seconds
expiration      milliseconds until it expires, where it does
priority        that of its property ``priority``, where it has one
delivery_mode   2, persistent
headers         all properties of the record
"""

import json
import math
import uuid
from base64 import b64encode
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

import pika

from adapters.broker.events import is_attribute
from adapters.broker.native import notification_of, published_by
from adapters.broker.priorities import PRIORITY, priority_of
from adapters.broker.unreadable import remains_of
from adapters.protocol import AdapterError
from filters import Reason, Topic
from mediation.model.messages import Notification
from mediation.packaging.records import CONTENT_TYPE, encode

XML = "application/xml"
MAX_SHORT = 255
"""Octets of a short string of AMQP: names of headers, media types, ids."""
MAX_HEADERS = 96 * 2**10
"""Octets of all headers: they must fit into one frame of 128 KiB."""

LONGEST = 2**32 - 1
"""Milliseconds of the longest expiration that RabbitMQ takes."""
MAX_DIGITS = 12
"""Of the milliseconds of an expiration."""
_OF_THE_BROKER = ("x-", "X-")
_PERSISTENT = 2
_HIGHEST = 255
"""The highest priority that AMQP has."""
_SENDER_SELECTED = ("CC", "BCC")
"""Headers that name further routing keys (RabbitMQ, Sender-selected Distribution)."""


def write(notification: Notification) -> tuple[pika.BasicProperties, bytes]:
    """Write *notification* as properties and body.

    Raises:
        Refused: Its properties are too large for a message.
    """
    reserved: tuple[str, ...] = _SENDER_SELECTED
    if notification.properties:
        long = [name for name in notification.properties if len(name.encode()) > MAX_SHORT]
        reserved = (*_SENDER_SELECTED, *long)
    record = encode(notification, reserved=reserved)
    headers = record.properties
    content_type = headers.pop(CONTENT_TYPE, XML)
    if _size(headers) > MAX_HEADERS:
        raise AdapterError(
            Reason.TOO_LARGE, f"the notification's properties exceed {MAX_HEADERS} octets"
        )
    properties = pika.BasicProperties(
        content_type,
        headers=headers,
        delivery_mode=_PERSISTENT,
        message_id=notification.id if len(notification.id.encode()) <= MAX_SHORT else None,
        timestamp=max(0, int(notification.time.timestamp())),
        expiration=_life(notification.expires, datetime.now(UTC)),
        priority=priority_of(notification.properties, _HIGHEST),
    )
    return properties, record.body


def _life(expires: datetime | None, now: datetime) -> str | None:
    """Return the milliseconds until *expires*, as the broker counts them. None of what is over
    already: the gateway's own queue must have it, so that it is counted; and of what lives longer
    than the broker can say."""
    left = 0 if expires is None else math.ceil((expires - now).total_seconds() * 1000)
    return str(left) if 0 < left <= LONGEST else None


def _size(headers: Mapping[str, str]) -> int:
    """Return the octets of *headers* as a table of long strings (4.2.5.5): six around each."""
    return sum(6 + len(name.encode()) + len(value.encode()) for name, value in headers.items())


def read(
    body: bytes,
    properties: pika.BasicProperties,
    *,
    source: str,
    topic: Topic | None,
    own_user: str = "",
) -> tuple[Notification, bool]:
    """Read the notification in a message. Returns it, and True if the message had to be forced into
    one.

    Args:
        source: Of a message that names none. One with a ``user_id``, which the broker has checked,
            is that user's, unless it is *own_user*.
        topic: That of its destination, which ``ws_topic`` overrules.
    """
    media_type, encoding = properties.content_type, properties.content_encoding
    headers = properties.headers or {}
    texts = _texts(headers)
    if properties.priority is not None:
        texts.setdefault(PRIORITY, str(properties.priority))
    notification, forced = notification_of(
        body,
        texts,
        None if media_type is None else string(media_type),
        id=string(properties.message_id or "") or f"urn:uuid:{uuid.uuid4()}",
        source=source,
        time=_time(properties.timestamp),
        topic=topic,
        expires=_expiry(properties, datetime.now(UTC)),
        encoding=None if encoding is None else string(encoding),
        typed={
            string(name): _attribute(value)
            for name, value in headers.items()
            if type(value) is not str and is_attribute(string(name))
        },
    )
    return published_by(notification, string(properties.user_id or ""), own_user), forced


def _expiry(properties: pika.BasicProperties, now: datetime) -> datetime | None:
    """Return when a message expires. Its life begins when it is published, which only its
    ``timestamp`` may tell; where that cannot be, now: the broker has just handed it out."""
    said = string(properties.expiration or "")
    if not (said.isascii() and said.isdigit()) or len(said) > MAX_DIGITS:
        return None
    life = timedelta(milliseconds=int(said))
    since = _time(properties.timestamp)
    return (since if now - life <= since <= now else now) + life


def _attribute(value: Any) -> object:
    """Return the value of a header as one of an attribute (AMQP Protocol Binding, 3.1.3.2)."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return value if -(2**31) <= value < 2**31 else str(value)
    if isinstance(value, bytes):
        return b64encode(value).decode()
    return _text(value)


def salvage(
    body: bytes, properties: pika.BasicProperties, *, source: str, topic: Topic | None
) -> Notification:
    """Make a notification of what is left of a message that cannot be read; the arguments are those
    of `read`."""
    headers = properties.headers or {}
    return remains_of(
        body,
        {string(name): value for name, value in headers.items() if isinstance(value, str)},
        id=string(properties.message_id or "") or f"urn:uuid:{uuid.uuid4()}",
        source=source,
        time=_time(properties.timestamp),
        topic=topic,
    )


def string(value: str | bytes) -> str:
    """Decode a short string of AMQP: pika returns bytes if it is not UTF-8."""
    return value if isinstance(value, str) else value.decode(errors="replace")


def _time(stamp: int | None) -> datetime:
    try:
        return datetime.now(UTC) if stamp is None else datetime.fromtimestamp(stamp, UTC)
    except (ValueError, OverflowError, OSError):
        return datetime.now(UTC)


def _texts(headers: Mapping[str | bytes, Any]) -> dict[str, str]:
    """Return the headers as texts, without those that brokers add."""
    return {
        string(name): value if type(value) is str else _text(value)
        for name, value in headers.items()
        if not _is_of_the_broker(name)
    }


@lru_cache(maxsize=1024)
def _is_of_the_broker(name: str | bytes) -> bool:
    name = string(name)
    return name.startswith(_OF_THE_BROKER) or name in _SENDER_SELECTED


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, datetime):
        return value.replace(tzinfo=UTC).isoformat()
    if value is None:
        return ""
    try:
        return json.dumps(_plain(value), default=str)
    except RecursionError:  # As what pika cannot read: tables in tables, without end.
        return ""


def _plain(value: Any) -> Any:
    """Return *value* with texts for bytes, in lists and tables too."""
    if isinstance(value, bytes):
        return string(value)
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {string(name): _plain(each) for name, each in value.items()}
    return value
