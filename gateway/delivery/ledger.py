"""What becomes of every delivery, counted, and made durable in the order that promises ask for:
the store commits, then the messaging system's message is settled.

One transaction at a time is on its way; what comes meanwhile is collected for the next. One that
fails is tried again until it succeeds, and what came after it waits: the store sees everything in
the order in which it happened, whatever happens to the store.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, TypeVar

import structlog
from sqlalchemy import Connection

from gateway.delivery.parcels import Entry, Message
from gateway.delivery.shares import Share
from gateway.store import Operation, Store, StoreUnavailable, Totals, outbox, run_apart, totals
from gateway.store.replicas import Fenced
from gateway.store.totals import ENDED

RETRY = 1.0
"""Seconds after which a failed transaction is tried again."""
MOST = 256
"""Operations of one transaction."""
CROWD = 2048
"""Deliveries in memory beyond which no further message is taken on."""

T = TypeVar("T")
_log = structlog.get_logger("dragoman.delivery")


@dataclass(frozen=True, slots=True)
class Law:
    """The conservation law, read at one moment. All are numbers of deliveries."""

    totals: Totals
    waiting: int
    in_flight: int
    dead_letters: int

    @property
    def error(self) -> int:
        """Matched - (delivered + waiting + in flight + dead + expired + cancelled)."""
        return self.totals.matched - self.totals.settled() - self.waiting - self.in_flight


class Ledger:
    """Settles messages, removes delivered rows, and keeps the counts of what is in memory."""

    def __init__(self, store: Store, *, retry: float = RETRY, share: Share | None = None) -> None:
        self._store = store
        self._share = share
        self._abandoned = False
        self._retry = retry
        self._loop = asyncio.get_running_loop()
        self._settling: list[Message] = []
        self._removing: list[tuple[str, int]] = []
        self._skipped: dict[str, int] = {}
        self._queue: deque[tuple[Operation, Callable[[Any], None]]] = deque()
        self._busy = False
        self._quiet = asyncio.Event()
        self._quiet.set()
        self._room: asyncio.Future[None] | None = None
        self.live = 0
        """Deliveries in memory that have no end and no row yet."""
        self.messages = 0
        """Messages that are not settled."""
        self.unsettled = Totals()
        """Counted already, not yet in the store."""

    # What became of deliveries and messages.

    def matched(self) -> None:
        """A delivery came into being."""
        self.live += 1
        self.unsettled.matched += 1

    def skipped(self, entry: Entry) -> None:
        """A paused subscription lets a message pass; it never was matched."""
        self._skipped[entry.id] = self._skipped.get(entry.id, 0) + 1
        self.unsettled.skipped += 1

    def resolved(self, message: Message, entry: Entry, total: str) -> None:
        """A delivery that never was in the store came to its end: *total* is delivered, cancelled
        or expired."""
        setattr(self.unsettled, total, getattr(self.unsettled, total) + 1)
        message.resolved.append((entry, total))
        self._less(message)

    def stored(self, message: Message) -> None:
        """A delivery of *message* became a row or a dead letter, and is counted there."""
        self.unsettled.matched -= 1
        self._less(message)

    def _less(self, message: Message) -> None:
        if self._abandoned:
            return
        self.live -= 1
        if self._room is not None and self.live <= CROWD:
            if not self._room.done():
                self._room.set_result(None)
            self._room = None
        self.release(message)

    def release(self, message: Message) -> None:
        """One thing less for which *message* waits; with none left it is settled."""
        message.pending -= 1
        if message.pending == 0:
            self.messages -= 1
            self._settling.append(message)
            self._next()

    def remove(self, entry: Entry, position: int) -> None:
        """A held delivery was delivered."""
        self._removing.append((entry.id, position))
        self._next()

    async def room(self) -> None:
        """Wait until another message may be taken on."""
        while self.live > CROWD and not self._abandoned:
            self._room = self._loop.create_future()
            await self._room

    # Transactions.

    def abandon(self) -> None:
        """Commit and settle nothing more, and count nothing."""
        self._abandoned = True
        self._queue.clear()
        self._settling.clear()
        self._removing.clear()
        self._skipped.clear()
        self.live = self.messages = 0
        self.unsettled = Totals()
        if self._room is not None and not self._room.done():
            self._room.set_result(None)
        self._quiet.set()

    def submit(self, operation: Callable[[Connection], T], then: Callable[[T], None]) -> None:
        """Run *operation* until it is committed, then call *then* with its result. It follows
        everything that was asked for before."""
        if self._abandoned:
            return
        if self._settling or self._removing:
            self._collect()
        self._queue.append((operation, then))
        self._next()

    def _next(self) -> None:
        if self._busy or self._abandoned:
            return
        if self._settling or self._removing:
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
        work: Sequence[tuple[Operation, Callable[[Any], None]]],
        run: Callable[[Sequence[Operation], Connection], list[Any]],
    ) -> None:
        if self._abandoned:
            return
        operations = [operation for operation, _ in work]
        whole = partial(run, operations)
        if self._share is not None:
            whole = partial(_run_held, self._share.check, whole)
        try:
            future = self._store.submit(whole)
        except StoreUnavailable:
            self._loop.call_later(self._retry, self._try, work, run)
        else:
            future.add_done_callback(partial(self._tried, work, run))

    def _tried(
        self,
        work: Sequence[tuple[Operation, Callable[[Any], None]]],
        run: Callable[[Sequence[Operation], Connection], list[Any]],
        future: "asyncio.Future[list[Any]]",
    ) -> None:
        if self._abandoned:
            if not future.cancelled():
                future.exception()
            return
        share = self._share
        if share is not None and (
            share.until <= self._loop.time()
            or (not future.cancelled() and isinstance(future.exception(), Fenced))
        ):
            share.lost()
            return
        if future.cancelled() or isinstance(future.exception(), StoreUnavailable):
            self._loop.call_later(self._retry, self._try, work, run)
            return
        if future.exception() is not None:  # One of them spoils the others: each by itself.
            self._try(work, run_apart)
            return
        for (_, then), result in zip(work, future.result(), strict=True):
            try:
                if isinstance(result, Exception):
                    raise result
                then(result)
            except Exception:
                _log.exception("delivery.operation-failed")
        self._busy = False
        self._next()

    def _collect(self) -> None:
        """Make what was settled, removed and skipped an operation."""
        messages, self._settling = self._settling, []
        removed, self._removing = self._removing, []
        skipped, self._skipped = self._skipped, {}
        changes: dict[str, Totals] = {}
        counted = Totals(skipped=sum(skipped.values()))
        for message in messages:
            for entry, total in message.resolved:
                change = changes.setdefault(ENDED if entry.ended else entry.id, Totals())
                change.matched += 1
                setattr(change, total, getattr(change, total) + 1)
                counted.matched += 1
                setattr(counted, total, getattr(counted, total) + 1)
        for subscription, number in skipped.items():
            changes.setdefault(subscription, Totals()).skipped += number

        def operation(connection: Connection) -> None:
            totals.add(connection, changes)
            if removed:
                outbox.delivered(connection, removed)

        def committed(_: None) -> None:
            for name in _COUNTED:
                left = getattr(self.unsettled, name) - getattr(counted, name)
                setattr(self.unsettled, name, left)
            for message in messages:
                if message.delivery is not None:
                    message.delivery.settle()

        if changes or removed:
            self._queue.append((operation, committed))
        else:  # All that they matched became rows: those are committed already.
            committed(None)

    async def drained(self) -> None:
        """Wait until all that was asked for is committed."""
        await self._quiet.wait()

    def law(self, durable: Totals, held: int, dead_letters: int, in_flight: int) -> Law:
        """The law, given the sums in the store, its rows and the attempts under way."""
        return add_up([self], durable, held, dead_letters, in_flight)


def add_up(
    ledgers: Iterable[Ledger], durable: Totals, held: int, dead_letters: int, in_flight: int
) -> Law:
    """The law of all *ledgers* together, over one store."""
    sums, live = replace(durable), 0
    for ledger in ledgers:
        live += ledger.live
        for name in _COUNTED:
            setattr(sums, name, getattr(sums, name) + getattr(ledger.unsettled, name))
    return Law(sums, held + live - in_flight, in_flight, dead_letters)


_COUNTED = tuple(field.name for field in fields(Totals))


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
