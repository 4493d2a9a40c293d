"""The gate of connections: how many strangers in all, and how many from one side."""

from collections import Counter
from typing import Protocol

from gateway.http.limits import HttpLimits
from gateway.security.networks import Networks
from gateway.security.principals import side_of


class Evictable(Protocol):
    """A connection, as the gate sees it."""

    def evict(self) -> None:
        """Close at once, without a word."""


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
        """The number of connections that are admitted."""
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
        """Forget *connection*, which is closed, admitted or not."""
        self._waiting.pop(connection, None)
        side = self._sides.pop(connection, None)
        if side is None:
            return
        self._strangers[side] -= 1
        if not self._strangers[side]:
            del self._strangers[side]

    def wait(self, connection: Evictable) -> None:
        """Note that *connection* waits for a header from now on."""
        if self._sides.get(connection) is not None:
            self._waiting.pop(connection, None)
            self._waiting[connection] = None

    def serve(self, connection: Evictable) -> None:
        """Note that *connection* has sent a whole header."""
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
