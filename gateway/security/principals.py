"""Who is on the other side of a request."""

from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv6Address, IPv6Network, ip_address


@lru_cache(maxsize=4096)
def side_of(address: str) -> str:
    """What counts as one stranger: an IPv4 address, or the /64 network of an IPv6 address.

    Who has one IPv6 address has the 2**64 of its network. An IPv4-mapped address is the IPv4
    address in it; what is no address stays as it is.
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
class Peer:
    """A principal. An anonymous one is its network address, a stranger what `side_of` makes of it;
    *trusted* peers are bound by the limits over all alone."""

    address: str
    trusted: bool

    @property
    def owner(self) -> str:
        return _ANONYMOUS + (self.address if self.trusted else side_of(self.address))

    @property
    def source(self) -> str:
        """The scope of the ids of what it publishes."""
        address = self.address if self.trusted else side_of(self.address)
        return f"urn:dragoman:publisher:{address}"


def address_of(owner: str) -> str:
    """The network address of an owner, or the network of a stranger."""
    return owner.removeprefix(_ANONYMOUS)
