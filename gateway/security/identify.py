"""The one place where principals are made: of what a transport knows of the sender.

Only the network address counts today, so every principal of a transport is anonymous: a stranger,
or trusted because of the network that it is in. What a certificate or a header proves is decided
here, and nowhere else.

A transport identifies before the envelope is read, because the principal decides where the message
may be parsed, and who pays for it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from gateway.security.networks import Networks
from gateway.security.principals import (
    ALL_RIGHTS,
    ANONYMOUS,
    OF_STRANGERS,
    OF_TRUSTED,
    Principal,
    Right,
    address_of,
    side_of,
)
from mediation.names import PUBLISHER

_REMEMBERED = 4096
"""Addresses whose principals are kept: each event of a publisher has the same."""

OPERATOR = Principal("", "operator", "urn:dragoman:operator", OF_TRUSTED)
"""The operator, who is not told apart from whoever reaches the administration."""


@dataclass(frozen=True, slots=True)
class TransportFacts:
    """What a transport knows of a sender, gathered once.

    Attributes:
        address: Its network address: of the proxy's client, where a proxy of ours is trusted.
        proxied: A proxy of ours dialled there, and anybody may stand behind it.
        certificate: The certificate that it showed in TLS, in DER.
        headers: The fields of its request; none where the transport has none.
    """

    address: str
    proxied: bool = False
    certificate: bytes | None = None
    headers: Iterable[tuple[bytes, bytes]] = ()


class Identification:
    """Tells who sends a request.

    Args:
        trusted: Networks whose peers are trusted.
        rights: The rights that everybody has.
    """

    def __init__(
        self, trusted: Networks | None = None, rights: frozenset[Right] = ALL_RIGHTS
    ) -> None:
        self._trusted = trusted or Networks()
        self._rights = rights
        self._known: dict[str, Principal] = {}

    def identify(self, facts: TransportFacts) -> Principal:
        """The principal of *facts*."""
        address = facts.address
        if facts.proxied:
            return anonymous(address, trusted=False, rights=self._rights)
        principal = self._known.get(address)
        if principal is None:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            principal = anonymous(address, trusted=address in self._trusted, rights=self._rights)
            self._known[address] = principal
        return principal

    def trusts_owner(self, owner: str) -> bool:
        """Return whether *owner*, of a subscription or a mailbox, is a trusted principal."""
        return address_of(owner) in self._trusted


def anonymous(address: str, *, trusted: bool, rights: frozenset[Right] = ALL_RIGHTS) -> Principal:
    """The principal that has no name but its network address: of a stranger, what `side_of` makes
    of it."""
    name = address if trusted else side_of(address)
    limits = OF_TRUSTED if trusted else OF_STRANGERS
    return Principal(address, ANONYMOUS + name, PUBLISHER + name, limits, rights)


def producer_of(address: str, owner: str) -> Principal:
    """The principal of events that the gateway itself fetched at *address*, where *owner* had it
    subscribe."""
    return Principal(address, owner, "", OF_TRUSTED)


def without_limits(principal: Principal) -> Principal:
    """*principal* where an operator speaks for it: bound by no limits of its own."""
    return replace(principal, limits=OF_TRUSTED)


def publishing_as(principal: Principal, source: str) -> Principal:
    """*principal* with another scope of the ids of what it publishes."""
    return replace(principal, source=source)
