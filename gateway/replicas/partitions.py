"""Replicas: the partitions of the messaging system that this gateway holds, where several share it.

    round, every 1.5 s: a sign of life, leases renewed, news of subscriptions read
      too few held, some free   take it: a dispatcher loads what waits, then it is consumed
      too many held             let go of one: what is under way ends or is kept, then it is free
      a lease not renewed       abandon it: nothing of it is sent, stored or settled any more
    a stop is coming            renew, and take nothing; then let go of all, and renew what is left
                                until it is free: what is under way may take longer than a lease

The store decides by its own clock; here each lease ends a second earlier. A gateway that was frozen
learns from its own clock that its leases are over, and if it does not, from the store: every
transaction that precedes a settlement checks the fence.
"""

import asyncio
import contextlib
import math
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar
from zlib import crc32

import structlog
from sqlalchemy import Connection

from adapters import Delivery, Sharing
from gateway.delivery import (
    Dispatcher,
    Dispatchers,
    KnownSubscriptions,
    PartitionShare,
    ReplicaStatus,
    author,
)
from gateway.observing.samples import Sample
from gateway.replicas.membership import LEASE, RENEW, kept_alive
from gateway.store import Store, StoreUnavailable, replicas
from gateway.store import waiting_deliveries as rows
from gateway.store.replicas import HOUSE, Lease, Standing

HUNGRY = 0.4
"""Seconds until it is looked at again what is free, while less is held than is fair."""
MARGIN = 1.0
"""Seconds before its end at which a lease counts as over here."""
DRAIN = 3.0
"""Seconds that deliveries under way get when a partition is let go of."""

T = TypeVar("T")
_log = structlog.get_logger("dragoman.partitions")


@dataclass(eq=False)
class _Held:
    lease: Lease
    share: PartitionShare
    renewed: float


class Replicas:
    """`WorkSharing` with others: holds its share of the *count* partitions, and no more.

    Args:
        replica: The name of this gateway, another one for each.
        number: Its number, another one for each.
    """

    shared = True

    def __init__(
        self, store: Store, adapter: Sharing, *, count: int, replica: str, number: int
    ) -> None:
        self._store = store
        self._adapter = adapter
        self._dispatchers: Dispatchers
        self._subscriptions: KnownSubscriptions
        self._learn: Callable[[], Awaitable[None]]
        self._make: Callable[[PartitionShare], Dispatcher]
        self.replica = replica
        self.number = number
        self._count = count
        self._loop = asyncio.get_running_loop()
        self._held: dict[int, _Held] = {}
        self._leaving: set[int] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._draining = False
        """Nothing more is taken: a stop is coming."""
        self._soon = asyncio.Event()
        """There is more to do at once."""
        self._fresh_at = 0.0
        self._holders: Mapping[int, str | None] = {}
        self.alive: Collection[str] = (replica,)
        """The gateways that share the work."""

    async def start(
        self,
        dispatchers: Dispatchers,
        subscriptions: KnownSubscriptions,
        learn: Callable[[], Awaitable[None]],
        make: Callable[[PartitionShare], Dispatcher],
    ) -> None:
        self._dispatchers, self._subscriptions = dispatchers, subscriptions
        self._learn, self._make = learn, make

    @property
    def keeps_house(self) -> bool:
        """Whether this gateway does what is done once for all."""
        held = self._held.get(HOUSE)
        return held is not None and held.share.until > self._loop.time()

    def share_of(self, name: str) -> PartitionShare | None:
        """The partition that *name* belongs to, while it is held here."""
        held = self._held.get(crc32(name.encode()) % self._count)
        if held is None or held.share.until <= self._loop.time():
            return None
        return held.share

    def elsewhere(self) -> tuple[str, ...]:
        """The other replicas that held partitions at the last look, each with its partitions; those
        that nobody held are listed as nobody's."""
        theirs: dict[str, list[int]] = {}
        for partition, holder in sorted(self._holders.items()):
            if partition in range(self._count) and partition not in self._held:
                theirs.setdefault(holder or "nobody", []).append(partition)
        return tuple(
            f"{holder} (partitions {', '.join(map(str, partitions))})"
            for holder, partitions in theirs.items()
        )

    def status(self) -> ReplicaStatus:
        """The status that readiness and the metrics show, now."""
        now = self._loop.time()
        ages = {
            partition: now - held.renewed
            for partition, held in sorted(self._held.items())
            if partition != HOUSE
        }
        return ReplicaStatus(self.replica, len(self.alive), ages, self.keeps_house)

    def metrics(self) -> Iterator[Sample]:
        """How the work is shared, now."""
        return self.status().metrics()

    def described(self) -> str:
        """The name of this gateway and the partitions that it holds, for operators."""
        held = ", ".join(map(str, self.status().ages)) or "none"
        return f"{self.replica}, for partitions: {held}"

    async def run(self) -> None:
        """Take, renew and let go, for ever."""
        declared = False
        while True:
            wait = RENEW
            try:
                if not declared:
                    await self._ask(partial(replicas.declare, partitions=range(HOUSE, self._count)))
                    declared = True
                if await self._round():
                    wait = HUNGRY
            except StoreUnavailable:
                self._expire()
            self._soon.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._soon.wait()

    async def refresh(self, delivery: Delivery) -> None:
        """Learn what other gateways subscribed to before *delivery* arrived. One look serves all
        that arrived before it."""
        arrived = self._adapter.arrived(delivery)
        while arrived >= self._fresh_at:
            began = self._loop.time()
            try:
                await self._learn()
            except StoreUnavailable:
                await asyncio.sleep(0.2)
            else:
                self._fresh_at = began

    def drain(self) -> None:
        """Take no partition more: one would be consumed only to be let go of."""
        self._draining = True

    async def stop(self, seconds: float) -> None:
        """Let go of everything, and be gone for the others. What is under way gets *seconds*; the
        leases of what is left are renewed until it is let go of."""
        self.drain()
        ended: list[asyncio.Task[None]] = []
        async with kept_alive(self._keep_leases()):
            for partition in self._held.keys() - self._leaving:
                self._begin_to_let_go(partition, seconds)
            while self._tasks:  # Of what is lost meanwhile the adapter is told by further ones.
                done, _ = await asyncio.wait(tuple(self._tasks))
                ended += done
        with contextlib.suppress(StoreUnavailable):
            await self._ask(partial(replicas.unregister, replica=self.replica))
        for task in ended:
            task.result()

    async def _keep_leases(self) -> None:
        """Renew the leases that are left, for ever."""
        while True:
            try:
                await self._renew()
            except StoreUnavailable:
                self._expire()
            await asyncio.sleep(RENEW)

    async def rows_added(self, added: Mapping[str, tuple[int, int]]) -> None:
        """Learn of them as of any change; so do the others that hold their partitions."""
        await self._learn()

    async def _round(self) -> bool:
        """Renew, learn and even out. Returns whether less is held than is fair."""
        standing = await self._renew()
        await self._learn()
        if self._draining:
            return False
        return await self._even_out(standing)

    async def _renew(self) -> Standing:
        """Give a sign of life, and renew the leases that are not over."""
        self._expire()
        began = self._loop.time()
        standing = await self._ask(
            partial(
                replicas.renew,
                replica=self.replica,
                leases=[held.lease for held in self._held.values()],
                lease=LEASE,
            )
        )
        self.alive = standing.alive
        self._holders = standing.holders
        for partition, held in list(self._held.items()):
            if partition in standing.kept:
                held.share.until = began + LEASE - MARGIN
                held.renewed = began
            else:
                self._lose(held)
        return standing

    async def _even_out(self, standing: Standing) -> bool:
        fair = math.ceil(self._count / max(1, len(standing.alive)))
        free = [
            partition
            for partition, holder in standing.holders.items()
            if holder is None and partition not in self._held and partition < self._count
        ]
        if HOUSE in free:
            await self._take(HOUSE)
            free.remove(HOUSE)
        mine = len(self._held) - (HOUSE in self._held)
        for partition in free[: max(0, fair - mine)]:
            await self._take(partition)
        if mine > fair and not self._leaving:
            self._begin_to_let_go(max(self._held), DRAIN)
        return len(self._held) - (HOUSE in self._held) < self._count // max(1, len(standing.alive))

    async def _take(self, partition: int) -> None:
        began = self._loop.time()
        take = partial(replicas.take, replica=self.replica, partition=partition, lease=LEASE)
        lease = await self._ask(take)
        if lease is None:
            return  # Another one was quicker.
        check = partial(replicas.check, replica=self.replica, lease=lease)
        share = PartitionShare(
            partition,
            author(self.number, partition),
            check,
            began + LEASE - MARGIN,
            lost=lambda: self._lose(held),
        )
        held = _Held(lease, share, began)
        if partition == HOUSE:
            while not await self._ask(rows.drop_without_subscription):
                pass
        else:
            await self._learn()  # What waits is loaded for those that are known.
            dispatcher = self._make(share)
            await dispatcher.start(self._subscriptions.entries)
            if share.until <= self._loop.time():
                dispatcher.abandon()
                return
            self._dispatchers.add(partition, dispatcher)
            self._adapter.take(partition)
        self._held[partition] = held
        _log.info("partition.taken", partition=partition, fence=lease.fence)

    def _expire(self) -> None:
        """Lose the partitions whose leases were not renewed in time."""
        now = self._loop.time()
        for held in list(self._held.values()):
            if held.share.until <= now:
                self._lose(held)

    def _lose(self, held: _Held) -> None:
        partition = held.lease.partition
        if self._held.get(partition) is not held:
            return
        del self._held[partition]
        _log.warning("partition.lost", partition=partition, fence=held.lease.fence)
        dispatcher = self._dispatchers.remove(partition)
        if dispatcher is not None:
            dispatcher.abandon()
            self._spawn(self._adapter.release(partition))

    def _begin_to_let_go(self, partition: int, seconds: float) -> None:
        self._leaving.add(partition)
        self._spawn(self._let_go(self._held[partition], seconds))

    async def _let_go(self, held: _Held, seconds: float) -> None:
        """Release a partition, when what is under way has ended or become rows."""
        partition = held.lease.partition
        dispatcher = self._dispatchers.by_partition.get(partition)
        try:
            if dispatcher is not None:
                await dispatcher.stop(seconds)
                if self._held.get(partition) is not held:
                    return  # Lost meanwhile; it may be held anew, by another dispatcher.
                self._dispatchers.remove(partition)
                await self._adapter.release(partition)
                await dispatcher.settlement.drained()
                dispatcher.abandon()
            if self._held.get(partition) is held:
                del self._held[partition]
                with contextlib.suppress(StoreUnavailable):
                    await self._ask(
                        partial(replicas.release, replica=self.replica, lease=held.lease)
                    )
                _log.info("partition.released", partition=partition, fence=held.lease.fence)
        finally:
            self._leaving.discard(partition)
            self._soon.set()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _ask(self, operation: Callable[[Connection], T]) -> T:
        """Run *operation*, but do not wait for a store that hangs until leases are over."""
        future = self._store.submit(operation)
        future.add_done_callback(_ignore)  # Whoever waits may be cancelled, or give up.
        await asyncio.wait({future}, timeout=RENEW)
        if not future.done():
            raise StoreUnavailable
        try:
            return future.result()
        finally:
            del future


def _ignore(future: "asyncio.Future[Any]") -> None:
    if not future.cancelled():
        future.exception()
