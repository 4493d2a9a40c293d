"""Grid SOAP Events for programs: events as dataclasses, listeners, publishers and channels.

::

    @TYPES.register("http://example.org/lab", "RunEvent")
    @dataclass(frozen=True, slots=True, kw_only=True)
    class RunEvent(Event):
        iterations: int = 0

    async with EventListener(print) as listener, Publisher("http://127.0.0.1:8080") as publisher:
        await subscribe_lease("http://127.0.0.1:8080", listener.port, RunEvent(event_type="run"))
        await publisher.publish(RunEvent(event_type="run.done", source="bench7", iterations=17))
"""

from gateway.client.grid_events.channels import EventChannel, LeasingPublisher
from gateway.client.grid_events.client import GridClient
from gateway.client.grid_events.events import (
    TYPES,
    Event,
    EventTypes,
    MachineUtilizationEvent,
    read_event,
)
from gateway.client.grid_events.publishing import Publisher, prepared, publish, subscribe_lease
from gateway.client.grid_events.serving import EventListener, EventRefused
from gateway.client.grid_events.type_schemas import classes_of, schema_of

__all__ = [
    "TYPES",
    "Event",
    "EventChannel",
    "EventListener",
    "EventRefused",
    "EventTypes",
    "GridClient",
    "LeasingPublisher",
    "MachineUtilizationEvent",
    "Publisher",
    "classes_of",
    "prepared",
    "publish",
    "read_event",
    "schema_of",
    "subscribe_lease",
]
