"""Events that are made of what came in another specification."""

from urllib.parse import urlsplit

from mediation.grid_events.events import Event, milliseconds, type_of_topic
from mediation.model.messages import Notification
from mediation.soap.actions import payload_name


def made_event(notification: Notification, producer: str) -> Event:
    """The event that a notification of another specification becomes."""
    topic, named = notification.topic, notification.producer
    own_namespace, own_name = payload_name(notification.payload)
    namespace = None if topic is None else topic.steps[0].namespace
    host = None if named is None else _host(named.address)
    return Event(
        namespace or own_namespace or None,
        own_name if topic is None else type_of_topic(topic),
        host or producer,
        milliseconds(notification.time),
        None,
        notification.payload.decode(),
    )


def _host(address: str) -> str | None:
    try:
        return urlsplit(address).hostname
    except ValueError:
        return None
