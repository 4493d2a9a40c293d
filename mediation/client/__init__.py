"""The other side of the specifications: requests as subscribers and publishers write them, and what
they read. Sans-I/O, like all of this floor."""

from mediation.client.fetching import read_made, write_fetching
from mediation.client.reading import (
    AnsweredFault,
    Ended,
    Granted,
    Received,
    ending_in,
    is_response,
    read_answer,
    read_events,
    read_granted,
    read_received,
)
from mediation.client.writing import (
    SPECS,
    expiry_text,
    write_destroy,
    write_get_current_message,
    write_get_resource_property,
    write_get_status,
    write_pause,
    write_publish,
    write_renew,
    write_resume,
    write_set_termination_time,
    write_subscribe,
    write_unsubscribe,
)

__all__ = [
    "SPECS",
    "AnsweredFault",
    "Ended",
    "Granted",
    "Received",
    "ending_in",
    "expiry_text",
    "is_response",
    "read_answer",
    "read_events",
    "read_granted",
    "read_made",
    "read_received",
    "write_destroy",
    "write_fetching",
    "write_get_current_message",
    "write_get_resource_property",
    "write_get_status",
    "write_pause",
    "write_publish",
    "write_renew",
    "write_resume",
    "write_set_termination_time",
    "write_subscribe",
    "write_unsubscribe",
]
