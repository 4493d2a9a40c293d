"""A timer that knows when it rang late: then it is this process that stalled, not its peers."""

import asyncio
from collections.abc import Callable

TICK = 0.05
"""Seconds until it rings; no patience is shorter."""
STALLED = 0.025
"""Seconds of delay from which this process counts as stalled: answers may lie in its sockets that
it has not read. Without this, a stall of this process counts as one of every consumer, and all that
they have in memory goes to the store."""


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
