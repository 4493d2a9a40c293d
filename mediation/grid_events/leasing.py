"""Our own side as one who subscribes at channels of others (`SPECIFICATION.leasing`)."""

from collections.abc import Mapping

from filters import Reason, quoted
from mediation.grid_events.calls import read_lease, write_subscribe_lease
from mediation.grid_events.events import Event
from mediation.grid_events.references import port_of
from mediation.grid_events.rpc import SUBSCRIBE_LEASE
from mediation.model.errors import MediationError
from mediation.model.specification import LeaseOptions

EXAMPLE_FIELDS = ("eventNamespace", "eventType", "source", "message")
"""The fields that an example may have where a person writes it."""


def example_of(fields: Mapping[str, str]) -> Event | None:
    """The event with these fields as an example; None where none has a value.

    Raises:
        MediationError: ``FILTER_INVALID``: there is no such field.
    """
    said = {name: value for name, value in fields.items() if value}
    if unknown := said.keys() - set(EXAMPLE_FIELDS):
        text = f"An example has {', '.join(EXAMPLE_FIELDS)}, and no {quoted(min(unknown))}."
        raise MediationError(Reason.FILTER_INVALID, text)
    if not said:
        return None
    namespace, type_, source, message = map(said.get, EXAMPLE_FIELDS)
    return Event(namespace, type_, source, message=message)


class GridLeasing:
    """Subscribes, renews and, by the shortest lease, cancels with one call."""

    def subscribe(self, wanted: LeaseOptions) -> tuple[str, bytes]:
        binding = port_of(wanted.producer).binding
        _, octets = write_subscribe_lease(
            port_of(wanted.consumer),
            max(1, round(wanted.seconds * 1000)),
            pattern=example_of(wanted.example),
            binding=binding,
        )
        action = f"{binding}#{SUBSCRIBE_LEASE}" if binding else ""
        return action, octets

    def read_granted(self, octets: bytes) -> float:
        return read_lease(octets) / 1000
