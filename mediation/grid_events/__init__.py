"""Grid SOAP Events: events, references and calls in SOAP encoding, read and written."""

from mediation.grid_events.calls import read_lease, write_handle_event, write_subscribe_lease
from mediation.grid_events.description import QUERY, asks_for_description, write_description
from mediation.grid_events.encoding import Generation, TypeName
from mediation.grid_events.events import Event, Further, read_payload, write_payload
from mediation.grid_events.filters import filter_of
from mediation.grid_events.making import made_event
from mediation.grid_events.references import (
    CHANNEL,
    Port,
    channel_reference,
    port_of,
    port_reference,
    read_port,
    write_port,
)
from mediation.grid_events.rpc import VIA_PROPERTY
from mediation.grid_events.types import EVENT_TYPES, EventType, TypeNames

__all__ = [
    "CHANNEL",
    "EVENT_TYPES",
    "QUERY",
    "VIA_PROPERTY",
    "Event",
    "EventType",
    "Further",
    "Generation",
    "Port",
    "TypeName",
    "TypeNames",
    "asks_for_description",
    "channel_reference",
    "filter_of",
    "made_event",
    "port_of",
    "port_reference",
    "read_lease",
    "read_payload",
    "read_port",
    "write_description",
    "write_handle_event",
    "write_payload",
    "write_port",
    "write_subscribe_lease",
]
