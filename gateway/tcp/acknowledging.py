"""What of the octets written to a connection its peer's system has acknowledged.

A one-way message over TCP is answered by nobody. That the peer's system has all of it is as
much as can be known: a peer that died loses nothing that was only in our own buffers.
"""

import asyncio
import socket
from collections import deque
from enum import Enum
from typing import cast

from gateway.http.delivered import unacknowledged

_SOONEST, _LATEST = 0.001, 0.05


class Fate(Enum):
    """What became of octets that were written."""

    ACKNOWLEDGED = "acknowledged"
    LATE = "late"
    LOST = "lost"


class Acknowledgements:
    """Asks the system, on behalf of all that wait on one connection: at once after a write, then
    after 1, 2, 4, ... 50 ms. While nobody waits, it does nothing.

    Where the system does not say (Linux does), what it took counts as acknowledged. Over TLS
    nobody knows which octets of the wire are whose: only when nothing is on its way, twice in a
    row, everything is acknowledged.
    """

    __slots__ = (
        "_clear",
        "_exact",
        "_loop",
        "_pause",
        "_socket",
        "_soon",
        "_timer",
        "_transport",
        "_waiting",
        "_written",
    )

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._socket = cast("socket.socket | None", transport.get_extra_info("socket"))
        self._exact = transport.get_extra_info("sslcontext") is None
        self._written = 0
        self._waiting: deque[tuple[int, float, asyncio.Future[Fate]]] = deque()
        self._timer: asyncio.Handle | None = None
        self._soon = False  # the timer is set for the next turn of the loop
        self._pause = _SOONEST
        self._clear = False  # nothing was on its way, the last time

    @property
    def waiting(self) -> int:
        """How many writes are neither acknowledged nor late."""
        return len(self._waiting)

    def wrote(self, octets: int) -> None:
        """*octets* were given to the transport."""
        self._written += octets
        self._clear = False

    def wait(self, seconds: float) -> asyncio.Future[Fate]:
        """What became of all that was written until now, in *seconds* at the latest."""
        fate: asyncio.Future[Fate] = self._loop.create_future()
        self._waiting.append((self._written, self._loop.time() + seconds, fate))
        self._pause = _SOONEST
        if not self._soon:
            if self._timer is not None:
                self._timer.cancel()
            self._soon = True
            self._timer = self._loop.call_soon(self._ask)
        return fate

    def heard(self) -> None:
        """The peer wrote something: an acknowledgement came with it, most likely."""
        if self._waiting and not self._soon:
            if self._timer is not None:
                self._timer.cancel()
            self._ask()

    def lose(self) -> None:
        """The connection is gone."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._waiting:
            _settle(self._waiting.popleft()[2], Fate.LOST)

    def _ask(self) -> None:
        self._soon = False
        reached = self._reached()
        now = self._loop.time()
        while self._waiting:
            target, deadline, fate = self._waiting[0]
            if target <= reached:
                _settle(fate, Fate.ACKNOWLEDGED)
                self._pause = _SOONEST
            elif deadline <= now:
                _settle(fate, Fate.LATE)
            else:
                break
            self._waiting.popleft()
        self._timer = self._loop.call_later(self._pause, self._ask) if self._waiting else None
        self._pause = min(2 * self._pause, _LATEST)

    def _reached(self) -> int:
        """Of all octets ever written, how many the peer's system has at least."""
        # What the transport still has comes first: until it is written, the system knows nothing.
        left = self._transport.get_write_buffer_size()
        if self._socket is not None:
            left += unacknowledged(self._socket.fileno())
        if self._exact:
            return self._written - left
        was_clear, self._clear = self._clear, not left
        return self._written if was_clear and self._clear else 0


def _settle(fate: asyncio.Future[Fate], outcome: Fate) -> None:
    if not fate.done():
        fate.set_result(outcome)
