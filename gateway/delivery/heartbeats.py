"""Heartbeats (DSP0226 1.2, section 10.2.5): in each interval a sink that asked for them gets an
event or a heartbeat, by which it knows that its subscription lives.

One timer serves all subscriptions: it rings when the next heartbeat of any may be due. A
subscription without heartbeats costs nothing here.
"""

import asyncio
import heapq
import time
from collections.abc import Callable
from itertools import count
from typing import Protocol

from gateway.delivery.outbox import Entry

EARLY = 0.9
"""The part of an interval after which a heartbeat is sent: it takes a while to arrive."""
AGAIN = 1.0
"""Seconds until the next try, where a heartbeat is due and cannot be sent now."""


class Beating(Protocol):
    """Who sends heartbeats."""

    def beat(self, entry: Entry) -> bool:
        """Send a heartbeat to the sink of *entry*, unless an event is on its way there. Returns
        False where it can be neither now."""


class Heartbeats:
    """The subscriptions that want heartbeats, by the time of the next one.

    Args:
        sender: Returns who sends them now; None while another gateway does.
    """

    def __init__(self, sender: Callable[[], Beating | None]) -> None:
        self._sender = sender
        self._loop = asyncio.get_running_loop()
        self._next: list[tuple[float, int, Entry]] = []
        self._numbers = count()
        """Of equal times the first comes first."""
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        """Subscriptions that are watched."""
        return len(self._next)

    def watch(self, entry: Entry) -> None:
        """Send heartbeats to the sink of *entry* until it has ended, if it wants any."""
        interval = entry.delivery.heartbeats
        if interval is not None:
            self._push(self._loop.time() + EARLY * interval, entry)

    def close(self) -> None:
        """Send nothing more."""
        self._next.clear()
        self._set()

    def _push(self, at: float, entry: Entry) -> None:
        heapq.heappush(self._next, (at, next(self._numbers), entry))
        if self._next[0][2] is entry:
            self._set()

    def _set(self) -> None:
        """Ring for the first."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        if self._next:
            self._timer = self._loop.call_at(self._next[0][0], self._ring)

    def _ring(self) -> None:
        self._timer = None
        now, sender = self._loop.time(), self._sender()
        while self._next and self._next[0][0] <= now:
            _, number, entry = heapq.heappop(self._next)
            if not entry.ended:
                at = now + self._beat(entry, sender)
                heapq.heappush(self._next, (at, number, entry))
        self._set()

    def _beat(self, entry: Entry, sender: Beating | None) -> float:
        """Send a heartbeat to *entry* if one is due. Returns the seconds until the next may be."""
        interval = EARLY * (entry.delivery.heartbeats or AGAIN)
        left = entry.attempted + interval - time.time()
        if 0 < left <= interval:
            return left  # It got something meanwhile.
        if sender is None or sender.beat(entry):
            return interval
        return min(AGAIN, interval)
