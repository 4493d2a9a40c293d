"""The policy of addresses: which ones may be sent to.

An address is judged twice: as it is written, when somebody names it, and as what it
turned into, on every connection. Between the two the owner of a name can change
everything.
"""

import socket
from collections.abc import Collection, Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Network, ip_address

from gateway.egress.addresses import (
    DEFAULT_PORTS,
    DENIED_PORTS,
    AddressRefused,
    Target,
)
from gateway.egress.host_list import HostList
from gateway.model.host_decisions import HostDecisions
from gateway.model.hosts import IPAddress, comparable_host, ipv4_within, unmapped

# What `is_global` lets pass (Python 3.11) and what leads inside or nowhere all the same.
_FORBIDDEN_V4 = tuple(
    IPv4Network(network)
    for network in (
        "224.0.0.0/4",  # multicast
        "192.0.0.0/24",  # protocol assignments
        "192.88.99.0/24",  # 6to4 relays
        "168.63.129.16/32",  # the host of a virtual machine (Azure)
    )
)
# All that is assigned lies in one block (IANA, "IPv6 Global Unicast Address Assignments"); what
# lies outside translates to IPv4 (::/96, ::ffff:0:0:0/96, 64:ff9b::/96, 64:ff9b:1::/48), is
# site-local (fec0::/10), multicast (ff00::/8), or nothing yet.
_UNICAST_V6 = IPv6Network("2000::/3")
_FORBIDDEN_V6 = tuple(
    IPv6Network(network)
    for network in (
        "2002::/16",  # 6to4
        "2001::/32",  # Teredo
    )
)

DECIDED = "dragoman destinations reset"
"""What allows an address that an operator has forbidden."""


def is_forbidden(address: IPAddress) -> bool:
    """Whether *address* is not plainly one host of the public internet."""
    address = unmapped(address)
    if not address.is_global:
        return True
    if isinstance(address, IPv4Address):
        return any(address in network for network in _FORBIDDEN_V4)
    return address not in _UNICAST_V6 or any(address in network for network in _FORBIDDEN_V6)


def is_this_machine(address: IPAddress) -> bool:
    """Whether *address* is one of this machine's: then a connection to it would begin at the very
    same address. Nothing is sent to find out; interfaces that come and go are noticed."""
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as sock:
            sock.connect((str(address), 9))
            return ip_address(sock.getsockname()[0]) == address
    except OSError:  # There is no way to it.
        return False


class AddressPolicy:
    """The rules for addresses that strangers name.

    Args:
        allow: What an intranet needs, beside the public internet: networks
            (``10.1.0.0/16``), addresses, host names (``consumer.lan``), and all names
            below one (``*.lan``). A name allows every address it has.
        loopback: Whether loopback is open: only while the gateway itself listens on
            loopback alone, where whoever names it is on this machine already.
        own: Hosts and ports at which the gateway itself is reached: where it listens and
            its public address. Listening everywhere (``0.0.0.0``, ``::``) covers every
            address of this machine.
        deliver_to_self: Whether it may send to these.
        schemes: The only schemes that addresses may have; None for all.
        ports: Ports that strangers may name, beside those that all may.
        forbid: Hosts that nothing is sent to, whatever *allow* says: as *allow*.
        decisions: Hosts that operators have forbidden since.
    """

    def __init__(
        self,
        *,
        allow: Iterable[str] = (),
        loopback: bool = False,
        own: Collection[tuple[str, int]] = (),
        deliver_to_self: bool = False,
        schemes: Collection[str] | None = None,
        ports: Iterable[range] = (),
        forbid: Iterable[str] = (),
        decisions: HostDecisions | None = None,
    ) -> None:
        self.decisions = decisions or HostDecisions()
        self._forbidden = HostList(forbid)
        self._schemes = None if schemes is None else frozenset(schemes)
        self._ports = tuple(ports)
        self._loopback = loopback
        self._own = frozenset() if deliver_to_self else frozenset(_spelled(*one) for one in own)
        self._allowed = HostList(allow)

    def forbids(self, host: str) -> bool:
        """Whether the settings, or an operator, forbid *host*."""
        return host in self._forbidden or self.decisions.forbids(host)

    def allows_scheme(self, scheme: str) -> bool:
        """Whether addresses may have *scheme*."""
        return self._schemes is None or scheme in self._schemes

    def check_named(self, target: Target, *, trusted: bool = False) -> None:
        """Judge *target*, which somebody names now: as `check`, and its port, unless that is
        *trusted*.

        Raises:
            AddressRefused: It may not be named.
        """
        self.check(target)
        if not trusted and not self._allows_port(target):
            raise AddressRefused(target.url, allowed_by="egress_ports")

    def _allows_port(self, target: Target) -> bool:
        port = target.port
        if port in (80, 443, DEFAULT_PORTS.get(target.scheme)):
            return True
        return (port >= 1024 and port not in DENIED_PORTS) or any(
            port in one for one in self._ports
        )

    def check(self, target: Target) -> None:
        """Judge *target* as it is written; a name is judged again once it is resolved.

        Raises:
            AddressRefused: It is ourselves, or an address or name that leads inside.
        """
        if not self.allows_scheme(target.scheme):
            raise AddressRefused(target.url, allowed_by="egress_schemes")
        if (target.host, target.port) in self._own:
            raise AddressRefused(target.url, allowed_by="deliver_to_self")
        if target.host in self._forbidden:
            raise AddressRefused(target.url, allowed_by="egress_forbidden")
        if self.decisions.forbids(target.host):
            raise AddressRefused(target.url, allowed_by=DECIDED)
        address = target.literal
        if address is not None:
            self.check_ip(address, target)
        elif target.host.rpartition(".")[2] == "localhost" and not (
            self._loopback or self._allowed.has_name(target.host)
        ):  # RFC 6761, "Domain Name Reservation Considerations for 'localhost.'"
            raise AddressRefused(target.url, allowed_by="egress_allow")

    def check_ip(self, address: IPAddress, target: Target) -> None:
        """Judge *address*, which the host of *target* is, has resolved to, or has led to, and the
        IPv4 hosts that are within it: where NAT64 is allowed, it opens nothing else.

        Raises:
            AddressRefused: Nothing may be sent there.
        """
        address = unmapped(address)
        self._check_one(address, target, loopback=self._loopback)
        for one in ipv4_within(address):  # Its loopback would be that of the translator.
            self._check_one(one, target, loopback=False)

    def _check_one(self, address: IPAddress, target: Target, *, loopback: bool) -> None:
        if self._is_own(address, target.port):
            raise AddressRefused(target.url, allowed_by="deliver_to_self")
        if self._forbidden.has_address(address):
            raise AddressRefused(target.url, allowed_by="egress_forbidden")
        if self.decisions.forbids(str(address)):
            raise AddressRefused(target.url, allowed_by=DECIDED)
        if not is_forbidden(address) or (loopback and address.is_loopback):
            return
        if self._allowed.has_name(target.host):
            return
        if not self._allowed.has_address(address):
            raise AddressRefused(target.url, allowed_by="egress_allow")

    def _is_own(self, address: IPAddress, port: int) -> bool:
        if not self._own:
            return False
        if (str(address), port) in self._own:
            return True
        if ("0.0.0.0", port) not in self._own and ("::", port) not in self._own:
            return False
        return address.is_loopback or address.is_unspecified or is_this_machine(address)


def _spelled(host: str, port: int) -> tuple[str, int]:
    """*host* as `Target` spells it."""
    return comparable_host(host), port
