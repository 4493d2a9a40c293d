"""Destinations of deliveries, as operators see them: failures, agreement of the host and why, and
the names of credentials that it is shown."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from itertools import chain, islice
from urllib.parse import urlsplit

from gateway.delivery import Probations
from gateway.delivery.destinations.failures import KEPT, DestinationFailures, FailureCounts
from gateway.delivery.destinations.probation import Name
from gateway.egress import AddressPolicy, AddressRefused, ConsumerOptions, parse_target
from gateway.mailboxes.transport import SCHEME
from gateway.model.host_decisions import Decision, HostDecisions
from gateway.model.moments import moment_of


class Agreement(Enum):
    """Whether a host has agreed to get messages."""

    AGREED = "agreed"
    """It accepted a message, an operator approved of it, or the settings name it
    (``egress_agreed``)."""
    OWNED = "owned"
    """A row of ``consumers`` names its owner, who need not prove it; others are on probation."""
    PROBATION = "probation"
    UNKNOWN = "unknown"
    """Nothing was sent for strangers, and nothing accepted."""
    REFUSED = "refused"
    """It was asked and did not agree, or accepted none of the attempts that it gets."""
    FORBIDDEN = "forbidden"
    """An operator forbids it, or the settings (``egress_forbidden``)."""


@dataclass(frozen=True, slots=True)
class Destination:
    """A destination: its failed attempts, its host, which is empty of a mailbox, its agreement and
    why that is so, and the names of credentials that are shown there."""

    failures: DestinationFailures
    host: str
    agreement: Agreement
    why: str
    credentials: tuple[str, ...]
    decides: bool = True
    """Whether who sees it may decide about its host."""


_SAID_TO_TENANTS = {
    Agreement.AGREED: "it takes messages",
    Agreement.OWNED: "the operator of the gateway names its owner",
    Agreement.PROBATION: "it has accepted no message yet, and gets few",
    Agreement.UNKNOWN: "it has accepted no message since this gateway started",
    Agreement.REFUSED: "it did not agree, or accepted none of what it was sent",
    Agreement.FORBIDDEN: "the operator of the gateway forbids it",
}
"""Why that is so, without who decided."""


@dataclass(frozen=True, slots=True)
class Destinations:
    """Those to which attempts failed, those on probation, hosts that did not agree, and hosts about
    which an operator has decided."""

    failures: FailureCounts
    probations: Probations
    options: ConsumerOptions
    policy: AddressPolicy
    decisions: HostDecisions = field(default_factory=HostDecisions)

    def listed(self, most: int) -> Iterable[Destination]:
        """So many at most: those with the most failures first."""
        failing = self.failures.most(most)
        known = {one.destination for one in failing}
        shown = {_name_of(one.destination)[1] for one in failing}
        waiting = (one for one in self._on_probation() if one.destination not in known)
        others = (DestinationFailures(one) for one in self._other_hosts(shown))
        for one in islice(chain(failing, waiting, others), most):
            yield self._shown(one)

    def of_tenant(self, tenant: str, addresses: Iterable[str], most: int) -> Iterable[Destination]:
        """So many at most of a *tenant*, whose subscriptions send to the destinations *addresses*:
        with failures of its own attempts, and without what is the operator's: who decided, and
        which credentials are shown there."""
        failing = {one.destination: one for one in self.failures.most(KEPT, tenant)}
        named = dict.fromkeys(chain(failing, addresses))
        for name in islice(named, most):
            one = failing.get(name) or DestinationFailures(name)
            scheme, host, port = _name_of(name)
            agreement, _ = self._agreement((scheme, host, port))
            yield Destination(one, host, agreement, _SAID_TO_TENANTS[agreement], (), decides=False)

    def _shown(self, one: DestinationFailures) -> Destination:
        name = _name_of(one.destination)
        agreement, why = self._agreement(name)
        credentials = tuple(self.options.credentials_at(name[1])) if name[1] else ()
        return Destination(one, name[1], agreement, why, credentials)

    def _other_hosts(self, shown: set[str]) -> Iterator[str]:
        """Hosts with a decision, or that did not agree, which are not among those *shown*, nor on
        probation."""
        decided = [one.host for one in self.decisions]
        refused = (host for host, _ in self.probations.refusals())
        for host in dict.fromkeys(chain(decided, refused)):
            if host not in shown and not self.probations.is_on_probation(host):
                yield host

    def _on_probation(self) -> Iterator[DestinationFailures]:
        for scheme, host, port in self.probations.on_probation():
            shown = f"[{host}]" if ":" in host else host
            yield DestinationFailures(f"{scheme}://{shown}:{port}")

    def _agreement(self, name: Name) -> tuple[Agreement, str]:
        """Whether the host of *name* has agreed, and why that is so."""
        host = name[1]
        decided = self.decisions.find(host)
        if decided is not None:
            at = f"{moment_of(decided.at):%Y-%m-%d %H:%M:%SZ}"
            agreement = Agreement.AGREED
            if decided.decision is Decision.FORBIDDEN:
                agreement = Agreement.FORBIDDEN
            return agreement, f"{decided.decision.value} by {decided.by} at {at}"
        if self.policy.forbids(host):
            return Agreement.FORBIDDEN, "the setting egress_forbidden names it"
        if self.probations.has_accepted(name):
            return Agreement.AGREED, "it accepted a message"
        if self.probations.has_agreed(name):
            return Agreement.AGREED, "it need not agree: a mailbox, or the setting egress_agreed"
        if refusal := self.probations.refusal(host):
            return Agreement.REFUSED, refusal
        if self.options.has_owner(host):
            return Agreement.OWNED, "a row of consumers names its owner"
        if self.probations.is_on_probation(host):
            return Agreement.PROBATION, "it has accepted no message yet, and gets few"
        return Agreement.UNKNOWN, "it has accepted no message since this gateway started"

    def find(self, destination: str) -> Destination:
        """The destination that is listed so, or a host that is named alone."""
        known = {one.destination: one for one in self.failures.most(KEPT)}
        return self._shown(known.get(destination) or DestinationFailures(destination))


def host_of(destination: str) -> str:
    """The host of a destination as it is shown, or of one that is named alone, as a `Target` spells
    it.

    Raises:
        AddressRefused: It is none.
    """
    host = destination
    if "://" in destination:
        host = _name_of(destination)[1]
    if ":" in host and not host.startswith("["):
        host = f"[{host}]"
    target = parse_target(f"http://{host}/")
    if (target.port, target.path) != (80, "/"):
        raise AddressRefused(destination, text="A host has no port and no path.")
    return target.host


def _name_of(destination: str) -> Name:
    """The scheme, host and port of a destination as it is shown; a mailbox has the scheme alone,
    and a host to which nothing failed has itself alone."""
    if "://" not in destination:
        return ("", destination, 0) if destination != SCHEME else (destination, "", 0)
    parts = urlsplit(destination)
    return parts.scheme, parts.hostname or "", parts.port or 0
