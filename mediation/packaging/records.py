"""A notification as one message of a messaging system: a body and text properties.

Programs that use the system directly read and write plain messages: the body is the payload, the
rest stands in properties whose names are valid JMS identifiers.

    property              carries                                              when
    cloudEvents_id        ``id``                                               always
    cloudEvents_source    ``source``                                           always
    cloudEvents_type      that of a CloudEvent, else the action, else the
                          topic: for readers, not read                         always
    cloudEvents_time      ``time``: 2026-03-01T12:00:00.000000Z                always
    cloudEvents_subject   the names of the topic: for readers, not read        with a topic
    ws_topic              ``topic`` in Clark notation                          with a topic
    ws_action             ``action``                                           with an action
    ws_producer           ``producer``, a JSON object                          with a producer
    ws_headers            ``headers``, a JSON array                            with header blocks
    ws_topic_header       ``topic_header``                                     with one
    ws_expires            ``expires``, as ``time``                             with an expiry
    ws_properties         those of ``properties`` whose own name will not do   with any
    content-type          multipart/related; the payload is its root           with attachments

and every other entry of ``properties`` under its own name.
"""

import json
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, TypeVar

from filters import Reason, Topic, parse_clark
from mediation.model.errors import MediationError
from mediation.model.messages import NO_PROPERTIES, Attachment, EndpointReference, Notification
from mediation.model.versions import Wsa
from mediation.packaging.mime import (
    MAX_PARTS,
    Part,
    parse_media_type,
    read_multipart,
    write_multipart,
)

MAX_REFERENCES = 6 * 1024
"""Octets of ``ws_producer``, ``ws_headers`` and ``ws_topic_header`` together: brokers bound a
message's properties."""

MOST_ESCAPED, AROUND = 6, 256
"""Octets of JSON, at most, that one of text becomes, and that stand around each element of an
array, or around the fields of a producer reference."""

CONTENT_TYPE = "content-type"
_WITHOUT_OWN = frozenset(
    {
        *("cloudEvents_id", "cloudEvents_source", "cloudEvents_type", "cloudEvents_time"),
        *("cloudEvents_subject", "ws_topic", "ws_action", "ws_producer", "ws_headers"),
        *("ws_topic_header", "ws_expires", CONTENT_TYPE),
    }
)
"""Properties whose values are ours, and not the notification's own."""
_TIME = "%04d-%02d-%02dT%02d:%02d:%02d.%06dZ"
TYPE = "ce_type"
"""The property with the type of what was published as a CloudEvent."""
MOST_PARTS = MAX_PARTS + 1
"""Parts of a body: the payload, and the attachments that one message may have."""
UNTYPED = "urn:dragoman:notification"
"""The ``cloudEvents_type`` of a notification without action and topic."""

_Value = TypeVar("_Value")

_OURS = ("cloudEvents_", "ws_", "JMS")
_IDENTIFIER = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*\Z")
_SELECTOR_WORDS = frozenset(
    ("NULL", "TRUE", "FALSE", "NOT", "AND", "OR", "BETWEEN", "LIKE", "IN", "IS", "ESCAPE")
)
"""Words that no identifier may be (JMS 2.0, "Message selector syntax")."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class Record:
    """The body and the properties in which a messaging system carries one notification."""

    body: bytes
    properties: dict[str, str]


def encode(notification: Notification, *, reserved: Collection[str] = ()) -> Record:
    """Write *notification* as a record; `decode` is the inverse.

    *reserved* are names that mean something to the system itself: a property of the notification
    that bears one of them travels in ``ws_properties``.

    Raises:
        MediationError: The producer reference and the header blocks exceed `MAX_REFERENCES`, or
            an attachment's id or media type has control characters.
    """
    topic = notification.topic
    action = notification.action
    clark = str(topic) if topic is not None else ""
    properties = {
        "cloudEvents_id": notification.id,
        "cloudEvents_source": notification.source,
        "cloudEvents_type": notification.properties.get(TYPE) or action or clark or UNTYPED,
        "cloudEvents_time": _write_time(notification.time),
    }
    if topic is not None:
        properties["cloudEvents_subject"] = "/".join([step.name for step in topic.steps])
        properties["ws_topic"] = clark
    if action is not None:
        properties["ws_action"] = action
    if notification.expires is not None:
        properties["ws_expires"] = _write_time(notification.expires)
    if has_references(notification):
        _add_references(properties, notification)
    if notification.properties:
        _add_own(properties, notification.properties, reserved)
    if not notification.attachments:
        return Record(notification.payload, properties)
    body, properties[CONTENT_TYPE] = _write_multipart(notification)
    return Record(body, properties)


def decode(
    body: bytes,
    properties: Mapping[str, str],
    *,
    id: str | None = None,
    source: str | None = None,
    time: datetime | None = None,
    topic: Topic | None = None,
    expires: datetime | None = None,
) -> Notification:
    """Read a record. *id*, *source*, *time*, *topic* and *expires* stand in for properties that are
    missing.

    A property that is not one of ours becomes one of the notification's: the caller leaves out
    what the system itself adds to its messages.

    Raises:
        MediationError: A property or the multipart body cannot be read, or one is missing that
            nothing stands in for.
    """
    try:
        get = properties.get
        attachments: tuple[Attachment, ...] = ()
        media_type = get(CONTENT_TYPE)
        if media_type is not None and media_type.lower().startswith("multipart/related"):
            body, attachments = _read_multipart(body, media_type)
        clark = get("ws_topic")
        stamp = get("cloudEvents_time")
        life = get("ws_expires")
        producer = get("ws_producer")
        headers = get("ws_headers")
        topic_header = get("ws_topic_header")
        return Notification(
            id=_present("id", get("cloudEvents_id", id)),
            source=_present("source", get("cloudEvents_source", source)),
            payload=body,
            time=_present("time", time if stamp is None else _read_time(stamp)),
            topic=topic if clark is None else parse_clark(clark),
            action=get("ws_action"),
            producer=None if producer is None else _read_producer(producer),
            expires=expires if life is None else _read_time(life),
            properties=_read_own(properties),
            headers=() if headers is None else _octets(json.loads(headers)),
            attachments=attachments,
            topic_header=None if topic_header is None else topic_header.encode(),
        )
    except (
        ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError
    ) as exc:  # fmt: skip
        raise MediationError(
            Reason.MESSAGE_INVALID, "a property of the message cannot be read", value=str(exc)
        ) from exc


def _present(name: str, value: _Value | None) -> _Value:
    if value is None:
        raise ValueError(f"the message has no {name}")
    return value


def _write_time(time: datetime) -> str:
    if time.tzinfo is None:
        raise ValueError(f"{time} has no time zone")
    if time.tzinfo is not UTC:
        time = time.astimezone(UTC)
    # Half the time of `isoformat`, which every message would take.
    return _TIME % (
        time.year, time.month, time.day, time.hour, time.minute, time.second, time.microsecond
    )  # fmt: skip


def _read_time(text: str) -> datetime:
    time = datetime.fromisoformat(text)
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)


def has_references(notification: Notification) -> bool:
    """Return whether *notification* has any of what `check_references` bounds."""
    return (
        notification.producer is not None
        or bool(notification.headers)
        or notification.topic_header is not None
    )


def check_references(notification: Notification) -> None:
    """Refuse what `encode` would refuse for its producer reference and its header blocks, of which
    the topic's may be one.

    Raises:
        MediationError: as `encode`.
    """
    producer, parts = notification.producer, notification.headers
    characters = 0
    if producer is not None:
        characters = len(producer.address)
        parts = (*parts, *producer.properties, *producer.parameters, *producer.metadata)
    if notification.topic_header is not None:
        parts = (*parts, notification.topic_header)
    most = MOST_ESCAPED * (characters + sum(map(len, parts))) + AROUND * (len(parts) + 1)
    if most > MAX_REFERENCES:
        _add_references({}, notification)


def _add_references(properties: dict[str, str], notification: Notification) -> None:
    octets = 0
    if notification.producer is not None:
        producer = properties["ws_producer"] = _write_producer(notification.producer)
        octets = len(producer.encode())
    if notification.headers:
        headers = properties["ws_headers"] = _write(_texts(notification.headers))
        octets += len(headers.encode())
    if notification.topic_header is not None:
        properties["ws_topic_header"] = notification.topic_header.decode()
        octets += len(notification.topic_header)
    if octets > MAX_REFERENCES:
        raise MediationError(
            Reason.MESSAGE_INVALID,
            f"the producer reference and the header blocks of a notification exceed"
            f" {MAX_REFERENCES} octets",
        )


@lru_cache(maxsize=256)
def _write_producer(producer: EndpointReference) -> str:
    fields: dict[str, object] = {"wsa": producer.wsa.value, "address": producer.address}
    for name in ("properties", "parameters", "metadata"):
        if elements := getattr(producer, name):
            fields[name] = _texts(elements)
    return _write(fields)


@lru_cache(maxsize=256)
def _read_producer(text: str) -> EndpointReference:
    fields = _read_object(text)
    return EndpointReference(
        address=fields["address"],
        wsa=Wsa(fields["wsa"]),
        properties=_octets(fields.get("properties", ())),
        parameters=_octets(fields.get("parameters", ())),
        metadata=_octets(fields.get("metadata", ())),
    )


def _add_own(properties: dict[str, str], own: Mapping[str, str], reserved: Collection[str]) -> None:
    others = {}
    for name, value in own.items():
        if _is_plain(name) and name not in reserved:
            properties[name] = value
        else:
            others[name] = value
    if others:
        properties["ws_properties"] = _write(others)


def _read_own(properties: Mapping[str, str]) -> Mapping[str, str]:
    if properties.keys() <= _WITHOUT_OWN:
        return NO_PROPERTIES
    own = {
        name: properties[name]
        for name in properties
        if not name.startswith(_OURS) and name != CONTENT_TYPE
    }
    if (others := properties.get("ws_properties")) is not None:
        own.update(_read_object(others))
    return own or NO_PROPERTIES


@lru_cache(maxsize=4096)
def _is_plain(name: str) -> bool:
    """Return whether a property may bear *name*: a JMS identifier that is not one of ours."""
    return (
        _IDENTIFIER.match(name) is not None
        and not name.startswith(_OURS)
        and name.upper() not in _SELECTOR_WORDS
    )


def _write(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _read_object(text: str) -> dict[str, Any]:
    value = json.loads(text)
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")
    return value


def _texts(elements: Iterable[bytes]) -> list[str]:
    return [element.decode() for element in elements]


def _octets(texts: Iterable[str]) -> tuple[bytes, ...]:
    return tuple([text.encode() for text in texts])


def _write_multipart(notification: Notification) -> tuple[bytes, str]:
    """The body and its media type: multipart/related of RFC 2387, the payload its first part."""
    parts = [("Content-Type: application/xml", notification.payload)]
    for attachment in notification.attachments:
        if _CONTROL.search(attachment.content_id + attachment.media_type):
            raise MediationError(
                Reason.MESSAGE_INVALID, "an attachment's id or media type has control characters"
            )
        head = (
            f"Content-ID: <{attachment.content_id}>\r\n"
            f"Content-Type: {attachment.media_type}\r\n"
            f"Content-Transfer-Encoding: binary"
        )
        parts.append((head, attachment.content))
    boundary, body = write_multipart(parts, seed=notification.id.encode())
    return body, f'multipart/related; type="application/xml"; boundary="{boundary}"'


def _read_multipart(body: bytes, media_type: str) -> tuple[bytes, tuple[Attachment, ...]]:
    boundary = parse_media_type(media_type).parameters.get("boundary", "")
    root, *rest = map(_read_part, read_multipart(body, boundary, max_parts=MOST_PARTS))
    return root.content, tuple(rest)


def _read_part(part: Part) -> Attachment:
    encoding = part.fields.get("content-transfer-encoding", "binary").strip().lower()
    if encoding not in ("binary", "8bit", "7bit"):
        raise ValueError("a part in a transfer encoding")
    content_id = part.fields.get("content-id", "<>")
    return Attachment(
        content_id.removeprefix("<").removesuffix(">"),
        part.fields.get("content-type", "application/octet-stream"),
        part.content,
    )
