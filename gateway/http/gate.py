"""The gate of connections: how many strangers in all, and how many from one side."""

from collections import Counter
from typing import Protocol, cast

from gateway.http.limits import HttpLimits
from gateway.security.networks import Networks
from gateway.security.principals import side_of


class Evictable(Protocol):
    """A connection, as the gate sees it."""

    def evict(self) -> None:
        """Close at once, without a word."""


class Answered(Evictable, Protocol):
    """A connection on which answers are written."""

    @property
    def unwritten(self) -> int:
        """Octets of answers that its peer has not taken in."""


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
        self._unread: dict[Answered, int] = {}
        """Octets that each had not read when it was last looked at; they only become fewer."""
        self._octets = 0
        """Their sum."""

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
        self._octets -= self._unread.pop(cast(Answered, connection), 0)
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

    def note_unread(self, connection: Answered) -> None:
        """Count what the peer of *connection* has not read of its answers. Where that, or what all
        leave unread, is too much, those close who leave most."""
        if connection not in self._sides:
            return
        self._count(connection)
        limits = self._limits
        side = self._sides.get(connection)
        if side is not None and self._unread_by(side) > limits.unread_per_address:
            self._look_again()
            while self._unread_by(side) > limits.unread_per_address:
                self._evict(self._largest_of(side))
        if self._octets <= min(limits.unread, limits.unread_in_all):
            return
        self._look_again()
        while (sides := self._by_side()) and sides.total() > limits.unread:
            self._evict(self._largest_of(sides.most_common(1)[0][0]))
        while self._octets > limits.unread_in_all:
            self._evict(max(self._unread, key=self._unread.__getitem__))

    def _count(self, connection: Answered) -> None:
        self._octets -= self._unread.pop(connection, 0)
        octets = connection.unwritten
        if octets:
            self._unread[connection] = octets
            self._octets += octets

    def _look_again(self) -> None:
        for connection in list(self._unread):
            self._count(connection)

    def _by_side(self) -> Counter[str]:
        """What strangers have not read."""
        sides: Counter[str] = Counter()
        for connection, octets in self._unread.items():
            side = self._sides.get(connection)
            if side is not None:
                sides[side] += octets
        return sides

    def _unread_by(self, side: str) -> int:
        return sum(
            octets
            for connection, octets in self._unread.items()
            if self._sides.get(connection) == side
        )

    def _largest_of(self, side: str) -> Answered:
        of_side = [one for one in self._unread if self._sides.get(one) == side]
        return max(of_side, key=self._unread.__getitem__)

    def _evict(self, connection: Answered) -> None:
        self._octets -= self._unread.pop(connection, 0)
        connection.evict()

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
