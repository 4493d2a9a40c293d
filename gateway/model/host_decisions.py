"""Decisions of operators about hosts that messages are sent to: values that the store, the policy
of addresses and delivery share."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

MOST = 10_000
"""Decisions that are kept."""


class Decision(Enum):
    """What an operator has said of a host."""

    APPROVED = "approved"
    """It may be sent to: it need not agree itself."""
    FORBIDDEN = "forbidden"
    """Nothing is sent to it."""


@dataclass(frozen=True, slots=True)
class HostDecision:
    """The decision about one host.

    Attributes:
        host: A name or an address, as a `Target` spells it.
        by: The owner that decided: ``user:NAME``.
        at: When, in POSIX seconds.
    """

    host: str
    decision: Decision
    by: str
    at: float


class HostDecisions:
    """The decisions that are known, by host."""

    def __init__(self) -> None:
        self._by_host: dict[str, HostDecision] = {}
        self.forbidden: frozenset[str] = frozenset()
        """Hosts that nothing is sent to: mostly none."""

    def __iter__(self) -> Iterator[HostDecision]:
        return iter(self._by_host.values())

    def find(self, host: str) -> HostDecision | None:
        """The decision about *host*; None where there is none."""
        return self._by_host.get(host)

    def forbids(self, host: str) -> bool:
        """Whether nothing is sent to *host*."""
        return host in self.forbidden

    def approves(self, host: str) -> bool:
        """Whether *host* need not agree."""
        found = self._by_host.get(host)
        return found is not None and found.decision is Decision.APPROVED

    def replace(self, decisions: Iterable[HostDecision]) -> frozenset[str]:
        """Know *decisions* alone; the hosts about which something else is known now."""
        former, self._by_host = self._by_host, {one.host: one for one in decisions}
        self.forbidden = frozenset(
            one.host for one in self._by_host.values() if one.decision is Decision.FORBIDDEN
        )
        hosts = former.keys() | self._by_host.keys()
        return frozenset(one for one in hosts if former.get(one) != self._by_host.get(one))
