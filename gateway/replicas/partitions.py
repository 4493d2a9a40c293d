"""Which partitions of the messaging system this gateway holds, where several share it.

    round, every 1.5 s: a sign of life, leases renewed, news of subscriptions read
      too few held, some free   take it: a dispatcher loads what waits, then it is consumed
      too many held             let go of one: what is under way ends or is kept, then it is free
      a lease not renewed       abandon it: nothing of it is sent, stored or settled any more

The store decides by its own clock; here each lease ends a second earlier. A gateway that was frozen
learns from its own clock that its leases are over, and if it does not, from the store: every
transaction that precedes a settlement checks the fence.
"""

import asyncio
import contextlib
import math
import secrets
from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import structlog
from sqlalchemy import Connection

from adapters import Sharing
from filters import Reason, Refused
from gateway.delivery import Dispatcher, Dispatchers, PartitionShare
from gateway.observing.samples import Sample, gauges
from gateway.store import Store, StoreUnavailable, replicas
from gateway.store import held as rows
from gateway.store.replicas import HOUSE, Lease, Standing
from gateway.subscriptions.subscriptions import Subscriptions

LEASE = 6.0
"""Seconds that a partition is held for without being renewed."""
RENEW = 1.5
HUNGRY = 0.4
"""Seconds until it is looked at again what is free, while less is held than is fair."""
MARGIN = 1.0
"""Seconds before its end at which a lease counts as over here."""
DRAIN = 3.0
"""Seconds that deliveries under way get when a partition is let go of."""

T = TypeVar("T")
_log = structlog.get_logger("dragoman.partitions")


class StoreInUse(Refused):
    """Another gateway has the store, and the messaging system cannot be shared."""


@dataclass(frozen=True, slots=True)
class Replicas:
    """How the work is shared, read at one moment. ``alive`` is the number of gateways; ``ages`` are
    seconds since the lease of each partition that this one holds was renewed."""

    replica: str
    alive: int
    ages: Mapping[int, float]
    keeps_house: bool

    def metrics(self) -> Iterator[Sample]:
        """How the work is shared."""
        names, here = ("replica",), (self.replica,)
        yield gauges("replicas", "Gateways that share the work.", names, {here: self.alive})
        yield gauges("partitions", "Partitions that are held.", names, {here: len(self.ages)})
        yield gauges(
            "keeps_house",
            "Whether this gateway does what is done once for all.",
            names,
            {here: self.keeps_house},
        )
        yield gauges(
            "lease_age_seconds",
            "Since the lease of a partition was renewed.",
            ("replica", "partition"),
            {(self.replica, str(partition)): age for partition, age in self.ages.items()},
        )


@dataclass(eq=False)
class _Held:
    lease: Lease
    share: PartitionShare
    renewed: float


class Partitions:
    """Holds its share of the *count* partitions, and no more.

    Args:
        replica: The name of this gateway, another one for each.
        make: Makes the dispatcher of a share.
    """

    def __init__(
        self,
        store: Store,
        sharing: Sharing,
        dispatchers: Dispatchers,
        subscriptions: Subscriptions,
        make: Callable[[PartitionShare], Dispatcher],
        *,
        count: int,
        replica: str,
    ) -> None:
        self._store = store
        self._sharing = sharing
        self._dispatchers = dispatchers
        self._subscriptions = subscriptions
        self._make = make
        self.replica = replica
        self._count = count
        self._loop = asyncio.get_running_loop()
        self._held: dict[int, _Held] = {}
        self._leaving: set[int] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._soon = asyncio.Event()
        """There is more to do at once."""
        self._fresh_at = 0.0
        self._holders: Mapping[int, str | None] = {}
        self.alive: Collection[str] = (replica,)
        """The gateways that share the work."""

    @property
    def keeps_house(self) -> bool:
        """Whether this gateway does what is done once for all."""
        held = self._held.get(HOUSE)
        return held is not None and held.share.until > self._loop.time()

    def elsewhere(self) -> tuple[str, ...]:
        """The other replicas that held partitions when it was looked last, each with these; what
        nobody holds is nobody's."""
        theirs: dict[str, list[int]] = {}
        for partition, holder in sorted(self._holders.items()):
            if partition in range(self._count) and partition not in self._held:
                theirs.setdefault(holder or "nobody", []).append(partition)
        return tuple(
            f"{holder} (partitions {', '.join(map(str, partitions))})"
            for holder, partitions in theirs.items()
        )

    def snapshot(self) -> Replicas:
        """What readiness and the metrics show, now."""
        now = self._loop.time()
        ages = {
            partition: now - held.renewed
            for partition, held in sorted(self._held.items())
            if partition != HOUSE
        }
        return Replicas(self.replica, len(self.alive), ages, self.keeps_house)

    def metrics(self) -> Iterator[Sample]:
        """How the work is shared, now."""
        return self.snapshot().metrics()

    def described(self) -> str:
        """The name of this gateway and the partitions that it holds, for operators."""
        held = ", ".join(map(str, self.snapshot().ages)) or "none"
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
                await asyncio.wait_for(self._soon.wait(), wait)

    async def refresh(self, arrived: float) -> None:
        """Learn what other gateways subscribed to before a message was published that *arrived* at
        that time of the event loop's clock. One look serves all that arrived before it."""
        while arrived >= self._fresh_at:
            began = self._loop.time()
            try:
                await self._subscriptions.learn()
            except StoreUnavailable:
                await asyncio.sleep(0.2)
            else:
                self._fresh_at = began

    async def stop(self, seconds: float) -> None:
        """Let go of everything, and be gone for the others. What is under way gets *seconds*."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._leaving.clear()
        await asyncio.gather(*(self._let_go(partition, seconds) for partition in list(self._held)))
        with contextlib.suppress(StoreUnavailable):
            await self._ask(partial(replicas.unregister, replica=self.replica))

    async def _round(self) -> bool:
        """Renew, learn and even out; whether less is held than is fair."""
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
        await self._subscriptions.learn()
        return await self._even_out(standing)

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
            surplus = max(self._held)
            self._leaving.add(surplus)
            self._spawn(self._let_go(surplus, DRAIN))
        return len(self._held) - (HOUSE in self._held) < self._count // max(1, len(standing.alive))

    async def _take(self, partition: int) -> None:
        began = self._loop.time()
        take = partial(replicas.take, replica=self.replica, partition=partition, lease=LEASE)
        lease = await self._ask(take)
        if lease is None:
            return  # Another one was quicker.
        check = partial(replicas.check, replica=self.replica, lease=lease)
        share = PartitionShare(
            partition, check, began + LEASE - MARGIN, lost=lambda: self._lose(held)
        )
        held = _Held(lease, share, began)
        if partition == HOUSE:
            while not await self._ask(rows.drop_leftovers):
                pass
        else:
            await self._subscriptions.learn()  # What waits is loaded for those that are known.
            dispatcher = self._make(share)
            await dispatcher.start(self._subscriptions.entries)
            if share.until <= self._loop.time():
                dispatcher.abandon()
                return
            self._dispatchers.add(partition, dispatcher)
            self._sharing.take(partition)
        self._held[partition] = held
        _log.info("partition.taken", partition=partition, fence=lease.fence)

    def _expire(self) -> None:
        """Lose what was not renewed in time."""
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
            self._spawn(self._sharing.release(partition))

    async def _let_go(self, partition: int, seconds: float) -> None:
        """What is under way ends or becomes rows, then the partition is anybody's."""
        held = self._held[partition]
        dispatcher = self._dispatchers.partitions.get(partition)
        try:
            if dispatcher is not None:
                await dispatcher.stop(seconds)
                self._dispatchers.remove(partition)
                await self._sharing.release(partition)
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
        await asyncio.wait({future}, timeout=RENEW)
        if not future.done():
            future.add_done_callback(_ignore)
            raise StoreUnavailable
        return future.result()


def _ignore(future: "asyncio.Future[Any]") -> None:
    if not future.cancelled():
        future.exception()


async def join(store: Store, replica: str, *, alone: bool) -> int:
    """Make this gateway one of those that use *store*; its number.

    Raises:
        StoreInUse: It must be *alone*, and is not.
    """

    def operation(connection: Connection) -> tuple[int, bool]:
        others = set(replicas.alive(connection, lease=LEASE)) - {replica}
        if alone and others:
            return 0, False
        return replicas.register(connection, replica), True

    number, welcome = await store.submit(operation)
    if not welcome:
        raise StoreInUse(
            Reason.UNAVAILABLE,
            "Another Dragoman uses the store, and the messaging system is for one alone.",
        )
    return number


async def stay(store: Store, replica: str) -> None:
    """Give signs of life, for ever, where there is nothing to share."""
    while True:
        await asyncio.sleep(RENEW)
        with contextlib.suppress(StoreUnavailable):
            await store.submit(partial(replicas.renew, replica=replica, leases=(), lease=LEASE))


def replica_name(folder: Path) -> str:
    """The name of the gateway with its data in *folder*, made when it first starts: started again
    it takes its own place."""
    path = folder / "replica"
    with contextlib.suppress(OSError):
        if name := path.read_text().strip():
            return name
    name = secrets.token_hex(6)
    path.write_text(name + "\n")
    return name
