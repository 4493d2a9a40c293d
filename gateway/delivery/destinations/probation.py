"""Probation: hosts that have not agreed to get messages yet.

Anybody may subscribe anybody's host, and name any number of paths and ports of it. So until a host
has accepted a message, it gets few attempts, over all subscriptions of strangers together:

    unknown --- 2xx ---> agreed
       |
       +-- so many a minute, so many in all; failures in a row open one breaker for the host
       |
       +--> over: its subscriptions end, and nothing is sent for a day

Whoever has a domain can give a victim's address any number of names. So a host that is a name is
counted as the address that it is connected to, too, before anything is written.

A host is agreed for as long as the process lives, and at its start when one of its subscriptions
has a delivery among its totals: so nothing more need be kept. What is on probation is known to one
process alone: each start, and each of several gateways, begins to count anew.

By SOAP.TCP nobody answers. There a host agrees at the port where its system took a whole message,
and for SOAP.TCP alone.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from gateway.delivery.destinations.breaker import FIRST_PROBE, Breaker
from gateway.mailboxes.transport import SCHEME
from gateway.model.hosts import reached_host

MINUTE = 60.0
LOOK_AGAIN = 1.0
"""Seconds after which it is looked whether one of the last attempts succeeded."""
FORGOTTEN = 86400.0
"""Seconds after its last attempt, after which a host that did not agree is unknown again."""
REMEMBERED = 10_000
"""Hosts on probation that are remembered; the one unused the longest goes."""
AGREED = 100_000
"""Hosts that agreed, in the same way."""

Name = tuple[str, str, int]
"""Scheme, host and port."""


class OnProbation(Protocol):
    """A destination, as far as probation reads and writes it."""

    name: Name
    tenant: str
    address: str
    active: int
    known: bool
    agreed: bool
    probation: "Probation | None"

    def learn_agreed(self, agreed: bool) -> bool: ...
    def put_on_probation(self, probation: "Probation | None") -> None: ...
    def free(self) -> None: ...
    def doubt(self) -> None: ...
    def lead_to(self, address: str) -> None: ...


@dataclass(frozen=True, slots=True)
class ProbationLimits:
    """Attempts a minute, and in all; and seconds until the first probe of a host's breaker."""

    a_minute: int = 6
    in_all: int = 20
    probe: float = FIRST_PROBE


class Probation:
    """The attempts at one host. Times are the event loop's, in seconds."""

    __slots__ = ("_limits", "_recent", "attempts", "breaker", "destinations", "last")

    def __init__(self, limits: ProbationLimits) -> None:
        self._limits = limits
        self._recent: deque[float] = deque(maxlen=limits.a_minute)
        self.attempts = 0
        self.breaker = Breaker(limits.probe)
        self.destinations: set[OnProbation] = set()
        self.last = 0.0

    @property
    def over(self) -> bool:
        """True if all attempts were made, and none of them succeeded."""
        return self.attempts >= self._limits.in_all and not self._in_flight

    @property
    def _in_flight(self) -> int:
        return sum(destination.active for destination in self.destinations)

    def wait(self, now: float) -> float:
        """Seconds until the next attempt may start; 0 when the probation is `over`, too."""
        if self.attempts >= self._limits.in_all:
            return LOOK_AGAIN if self._in_flight else 0.0
        wait = self.breaker.until - now if self.breaker.until is not None else 0.0
        if len(self._recent) == self._recent.maxlen:
            wait = max(wait, self._recent[0] + MINUTE - now)
        return max(0.0, wait)

    def started(self, now: float) -> None:
        """An attempt starts."""
        self.attempts += 1
        self._recent.append(now)
        self.last = now
        self.breaker.probing(now)

    def withhold(self, now: float) -> None:
        """An attempt that started sent nothing."""
        self.attempts = max(0, self.attempts - 1)
        self.breaker.withhold(now)

    def failed(self, now: float, *, at_least: float = 0.0) -> None:
        """An attempt ended otherwise than with a 2xx."""
        self.breaker.failed(now, at_least=at_least)


class Probations:
    """All hosts.

    Args:
        vouches: Whether an owner's word is enough: a trusted peer's.
        owns: Whether the operator has said that an owner has a host.
        exempt: Whether the settings say of a host that it agrees.
        approves: Whether an operator has approved of a host.
        by_address: Whether names are counted by their addresses, too; not behind a proxy, whose
            address all of them have.
    """

    def __init__(
        self,
        *,
        vouches: Callable[[str], bool] = lambda _: False,
        owns: Callable[[str, str], bool] = lambda _owner, _host: False,
        exempt: Callable[[str], bool] = lambda _: False,
        approves: Callable[[str], bool] = lambda _: False,
        limits: ProbationLimits | None = None,
        by_address: bool = True,
    ) -> None:
        self._by_address = by_address
        self._vouches = vouches
        self._owns = owns
        self._exempt = exempt
        self._approves = approves
        self._limits = limits or ProbationLimits()
        self._agreed: OrderedDict[tuple[str, int], None] = OrderedDict()
        """By host, and the port where that is said by SOAP.TCP alone, else 0."""
        self._hosts: OrderedDict[str, Probation] = OrderedDict()
        self._refusals: OrderedDict[str, str] = OrderedDict()
        """Why hosts did not agree when they were asked."""

    def __len__(self) -> int:
        """Hosts on probation."""
        return len(self._hosts)

    def on_probation(self) -> Iterator[Name]:
        """The destinations whose hosts are on probation, each once, that with the latest attempt
        last. One whose host is a name is at its address, too."""
        for host, probation in self._hosts.items():
            names = sorted({one.name for one in probation.destinations})
            for name in names:
                if name[1] == host or not self.is_on_probation(name[1]):
                    yield name

    def is_on_probation(self, host: str) -> bool:
        """True if a destination at *host* is on probation."""
        probation = self._hosts.get(host)
        return probation is not None and bool(probation.destinations)

    def note_refusal(self, host: str, why: str) -> None:
        """Note that *host* was asked whether it agrees, and *why* it did not."""
        self._refusals[host] = why
        self._refusals.move_to_end(host)
        if len(self._refusals) > REMEMBERED:
            self._refusals.popitem(last=False)

    def refusals(self) -> Iterator[tuple[str, str]]:
        """The hosts that did not agree when they were asked, each with why, the latest first."""
        return iter(reversed(self._refusals.items()))

    def refusal(self, host: str) -> str:
        """Why *host* has not agreed; empty where it was not asked, and has attempts left."""
        probation = self._hosts.get(host)
        if probation is not None and probation.over:
            return f"none of {probation.attempts} attempts was accepted"
        return self._refusals.get(host, "")

    def is_approved(self, host: str) -> bool:
        """True if an operator has approved of *host*."""
        return self._approves(host)

    def has_accepted(self, name: Name) -> bool:
        """True if the host at *name* accepted a message, as far as this process knows."""
        scheme, host, port = name
        if (host, 0) in self._agreed:
            return True
        return _is_tcp(scheme) and (host, port) in self._agreed

    def has_agreed(self, name: Name) -> bool:
        """True if the host at *name* accepted a message, or need not have."""
        if name[0] == SCHEME or self.has_accepted(name):
            return True
        return self._exempt(name[1]) or self._approves(name[1])

    def admit(self, destination: OnProbation, owner: str, now: float) -> None:
        """Put *destination* on probation, or not, for a subscription of *owner*."""
        if destination.agreed or (destination.known and destination.probation is None):
            return
        if not destination.known and destination.learn_agreed(self.has_agreed(destination.name)):
            return
        host = destination.name[1]
        if self.speaks_for(owner, host):
            destination.put_on_probation(None)
        elif destination.probation is None:
            probation = self._of(host, now)
            destination.put_on_probation(probation)
            probation.destinations.add(destination)

    def _of(self, host: str, now: float) -> Probation:
        probation = self._hosts.pop(host, None)
        if probation is None or (probation.last and now - probation.last > FORGOTTEN):
            probation = Probation(self._limits)
        self._hosts[host] = probation
        if len(self._hosts) > REMEMBERED:
            self._hosts.popitem(last=False)
        return probation

    def forget(self, destination: OnProbation) -> None:
        """Forget *destination*, to which nobody sends any more; its host is remembered."""
        for host in (destination.name[1], destination.address):
            probation = self._hosts.get(host)
            if probation is not None:
                probation.destinations.discard(destination)
        if destination.probation is not None:
            destination.probation.destinations.discard(destination)

    def gate(
        self, name: Name, now: Callable[[], float], destination: OnProbation | None = None
    ) -> Callable[[str], bool]:
        """The question whether anything may be written to *name*, on probation, at an address."""
        return partial(self._admit_address, name, destination, now)

    def gate_for(
        self, name: Name, owner: str, now: Callable[[], float]
    ) -> Callable[[str], bool] | None:
        """As `gate`; None for what needs no probation."""
        free = self.has_agreed(name) or self.speaks_for(owner, name[1])
        return None if free else self.gate(name, now)

    def _admit_address(
        self,
        name: Name,
        destination: OnProbation | None,
        clock: Callable[[], float],
        text: str,
    ) -> bool:
        address = reached_host(text) if text else ""
        if not self._by_address or address in ("", name[1]):
            return True  # It is counted by its name.
        if self.has_agreed((name[0], address, name[2])):
            return True
        now = clock()
        probation = self._of(address, now)
        if destination is not None:
            destination.lead_to(address)
            probation.destinations.add(destination)
        if probation.attempts >= self._limits.in_all or probation.wait(now) > 0:
            return False
        probation.started(now)
        return True

    def failed(self, destination: OnProbation, now: float, *, at_least: float = 0.0) -> None:
        """Note that an attempt at *destination*, on probation, ended otherwise than with a 2xx."""
        if destination.probation is not None:
            destination.probation.failed(now, at_least=at_least)
        probation = self._hosts.get(destination.address)
        if probation is not None:
            probation.failed(now, at_least=at_least)

    def agree(self, name: Name, address: str = "") -> Iterable[OnProbation]:
        """A message was accepted at *name*, which may have led to *address*; the destinations that
        are on probation no longer."""
        free = list(self._agree(name))
        if address:
            free += self._agree((name[0], address, name[2]))
        return free

    def release(self, host: str) -> Iterable[OnProbation]:
        """Somebody said that *host* may be sent to; the destinations that are on probation no
        longer."""
        self._refusals.pop(host, None)
        return self._free(host)

    def reconsider(self, destination: OnProbation, owner: str, now: float) -> None:
        """Ask anew whether the host of *destination* has agreed, for a subscription of *owner*."""
        if destination.agreed and not self.has_agreed(destination.name):
            destination.doubt()
            self.admit(destination, owner, now)

    def _agree(self, name: Name) -> Iterable[OnProbation]:
        scheme, host, port = name
        key = (host, port if _is_tcp(scheme) else 0)
        self._agreed[key] = None
        self._agreed.move_to_end(key)
        if len(self._agreed) > AGREED:
            self._agreed.popitem(last=False)
        self._refusals.pop(host, None)
        return self._free(host)

    def _free(self, host: str) -> Iterable[OnProbation]:
        """End the probation of those destinations of *host* that have agreed."""
        probation = self._hosts.get(host)
        if probation is None:
            return ()
        free = [one for one in probation.destinations if self.has_agreed(one.name)]
        for destination in free:
            destination.free()
            probation.destinations.discard(destination)
        if self.has_agreed(("http", host, 0)):
            del self._hosts[host]
        return free

    def speaks_for(self, owner: str, host: str) -> bool:
        """Whether *owner* need not prove that *host* wants what is sent to it."""
        return self._vouches(owner) or self._owns(owner, host)

    def vouches(self, owner: str) -> bool:
        """True if the word of *owner* is enough for any host."""
        return self._vouches(owner)

    def may_notify(self, name: Name, owner: str, now: float) -> bool:
        """True if something else than a message, SubscriptionEnd for one, may be sent to *name* for
        *owner*, now. It is an attempt of a host on probation, which has so many."""
        if self.has_agreed(name) or self.speaks_for(owner, name[1]):
            return True
        probation = self._of(name[1], now)
        if probation.attempts >= self._limits.in_all or probation.wait(now) > 0:
            return False
        probation.started(now)
        return True


def _is_tcp(scheme: str) -> bool:
    return scheme.startswith("soap.tcp")
