"""Principals: who sends a request, by what name the store knows them, and whom quotas bind."""

from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv6Address, IPv6Network, ip_address

from mediation.names import PUBLISHER


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


_ANONYMOUS = "anonymous:"


@dataclass(frozen=True, slots=True)
class Principal:
    """The sender of a request; `gateway.security.identify` makes it.

    Attributes:
        address: Its network address, for logs.
        owner: The name under which the store keeps what it makes; quotas count by it.
        source: The scope of the ids of what it publishes.
        trusted: It is bound by the limits over all alone, by no rate and no quota of its own.
    """

    address: str
    owner: str
    source: str
    trusted: bool

    @property
    def stranger(self) -> str | None:
        """The owner to whom is charged what it costs; None where it is trusted."""
        return None if self.trusted else self.owner


def anonymous(address: str, *, trusted: bool) -> Principal:
    """The principal that has no name but its network address: of a stranger, what `side_of` makes
    of it."""
    name = address if trusted else side_of(address)
    return Principal(address, _ANONYMOUS + name, PUBLISHER + name, trusted)


def address_of(owner: str) -> str:
    """The network address of an owner, or the network of a stranger."""
    return owner.removeprefix(_ANONYMOUS)
