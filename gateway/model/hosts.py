"""Hosts and ports as URLs have them, and the one form in which hosts are compared.

One IPv4 host has many addresses of IPv6: `unmapped` is for who connected to us and for what is
written; `ipv4_within` is for where something is sent, because a packet to such an address may
arrive at that host.
"""

import re
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from typing import TypeAlias
from urllib.parse import urlsplit

IPAddress: TypeAlias = IPv4Address | IPv6Address
IPNetwork: TypeAlias = IPv4Network | IPv6Network
_PORTS = {"http": 80, "https": 443, "soap.tcp": 8081, "soap.tcps": 8081}
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_MAPPED = IPv6Network("::ffff:0:0/96")
_LAST_32_BITS = tuple(
    IPv6Network(network)
    for network in (
        "::/96",  # IPv4-compatible (RFC 4291, section 2.5.5.1)
        "::ffff:0:0:0/96",  # IPv4-translated (RFC 2765)
        "64:ff9b::/96",  # NAT64 (RFC 6052)
        "64:ff9b:1::/48",  # NAT64 of one's own (RFC 8215), as a prefix of 96 bits
    )
)
_LOCAL_NAT64 = IPv6Network("64:ff9b:1::/48")


def host_in_url(host: str) -> str:
    """Return *host*, an address or a name, as a URL has it."""
    return f"[{host}]" if ":" in host else host


def host_and_port(host: str, port: int) -> str:
    """Return *host*, an address or a name, and *port* as a URL has them."""
    return f"{host_in_url(host)}:{port}"


def unmapped(address: IPAddress) -> IPAddress:
    """Return the IPv4 address in an IPv4-mapped one, as sockets write it; else *address*."""
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


def unmapped_network(network: IPNetwork) -> IPNetwork:
    """Return the network of IPv4 addresses in one of IPv4-mapped ones; else *network*."""
    if isinstance(network, IPv6Network) and network.subnet_of(_MAPPED):
        first = unmapped(network.network_address)
        return IPv4Network((int(first), network.prefixlen - 96))
    return network


def read_networks(text: str) -> IPNetwork:
    """Read a network, or an address as a network of itself alone.

    Raises:
        ValueError: It is neither.
    """
    return unmapped_network(ip_network(text, strict=False))


@lru_cache(maxsize=4096)
def comparable_host(host: str) -> str:
    """Return *host*, a name or an address, in the form in which hosts are compared: in lower case,
    without brackets or a dot at its end, addresses in their shortest form."""
    name = host.strip("[]").lower().rstrip(".")
    with suppress(ValueError):
        return str(unmapped(ip_address(name)))
    return name


def is_loopback(host: str) -> bool:
    """Return True if *host*, an address or a name, is this machine alone: ``127.example.org`` is
    not."""
    name = comparable_host(host)
    with suppress(ValueError):
        return ip_address(name).is_loopback
    return name == "localhost"


def origin_of(url: str) -> tuple[str, str, int] | None:
    """Return scheme, host and port of *url* in a form to compare; None where it has none."""
    try:
        parts = urlsplit(url)
        port = parts.port if parts.port is not None else _PORTS.get(parts.scheme)
    except ValueError:
        return None
    if not parts.hostname or port is None:
        return None
    return parts.scheme, comparable_host(parts.hostname), port


def is_number(host: str) -> bool:
    """Return True if resolvers may read *host* as an IPv4 address: ``127.1``, ``0x7f000001``,
    ``2130706433`` (and all who are read alike, too)."""
    return _NUMBER.fullmatch(host.lower().rstrip(".").rpartition(".")[2]) is not None


def ipv4_within(address: IPAddress) -> tuple[IPv4Address, ...]:
    """Return the IPv4 hosts at which what is sent to *address* may arrive, by translation (NAT64)
    or in a tunnel (6to4, Teredo); mostly none."""
    if isinstance(address, IPv4Address):
        return ()
    return tuple(_ipv4_within(address))


@lru_cache(maxsize=4096)
def reached_host(address: str) -> str:
    """Return the host at which what is sent to *address*, of a socket, arrives, as it is counted:
    the IPv4 address within it, where there is one. A text that is no address stays as it is. For
    whether it is forbidden all of `hosts_behind` count."""
    try:
        ip = ip_address(address)
    except ValueError:
        return address
    return str(next(iter(ipv4_within(ip)), ip))


@lru_cache(maxsize=4096)
def hosts_behind(address: str) -> frozenset[str]:
    """Return the names of all hosts at which what is sent to *address*, of a socket, may arrive: of
    it itself, and of the IPv4 addresses within it."""
    try:
        ip = ip_address(address)
    except ValueError:
        return frozenset({address})
    return frozenset(map(str, (unmapped(ip), ip, *ipv4_within(ip))))


def _ipv4_within(address: IPv6Address) -> Iterator[IPv4Address]:
    number = int(address)
    if address.ipv4_mapped is not None:
        yield address.ipv4_mapped
    elif address.sixtofour is not None:
        yield address.sixtofour
    elif address.teredo is not None:
        yield from address.teredo
    elif any(address in network for network in _LAST_32_BITS) and number > 1:
        found = {number & 0xFFFFFFFF}
        if address in _LOCAL_NAT64:  # With a prefix of 48 bits they are around bits 64 to 71.
            found = {number & 0xFFFFFFFF, (number >> 64 & 0xFFFF) << 16 | number >> 40 & 0xFFFF}
        yield from map(IPv4Address, sorted(found - {0}))
