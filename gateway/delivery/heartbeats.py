"""Heartbeats (DSP0226 1.2, section 10.2.5): in each interval a sink that asked for them gets an
event or a heartbeat, by which it knows that its subscription lives.

One timer serves all subscriptions: it rings when the next heartbeat of any may be due. A
subscription without heartbeats costs nothing here, and one that has ended is soon let go of,
however long its interval is.
"""

import asyncio
import heapq
import time
from collections.abc import Callable
from itertools import count
from typing import Protocol

from gateway.delivery.destinations.destination import AGAIN
from gateway.delivery.entry import Entry

EARLY = 0.9
"""The part of an interval after which a heartbeat is sent: it takes a while to arrive."""
SLICE = 64
"""Subscriptions that are looked at before others of the event loop have their turn."""
SWEEP = 3600.0
"""Seconds after which those that have ended are let go of, at the latest."""
FEW = 64
"""Subscriptions among which it is not worth while to look for ended ones earlier."""


class Beating(Protocol):
    """A sender of heartbeats."""

    def beat(self, entry: Entry) -> float:
        """Send a heartbeat to the sink of *entry* in its turn, unless an event is on its way there.
        Returns the seconds after which to ask again where it can be neither now, else 0."""


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
        self._kept = 0
        """Subscriptions that were left when those that had ended were let go of last,"""
        self._swept = self._loop.time()
        """and when that was."""

    def __len__(self) -> int:
        """Subscriptions that are watched."""
        return len(self._next)

    def watch(self, entry: Entry) -> None:
        """Send heartbeats to the sink of *entry* until it has ended, if it wants any."""
        interval = entry.delivery.heartbeats
        if interval is not None:
            if len(self._next) > 2 * self._kept + FEW:
                self._sweep()
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
        """Ring for the first, or for the sweep."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        if self._next:
            at = min(self._next[0][0], self._swept + SWEEP)
            self._timer = self._loop.call_at(at, self._ring)

    def _sweep(self) -> None:
        """Let go of the subscriptions that have ended. It runs when the list has doubled: each of
        them costs a constant, and at most half of the list has ended."""
        self._next = [one for one in self._next if not one[2].ended]
        heapq.heapify(self._next)
        self._kept, self._swept = len(self._next), self._loop.time()

    def _ring(self) -> None:
        self._timer = None
        now, sender = self._loop.time(), self._sender()
        if now >= self._swept + SWEEP:
            self._sweep()
        if sender is None and self._next:  # Not each of them every time: there may be many.
            self._timer = self._loop.call_at(now + AGAIN, self._ring)
            return
        for _ in range(SLICE):
            if sender is None or not self._next or self._next[0][0] > now:
                break
            _, number, entry = self._next[0]
            if entry.ended:
                heapq.heappop(self._next)
            else:
                heapq.heapreplace(self._next, (now + self._beat(entry, sender), number, entry))
        self._set()

    def _beat(self, entry: Entry, sender: Beating) -> float:
        """Send a heartbeat to *entry* if one is due. Returns the seconds until the next may be."""
        interval = EARLY * (entry.delivery.heartbeats or AGAIN)
        left = entry.state.attempted + interval - time.time()
        if 0 < left <= interval:
            return left  # It got something meanwhile.
        wait = sender.beat(entry)
        return min(max(wait, AGAIN), interval) if wait > 0 else interval
