"""The addresses of this gateway itself: nothing is delivered to them unless the settings say so,
and proofs of possession are made for them."""

import socket
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from urllib.parse import urlsplit

from gateway.model.hosts import host_and_port
from gateway.settings.settings import Settings
from gateway.soap.tcp_listener import EVERYWHERE

Address = tuple[str, int]
"""A host and a port."""
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


def own_addresses(
    settings: Settings,
    own: Address,
    *,
    admin: Address | None = None,
    tcp_ports: Iterable[int] = (),
) -> list[Address]:
    """All addresses that reach the gateway.

    Args:
        own: Where it listens.
        admin: Where its administration listens, if apart.
        tcp_ports: The ports of SOAP.TCP.
    """
    addresses = [*_spellings(own), *_public(settings.public_url)]
    if admin is not None:
        addresses += _spellings(admin)
    names = [settings.soap_tcp_host, urlsplit(settings.public_url or "").hostname]
    for port in tcp_ports:
        addresses += [*_spellings((own[0], port)), *((name, port) for name in names if name)]
    return addresses


def own_bases(
    settings: Settings, own: Address, tcp_ports: Mapping[str, int] | None = None
) -> frozenset[str]:
    """The URLs at which the gateway is reached, by its settings alone, without a slash at their
    ends: the public one, or else those where it listens.

    Args:
        own: Where it listens.
        tcp_ports: The ports of SOAP.TCP, by scheme.
    """
    found, hosts = [], list(_names(own[0]))
    if settings.public_url:
        found.append(settings.public_url.rstrip("/"))
        hosts = [urlsplit(settings.public_url).hostname or ""]
    else:
        found += [f"{settings.web_scheme}://{host_and_port(host, own[1])}" for host in hosts]
    if settings.soap_tcp_host:
        hosts = [settings.soap_tcp_host]
    for scheme, port in (tcp_ports or {}).items():
        found += [f"{scheme}://{host_and_port(host, port)}" for host in hosts]
    return frozenset(found)


def _names(host: str) -> Iterator[str]:
    """The names of this machine under which somebody may reach what listens on *host*."""
    if host not in EVERYWHERE:
        yield from (name for name, _ in _spellings((host, 0)))
        return
    yield from _LOOPBACK
    name = socket.gethostname()
    yield name
    with suppress(OSError):
        for *_, address in socket.getaddrinfo(name, None, type=socket.SOCK_STREAM):
            yield str(address[0])


def _spellings(address: Address) -> Iterator[Address]:
    host, port = address
    yield address
    if host in _LOOPBACK:
        yield from ((name, port) for name in _LOOPBACK)


def _public(url: str | None) -> Iterator[Address]:
    if url:
        parts = urlsplit(url)
        yield parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
