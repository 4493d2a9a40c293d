"""WS-Management (DSP0226 1.2, and as Windows Event Forwarding speaks it, MS-WSMV) over WS-Eventing:
delivery modes, heartbeats, acknowledgements, events to be pulled, and Identify."""

from mediation.eventing.management.client import (
    EARLIEST_BOOKMARK,
    Pulled,
    PulledEvent,
    context_in,
    pull_parts,
    pulled_in,
    request_headers,
    write_bookmarks,
    write_delivery_options,
)
from mediation.eventing.management.deliveries import (
    AROUND_EVENTS,
    acknowledges,
    batch_expiry,
    batch_signatures,
    bookmark_header,
    delivery_headers,
    event_octets,
    passed_header,
    refuses_delivery,
    write_delivery,
    write_dropped,
    write_dropped_event,
    write_event,
    write_events,
)
from mediation.eventing.management.enumeration import enumeration_context
from mediation.eventing.management.faults import FAULTS
from mediation.eventing.management.headers import read_management
from mediation.eventing.management.publications import channel_topic
from mediation.eventing.management.specification import SPECIFICATION
from mediation.eventing.management.subscribing import read_delivery_mode

__all__ = [
    "AROUND_EVENTS",
    "EARLIEST_BOOKMARK",
    "FAULTS",
    "SPECIFICATION",
    "Pulled",
    "PulledEvent",
    "acknowledges",
    "batch_expiry",
    "batch_signatures",
    "bookmark_header",
    "channel_topic",
    "context_in",
    "delivery_headers",
    "enumeration_context",
    "event_octets",
    "passed_header",
    "pull_parts",
    "pulled_in",
    "read_delivery_mode",
    "read_management",
    "refuses_delivery",
    "request_headers",
    "write_bookmarks",
    "write_delivery",
    "write_delivery_options",
    "write_dropped",
    "write_dropped_event",
    "write_event",
    "write_events",
]
