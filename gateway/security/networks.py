"""Sets of networks: whose peers are trusted, and whose proxies are believed."""

import re
from collections.abc import Iterable
from ipaddress import ip_address

from gateway.model.hosts import IPNetwork, read_networks, unmapped

_ORIGIN = re.compile(r"https?://[A-Za-z0-9.-]+(:[0-9]{1,5})?")
_NAME = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")
_REMEMBERED = 4096
"""Addresses that a set of networks has judged, and need not read again."""


class Networks:
    """A set of networks."""

    def __init__(self, members: Iterable[IPNetwork] = ()) -> None:
        self._members = tuple(members)
        self._judged: dict[str, bool] = {}

    def __bool__(self) -> bool:
        return bool(self._members)

    def __contains__(self, address: str) -> bool:
        if not self._members:
            return False
        judged = self._judged.get(address)
        if judged is None:
            if len(self._judged) >= _REMEMBERED:
                self._judged.clear()
            judged = self._judged[address] = self._judge(address)
        return judged

    def _judge(self, address: str) -> bool:
        try:
            ip = unmapped(ip_address(address))
        except ValueError:
            return False
        return any(ip in network for network in self._members)


def networks(texts: Iterable[str]) -> Networks:
    """The networks and addresses that *texts* name.

    Raises:
        ValueError: One of them is neither.
    """
    return Networks(map(read_networks, texts))


def one_host(value: str) -> str:
    """*value*, if it is the name or the address of one host, and no more.

    Raises:
        ValueError: It is not.
    """
    if not _NAME.fullmatch(value):
        try:
            ip_address(value)
        except ValueError:
            raise ValueError(f"{value!r} must be a name or an address, and no more") from None
    return value


def one_origin(value: str) -> str:
    """Return *value*, if it is the origin of web pages (RFC 6454): ``https://portal.example.org``.

    Raises:
        ValueError: It is not.
    """
    if not _ORIGIN.fullmatch(value):
        raise ValueError(f"{value!r} must be an origin, as https://portal.example.org: no path")
    return value
