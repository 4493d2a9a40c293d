"""What becomes of every delivery, counted, and made durable in the order that promises ask for:
the store commits, then the messaging system's message is settled.

While one transaction is on its way, what comes is collected for the next.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from sqlalchemy import Connection

from gateway.delivery.parcels import Entry, Message
from gateway.store import Store, Totals, outbox, totals
from gateway.store.totals import ENDED

RETRY = 1.0
"""Seconds after which a failed transaction is tried again."""


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

    def __init__(self, store: Store) -> None:
        self._store = store
        self._loop = asyncio.get_running_loop()
        self._settling: list[Message] = []
        self._removing: list[tuple[str, int]] = []
        self._skipped: dict[str, int] = {}
        self._committing = False
        self._operations = 0
        self._quiet = asyncio.Event()
        self._quiet.set()
        self.live = 0
        """Deliveries in memory that have no end and no row yet."""
        self.messages = 0
        """Messages that are not settled."""
        self.unsettled = Totals()
        """Counted already, not yet in the store."""

    def matched(self) -> None:
        """A delivery came into being."""
        self.live += 1
        self.unsettled.matched += 1

    def skipped(self, entry: Entry) -> None:
        """A paused subscription lets a message pass; it never was matched."""
        self._skipped[entry.id] = self._skipped.get(entry.id, 0) + 1
        self.unsettled.skipped += 1

    def resolved(self, message: Message, entry: Entry, total: str) -> None:
        """A delivery that never was in the store came to its end: *total* is delivered or
        cancelled."""
        self.live -= 1
        setattr(self.unsettled, total, getattr(self.unsettled, total) + 1)
        message.resolved.append((entry, total))
        self.release(message)

    def stored(self, message: Message) -> None:
        """A delivery of *message* became a row, and is counted there."""
        self.live -= 1
        self.unsettled.matched -= 1
        self.release(message)

    def release(self, message: Message) -> None:
        message.pending -= 1
        if message.pending == 0:
            self.settle(message)

    def settle(self, message: Message) -> None:
        """All that *message* matched is at its end or in the store."""
        self.messages -= 1
        self._settling.append(message)
        self._flush()

    def remove(self, entry: Entry, position: int) -> None:
        """A held delivery was delivered."""
        self._removing.append((entry.id, position))
        self._flush()

    def submit(
        self, operation: Callable[[Connection], object], then: Callable[[object], None]
    ) -> None:
        """Run *operation* until it is committed, then call *then* with its result. It follows all
        removals that were asked for before."""
        if self._removing:
            self._commit()
        self._operations += 1
        self._quiet.clear()
        self._try(operation, then)

    def _try(
        self, operation: Callable[[Connection], object], then: Callable[[object], None]
    ) -> None:
        try:
            future = self._store.submit(operation)
        except Exception:
            self._loop.call_later(RETRY, self._try, operation, then)
            return
        future.add_done_callback(partial(self._tried, operation, then))

    def _tried(
        self,
        operation: Callable[[Connection], object],
        then: Callable[[object], None],
        future: "asyncio.Future[object]",
    ) -> None:
        if future.cancelled() or future.exception() is not None:
            self._loop.call_later(RETRY, self._try, operation, then)
        else:
            then(future.result())
            self._operations -= 1
            if not self._operations:
                self._quiet.set()

    def _flush(self) -> None:
        if not self._committing and (self._settling or self._removing):
            self._commit()

    def _commit(self) -> None:
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

        self._committing = True
        if changes or removed:
            self.submit(operation, partial(self._committed, messages, counted))
        else:
            self._committed(messages, counted, None)

    def _committed(self, messages: list[Message], counted: Totals, _result: object) -> None:
        self.unsettled.matched -= counted.matched
        self.unsettled.delivered -= counted.delivered
        self.unsettled.cancelled -= counted.cancelled
        self.unsettled.skipped -= counted.skipped
        for message in messages:
            if message.delivery is not None:
                message.delivery.settle()
        self._committing = False
        self._flush()

    async def drained(self) -> None:
        """Wait until all that was asked for is committed."""
        await self._quiet.wait()

    def law(self, durable: Totals, held: int, dead_letters: int, in_flight: int) -> Law:
        """The law, given the sums in the store, its rows and the attempts under way."""
        now = self.unsettled
        sums = Totals(
            durable.matched + now.matched,
            durable.delivered + now.delivered,
            durable.dead + now.dead,
            durable.expired + now.expired,
            durable.cancelled + now.cancelled,
            durable.skipped + now.skipped,
        )
        return Law(sums, held + self.live - in_flight, in_flight, dead_letters)
