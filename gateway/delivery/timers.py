"""Timers: one of an outbox or a destination (`Timed`), and one that knows when it rang late
(`StallTimer`): then it is this process that stalled, not its peers.
"""

import asyncio
from collections.abc import Callable
from typing import Self

TICK = 0.05
"""Seconds until it rings; no patience is shorter."""
STALLED = 0.025
"""Seconds of delay from which this process counts as stalled: answers may lie in its sockets that
it has not read. Without this, a stall of this process counts as one of every consumer, and all that
they have in memory goes to the store."""


class Timed:
    """Something with one timer."""

    __slots__ = ("rings_at", "timer")

    timer: asyncio.TimerHandle | None
    rings_at: float

    def wake_at(
        self, at: float, loop: asyncio.AbstractEventLoop, wake: Callable[[Self], None]
    ) -> None:
        """Call *wake* at *at* or earlier: the reason for a timer that is set may come sooner than
        was known when it was set."""
        if self.timer is not None:
            if self.rings_at <= at:
                return
            self.timer.cancel()
        self.rings_at = at
        self.timer = loop.call_at(at, self._ring, wake)

    def _ring(self, wake: Callable[[Self], None]) -> None:
        self.timer = None
        wake(self)

    def cancel_timer(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


class StallTimer:
    """Rings once for each `start`.

    Args:
        ring: Called with whether it is late. It may start the next.
    """

    def __init__(self, ring: Callable[[bool], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._ring = ring
        self._running = False

    def start(self) -> None:
        """Ring after `TICK`, unless it is about to ring anyway."""
        if not self._running:
            self._running = True
            at = self._loop.time() + TICK
            self._loop.call_at(at, self._rings, at)

    def _rings(self, at: float) -> None:
        self._running = False
        self._ring(self._loop.time() > at + STALLED)
