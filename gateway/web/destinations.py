"""Destinations of deliveries, as operators see them: failures, agreement of the host, and the names
of credentials that it is shown."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from itertools import chain, islice
from urllib.parse import urlsplit

from gateway.delivery import Probations
from gateway.delivery.destinations.failures import DestinationFailures, FailureCounts
from gateway.delivery.destinations.probation import Name
from gateway.egress import AddressPolicy, ConsumerOptions


class Agreement(Enum):
    """Whether a host has agreed to get messages."""

    AGREED = "agreed"
    """It accepted a message, or the operator has named it (``egress_agreed``)."""
    OWNED = "owned"
    """A row of ``consumers`` names its owner, who need not prove it; others are on probation."""
    PROBATION = "probation"
    UNKNOWN = "unknown"
    """Nothing was sent for strangers, and nothing accepted."""
    FORBIDDEN = "forbidden"
    """The operator forbids it (``egress_forbidden``)."""


@dataclass(frozen=True, slots=True)
class Destination:
    """A destination: its failed attempts, its agreement, and the names of credentials that are
    shown there."""

    failures: DestinationFailures
    agreement: Agreement
    credentials: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Destinations:
    """Those to which attempts failed, and those on probation."""

    failures: FailureCounts
    probations: Probations
    options: ConsumerOptions
    policy: AddressPolicy

    def listed(self, most: int) -> Iterable[Destination]:
        """So many at most: those with the most failures first."""
        failing = self.failures.most(most)
        known = {one.destination for one in failing}
        waiting = (one for one in self._on_probation() if one.destination not in known)
        for one in islice(chain(failing, waiting), most):
            scheme, host, port = _name_of(one.destination)
            yield Destination(
                one,
                self._agreement((scheme, host, port)),
                tuple(self.options.credentials_at(host)) if host else (),
            )

    def _on_probation(self) -> Iterator[DestinationFailures]:
        for scheme, host, port in self.probations.on_probation():
            shown = f"[{host}]" if ":" in host else host
            yield DestinationFailures(f"{scheme}://{shown}:{port}")

    def _agreement(self, name: Name) -> Agreement:
        host = name[1]
        if self.policy.forbids(host):
            return Agreement.FORBIDDEN
        if self.probations.has_agreed(name):
            return Agreement.AGREED
        if self.options.has_owner(host):
            return Agreement.OWNED
        on = self.probations.is_on_probation(host)
        return Agreement.PROBATION if on else Agreement.UNKNOWN


def _name_of(destination: str) -> Name:
    """The scheme, host and port of a destination as it is shown; a mailbox has the scheme alone."""
    if "://" not in destination:
        return destination, "", 0
    parts = urlsplit(destination)
    return parts.scheme, parts.hostname or "", parts.port or 0
