"""CloudEvents that programs send to a broker, in the ways of the AMQP and JMS bindings.

    binary        headers ``cloudEvents:id`` or ``cloudEvents_id`` (AMQP Protocol Binding 1.0.2,
                  section 3.1), with ``specversion`` among them; the body is the data
    structured    the content type is ``application/cloudevents+json``

What Dragoman writes has some of these headers too, but not ``specversion``.
"""

from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType

from filters import Refused, Topic
from mediation.cloudevents import (
    STRUCTURED,
    CloudEvent,
    notification_of,
    read_attributes,
    read_event,
)
from mediation.model.messages import Notification

_PREFIXES = ("cloudEvents:", "cloudEvents_")
NO_ATTRIBUTES: Mapping[str, object] = MappingProxyType({})


def is_attribute(name: str) -> bool:
    """Return whether a property of this name is an attribute."""
    return name.startswith(_PREFIXES)


def event_in(
    body: bytes,
    properties: Mapping[str, str],
    media_type: str | None,
    typed: Mapping[str, object] = NO_ATTRIBUTES,
) -> CloudEvent | None:
    """Read a message as a CloudEvent; None if it is not one, or breaks the rules. *typed* are the
    properties that are not text."""
    try:
        if media_type is not None and media_type.lower().startswith(STRUCTURED):
            return read_event(body)
        if not any(f"{prefix}specversion" in properties for prefix in _PREFIXES):
            return None
        attributes: list[tuple[str, object]] = [
            (name.removeprefix(prefix), typed.get(name, value))
            for prefix in _PREFIXES
            for name, value in properties.items()
            if name.startswith(prefix) and name.removeprefix(prefix) != "datacontenttype"
        ]
        if media_type is not None:
            attributes.append(("datacontenttype", media_type))
        return CloudEvent(read_attributes(attributes), body or None)
    except Refused:
        return None


def notification_in(
    body: bytes,
    properties: Mapping[str, str],
    media_type: str | None,
    *,
    time: datetime,
    topic: Topic | None,
    typed: Mapping[str, object] = NO_ATTRIBUTES,
) -> Notification | None:
    """Read a CloudEvent as a notification; None if the message is not a CloudEvent, or cannot be
    read. Its source is the event's own: whoever may write to the broker is believed."""
    event = event_in(body, properties, media_type, typed)
    if event is None:
        return None
    try:
        return notification_of(event, time=time, topic=topic)
    except Refused:
        return None


def without_attributes(properties: Mapping[str, str]) -> dict[str, str]:
    """*properties* without those that are attributes."""
    return {name: value for name, value in properties.items() if not name.startswith(_PREFIXES)}
