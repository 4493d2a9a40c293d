"""Acknowledgements by TCP: which octets written to a connection the peer's system has.

A one-way message over TCP is answered by nobody. That the peer's system has all of it is as
much as can be known: a peer that died loses nothing that was only in our own buffers.
"""

import asyncio
import socket
from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import cast

from gateway.tcp.loops import OfEachLoop
from gateway.unacknowledged_bytes import unacknowledged

_SOONEST, _LATEST = 0.001, 0.05
_EAGER = 16
"""Times that a connection is asked in vain before the pauses grow."""
_FEW = 4
"""Connections that are asked in every turn of the loop; more are asked every millisecond."""


class Fate(Enum):
    """The fate of octets that were written."""

    ACKNOWLEDGED = "acknowledged"
    LATE = "late"
    LOST = "lost"


class _Eager:
    """Asks on behalf of all connections of a loop that hope for an answer soon. Few of them are
    asked in each turn of the loop, for its own timers are not finer than a millisecond; of many
    some have always something to do meanwhile."""

    def __init__(self) -> None:
        self._hoping: dict[Acknowledgements, None] = {}
        self._due = False

    def join(self, one: "Acknowledgements") -> None:
        self._hoping[one] = None
        self._call()

    def leave(self, one: "Acknowledgements") -> None:
        self._hoping.pop(one, None)

    def _call(self) -> None:
        if self._due:
            return
        self._due = True
        loop = asyncio.get_running_loop()
        if len(self._hoping) <= _FEW:
            loop.call_soon(self._ask)
        else:
            loop.call_later(_SOONEST, self._ask)

    def _ask(self) -> None:
        self._due = False
        now = asyncio.get_running_loop().time()
        for one in list(self._hoping):
            one.ask(now)
        if self._hoping:
            self._call()


_eager_of = OfEachLoop(_Eager)


class Acknowledgements:
    """Asks the system, on behalf of all that wait on one connection: in the turns of the loop that
    follow a write, then after 1, 2, 4, ... 50 ms. While nobody waits, it does nothing.

    Where the system does not say (Linux does), what it took counts as acknowledged. Over TLS
    nobody knows which octets of the wire are whose: only when nothing is on its way, twice in a
    row, everything is acknowledged.
    """

    __slots__ = (
        "__weakref__",
        "_clear",
        "_descriptor",
        "_eager",
        "_exact",
        "_loop",
        "_misses",
        "_pause",
        "_timer",
        "_transport",
        "_unflushed",
        "_waiting",
        "_written",
    )

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        sock = cast("socket.socket | None", transport.get_extra_info("socket"))
        self._descriptor = sock.fileno() if sock is not None else None
        self._exact = transport.get_extra_info("sslcontext") is None
        self._written = 0
        self._unflushed = 0
        self._waiting: deque[tuple[int, float, Callable[[Fate], None]]] = deque()
        self._timer: asyncio.Handle | None = None
        self._misses = 0
        self._pause = _SOONEST
        self._clear = False  # nothing was on its way, the last time
        self._eager = _eager_of(loop)

    @property
    def waiting(self) -> int:
        """The number of writes that are neither acknowledged nor late."""
        return len(self._waiting)

    def wrote(self, octets: int) -> None:
        """Count *octets* that are about to be given to the transport."""
        self._written += octets
        self._unflushed += octets
        self._clear = False

    def flushed(self) -> None:
        """Note that the transport was given all octets that were counted."""
        self._unflushed = 0

    def wait(self, seconds: float) -> asyncio.Future[Fate]:
        """The fate of all that was written until now, known in *seconds* at the latest."""
        fate: asyncio.Future[Fate] = self._loop.create_future()

        def settle(outcome: Fate) -> None:
            if not fate.done():
                fate.set_result(outcome)

        self.tell(seconds, settle)
        return fate

    def tell(self, seconds: float, settle: Callable[[Fate], None]) -> None:
        """As `wait`, but call *settle* with the fate, in a later turn of the loop."""
        self._waiting.append((self._written, self._loop.time() + seconds, settle))
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._misses = 0
        self._eager.join(self)

    def heard(self) -> None:
        """Ask soon: the peer wrote something, and its acknowledgement most likely came along."""
        if self._waiting and self._timer is not None:
            self._timer.cancel()
            self._ask_later()

    def lose(self) -> None:
        """Tell all who wait that the connection is lost."""
        self._eager.leave(self)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._waiting:
            self._waiting.popleft()[2](Fate.LOST)

    def ask(self, now: float) -> None:
        """Tell those who wait, as far as it is known now; called while this is eager."""
        self._tell_all(now)
        if not self._waiting:
            self._eager.leave(self)
        elif self._misses >= _EAGER:
            self._eager.leave(self)
            self._pause = _SOONEST
            self._timer = self._loop.call_later(self._pause, self._ask_later)

    def _ask_later(self) -> None:
        self._timer = None
        self._tell_all(self._loop.time())
        if not self._waiting:
            return
        if self._misses:
            self._pause = min(2 * self._pause, _LATEST)
            self._timer = self._loop.call_later(self._pause, self._ask_later)
        else:
            self._eager.join(self)

    def _tell_all(self, now: float) -> None:
        reached = self._reached()
        waiting = self._waiting
        self._misses += 1
        while waiting:
            target, deadline, settle = waiting[0]
            if target <= reached:
                fate = Fate.ACKNOWLEDGED
                self._misses = 0
            elif deadline <= now:
                fate = Fate.LATE
            else:
                break
            waiting.popleft()
            settle(fate)

    def _reached(self) -> int:
        """The number of all octets ever written that the peer's system has at least."""
        if self._transport.is_closing():
            return -1  # It may have thrown away what it could not write; its loss is told soon.
        # What the transport still has comes first: until it is written, the system knows nothing.
        left = self._transport.get_write_buffer_size() + self._unflushed
        if self._descriptor is not None:
            left += unacknowledged(self._descriptor)
        if self._exact:
            return self._written - left
        was_clear, self._clear = self._clear, not left
        return self._written if was_clear and self._clear else 0
