"""The addresses of this gateway itself: nothing is delivered to them unless the settings say so."""

from collections.abc import Iterable, Iterator
from urllib.parse import urlsplit

from gateway.settings.settings import Settings

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


def _spellings(address: Address) -> Iterator[Address]:
    host, port = address
    yield address
    if host in _LOOPBACK:
        yield from ((name, port) for name in _LOOPBACK)


def _public(url: str | None) -> Iterator[Address]:
    if url:
        parts = urlsplit(url)
        yield parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
