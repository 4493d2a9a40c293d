"""Principals: who sends a request, what it may do, and which limits bind it.

Owners, by which the store knows principals, have a scheme: ``anonymous:ADDRESS``, ``user:NAME``,
``cert:SUBJECT``. The operator's own, of before, is ``operator``.
"""

from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv6Address, IPv6Network, ip_address

from gateway.security.rights import ALL_GRANTS, ALL_RIGHTS, Grants, Right


@lru_cache(maxsize=4096)
def side_of(address: str) -> str:
    """The unit that counts as one stranger: an IPv4 address, or the /64 network of an IPv6 address,
    for whoever has one IPv6 address has the 2**64 of its network.

    An IPv4-mapped address is the IPv4 address in it; a text that is no address stays as it is.
    """
    try:
        ip = ip_address(address)
    except ValueError:
        return address
    if isinstance(ip, IPv6Address):
        if ip.ipv4_mapped is None:
            return str(IPv6Network((int(ip), 64), strict=False))
        ip = ip.ipv4_mapped
    return str(ip)


ANONYMOUS = "anonymous:"
"""The scheme of owners without a name: a network address follows."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits that bind a principal, beside those over all.

    Attributes:
        quotas: It has rates and quotas of its own.
        leases: Its leases are at most as long as the longest.
        reply_addresses: Answers are sent only to hosts that have accepted messages before.
        guarded: It speaks for itself alone: protected topics are closed to it without a proof, and
            it is not told settings. Without this it speaks for the gateway's operator.
    """

    quotas: bool
    leases: bool
    reply_addresses: bool
    guarded: bool


OF_STRANGERS = Limits(quotas=True, leases=True, reply_addresses=True, guarded=True)
OF_TRUSTED = Limits(quotas=False, leases=False, reply_addresses=False, guarded=False)
OF_NAMED = Limits(quotas=True, leases=True, reply_addresses=False, guarded=True)
"""Of who has a name, and comes from a network that is not trusted: what it does is its own."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Whom credentials prove, and how far they go.

    Attributes:
        owner: ``user:NAME`` or ``cert:SUBJECT``.
        roles: What the file and the token say.
        rights: The most that these credentials allow; the rules say what is left of that.
        until: When they must be verified again at the latest, in seconds since 1970.
    """

    owner: str
    roles: frozenset[str] = frozenset()
    rights: frozenset[Right] = ALL_RIGHTS
    until: float = float("inf")

    @property
    def names(self) -> frozenset[str]:
        """The names by which rules speak of it."""
        return frozenset({self.owner, *(f"role:{role}" for role in self.roles)})


@dataclass(frozen=True, slots=True)
class Principal:
    """The sender of a request; `gateway.security.identify` makes it.

    Attributes:
        address: Its network address, for logs.
        owner: The name under which the store keeps what it makes; quotas count by it.
        source: The scope of the ids of what it publishes.
        name: The name that it proved; empty where it proved none.
        tenant: The tenant that it belongs to; there is one without a name.
        rights: What it may do somewhere; *grants* says on which topics.
    """

    address: str
    owner: str
    source: str
    limits: Limits
    rights: frozenset[Right] = ALL_RIGHTS
    name: str = ""
    tenant: str = ""
    grants: Grants = ALL_GRANTS

    @property
    def stranger(self) -> str | None:
        """The owner to whom is charged what it costs; None where it has no quotas."""
        return self.owner if self.limits.quotas else None


def address_of(owner: str) -> str:
    """The network address of an owner, or the network of a stranger."""
    return owner.removeprefix(ANONYMOUS)
