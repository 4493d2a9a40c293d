"""The clock of leases: which subscriptions are due to be looked at, and when."""

import asyncio
import contextlib
import heapq
import time

from gateway.delivery import Entry
from gateway.subscriptions.table import SubscriptionTable
from mediation.model.messages import Subscription

DUE_AT_A_TIME = 256
LONGEST_SLEEP = 3600.0
"""Seconds: the system's clock may be set meanwhile."""


class ExpiryClock:
    """A heap of instants, each with the key of the subscription to look at then.

    A renewed lease adds an instant and leaves the former one, which finds nothing to do; when these
    are many, the heap is built anew.
    """

    def __init__(self, table: SubscriptionTable) -> None:
        self._table = table
        self._instants: list[tuple[float, str]] = []
        self._earlier = asyncio.Event()

    def watch(self, subscription: Subscription) -> None:
        """Have *subscription* come due when its lease ends, if it does."""
        expires = subscription.lease.expires
        if expires is None:
            return
        heapq.heappush(self._instants, (expires.timestamp(), subscription.key))
        if len(self._instants) > 2 * len(self._table) + 1024:
            leases = [
                (entry.subscription.lease.expires, entry.subscription.key)
                for entry in self._table.entries
            ]
            self._instants = [(expires.timestamp(), key) for expires, key in leases if expires]
            heapq.heapify(self._instants)
        self._earlier.set()

    def watch_at(self, at: float, key: str) -> None:
        """Have the subscription with *key* come due at *at*, POSIX seconds. For who handles one
        that is due: nobody is woken."""
        heapq.heappush(self._instants, (at, key))

    async def due(self) -> list[Entry]:
        """Wait until subscriptions are due; `DUE_AT_A_TIME` of them at most."""
        while True:
            self._earlier.clear()
            wait = self._instants[0][0] - time.time() if self._instants else None
            if wait is not None and wait <= 0:
                return self._take_due(time.time())
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(None if wait is None else min(wait, LONGEST_SLEEP)):
                    await self._earlier.wait()

    def _take_due(self, now: float) -> list[Entry]:
        due: list[Entry] = []
        while self._instants and self._instants[0][0] <= now and len(due) < DUE_AT_A_TIME:
            entry = self._table.get(heapq.heappop(self._instants)[1])
            if entry is not None:
                due.append(entry)
        return due
