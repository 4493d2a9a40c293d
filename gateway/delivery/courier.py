"""Delivery: each message that the messaging system yields is brought to all that it matched.

A healthy delivery writes no row: it waits in its subscription's outbox, in memory, and its message
stays unsettled. One that hangs, fails, stands behind another held one or exceeds the window is
*held*: a row of the store. A message is settled when all that it matched is at its end or held.

    accept -> live ---- delivered ----------------------------> settled
                |
                +-- hangs, fails, window --> holding -> held --> delivered, dead, expired, cancelled
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import cast
from weakref import WeakValueDictionary

import structlog
from sqlalchemy import Connection

from adapters import Delivery
from gateway.delivery.ledger import Law, Ledger
from gateway.delivery.parcels import WINDOW, Entry, Message, Outbox, Parcel, State
from gateway.delivery.schedule import Outcome, Schedule, Verdict, judge
from gateway.delivery.sender import SLOTS, Sender
from gateway.egress import FailureKind, Request, Transport, hops_header
from gateway.store import HeldRow, Reason, Store, totals
from gateway.store import outbox as rows
from gateway.store.outbox import Backlog, Death
from mediation import Notification, delivery_id, render

PATIENCE = 1.0
"""Seconds without an answer after which a delivery is held."""
HURRY = 0.05
"""The same for an attempt while half of the messaging system's window is unsettled."""
SWEEP = 0.25
CROWD = 2048
"""Deliveries in memory beyond which no further message is taken on."""
LOADED = 16
BACKLOG = 10_000
BACKLOG_OCTETS = 64 * 2**20
HOPELESS = 5 * 86400.0
HOPELESS_ATTEMPTS = 20

HOPS_PROPERTY = "dragoman_hops"

_log = structlog.get_logger("dragoman.delivery")


class Courier:
    """Delivers.

    Args:
        prefetch: How many messages the messaging system lets be unsettled.
        producer: The gateway's own address, for events without a producer reference.
        give_up: Called with a subscription that ends for want of delivery, and why.
    """

    def __init__(
        self,
        store: Store,
        transport: Transport,
        *,
        prefetch: int,
        producer: str,
        give_up: Callable[[Entry, str], None],
        schedule: Schedule | None = None,
        slots: int = SLOTS,
    ) -> None:
        self._store = store
        self._transport = transport
        self._loop = asyncio.get_running_loop()
        self._producer = producer
        self._give_up = give_up
        self._schedule = schedule or Schedule()
        self.ledger = Ledger(store)
        self.sender = Sender(self, slots=slots)
        self._window = max(1, prefetch // 2)
        self._messages: dict[Message, None] = {}
        self._outboxes: set[Outbox] = set()
        self._sweeping = False
        self._room = asyncio.Event()
        self._position = 0
        self._shared: WeakValueDictionary[int, Message] = WeakValueDictionary()

    async def start(self, entries: Iterable[Entry]) -> None:
        """Take up what waits in the store for *entries*."""
        entries = list(entries)
        known = frozenset(entry.id for entry in entries)
        backlogs, last = await self._store.submit(partial(_take_up, known))
        self._position = max(last, time.time_ns())
        now, wall = self._loop.time(), time.time()
        for entry in entries:
            backlog = backlogs.get(entry.id)
            if backlog is not None:
                outbox = self._outbox(entry)
                outbox.destination.ease_in(now)
                self._resume(outbox, backlog, now + max(0.0, backlog.due - wall))

    def _resume(self, outbox: Outbox, backlog: Backlog, until: float) -> None:
        outbox.held, outbox.octets, outbox.until = backlog.count, backlog.octets, until
        self._ready(outbox)

    async def room(self) -> None:
        """Wait until another message may be taken on."""
        while self.ledger.live > CROWD:
            self._room.clear()
            await self._room.wait()

    def accept(self, delivery: Delivery, entries: Iterable[Entry]) -> None:
        """Take on a message for all that it matched."""
        message = Message(delivery.notification, delivery, self._loop.time())
        message.pending = 1
        self.ledger.messages += 1
        self._position = position = max(self._position + 1, time.time_ns())
        wall = time.time()
        to_hold: list[Parcel] = []
        for entry in entries:
            if entry.silent:
                if entry.subscription.policy.paused:
                    self.ledger.skipped(entry)
                continue
            outbox = entry.outbox or self._outbox(entry)
            parcel = Parcel(message, outbox, position, wall)
            message.pending += 1
            self.ledger.matched()
            if self._must_wait(outbox):
                to_hold.append(parcel)
            else:
                message.parcels.append(parcel)
                outbox.live.append(parcel)
                self.sender.offer(outbox)
        if message.parcels:
            self._messages[message] = None
            self._sweep_later()
        if to_hold:
            full = {id(parcel.outbox): parcel.outbox for parcel in to_hold}
            for outbox in full.values():
                self._hold_outbox(outbox)
            self._hold(to_hold)
        self.ledger.release(message)

    def _must_wait(self, outbox: Outbox) -> bool:
        """Whether what comes for *outbox* goes to the store at once."""
        return (
            outbox.stored
            or len(outbox.live) + len(outbox.flying) >= WINDOW
            or outbox.breaker.open
            or outbox.destination.congested
            or self.sender.stopped
        )

    @property
    def patience(self) -> float:
        return HURRY if self.ledger.messages >= self._window else PATIENCE

    def _sweep_later(self) -> None:
        if not self._sweeping:
            self._sweeping = True
            self._loop.call_later(SWEEP, self._sweep)

    def _sweep(self) -> None:
        """Messages that are not delivered within a second go to the store, for whom they wait."""
        old = self._loop.time() - PATIENCE
        for message in list(self._messages):
            if message.pending == 0:
                del self._messages[message]
            elif message.arrived <= old:
                del self._messages[message]
                for parcel in message.parcels:
                    if parcel.state is State.LIVE:
                        self._hold_outbox(parcel.outbox)
        self._room.set()
        self._sweeping = False
        if self._messages:
            self._sweep_later()

    def _outbox(self, entry: Entry) -> Outbox:
        if entry.outbox is None:
            entry.outbox = Outbox(entry, self.sender.destination(entry.target))
            self._outboxes.add(entry.outbox)
        return entry.outbox

    # What is sent, and when.

    def _ready(self, outbox: Outbox) -> None:
        """Offer *outbox* to the sender now, or when its time has come."""
        if outbox.entry.silent:
            return
        wait = self._wait(outbox)
        if wait <= 0:
            self.sender.offer(outbox)
        elif not outbox.waking:
            outbox.waking = True
            self._loop.call_later(wait, self._wake, outbox)

    def _wait(self, outbox: Outbox) -> float:
        now = self._loop.time()
        if outbox.breaker.until is not None:
            return outbox.breaker.until - now
        if outbox.destination.breaker.open:
            return 0.0  # The destination's own queue waits for its probe.
        return outbox.until - now

    def _wake(self, outbox: Outbox) -> None:
        outbox.waking = False
        self._ready(outbox)

    def next(self, outbox: Outbox) -> Parcel | None:
        if outbox.entry.silent or len(outbox.flying) >= outbox.width:
            return None
        if self._wait(outbox) > 0:
            self._ready(outbox)
            return None
        if outbox.stored or outbox.loaded:
            if not outbox.loaded:
                self._load(outbox)
                return None
            parcel = outbox.loaded.popleft()
            outbox.breaker.probing(self._loop.time())
            parcel.counts = time.time() >= parcel.due
            return parcel
        return outbox.live.popleft() if outbox.live else None

    async def send(self, parcel: Parcel) -> Outcome:
        message, entry = parcel.message, parcel.outbox.entry
        shape = entry.recipient.shape
        rendering = message.renderings.get(shape)
        if rendering is None:
            rendering = render(message.notification, shape, self._producer)
            message.renderings[shape] = rendering
        body = rendering.fill(entry.recipient, delivery_id(message.notification, entry.id))
        hops = int(message.notification.properties.get(HOPS_PROPERTY, "0"))
        headers = (*rendering.http_headers, hops_header(hops))
        answer = await self._transport.send(Request(entry.target, body, headers))
        return judge(answer, now=time.time())

    def landed(self, parcel: Parcel, outcome: Outcome) -> None:
        outbox = parcel.outbox
        now = self._loop.time()
        if outcome.verdict is Verdict.RETRY:
            outbox.smooth = False
            outbox.failing_attempts += 1
            outbox.failing_since = outbox.failing_since or now
            if not outcome.connecting:
                outbox.breaker.failed(now, at_least=outcome.retry_after or 0.0)
            elif outbox.destination.breaker.open:
                for waiting in list(outbox.destination.queue):
                    self._hold_outbox(waiting)
        else:
            outbox.smooth = True
            outbox.failing_attempts, outbox.failing_since = 0, None
            outbox.breaker.succeeded()
        if parcel.state is State.HOLDING:
            parcel.outcome = outcome  # It keeps its place until its row is there.
        else:
            self._conclude(parcel, outcome)

    def _conclude(self, parcel: Parcel, outcome: Outcome) -> None:
        outbox = parcel.outbox
        outbox.flying.discard(parcel)
        if parcel.state is State.DONE:
            pass
        elif outcome.verdict is Verdict.DELIVERED:
            self._delivered(parcel)
        elif outbox.entry.ended:
            self._cancel(parcel)
        elif outcome.verdict is Verdict.RETRY:
            self._retry(parcel, outcome)
        else:
            self._bury(parcel, Reason.REJECTED, outcome)
            if outcome.verdict is Verdict.GONE:
                self._give_up(outbox.entry, "The consumer answered that it is gone.")
        self._after(outbox)

    def _after(self, outbox: Outbox) -> None:
        if self.ledger.live <= CROWD:
            self._room.set()
        if outbox.idle:
            if outbox in self._outboxes:
                self._outboxes.discard(outbox)
                outbox.entry.outbox = None
                self.sender.release(outbox.destination)
        else:
            self._ready(outbox)

    def _delivered(self, parcel: Parcel) -> None:
        outbox = parcel.outbox
        if parcel.state is State.HELD:
            self._unhold(parcel)
            self.ledger.remove(outbox.entry, parcel.position)
        else:
            parcel.state = State.DONE
            self.ledger.resolved(parcel.message, outbox.entry, "delivered")

    def _unhold(self, parcel: Parcel) -> None:
        parcel.state = State.DONE
        if not parcel.outbox.entry.ended:
            parcel.outbox.held -= 1
            parcel.outbox.octets -= parcel.octets

    def _cancel(self, parcel: Parcel) -> None:
        """Its subscription has ended; what was a row is removed with the subscription."""
        if parcel.state is State.LIVE:
            self.ledger.resolved(parcel.message, parcel.outbox.entry, "cancelled")
        parcel.state = State.DONE

    def _retry(self, parcel: Parcel, outcome: Outcome) -> None:
        outbox, wall = parcel.outbox, time.time()
        if parcel.counts:
            parcel.attempts += 1
            parcel.answered += outcome.answered
            delay = self._schedule.next(parcel.attempts)
        else:
            delay = max(0.0, parcel.due - wall)
        behind = outbox.held + len(outbox.live) + outbox.holding - (parcel.state is State.HELD)
        reason = None
        if outcome.failure is FailureKind.FORBIDDEN and parcel.attempts >= self._schedule.forbidden:
            reason = Reason.EGRESS_FORBIDDEN
        elif delay is None or (parcel.answered >= self._schedule.answered and behind > 0):
            reason = Reason.EXHAUSTED
        elif wall - parcel.since > self._schedule.age:
            reason = Reason.EXPIRED_BACKLOG
        if reason is not None or delay is None:
            self._bury(parcel, reason or Reason.EXHAUSTED, outcome)
            if reason is Reason.EGRESS_FORBIDDEN:
                self._give_up(outbox.entry, "The consumer's address is not allowed.")
        else:
            parcel.due = wall + max(delay, outcome.retry_after or 0.0)
            outbox.until = self._loop.time() + parcel.due - wall
            if parcel.state is State.HELD:
                outbox.loaded.clear()
                self.ledger.submit(
                    partial(
                        rows.postpone,
                        subscription=outbox.entry.id,
                        position=parcel.position,
                        attempts=parcel.attempts,
                        answered=parcel.answered,
                        due=parcel.due,
                    ),
                    lambda _: None,
                )
            else:
                self._hold_outbox(outbox, first=parcel)
        self._check_hopeless(outbox)

    def _check_hopeless(self, outbox: Outbox) -> None:
        since = outbox.failing_since
        if (
            since is not None
            and self._loop.time() - since > HOPELESS
            and outbox.failing_attempts >= HOPELESS_ATTEMPTS
        ):
            self._give_up(outbox.entry, "Nothing could be delivered for five days.")

    # Into the store, and out of it.

    def hangs(self, outbox: Outbox) -> None:
        self._hold_outbox(outbox)

    def _hold_outbox(self, outbox: Outbox, first: Parcel | None = None) -> None:
        """Hold all of *outbox* that lies in memory alone, in its order."""
        held = [parcel for parcel in outbox.flying if parcel.state is State.LIVE]
        if first is not None and first not in held:
            held.append(first)
        held += outbox.live
        outbox.live.clear()
        if held:
            self._hold(sorted(held, key=lambda parcel: parcel.position))

    def _hold(self, parcels: Sequence[Parcel]) -> None:
        groups: dict[int, tuple[Notification, list[Parcel], list[HeldRow]]] = {}
        for parcel in parcels:
            outbox = parcel.outbox
            parcel.state = State.HOLDING
            outbox.holding += 1
            notification = parcel.message.notification
            group = groups.setdefault(id(parcel.message), (notification, [], []))
            group[1].append(parcel)
            group[2].append(
                HeldRow(
                    outbox.entry.id,
                    parcel.position,
                    parcel.octets,
                    parcel.since,
                    parcel.attempts,
                    parcel.answered,
                    parcel.due,
                )
            )
        work = [(notification, held) for notification, _, held in groups.values()]

        def operation(connection: Connection) -> list[bool]:
            return [
                kept
                for notification, held in work
                for kept in rows.hold(connection, notification, held)
            ]

        members = [parcel for _, group, _ in groups.values() for parcel in group]
        self.ledger.submit(operation, partial(self._held, members))

    def _held(self, parcels: list[Parcel], result: object) -> None:
        touched: dict[int, Outbox] = {}
        for parcel, kept in zip(parcels, cast("list[bool]", result), strict=True):
            outbox = parcel.outbox
            outbox.holding -= 1
            parcel.state = State.HELD if kept else State.DONE
            if kept and outbox.entry.ended:
                self.ledger.submit(partial(_forget, outbox.entry.id), lambda _: None)
            elif kept:
                outbox.held += 1
                outbox.octets += parcel.octets
            self.ledger.stored(parcel.message)
            touched[id(outbox)] = outbox
            if parcel.outcome is not None:
                outcome, parcel.outcome = parcel.outcome, None
                self._conclude(parcel, outcome)
        for outbox in touched.values():
            self._bound(outbox)
            self._after(outbox)

    def _bound(self, outbox: Outbox) -> None:
        """Beyond the limits of a backlog the oldest die."""
        excess = outbox.held - BACKLOG
        if excess <= 0 and outbox.octets > BACKLOG_OCTETS and outbox.held > 1:
            excess = 1
        if excess <= 0 or outbox.entry.ended:
            return
        outbox.held -= excess

        def operation(connection: Connection) -> int:
            freed = 0
            for row, notification in rows.load(connection, outbox.entry.id, limit=excess):
                death = self._death(outbox.entry, notification, row, Reason.EXPIRED_BACKLOG)
                rows.bury_held(connection, row.position, death)
                freed += row.octets
            return freed

        outbox.loaded.clear()
        self.ledger.submit(operation, partial(self._bounded, outbox))

    def _bounded(self, outbox: Outbox, freed: object) -> None:
        outbox.octets -= cast(int, freed)

    def _load(self, outbox: Outbox) -> None:
        """Bring the first deliveries that wait in the store into memory."""
        if outbox.loading or outbox.flying or not outbox.held:
            return
        outbox.loading = True
        limit = LOADED if outbox.smooth else 1
        due = None if outbox.width == 1 else time.time()

        def operation(
            connection: Connection,
        ) -> tuple[list[tuple[HeldRow, Notification]], float | None]:
            loaded = rows.load(connection, outbox.entry.id, limit=limit, due=due)
            later = None if loaded else rows.next_due(connection, outbox.entry.id)
            return loaded, later

        self.ledger.submit(operation, partial(self._have_loaded, outbox))

    def _have_loaded(self, outbox: Outbox, result: object) -> None:
        loaded, later = cast("tuple[list[tuple[HeldRow, Notification]], float | None]", result)
        outbox.loading = False
        if outbox.entry.ended:
            return
        for row, notification in loaded:
            message = self._shared.get(row.message)
            if message is None:
                message = self._shared[row.message] = Message(notification, None)
            outbox.loaded.append(
                Parcel(
                    message, outbox, row.position, row.since, State.HELD, row.attempts,
                    row.answered, row.due,
                )
            )  # fmt: skip
        if later is not None:
            outbox.until = self._loop.time() + max(0.1, later - time.time())
        elif not loaded and not outbox.holding:
            outbox.held = outbox.octets = 0
        self._after(outbox)

    def _bury(self, parcel: Parcel, reason: Reason, outcome: Outcome) -> None:
        entry, notification = parcel.outbox.entry, parcel.message.notification
        death = self._death(
            entry, notification, parcel, reason, outcome, attempts=max(1, parcel.attempts)
        )
        _log.warning(
            "delivery.dead", subscription=entry.id, delivery=death.delivery_id, reason=reason.value
        )
        if parcel.state is State.HELD:
            self._unhold(parcel)
            self.ledger.submit(
                lambda connection: rows.bury_held(connection, parcel.position, death),
                lambda _: None,
            )
        else:
            parcel.state = State.DONE
            self.ledger.submit(
                lambda connection: rows.bury_fresh(connection, notification, death),
                lambda _: self.ledger.stored(parcel.message),
            )

    def _death(
        self,
        entry: Entry,
        notification: Notification,
        tried: Parcel | HeldRow,
        reason: Reason,
        outcome: Outcome | None = None,
        *,
        attempts: int | None = None,
    ) -> Death:
        return Death(
            subscription=entry.id,
            owner=entry.subscription.owner,
            delivery_id=delivery_id(notification, entry.id),
            topic=str(notification.topic) if notification.topic else None,
            reason=reason,
            status=outcome.status if outcome else None,
            failure=outcome.failure.value if outcome and outcome.failure else None,
            answer=outcome.detail if outcome else "",
            attempts=tried.attempts if attempts is None else attempts,
            since=tried.since,
            died=time.time(),
        )

    # What happens to a subscription.

    def quiet(self, entry: Entry) -> None:
        """*entry* was paused or halted: what lies in memory goes to the store."""
        if entry.outbox is not None:
            self._hold_outbox(entry.outbox)

    def resume(self, entry: Entry) -> None:
        """*entry* may be sent to again."""
        if entry.outbox is not None:
            self._ready(entry.outbox)

    def waits(self, entry: Entry, count: int, octets: int) -> None:
        """Rows for *entry* were added to the store by someone else."""
        outbox = self._outbox(entry)
        outbox.held += count
        outbox.octets += octets
        outbox.until = self._loop.time()
        self._ready(outbox)

    def end(self, entry: Entry) -> None:
        """*entry* has ended: nothing more starts. Its rows are removed by the caller."""
        entry.ended = True
        outbox = entry.outbox
        if outbox is None:
            return
        for parcel in outbox.live:
            self._cancel(parcel)
        outbox.live.clear()
        outbox.loaded.clear()
        outbox.held = outbox.octets = 0
        self._after(outbox)

    async def law(self) -> Law:
        """The conservation law, now."""
        durable, held, dead_letters = await self._store.submit(totals.overall)
        return self.ledger.law(durable, held, dead_letters, self.sender.in_flight)

    async def stop(self, seconds: float) -> None:
        """Start nothing more, give what is under way *seconds*, keep the rest in the store."""
        self.sender.stopped = True
        for outbox in list(self._outboxes):
            self._hold_outbox(outbox)
        await self.sender.stop(seconds)
        await self.ledger.drained()

    def next_position(self, count: int) -> int:
        """The first of *count* positions after all that were given."""
        self._position = max(self._position + 1, time.time_ns())
        first, self._position = self._position, self._position + count
        return first


def _take_up(known: frozenset[str], connection: Connection) -> tuple[Mapping[str, Backlog], int]:
    """What waits for the subscriptions *known*; what waits for others is removed: a crash fell
    between their end and that of their last deliveries."""
    backlogs = rows.backlogs(connection)
    for subscription in backlogs.keys() - known:
        _forget(subscription, connection)
    return backlogs, rows.last_position(connection)


def _forget(subscription: str, connection: Connection) -> None:
    """Remove what waits for a subscription that has ended."""
    rows.drop(connection, subscription, expired=False)
    totals.retire(connection, subscription)
