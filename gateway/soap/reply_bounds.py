"""What bounds answers to addresses that peers name, for whoever speaks for itself alone.

    places   so many under way: of one owner, of one tenant, to one host, and of all
    bytes    a rate for each owner, and for each host
    hosts    one that accepts nothing gets few, as of all else that it did not ask for (probation)

What goes beyond them goes back on the connection of its request. Nobody else's answer is refused
for it: whoever has its answers sent to a host that says nothing holds its own places alone.
"""

import asyncio
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Collection

from gateway.delivery.destinations.probation import Probations
from gateway.egress import Target
from gateway.model.hosts import reached_host
from gateway.security.principals import tenant_of
from gateway.token_bucket import TokenBucket

REPLIES_AT_A_TIME = 64
"""Answers under way to other addresses: each is a connection, for 15 s where nobody answers."""
PLACES_OF_ONE = 8
"""Those of one owner, and those to one host, of all places: eight silent hosts, or eight owners who
mean harm, have to come together to fill them."""
PLACES_OF_TENANT = 16
"""Those of all owners of a tenant together: a tenant names as many users as it likes."""
REPLIED, REPLIED_AT_ONCE = 64 * 1024.0, 2 * 2**20
"""Octets of answers that are sent elsewhere for an owner, and to a host: a second, and at once."""
ACCEPTING = 10_000
"""Hosts that are remembered to have accepted an answer; the one unused the longest goes."""


class ReplyBounds:
    """Counts answers to other addresses. *owner* is None of whom nothing is counted: it is trusted.

    Args:
        probations: Hosts that have not agreed to be sent to, and what they still get.
    """

    def __init__(self, probations: Probations) -> None:
        self._probations = probations
        self._replied = TokenBucket(REPLIED, REPLIED_AT_ONCE)
        self._places: Counter[str] = Counter()
        self._under_way = 0
        self._accepting: OrderedDict[str, None] = OrderedDict()
        """Hosts whose last answer was accepted. That is less than to agree: nobody else's messages
        go there for it."""

    def may_send(self, target: Target, octets: int, owner: str | None) -> bool:
        """Return True if so many *octets* may be sent to *target* now; if so, they are counted."""
        if self._under_way >= REPLIES_AT_A_TIME:
            return False
        if owner is None:
            return True
        if any(self._places[key] >= most for key, most in _shares(target, owner)):
            return False
        now, replied = time.monotonic(), self._replied
        if not (
            replied.allows(f"to {target.host}", now, number=octets)
            and replied.allows(owner, now, number=octets)
        ):
            return False
        if target.host in self._accepting:
            return True
        clock = asyncio.get_running_loop().time
        return self._probations.may_notify(target.destination, owner, clock())

    def begin(self, target: Target, owner: str | None) -> None:
        """An answer to *target* is under way."""
        self._under_way += 1
        if owner is not None:
            self._places.update(key for key, _ in _shares(target, owner))

    def end(self, target: Target, owner: str | None) -> None:
        """It is over."""
        self._under_way -= 1
        for key, _ in _shares(target, owner) if owner is not None else ():
            self._places[key] -= 1
            if not self._places[key]:
                del self._places[key]

    def gate(
        self, target: Target, owner: str | None
    ) -> tuple[Callable[[str], bool] | None, Collection[str]]:
        """The question whether anything may be written to *target* at an address, as
        `Probations.gate_for`, and the addresses of which it was asked. One that accepts passes."""
        reached: set[str] = set()
        clock = asyncio.get_running_loop().time
        gate = (
            None if owner is None else self._probations.gate_for(target.destination, owner, clock)
        )
        if gate is None:
            return None, reached

        def admit(text: str) -> bool:
            address = reached_host(text) if text else ""
            reached.add(address)
            return address in self._accepting or gate(text)

        return admit, reached

    def answered(self, hosts: Collection[str], *, accepted: bool) -> None:
        """*hosts*, a name and addresses that it led to, accepted an answer, or did not."""
        for host in filter(None, hosts):
            self._accepting.pop(host, None)
            if accepted:
                self._accepting[host] = None
        while len(self._accepting) > ACCEPTING:
            self._accepting.popitem(last=False)


def _shares(target: Target, owner: str) -> tuple[tuple[str, int], ...]:
    """What an answer takes places of, and how many that may have."""
    shares = ((f"to {target.host}", PLACES_OF_ONE), (f"of {owner}", PLACES_OF_ONE))
    tenant = tenant_of(owner)
    return (*shares, (f"in {tenant}", PLACES_OF_TENANT)) if tenant else shares
