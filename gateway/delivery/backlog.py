"""The backlog: deliveries that wait in the store, in the order of each outbox.

    live --- hold ---> rows --- load ---> loaded --- the attempt ---> delivered: row removed
                        |                               |
                        |                               +-----------> dead: row moved
                        |                               +-----------> failed: row postponed
                        +--- too many, too large, too old ----------> dead: row moved

Everything goes through the settlement, so the store sees it in order. A loaded delivery stays a row
until its end is known.
"""

import asyncio
import time
import weakref
from collections import deque
from collections.abc import Callable, Mapping, Sequence, Set
from functools import partial
from itertools import islice
from typing import TypeVar

from sqlalchemy import Connection

from gateway.delivery.batching import most_elements
from gateway.delivery.destinations.breaker import LAST_PROBE
from gateway.delivery.entry import Entry
from gateway.delivery.outbox import Outbox, PendingDelivery
from gateway.delivery.pending import Message
from gateway.delivery.settlement import Settlement
from gateway.delivery.states import State
from gateway.delivery.verdicts import Outcome
from gateway.model.dead_letter_reasons import Death, DeathReason
from gateway.observing.system_events import DEAD_LETTER, SystemEvents
from gateway.store import HeldRow, dead_lettering
from gateway.store import waiting_deliveries as rows
from gateway.store.dead_lettering import Overflow
from gateway.store.owner_bytes import OwnerBytes
from gateway.store.tenant_backlogs import TenantBacklogs
from gateway.store.waiting_deliveries import Backlog
from mediation.eventing.management import event_octets
from mediation.model.messages import Notification
from mediation.rendering import delivery_id

LOADED = 16
"""Deliveries that are loaded at a time for one subscription; where it wants batches, those of one
message are."""
LOADS = 64
"""Outboxes that are loaded at a time."""
BURIED, BURIED_OUTBOXES = 64, 8
"""Deliveries that one transaction moves to the dead letters for want of room, and outboxes that it
sees to: a few milliseconds of the store."""
LOADED_OCTETS = 64 * 2**20
"""Bytes of the messages that are loaded; beyond, outboxes wait in line."""
MOST = 10_000
MOST_OCTETS = 64 * 2**20
"""Most deliveries, and most bytes of them, that wait for one subscription."""

T = TypeVar("T")
Loaded = tuple[list[tuple[HeldRow, Notification]], float | None]
"""The rows that were read, and when the next one is due if there were none."""


class BacklogStorage:
    """Moves deliveries into the store, out of it, and to the dead letters.

    Args:
        age: Seconds that a delivery may wait.
        completed: Called with a pending whose attempt ended while it was on its way into the store.
        changed: Called with an outbox that may be able to send again, and whether it had its
            turn already.
        system_events: Told of each delivery that dies, but for those that die of overflow.
        overflows: Called with an outbox that has too much and of which nothing is left out: all
            where *end_on_overflow*, else those whose deliveries are in a sequence.
    """

    def __init__(
        self,
        settlement: Settlement,
        *,
        age: float,
        completed: Callable[[PendingDelivery, Outcome], None],
        changed: Callable[[Outbox, bool], None],
        most: int = MOST,
        most_octets: int = MOST_OCTETS,
        overflows: Callable[[Outbox], None],
        end_on_overflow: bool = False,
        partition: int | None = None,
        owner_bytes: OwnerBytes | None = None,
        tenant_backlogs: TenantBacklogs | None = None,
        system_events: SystemEvents,
    ) -> None:
        self._system_events = system_events
        self._settlement = settlement
        self._partition = partition
        self._reading: set[Outbox] = set()
        """Outboxes that take a place of their destination while their rows are read."""
        self._age = age
        self._completed = completed
        self._changed = changed
        self._most = most
        self._most_octets = most_octets
        self._overflows = overflows
        self._end_on_overflow = end_on_overflow
        self._owner_bytes = owner_bytes
        self._tenant_backlogs = tenant_backlogs
        self._taken: dict[Outbox, int] = {}
        """Of the outboxes of which some die now: how many of these its tenant's quota takes."""
        self._loop = asyncio.get_running_loop()
        self._holding: list[PendingDelivery] = []
        self._over_bounds: dict[Outbox, bool] = {}
        """Outboxes over their bounds, in line, and whether rows that are too old die, too."""
        self._burying = False
        self._line: deque[Outbox] = deque()
        self._loads = 0
        self._octets = 0
        self._shared: weakref.WeakValueDictionary[int, Message] = weakref.WeakValueDictionary()

    # Into the store.

    def spill(self, outbox: Outbox) -> None:
        """Hold all of *outbox*, and keep nothing of it in memory but attempts under way."""
        self._hold(outbox.spill())

    def hold_outbox(self, outbox: Outbox, failed: Sequence[PendingDelivery] = ()) -> None:
        """Hold all of *outbox* that lies in memory alone, in its order, and what *failed*."""
        self._hold(outbox.hold(failed))

    def _hold(self, deliveries: Sequence[PendingDelivery]) -> None:
        """Make *deliveries* rows of the store; each outbox's in their order, behind its others.

        Many stall at the same time: all of one turn of the event loop are one operation.
        """
        if deliveries and not self._holding:
            self._loop.call_soon(self.flush)
        self._holding.extend(deliveries)

    def flush(self) -> None:
        """Ask the store for what `_hold` has collected."""
        deliveries, self._holding = self._holding, []
        if not deliveries:
            return
        work = [
            (
                pending.message.notification,
                HeldRow(
                    pending.outbox.entry.id,
                    pending.position,
                    pending.octets,
                    pending.since,
                    pending.attempts,
                    pending.answered,
                    pending.due,
                    partition=self._partition or 0,
                    order_key=pending.order_key,
                ),
            )
            for pending in deliveries
        ]
        self._settlement.submit(partial(rows.hold, work=work), partial(self._held, deliveries))

    def _submit(self, operation: Callable[[Connection], T], then: Callable[[T], None]) -> None:
        """Ask the store for something, after all that is on its way there."""
        self.flush()
        self._settlement.submit(operation, then)

    def _held(self, deliveries: Sequence[PendingDelivery], results: list[bool]) -> None:
        touched: dict[int, Outbox] = {}
        for pending, kept in zip(deliveries, results, strict=True):
            outbox = pending.outbox
            outcome = outbox.store(pending, new=kept)
            self._settlement.stored(pending.message)
            touched[id(outbox)] = outbox
            if outcome is not None:
                self._completed(pending, outcome)
        for outbox in touched.values():
            self.bound(outbox)
            self._changed(outbox, False)

    def hold_message(
        self, message: Message, outboxes: Sequence[Outbox], position: int, since: float
    ) -> None:
        """Make a fresh message a row for each of *outboxes*, behind their others."""
        octets = message.notification.octets
        for outbox in outboxes:
            outbox.hold_new()

        def operation(connection: Connection) -> list[bool]:
            return rows.hold_all(
                connection, message.notification, [outbox.entry.id for outbox in outboxes],
                position=position, octets=octets, since=since, partition=self._partition or 0,
            )  # fmt: skip

        def held(results: list[bool]) -> None:
            for outbox, kept in zip(outboxes, results, strict=True):
                outbox.store_new(octets if kept else None)
                self._settlement.stored(message)
                if (
                    outbox.held > self._most
                    or outbox.octets > self._most_octets
                    or self._over_quota(outbox)
                    or self._over_backlog(outbox)
                ):
                    self.bound(outbox)
                if (
                    outbox.width > 1
                    or outbox.batched
                    or not (outbox.timer or outbox.queued or outbox.in_flight or outbox.loading)
                ):
                    self._changed(outbox, False)  # Else it is looked at anyway.

        self._submit(operation, held)

    def bound(self, outbox: Outbox, *, by_age: bool = False) -> None:
        """Bury the deliveries beyond the limits of a backlog, the oldest first, unless somebody
        else sees to overflows; *by_age*, those that are too old as well."""
        number, octets = self._over(outbox)
        unbroken = bool(outbox.entry.delivery.reliable)
        by_age = by_age and not unbroken  # Its next attempt finds that it is too old.
        if (number <= 0 and octets <= 0 and not by_age) or outbox.entry.ended:
            return
        if (self._end_on_overflow or unbroken) and (number > 0 or octets > 0):
            self._overflows(outbox)
            return
        self._over_bounds[outbox] = by_age or self._over_bounds.get(outbox, False)
        self._bury_next()

    def _over(self, outbox: Outbox) -> tuple[int, int]:
        """The deliveries of a backlog, and the bytes, that are beyond its limits."""
        number = max(outbox.held - self._most, self._over_backlog(outbox))
        if outbox.held <= 1:
            return number, 0
        octets = max(outbox.octets - self._most_octets, self._over_quota(outbox))
        return number, min(octets, outbox.octets)

    def _over_backlog(self, outbox: Outbox) -> int:
        """The deliveries that it has to give for the quota of its tenant: of those that wait now,
        or those that die now for it."""
        if self._tenant_backlogs is None:
            return 0
        if outbox in self._taken:
            return self._taken[outbox]
        over = self._tenant_backlogs.over(outbox.entry.subscription.owner, outbox.held)
        return min(over, outbox.spare_rows) if over else 0

    def _over_quota(self, outbox: Outbox) -> int:
        """The bytes that are kept beyond what the owner of the subscription may have."""
        if self._owner_bytes is None:
            return 0
        return self._owner_bytes.over(outbox.entry.subscription.owner)

    def _bury_next(self) -> None:
        """Ask for one small transaction of dead letters, where none is under way: whoever settles
        meanwhile waits for no more than that."""
        if self._burying or not self._over_bounds:
            return
        waiting = (outbox for outbox in self._over_bounds if not outbox.loading)
        chosen = {outbox: self._over_bounds[outbox] for outbox in islice(waiting, BURIED_OUTBOXES)}
        if not chosen:
            return  # What is loading has its turn when that is done.
        for outbox in chosen:
            del self._over_bounds[outbox]
        self._burying = True
        overflows = []
        for outbox, by_age in chosen.items():
            outbox.begin_burial()
            self._take(outbox)
            overflows.append(self._overflow(outbox, by_age))
        operation = partial(
            dead_lettering.bury_oldest, overflows=overflows, partition=self._partition,
            died=time.time(), limit=BURIED,
        )  # fmt: skip
        self._submit(operation, partial(self._have_buried, chosen))

    def _overflow(self, outbox: Outbox, by_age: bool) -> Overflow:
        number, octets = self._over(outbox)
        subscription, trouble = outbox.entry.subscription, outbox.entry.state.trouble
        return Overflow(
            outbox.entry.id,
            subscription.owner,
            subscription.consumer.address,
            number,
            octets,
            time.time() - self._age if by_age else 0.0,
            frozenset(pending.position for pending in outbox.in_flight),
            trouble.error if trouble is not None and trouble.failures else None,
        )

    def _have_buried(self, chosen: Mapping[Outbox, bool], freed: list[tuple[int, int]]) -> None:
        # A backlog that had no turn, because others took all of it, may still be too old.
        spent = sum(number for number, _ in freed) >= BURIED
        for (outbox, by_age), (number, octets) in zip(chosen.items(), freed, strict=True):
            outbox.end_burial(number, octets)
            self._give_back(outbox, number)
            if self._owner_bytes is not None:  # Dead letters are forgotten next.
                self._owner_bytes.freed(outbox.entry.subscription.owner, octets)
            outbox.entry.state.dropped += number
            # Where none could be moved, all are under way: the next one that comes asks again.
            if not outbox.entry.ended and (number or spent):
                self.bound(outbox, by_age=by_age and (number > 0 or spent))
            self._changed(outbox, False)
        self._burying = False
        self._bury_next()

    def _take(self, outbox: Outbox) -> None:
        """Have what dies of *outbox* for its tenant's quota asked of nobody else."""
        number = self._over_backlog(outbox)
        if number and self._tenant_backlogs is not None:
            self._tenant_backlogs.take(outbox.entry.subscription.owner, number)
            self._taken[outbox] = number

    def _give_back(self, outbox: Outbox, moved: int) -> None:
        """Note that nothing of *outbox* dies any more; so many were *moved*."""
        taken = self._taken.pop(outbox, 0)
        if taken and self._tenant_backlogs is not None:
            self._tenant_backlogs.gone(outbox.entry.subscription.owner, taken, moved)

    # Out of it.

    def load(self, outbox: Outbox) -> None:
        """Bring the first deliveries that wait in the store into memory, when it is its turn.

        Meanwhile it takes one of its destination's places, so that no more are loaded than can
        be sent.
        """
        if outbox.loading or (outbox.in_flight and not outbox.keyed) or not outbox.held:
            return
        outbox.begin_load()
        self._reading.add(outbox)
        self._line.append(outbox)
        self._load_next()

    def _load_next(self) -> None:
        while self._line and self._loads < LOADS and self._octets < LOADED_OCTETS:
            self._loads += 1
            self._load(self._line.popleft())

    def _load(self, outbox: Outbox) -> None:
        steady = outbox.smooth and outbox.destination.recovering is None
        limit = LOADED if steady else 1
        if outbox.batched:
            limit = most_elements(outbox.entry.delivery)
        due = None if outbox.width == 1 else time.time()
        id_, partition = outbox.entry.id, self._partition
        under_way = None
        probes = due is not None and (outbox.breaker.open or outbox.destination.breaker.open)
        if outbox.keyed:
            under_way = frozenset(one.position for one in outbox.in_flight)
            limit = 1 if probes else LOADED  # One that fails holds up no others.

        def operation(connection: Connection) -> Loaded:
            loaded = rows.load(
                connection, id_, limit=limit, due=due, partition=partition, under_way=under_way
            )
            if not loaded and probes:  # A probe is made in time, however late rows are due.
                loaded = rows.load(
                    connection, id_, limit=1, soonest=True, partition=partition,
                    under_way=under_way,
                )  # fmt: skip
            if loaded:
                return loaded, None
            return [], rows.next_due(connection, id_, partition=partition, under_way=under_way)

        self._submit(operation, partial(self._have_loaded, outbox, under_way or frozenset()))

    def _have_loaded(self, outbox: Outbox, under_way: Set[int], result: Loaded) -> None:
        loaded, later = result
        # What stood behind an attempt that has ended meanwhile can be loaded now.
        freed = bool(under_way - {one.position for one in outbox.in_flight})
        if freed and not loaded:
            later = None
        behind = bool(under_way) and not (freed or loaded) and later is None
        self._reading.discard(outbox)
        self._loads -= 1
        until = None if later is None else self._loop.time() + max(0.1, later - time.time())
        taken = () if outbox.entry.silent else loaded
        deliveries = [self._loaded_delivery(outbox, *one) for one in taken]
        outbox.end_load(deliveries, found=bool(loaded) or freed, until=until, behind=behind)
        if outbox in self._over_bounds:
            self._bury_next()
        self._changed(outbox, True)
        self._load_next()

    def _loaded_delivery(
        self, outbox: Outbox, row: HeldRow, notification: Notification
    ) -> PendingDelivery:
        message = self._shared.get(row.message)
        if message is None or message.notification != notification:  # Numbers are used again.
            message = self._shared[row.message] = Message(notification, None)
            octets = notification.octets
            self._octets += octets
            weakref.finalize(message, self._unloaded, octets).atexit = False
        return PendingDelivery(
            message, outbox, row.position, row.since, State.HELD, row.attempts, row.answered,
            row.due, size=event_octets(notification) if outbox.batched else 0,
            order_key=row.order_key,
        )  # fmt: skip

    def _unloaded(self, octets: int) -> None:
        """Nobody needs a message any more."""
        self._octets -= octets
        if self._line:
            self._loop.call_soon(self._load_next)

    # To its end.

    def delivered(self, pending: PendingDelivery) -> None:
        """Remove the row of *pending*, which was delivered."""
        self._settlement.remove(pending.outbox.entry, pending.position)

    def expire(self, pending: PendingDelivery) -> None:
        """Remove the row of *pending*, whose event's life is over."""
        place = (pending.outbox.entry.id, pending.position)
        self._submit(partial(rows.expire, gone=[place]), lambda _: None)

    def postpone(self, pending: PendingDelivery) -> None:
        """Write down when the row of *pending* is tried again."""
        operation = partial(
            rows.postpone,
            subscription=pending.outbox.entry.id,
            position=pending.position,
            attempts=pending.attempts,
            answered=pending.answered,
            due=pending.due,
        )
        self._submit(operation, lambda _: None)

    def hasten(self, outbox: Outbox) -> None:
        """Try soon what failed while the consumer of *outbox* was away, which is back."""

        def hastened(_: None) -> None:
            outbox.until = 0.0
            self._changed(outbox, False)

        operation = partial(
            rows.hasten,
            subscription=outbox.entry.id, partition=self._partition, due=time.time() + LAST_PROBE,
        )  # fmt: skip
        self._submit(operation, hastened)

    def bury(self, pending: PendingDelivery, reason: DeathReason, outcome: Outcome) -> Death:
        """Lay *pending* to the dead letters, whether it is a row or lies in memory alone."""
        outbox, notification = pending.outbox, pending.message.notification
        death = self._death(outbox.entry, notification, pending, reason, outcome)
        outbox.entry.state.dropped += 1
        if outbox.bury(pending):
            self._submit(
                lambda connection: dead_lettering.bury_held(connection, pending.position, death),
                lambda _: None,
            )
        else:
            self._submit(
                lambda connection: dead_lettering.bury_fresh(connection, notification, death),
                lambda _: self._settlement.stored(pending.message),
            )
        return death

    def bury_unsent(
        self, message: Message, entry: Entry, position: int, since: float, reason: DeathReason
    ) -> None:
        """Lay a message to the dead letters that is not tried for *entry*."""
        notification = message.notification
        never = HeldRow(entry.id, position, notification.octets, since)
        death = self._death(entry, notification, never, reason)
        self._submit(
            lambda connection: dead_lettering.bury_fresh(connection, notification, death),
            lambda _: self._settlement.stored(message),
        )

    def _death(
        self,
        entry: Entry,
        notification: Notification,
        tried: PendingDelivery | HeldRow,
        reason: DeathReason,
        outcome: Outcome | None = None,
    ) -> Death:
        failure = outcome.failure_text if outcome else None
        self._system_events.tell_of(
            entry.subscription,
            DEAD_LETTER,
            message=notification.id,
            topic=notification.topic,
            reason=reason.value,
            failure=failure,
        )
        return Death(
            subscription=entry.id,
            owner=entry.subscription.owner,
            delivery_id=delivery_id(notification, entry.id),
            topic=str(notification.topic) if notification.topic else None,
            reason=reason,
            status=outcome.status if outcome else None,
            failure=failure,
            answer=outcome.detail if outcome else "",
            attempts=tried.attempts,
            since=tried.since,
            died=time.time(),
            partition=self._partition or 0,
            consumer=entry.subscription.consumer.address,
        )

    def end(self, outbox: Outbox, *, expired: bool) -> None:
        """Remove the rows of *outbox*, whose subscription has ended: those that were made since the
        subscription left the store. They count as *expired*, or as cancelled."""
        self._over_bounds.pop(outbox, None)
        self._forget(outbox.entry.id, expired)

    def _forget(self, subscription: str, expired: bool) -> None:
        """Remove the rows of *subscription*, a slice at a time: the settlement has its turn in
        between."""

        def forgotten(all_of_it: bool) -> None:
            if not all_of_it:
                self._forget(subscription, expired)

        operation = partial(rows.drop, subscription=subscription, expired=expired)
        self._submit(operation, forgotten)

    def abandon(self) -> None:
        """Give back the memory that was taken for loading: no outbox is loaded any more."""
        for outbox in self._reading:
            outbox.cancel_load()
        self._reading.clear()
        self._line.clear()
        self._holding.clear()
        self._over_bounds.clear()
        for outbox in list(self._taken):
            self._give_back(outbox, 0)


def read_backlogs(
    connection: Connection, partition: int | None = None
) -> tuple[Mapping[str, Backlog], int]:
    """Read the backlog of each subscription that has one, in *partition* or in all, and the highest
    position of a delivery that waits, in whichever partition."""
    return rows.backlogs(connection, partition), rows.last_position(connection)
