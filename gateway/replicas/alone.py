"""One gateway that has all the work."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial

from gateway.delivery import (
    Dispatcher,
    Dispatchers,
    KnownSubscriptions,
    PartitionShare,
    everything,
)
from gateway.observing.samples import Sample
from gateway.replicas.membership import LEASE, RENEW, kept_alive, leave
from gateway.store import Store, StoreUnavailable, answered_in_time, replicas
from gateway.store import waiting_deliveries as rows


class Alone:
    """`WorkSharing` with nobody: one dispatcher has all partitions, for ever.

    Args:
        replica: The name of this gateway in a store that several could use, so that no second one
            starts; empty where the store is a file of this process.
        number: Its number there.
    """

    shared = False
    refresh = None
    keeps_house = True

    def __init__(self, store: Store, *, replica: str = "", number: int = 0) -> None:
        self._store = store
        self.replica = replica
        self.number = number
        self._share = everything(number)
        self._dispatchers: Dispatchers | None = None
        self._subscriptions: KnownSubscriptions | None = None

    def share_of(self, name: str) -> PartitionShare:
        return self._share

    def elsewhere(self) -> tuple[str, ...]:
        return ()

    def status(self) -> None:
        return None

    def described(self) -> None:
        return None

    def metrics(self) -> Iterable[Sample]:
        return ()

    async def start(
        self,
        dispatchers: Dispatchers,
        subscriptions: KnownSubscriptions,
        learn: Callable[[], Awaitable[None]],
        make: Callable[[PartitionShare], Dispatcher],
    ) -> None:
        self._dispatchers, self._subscriptions = dispatchers, subscriptions
        while not await self._store.submit(rows.drop_without_subscription):
            pass
        dispatcher = make(self._share)
        await dispatcher.start(subscriptions.entries)
        dispatchers.add(None, dispatcher)

    def drain(self) -> None:
        """It has all the work already."""

    async def run(self) -> None:
        """Give signs of life, for ever, where another gateway could use the store."""
        if not self.replica:
            await asyncio.Event().wait()
        renew = partial(replicas.renew, replica=self.replica, leases=(), lease=LEASE)
        while True:
            await asyncio.sleep(RENEW)
            with contextlib.suppress(StoreUnavailable):
                await self._store.submit(renew)

    async def rows_added(self, added: Mapping[str, tuple[int, int]]) -> None:
        if self._dispatchers is None or self._subscriptions is None:
            return
        for subscription, (count, octets) in added.items():
            entry = self._subscriptions.by_id(subscription)
            if entry is not None:
                self._dispatchers.add_rows(entry, count, octets, 0)

    async def stop(self, seconds: float) -> None:
        async with kept_alive(self.run()):
            if self._dispatchers is not None:
                await self._dispatchers.stop(seconds)
        if self.replica:
            with contextlib.suppress(StoreUnavailable):
                await answered_in_time(leave(self._store, self.replica))
