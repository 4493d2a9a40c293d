"""Grid SOAP Events: events, references and calls in SOAP encoding, read and written."""

from mediation.grid_events.calls import read_lease, write_handle_event, write_subscribe_lease
from mediation.grid_events.description import QUERY, asks_for_description, write_description
from mediation.grid_events.encoding import Generation, TypeName, long_of
from mediation.grid_events.events import Event, Further, read_payload, write_payload
from mediation.grid_events.filters import filter_of
from mediation.grid_events.leasing import EXAMPLE_FIELDS, example_of
from mediation.grid_events.making import made_event, made_header
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
from mediation.grid_events.schemas import TYPE_DOCUMENTS
from mediation.grid_events.serving import (
    HandleEvent,
    SubscribeLease,
    read_call,
    typed_field,
    unknown_type,
    write_handled,
    write_leased,
    write_refusal,
)
from mediation.grid_events.templates import Template
from mediation.grid_events.type_schemas import (
    MOST_BYTES,
    NO_TYPES,
    DeclaredTypes,
    TypeSchema,
    read_type_schema,
)
from mediation.grid_events.types import (
    BASE_FIELDS,
    EVENT_TYPES,
    NUMBERS,
    EventType,
    TypeNames,
    class_of,
)

__all__ = [
    "BASE_FIELDS",
    "CHANNEL",
    "EVENT_TYPES",
    "EXAMPLE_FIELDS",
    "MOST_BYTES",
    "NO_TYPES",
    "NUMBERS",
    "QUERY",
    "TYPE_DOCUMENTS",
    "VIA_PROPERTY",
    "DeclaredTypes",
    "Event",
    "EventType",
    "Further",
    "Generation",
    "HandleEvent",
    "Port",
    "SubscribeLease",
    "Template",
    "TypeName",
    "TypeNames",
    "TypeSchema",
    "asks_for_description",
    "channel_reference",
    "class_of",
    "example_of",
    "filter_of",
    "long_of",
    "made_event",
    "made_header",
    "port_of",
    "port_reference",
    "read_call",
    "read_lease",
    "read_payload",
    "read_port",
    "read_type_schema",
    "typed_field",
    "unknown_type",
    "write_description",
    "write_handle_event",
    "write_handled",
    "write_leased",
    "write_payload",
    "write_port",
    "write_refusal",
    "write_subscribe_lease",
]
