"""The settlement: counts the end of every delivery, and makes things durable in the order that is
promised: held rows are committed to the store, then the message is settled at the messaging system.

A message whose deliveries were all made is settled at once: nothing of it needs the store but its
counts, which follow within `COUNTED`. A crash loses those of both
sides of the conservation law, which holds all the same.

One transaction at a time is on its way; what comes meanwhile is collected for the next. One that
fails is tried again until it succeeds, and what came after it waits: the store sees everything in
the order in which it happened, whatever happens to the store.
"""

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from functools import partial
from typing import Any, TypeAlias, TypeVar

import structlog
from sqlalchemy import Connection

from gateway.delivery.entry import Entry
from gateway.delivery.partition_share import PartitionShare
from gateway.delivery.pending import Message
from gateway.delivery.sequences.unsaved_numbers import UnsavedNumbers
from gateway.observing.traces import MessageTraces
from gateway.store import (
    Operation,
    Store,
    StoreUnavailable,
    Totals,
    run_apart,
    totals,
    waiting_deliveries,
)
from gateway.store.replicas import Fenced
from gateway.store.tenant_backlogs import TenantBacklogs
from gateway.store.totals import ENDED

RETRY = 1.0
"""Seconds after which a failed transaction is tried again."""
COUNTED = 0.25
"""Seconds within which counts go to the store."""
DRAINED = 3.0
"""Seconds that a store may take nothing before nobody waits for it at the end."""
MOST = 256
"""Operations of one transaction."""
NOTED = 64
"""Deliveries in sequences whose acknowledgements are noted together, at most."""
CROWD = 2048
"""Deliveries in memory beyond which a message waits, unless its tenant has less than an equal share
of them: one event may have ten thousand."""
COUNTS = tuple(field.name for field in fields(Totals))
"""The names of the counts."""

T = TypeVar("T")
_Work: TypeAlias = tuple[Operation, Callable[[Any], None], str]
"""An operation, what hears its result, and the name of what other gateways change, too, or none."""
_log = structlog.get_logger("dragoman.delivery")


class Settlement:
    """Settles messages, removes delivered rows, and keeps the counts in memory."""

    def __init__(
        self,
        store: Store,
        *,
        share: PartitionShare,
        retry: float = RETRY,
        traces: MessageTraces | None = None,
        tenant_backlogs: TenantBacklogs | None = None,
    ) -> None:
        self._tenant_backlogs = tenant_backlogs
        self.traces = traces or MessageTraces()
        self._store = store
        self._share = share
        self._abandoned = False
        self._retry = retry
        self._loop = asyncio.get_running_loop()
        self._changes: dict[str, Totals] = {}
        """Counts to be committed, by subscription."""
        self._changed = Totals()
        """Their sum."""
        self._counting = False
        self._removing: list[tuple[str, int]] = []
        self._noting: dict[UnsavedNumbers, list[Message]] = {}
        """Messages that wait until the acknowledgements in a sequence are noted."""
        self._noted = 0
        """How many they are."""
        self._note_now = False
        self._queue: deque[_Work] = deque()
        self._busy = False
        self._quiet = asyncio.Event()
        self._quiet.set()
        self._draining = 0
        """How many wait until all is committed: then counts do not wait for their timer."""
        self._waiting: dict[str, asyncio.Future[None]] = {}
        """What is done when a tenant's next message has room in memory."""
        self.live = 0
        """Deliveries in memory that have no end and no row yet."""
        self._live_of: dict[str, int] = {}
        """How many of them are of each tenant."""
        self.messages = 0
        """Messages that are not settled."""
        self._messages_of: dict[str, int] = {}
        """How many of them are of each tenant."""
        self.uncommitted = Totals()
        """Counted already, not yet in the store."""

    # What became of deliveries and messages.

    def take(self, message: Message) -> None:
        """Count a message of the messaging system, which is to be settled."""
        self.messages += 1
        self._messages_of[message.tenant] = self._messages_of.get(message.tenant, 0) + 1

    def _give_back(self, message: Message) -> None:
        """Count a message as settled."""
        self.messages -= 1
        self._messages_of[message.tenant] -= 1
        if not self._messages_of[message.tenant]:
            del self._messages_of[message.tenant]

    def has_share(self, tenant: str) -> bool:
        """Whether *tenant* has at least an equal share of the messages that are not settled."""
        own = self._messages_of.get(tenant, 0)
        return own * len(self._messages_of) >= self.messages

    def matched(self, message: Message) -> None:
        """Count a new delivery of *message*."""
        self.live += 1
        self._live_of[message.tenant] = self._live_of.get(message.tenant, 0) + 1
        if message.tenant and self._tenant_backlogs is not None:
            self._tenant_backlogs.count_live(message.tenant, 1)
        self.uncommitted.matched += 1

    def skipped(self, entry: Entry) -> None:
        """Count a message that a paused subscription does not get; it never was matched."""
        self._change(entry.id).skipped += 1
        self._changed.skipped += 1
        self.uncommitted.skipped += 1
        self._count_later()

    def resolved(self, message: Message, entry: Entry, total: str) -> None:
        """Count the end of a delivery that never was in the store: *total* is delivered, cancelled
        or expired."""
        setattr(self.uncommitted, total, getattr(self.uncommitted, total) + 1)
        message.resolved.append((entry, total))
        self._less(message)

    def delivered(self, message: Message, entry: Entry) -> None:
        """Count a delivery that never was in the store as made; its message has to wait for
        `note`, and is released then."""
        if not self._abandoned:
            self.uncommitted.delivered += 1
            message.resolved.append((entry, "delivered"))
            self._one_less(message.tenant)

    def stored(self, message: Message) -> None:
        """Count one delivery of *message* as durable: a held row or a dead letter."""
        self.uncommitted.matched -= 1
        self._less(message)

    def _less(self, message: Message) -> None:
        if self._abandoned:
            return
        self._one_less(message.tenant)
        self.release(message)

    def _one_less(self, tenant: str) -> None:
        self.live -= 1
        if tenant and self._tenant_backlogs is not None:
            self._tenant_backlogs.count_live(tenant, -1)
        left = self._live_of[tenant] = self._live_of[tenant] - 1
        if not left:
            del self._live_of[tenant]
        if self._waiting:
            # With one tenant less, the others' shares are larger.
            all_of_them = not left or self.live <= CROWD
            for one in list(self._waiting) if all_of_them else (tenant,):
                if one in self._waiting and self.has_capacity(one):
                    self._waiting.pop(one).set_result(None)

    def release(self, message: Message) -> None:
        """Let *message* wait for one thing less; with none left it is settled."""
        if self._abandoned:
            return
        message.unsettled -= 1
        if message.unsettled:
            return
        if message.delivery is not None:
            self._give_back(message)
        self.traces.settled(message)
        share = self._share
        if share.until <= self._loop.time():
            self._loop.call_soon(share.lost)
            return
        if message.resolved:
            for entry, total in message.resolved:
                change = self._change(ENDED if entry.ended else entry.id)
                for one in (change, self._changed):
                    one.matched += 1
                    setattr(one, total, getattr(one, total) + 1)
            self._count_later()
        if message.delivery is not None:
            try:
                message.delivery.settle()
            except Exception:  # Of a third party's adapter: it comes again, and others go on.
                _log.exception("delivery.not-settled")

    def _release_all(self, messages: Iterable[Message], _: None) -> None:
        for message in messages:
            self.release(message)

    def remove(self, entry: Entry, position: int) -> None:
        """Remove the row of a delivery that was made."""
        self._removing.append((entry.id, position))
        self._next()

    def note(self, numbers: UnsavedNumbers, messages: Iterable[Message], *, hurry: bool) -> None:
        """Have what a consumer acknowledged in its sequence noted, with the next counts, or at once
        where others wait for it (*hurry*) or it is much. Then *messages* are released."""
        if self._abandoned:
            return
        self._noting.setdefault(numbers, []).extend(messages)
        self._noted += 1
        if hurry or self._noted >= NOTED:
            self._note_now = True
            self._next()
        else:
            self._count_later()

    def _change(self, subscription: str) -> Totals:
        change = self._changes.get(subscription)
        if change is None:
            change = self._changes[subscription] = Totals()
        return change

    def _count_later(self) -> None:
        if not self._counting:
            self._counting = True
            self._loop.call_later(COUNTED, self._count)

    def _count(self) -> None:
        self._counting = False
        self._next()

    def has_capacity(self, tenant: str) -> bool:
        """Whether there is room in memory for another message of *tenant*."""
        if self.live <= CROWD:
            return True
        own = self._live_of.get(tenant, 0)
        return own * (len(self._live_of) + (not own)) < CROWD

    async def wait_for_capacity(self, tenant: str) -> None:
        """Wait until there is room in memory for another message of *tenant*."""
        while not (self.has_capacity(tenant) or self._abandoned):
            waiting = self._waiting.get(tenant)
            if waiting is None:
                waiting = self._waiting[tenant] = self._loop.create_future()
            await asyncio.shield(waiting)

    # Transactions.

    def abandon(self) -> None:
        """Commit and settle nothing more, and count nothing."""
        self._abandoned = True
        self._queue.clear()
        self._changes.clear()
        self._changed = Totals()
        self._removing.clear()
        self._noting.clear()
        self._noted = 0
        self.live = self.messages = 0
        if self._tenant_backlogs is not None:
            for tenant, number in self._live_of.items():
                self._tenant_backlogs.count_live(tenant, -number)
        self._live_of.clear()
        self._messages_of.clear()
        self.uncommitted = Totals()
        for waiting in self._waiting.values():
            waiting.set_result(None)
        self._waiting.clear()
        self._quiet.set()

    def submit(self, operation: Callable[[Connection], T], then: Callable[[T], None]) -> None:
        """Run *operation* until it is committed, then call *then* with its result. It follows
        everything that was asked for before."""
        if self._abandoned:
            return
        self._collect()
        self._queue.append((operation, then, ""))
        self._next()

    def _next(self) -> None:
        if self._busy or self._abandoned:
            return
        if self._removing or self._note_now or self._draining or not self._counting:
            self._collect()
        if not self._queue:
            self._quiet.set()
            return
        self._busy = True
        self._quiet.clear()
        work = [self._queue.popleft() for _ in range(min(len(self._queue), MOST))]
        self._try(work, run=_run)

    def _try(
        self,
        work: Sequence[_Work],
        run: Callable[[Sequence[Operation], Connection], list[Any]],
    ) -> None:
        if self._abandoned:
            return
        operations = [operation for operation, *_ in work]
        whole = partial(_run_held, self._share.check, partial(run, operations))
        try:
            future = self._store.submit(whole, locks={name for *_, name in work if name})
        except StoreUnavailable:
            self._loop.call_later(self._retry, self._try, work, run)
        else:
            future.add_done_callback(partial(self._tried, work, run))

    def _tried(
        self,
        work: Sequence[_Work],
        run: Callable[[Sequence[Operation], Connection], list[Any]],
        future: "asyncio.Future[list[Any]]",
    ) -> None:
        """Go on after a transaction: one of the four ends that it can have.

        The partition may be lost: nothing more is committed. The store may be unavailable: the same
        operations are tried again, and later ones wait, so that the store sees everything in
        the order in which it happened. One operation may spoil the others of its transaction: then
        each runs by itself, again in order, so that one bad row does not stop deliveries for ever.
        Else each operation hears its result.
        """
        if self._abandoned:
            if not future.cancelled():
                future.exception()  # Else asyncio says that nobody looked at it.
            return
        share = self._share
        if share.until <= self._loop.time() or (
            not future.cancelled() and isinstance(future.exception(), Fenced)
        ):
            share.lost()
            return
        if future.cancelled() or isinstance(future.exception(), StoreUnavailable):
            self._loop.call_later(self._retry, self._try, work, run)
            return
        if future.exception() is not None:  # One of them spoils the others: each by itself.
            self._try(work, run_apart)
            return
        for (_, then, _name), result in zip(work, future.result(), strict=True):
            if isinstance(result, Exception):
                _log.error("delivery.operation-failed", exc_info=result)
                continue
            try:
                then(result)
            except Exception:
                _log.exception("delivery.operation-failed")
        self._busy = False
        self._next()

    def _collect(self) -> None:
        """Queue the acknowledgements, and, as one operation, counts and removed rows."""
        noting, self._noting, self._noted, self._note_now = self._noting, {}, 0, False
        for numbers, messages in noting.items():
            released = partial(self._release_all, messages)
            self._queue.append((numbers.saving(time.time()), released, numbers.lock))
        if not self._changes and not self._removing:
            return
        changes, self._changes = self._changes, {}
        changed, self._changed = self._changed, Totals()
        removed, self._removing = self._removing, []

        def operation(connection: Connection) -> None:
            totals.add(connection, changes)
            if removed:
                waiting_deliveries.delivered(connection, removed)

        def committed(_: None) -> None:
            for name in COUNTS:
                left = getattr(self.uncommitted, name) - getattr(changed, name)
                setattr(self.uncommitted, name, left)

        self._queue.append((operation, committed, ""))

    async def counted(self, seconds: float = COUNTED) -> None:
        """Wait until the counts of now are committed, or for *seconds*."""
        done = asyncio.Event()
        self.submit(lambda _: None, lambda _: done.set())
        if not self._abandoned:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await done.wait()

    async def drained(self, seconds: float = DRAINED) -> bool:
        """Wait until all that was asked for, and all counts, are committed.

        Returns:
            Whether they are: else the store took nothing for so many *seconds*.
        """
        self._draining += 1  # What is committed may release messages, whose counts come then.
        try:
            self._next()
            until = self._loop.time() + seconds
            while not self._quiet.is_set():
                if self._store.writable:
                    until = self._loop.time() + seconds
                elif self._loop.time() > until:
                    return False
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._retry / 4):
                        await self._quiet.wait()
            return True
        finally:
            self._draining -= 1


def _run(operations: Sequence[Operation], connection: Connection) -> list[Any]:
    return [operation(connection) for operation in operations]


def _run_held(
    check: Callable[[Connection], None],
    run: Callable[[Connection], list[Any]],
    connection: Connection,
) -> list[Any]:
    """Only while the partition is held."""
    check(connection)
    return run(connection)
