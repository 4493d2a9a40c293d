"""Who may be connected: how many strangers in all, and how many from one side."""

from collections import Counter
from collections.abc import Iterable
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Protocol, TypeAlias

from gateway.http.limits import HttpLimits
from gateway.security.principals import side_of

Network: TypeAlias = IPv4Network | IPv6Network


class Evictable(Protocol):
    """A connection, as the gate sees it."""

    def evict(self) -> None:
        """Close at once, without a word."""


_REMEMBERED = 4096
"""Addresses that a set of networks has judged, and need not read again."""


class Networks:
    """A set of networks."""

    def __init__(self, members: Iterable[Network] = ()) -> None:
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
            ip = ip_address(address)
        except ValueError:
            return False
        if isinstance(ip, IPv6Address) and ip.ipv4_mapped is not None:
            ip = ip.ipv4_mapped
        return any(ip in network for network in self._members)


def networks(texts: Iterable[str]) -> Networks:
    """The networks and addresses that *texts* name.

    Raises:
        ValueError: One of them is neither.
    """
    return Networks(ip_network(text, strict=False) for text in texts)


class ConnectionGate:
    """Admits connections, and knows which of them wait for a whole header.

    All connections of a process pass one gate. When the strangers are complete, the one
    that has waited longest for its header makes room; when none waits, the newcomer goes.

    Args:
        trusted: Peers bound by the number of connections in all and nothing else.
    """

    def __init__(self, limits: HttpLimits, trusted: Networks | None = None) -> None:
        self._limits = limits
        self._trusted = trusted or Networks()
        self._sides: dict[Evictable, str | None] = {}
        self._strangers: Counter[str] = Counter()
        self._waiting: dict[Evictable, None] = {}

    @property
    def connections(self) -> int:
        """How many there are."""
        return len(self._sides)

    def trusts(self, address: str) -> bool:
        return address in self._trusted

    def admit(self, connection: Evictable, address: str) -> bool:
        """Whether *connection* from *address* may stay."""
        if self.trusts(address):
            if len(self._sides) >= self._limits.connections_in_all:
                return False
            self._sides[connection] = None
            return True
        side = side_of(address)
        if self._strangers[side] >= self._limits.connections_per_address or not self._make_room():
            return False
        self._sides[connection] = side
        self._strangers[side] += 1
        self.wait(connection)
        return True

    def leave(self, connection: Evictable) -> None:
        """*connection* is closed, admitted or not."""
        self._waiting.pop(connection, None)
        side = self._sides.pop(connection, None)
        if side is None:
            return
        self._strangers[side] -= 1
        if not self._strangers[side]:
            del self._strangers[side]

    def wait(self, connection: Evictable) -> None:
        """*connection* waits for a header from now on."""
        if self._sides.get(connection) is not None:
            self._waiting.pop(connection, None)
            self._waiting[connection] = None

    def serve(self, connection: Evictable) -> None:
        """*connection* has sent a whole header."""
        self._waiting.pop(connection, None)

    def _make_room(self) -> bool:
        limits = self._limits
        while (
            self._strangers.total() >= limits.connections
            or len(self._sides) >= limits.connections_in_all
        ):
            if not self._waiting:
                return False
            longest = next(iter(self._waiting))
            self.leave(longest)
            longest.evict()
        return True
