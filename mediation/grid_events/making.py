"""Events that are made of what came in another specification."""

from functools import lru_cache
from urllib.parse import urlsplit

from mediation import names
from mediation.grid_events.events import Event, milliseconds, type_of_topic
from mediation.model.messages import Notification
from mediation.soap.actions import payload_name
from mediation.soap.envelopes import xml_attribute


def made_event(notification: Notification, producer: str) -> Event:
    """The event that a notification of another specification becomes."""
    namespace, type_, source = made_names(notification, producer)
    time, message = milliseconds(notification.time), notification.payload.decode()
    return Event(namespace, type_, source, time, None, message)


def made_names(notification: Notification, producer: str) -> tuple[str | None, str, str]:
    """The namespace, the type and the source of the event that a notification becomes. The
    namespace is empty where its topic has none."""
    topic, named = notification.topic, notification.producer
    host = (None if named is None else _host(named.address)) or producer
    if topic is None:
        namespace, name = payload_name(notification.payload)
        return namespace or None, name, host
    return topic.steps[0].namespace or "", type_of_topic(topic), host


def made_header(notification: Notification) -> str:
    """The header block that says that an event was made of a notification of another specification,
    whose payload is its message, and on which topic that was. A gateway that gets it has the
    notification as it was."""
    topic = "" if notification.topic is None else f" topic={xml_attribute(str(notification.topic))}"
    return f'<d:made xmlns:d="{names.GRID_EVENTS}"{topic}/>'


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
