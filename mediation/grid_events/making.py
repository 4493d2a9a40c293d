"""Events that are made of what came in another specification."""

from functools import lru_cache
from urllib.parse import urlsplit

from mediation.grid_events.events import Event, milliseconds, type_of_topic
from mediation.model.messages import Notification
from mediation.soap.actions import payload_name


def made_event(notification: Notification, producer: str) -> Event:
    """The event that a notification of another specification becomes."""
    namespace, type_, source = made_names(notification, producer)
    time, message = milliseconds(notification.time), notification.payload.decode()
    return Event(namespace, type_, source, time, None, message)


def made_names(notification: Notification, producer: str) -> tuple[str | None, str, str]:
    """The namespace, the type and the source of the event that a notification becomes."""
    topic, named = notification.topic, notification.producer
    own_namespace, own_name = payload_name(notification.payload)
    namespace = None if topic is None else topic.steps[0].namespace
    host = None if named is None else _host(named.address)
    return (
        namespace or own_namespace or None,
        own_name if topic is None else type_of_topic(topic),
        host or producer,
    )


def text_of_payload(payload: bytes) -> bytes:
    """*payload* as the text of an element: `xml_text` of it, for it is XML and has no sign that
    none may have."""
    if b"&" in payload:
        payload = payload.replace(b"&", b"&amp;")
    if b"\r" in payload:
        payload = payload.replace(b"\r", b"&#13;")
    return payload.replace(b"<", b"&lt;").replace(b">", b"&gt;")


@lru_cache(maxsize=256)
def _host(address: str) -> str | None:
    try:
        return urlsplit(address).hostname
    except ValueError:
        return None
