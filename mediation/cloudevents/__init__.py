"""CloudEvents 1.0 (https://cloudevents.io): read, written, and mapped to notifications and back."""

from mediation.cloudevents.events import MAX_OCTETS, CloudEvent, read_attributes
from mediation.cloudevents.http_binding import (
    BATCH,
    CALLBACK_HEADER,
    MOST_IN_BATCH,
    ORIGIN_HEADER,
    STRUCTURED,
    is_event,
    origin_of,
    read_message,
    write_headers,
)
from mediation.cloudevents.json_format import read_event, write_batch, write_event
from mediation.cloudevents.mapping import (
    TRACE_ATTRIBUTES,
    event_of,
    notification_of,
    properties_of,
    topic_of,
)
from mediation.cloudevents.signing import Secret, read_secret, signature

__all__ = [
    "BATCH",
    "CALLBACK_HEADER",
    "MAX_OCTETS",
    "MOST_IN_BATCH",
    "ORIGIN_HEADER",
    "STRUCTURED",
    "TRACE_ATTRIBUTES",
    "CloudEvent",
    "Secret",
    "event_of",
    "is_event",
    "notification_of",
    "origin_of",
    "properties_of",
    "read_attributes",
    "read_event",
    "read_message",
    "read_secret",
    "signature",
    "topic_of",
    "write_batch",
    "write_event",
    "write_headers",
]
