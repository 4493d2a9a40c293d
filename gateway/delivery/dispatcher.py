"""The dispatcher brings each message that the messaging system yields to all that it matched.

The way of one delivery, in the order of this file:

    accept       it comes: it starts at once, waits in its outbox, or goes to the store
      next       its turn has come: the scheduler asks for it (a row is loaded first)
      ...        the attempt: `scheduler` starts it, `attempt` renders, sends and judges
    completed    its outcome is noted at its outbox and destination
      _conclude  `consequences` decides, `attempt_results` does: done, retry, bury, give up the
                 subscription
      _after     the next one of its outbox starts, or waits for its turn
    stalled      meanwhile, it or one of its neighbours takes long: all goes to the store

A healthy delivery writes no row: it waits in memory, and its message stays unsettled. One that
stalls, fails, stands behind another held one or exceeds the window is *held*: a row of the store
(`backlog`). A message is settled when all that it matched is at its end or held (`settlement`).
`states` has the states of a delivery, and draws them.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterable
from functools import partial

import structlog

from adapters import Delivery
from gateway.delivery.attempt_results import AttemptResults
from gateway.delivery.backlog import MOST, MOST_OCTETS, BacklogStorage, read_backlogs
from gateway.delivery.consequences import REFUSALS
from gateway.delivery.contents import room_in
from gateway.delivery.destinations.destination import AGAIN
from gateway.delivery.destinations.failures import Trouble
from gateway.delivery.entry import Entry
from gateway.delivery.outbox import WINDOW, Outbox, PendingDelivery
from gateway.delivery.outboxes import PATIENCE, MessagesInMemory, Outboxes
from gateway.delivery.partition_share import PartitionShare, next_position
from gateway.delivery.pending import Message
from gateway.delivery.retry_schedule import Schedule
from gateway.delivery.scheduler import SendScheduler
from gateway.delivery.settlement import CROWD, RETRY, Settlement
from gateway.delivery.states import State
from gateway.delivery.verdicts import NOTHING_SENT, Outcome, Verdict
from gateway.model.dead_letter_reasons import DeathReason
from gateway.security.keys import message_urn
from gateway.security.principals import tenant_of
from gateway.store import Store
from gateway.store.owner_bytes import OwnerBytes
from gateway.store.tenant_backlogs import TenantBacklogs
from gateway.store.waiting_deliveries import Backlog
from mediation.eventing.management import event_octets
from mediation.order_keys import key_of

SETTLED = 0.1
"""Seconds after which is looked again whether messages are settled."""
HURRY = 0.05
"""The least seconds for an attempt, while half of the messaging system's window is unsettled, or
half of what memory may have is there."""
HURRY_FACTOR = 8.0
"""Meanwhile an attempt counts as stalled when it takes so many times as long as answered ones: when
it is this process that is busy, all attempts take long and none counts."""
NEVER_AGREED = "The consumer's host never accepted a message."
FORMER = "what went wrong was known to an earlier run alone"

FRESH = 5.0
"""Seconds since a message was accepted, within which a subscription that reads the archive gets it
from there: its reader keeps further behind. What comes later, as after an outage, the reader may
have passed: it is delivered at once."""

_log = structlog.get_logger("dragoman.delivery")


class Dispatcher:
    """Delivers the messages of one partition, or of all.

    Args:
        scheduler: Says who sends next; it may serve several dispatchers.
        prefetch: How many messages the messaging system lets be unsettled.
        window: Deliveries of one subscription in memory; what exceeds them goes to the store.
        give_up: Called with a subscription that ends for want of delivery, and why.
        never_agreed: Called instead with a subscription whose host never accepted anything, perhaps
            several times, and whether that has just been learnt.
        most, most_octets: What may wait for one subscription.
        retry: Seconds after which a transaction that failed is tried again.
        share: The dispatcher's part of the work.
        owner_bytes: Bounds the backlogs of all subscriptions of an owner.
        tenant_backlogs: Bounds those of all subscriptions of a tenant.

    Attributes:
        settlement: Messages that are not settled, and the counts.
        backlog: Deliveries that wait in the store.
        outboxes: The outboxes in memory.
    """

    def __init__(
        self,
        store: Store,
        scheduler: SendScheduler,
        *,
        share: PartitionShare,
        prefetch: int,
        window: int = WINDOW,
        give_up: Callable[[Entry, str], None],
        never_agreed: Callable[[Entry, bool], None] | None = None,
        schedule: Schedule | None = None,
        most: int = MOST,
        most_octets: int = MOST_OCTETS,
        end_on_overflow: bool = False,
        retry: float = RETRY,
        owner_bytes: OwnerBytes | None = None,
        tenant_backlogs: TenantBacklogs | None = None,
    ) -> None:
        self._tenant_backlogs = tenant_backlogs
        self._store = store
        self._loop = asyncio.get_running_loop()
        self._give_up = give_up
        self._never_agreed = never_agreed or (lambda entry, _: give_up(entry, NEVER_AGREED))
        self._schedule = schedule or Schedule()
        self._share = share
        self.settlement = Settlement(
            store,
            retry=retry,
            share=share,
            traces=scheduler.traces,
            tenant_backlogs=tenant_backlogs,
        )
        self.scheduler = scheduler
        self.backlog = BacklogStorage(
            self.settlement,
            age=self._schedule.age,
            completed=self._conclude,
            changed=self._after,
            most=most,
            most_octets=most_octets,
            overflows=self._overflows,
            end_on_overflow=end_on_overflow,
            partition=share.partition,
            owner_bytes=owner_bytes,
            tenant_backlogs=tenant_backlogs,
            system_events=scheduler.system_events,
        )
        self._results = AttemptResults(
            self.settlement, self.backlog, self._schedule, give_up=give_up
        )
        self._half = max(1, prefetch // 2)
        self._window = window
        self._messages = MessagesInMemory(self._loop, self.patience_for, self.stalled)
        self.outboxes = Outboxes(self._make_outbox, self._forgotten)
        self._stopped = False
        self._abandoned = False
        self._position = 0

    async def start(self, entries: Iterable[Entry]) -> None:
        """Take up the rows that wait in the store for *entries*."""
        backlogs, last = await self._store.submit(
            partial(read_backlogs, partition=self._share.partition)
        )
        self._position = max(last, time.time_ns())
        now, wall = self._loop.time(), time.time()
        for entry in entries:
            backlog = backlogs.get(entry.id)
            if backlog is not None:
                outbox = self.outboxes[entry]
                outbox.destination.ease_in(now)
                in_turn = outbox.width == 1  # Else others may be due before the first.
                self._resume(outbox, backlog, now + max(0.0, in_turn and backlog.due - wall))

    def _resume(self, outbox: Outbox, backlog: Backlog, until: float) -> None:
        outbox.find_rows(backlog.count, backlog.octets, until)
        if backlog.attempts and outbox.entry.state.trouble is None:
            now = time.time()
            outbox.entry.state.trouble = Trouble(backlog.attempts, now, now, FORMER)
        self._ready(outbox)

    def accept(
        self, delivery: Delivery, entries: Iterable[Entry], unfiltered: Iterable[Entry] = ()
    ) -> None:
        """Take on a message for the *entries* that it matched.

        *unfiltered* get a dead letter of it: their filters had no verdict within the time budget.
        """
        now = self._loop.time()
        message = Message(delivery.notification, delivery, now)
        message.unsettled = 1
        self.settlement.take(message)
        author = self._share.author
        self._position = position = next_position(self._position, time.time_ns(), author)
        wall = time.time()
        self.scheduler.latencies.match(message, wall)
        waiting: list[Outbox] = []
        deliveries: list[PendingDelivery] = []
        if message.expires_at <= wall:
            self._pass_over(message, (*entries, *unfiltered))
            entries = unfiltered = ()
        once: Message | None = None
        fresh = -FRESH < wall - message.accepted < FRESH
        for entry in entries:
            if fresh and entry.reads_archive:
                continue
            silent = entry.silent
            if silent and not entry.holds:
                self._pass_by(entry)
                continue
            if entry.delivery.at_most_once:
                # Nothing of the messaging system waits for it.
                once = once or Message(delivery.notification, None, now)
                self._try_once(once, entry, position, wall)
                continue
            outbox = self.outboxes[entry]
            message.unsettled += 1
            self.settlement.matched(message)
            if entry.state.rests_until > now:
                reason = DeathReason.BLACK_LISTED
                self.backlog.bury_unsent(message, entry, position, wall, reason)
                continue
            if outbox.batched:
                outbox.gather(now)
            if outbox.keyed:
                pending = PendingDelivery(message, outbox, position, wall)
                pending.order_key = key_of(
                    entry.subscription.policy.order_key, message.notification
                )
                if silent or self._must_wait(outbox):
                    outbox.append(pending)
                    self.backlog.hold_outbox(outbox)
                else:
                    deliveries.append(pending)
                    self._begin(pending, now)
            elif silent or self._must_wait(outbox):
                waiting.append(outbox)
            else:
                pending = PendingDelivery(message, outbox, position, wall)
                deliveries.append(pending)
                self._begin(pending, now)
        for entry in unfiltered:
            if entry.silent or entry.delivery.at_most_once or entry.reads_archive:
                self._pass_by(entry)
                continue
            message.unsettled += 1
            self.settlement.matched(message)
            self.backlog.bury_unsent(message, entry, position, wall, DeathReason.FILTER_BUDGET)
        if deliveries:
            self._messages[message] = deliveries
            self._messages.timer.start()
        if waiting:
            for outbox in waiting:
                if outbox.live or not outbox.stored:
                    self.backlog.hold_outbox(outbox)
            self.backlog.hold_message(message, waiting, position, wall)
        self.settlement.traces.matched(message, message.unsettled - 1)
        self.settlement.release(message)

    def _begin(self, pending: PendingDelivery, now: float) -> None:
        """Start a new delivery, or let it wait for its turn in memory."""
        outbox = pending.outbox
        if outbox.batched:
            pending.size = event_octets(pending.message.notification)
            outbox.append(pending)
            self._ready(outbox)
        elif not (
            outbox.ready
            and outbox.may_start(pending)
            and self._may_go(outbox, now)
            and self.scheduler.start(pending)
        ):
            outbox.append(pending)
            self.scheduler.offer(outbox)

    def _try_once(self, message: Message, entry: Entry, position: int, wall: float) -> None:
        """Take on a message for an *entry* that wants each at most once: it is tried soon, and is
        never stored, so that one for which there is no room now is given up."""
        now, outbox = self._loop.time(), self.outboxes[entry]
        message.unsettled += 1
        self.settlement.matched(message)
        if outbox.batched:
            outbox.gather(now)
        if entry.state.rests_until > now or self._must_wait(outbox):
            self.settlement.resolved(message, entry, "cancelled")
            if outbox.idle:
                self.outboxes.rest(outbox)
        else:
            self._begin(PendingDelivery(message, outbox, position, wall), now)

    def _pass_over(self, message: Message, entries: Iterable[Entry]) -> None:
        """Count a message whose life is over as expired for the *entries* that it matched."""
        for entry in entries:
            if entry.silent:
                self._pass_by(entry)
                continue
            message.unsettled += 1
            self.settlement.matched(message)
            self.settlement.resolved(message, entry, "expired")

    def _pass_by(self, entry: Entry) -> None:
        """Count a message that a paused *entry* does not get."""
        if entry.subscription.policy.paused:
            self.settlement.skipped(entry)

    def _must_wait(self, outbox: Outbox) -> bool:
        """True if a new delivery for *outbox* goes to the store instead of staying in memory."""
        return (
            (outbox.stored and not outbox.catches_up)
            or len(outbox.live) + len(outbox.in_flight) >= self._window
            or outbox.breaker.open
            or outbox.destination.congested
            or (outbox.entry.state.allowed_at and outbox.entry.state.allowed_at > self._loop.time())
            or self._stopped
        )

    @property
    def share(self) -> PartitionShare:
        """The part of the work that it does."""
        return self._share

    def patience_for(self, tenant: str) -> float:
        """Seconds after which an attempt for *tenant* counts as stalled: fewer while much is
        unsettled, and this tenant has an equal share of that, or more."""
        crowded = self.settlement.live > CROWD // 2 and self.settlement.messages > 1
        if self.settlement.messages < self._half and not crowded:
            return PATIENCE
        if not self.settlement.has_share(tenant):
            return PATIENCE
        return min(PATIENCE, max(HURRY, HURRY_FACTOR * self.scheduler.answer_time))

    def _make_outbox(self, entry: Entry) -> Outbox:
        owner = entry.subscription.owner
        destination = self.scheduler.destination(entry.target, owner)
        counts = None
        if self._tenant_backlogs is not None and tenant_of(owner):
            counts = partial(self._tenant_backlogs.count_rows, owner)
        return Outbox(entry, destination, self, self._schedule.probe, counts)

    def _forgotten(self, outbox: Outbox) -> None:
        self.scheduler.release(outbox.destination)

    # Its turn.

    def _ready(self, outbox: Outbox, *, first: bool = False) -> None:
        """Offer *outbox* to the scheduler now, or when its time has come."""
        if outbox.entry.silent:
            return
        wait = self._wait(outbox)
        if wait > 0:
            outbox.wake_at(self._loop.time() + wait, self._loop, self._ready)
        elif first:
            self.scheduler.offer_first(outbox)
        else:
            self.scheduler.offer(outbox)

    def _wait(self, outbox: Outbox) -> float:
        """Seconds until *outbox* may send."""
        now = self._loop.time()
        if outbox.breaker.until is not None:
            return outbox.breaker.until - now
        if outbox.destination.breaker.open:
            return 0.0  # The destination's own queue waits for its probe.
        until = max(outbox.until, outbox.entry.state.allowed_at)
        if not outbox.batched:
            return until - now
        return max(until - now, outbox.gathering(now, room_in(outbox.entry)))

    def next(self, outbox: Outbox) -> PendingDelivery | None:
        """The delivery that *outbox* sends in its turn, if it may and has one in memory."""
        now = self._loop.time()
        if outbox.entry.silent or not self._may_go(outbox, now):
            self._drop_heartbeat(outbox)
            return None
        probation = outbox.destination.probation
        if probation is not None and probation.over:
            self._drop_heartbeat(outbox)
            self._never_agreed(outbox.entry, False)
            return None
        if self._wait(outbox) > 0:
            self._ready(outbox)
            return None
        if outbox.entry.state.ending:  # It could not end until now.
            outbox.wait_for_end(outbox.entry.state.ending, now)
            self._give_up(outbox.entry, outbox.entry.state.ending)
            self._ready(outbox)
            return None
        if not outbox.entry.delivery.reliable:  # It may have its number: its attempt finds out.
            self._drop_unsendable(outbox)
        if outbox.must_load:
            self.backlog.load(outbox)
            return None
        pending = outbox.take_next(now, time.time())
        if pending is None:
            pending = outbox.take_heartbeat(now)
            if pending is not None:
                pending.heartbeat = message_urn()
            elif outbox.idle:
                self._after(outbox)
            return pending
        outbox.drop_heartbeat()
        if outbox.batched:
            outbox.take_batch(pending, room_in(outbox.entry))
        return pending

    def _drop_unsendable(self, outbox: Outbox) -> None:
        """Let go of what *outbox* would send next, but for events whose life is over, and those to
        which its subscriber has lost its right."""
        wall = time.time()
        for pending in outbox.take_unsendable(lambda one: one.message.expires_at <= wall):
            self._results.expired(pending)
        if self.scheduler.checks_rights:
            for pending in outbox.take_unsendable(self.scheduler.is_withdrawn):
                self._results.withdrawn(pending)

    def _may_go(self, outbox: Outbox, now: float) -> bool:
        """True if one more of *outbox* may be in flight.

        Order is kept in one of two ways: only one is in flight, or those that are in flight went
        one after the other on a lane that keeps the order, and the next one would take it, too. By
        another way, a new connection for instance, it might overtake them. And a frozen process may
        have lost its partition without knowing it: its own clock says when the lease is over.
        """
        if not outbox.has_room or self._stopped:
            return False
        if len(outbox.in_flight) >= outbox.width and not self.scheduler.may_follow(outbox):
            return False
        return self._share.until > now

    # How it ended.

    def completed(self, pending: PendingDelivery, outcome: Outcome) -> None:
        """Note how the attempt ended, then conclude it, as soon as its row is there if one is on
        its way."""
        outbox = pending.outbox
        if self._abandoned:
            outbox.finish(pending)
            return
        if outcome.verdict not in NOTHING_SENT:
            self._learn(pending, outcome)
        else:
            outbox.breaker.withhold(self._loop.time())
        if pending.batch:  # All are one operation of the store, which tells of the last one last.
            holding = [one for one in pending.batch if one.state is State.HOLDING]
            if holding:
                outbox.wait_for_row(max(holding, key=lambda one: one.position), outcome)
                return
        elif pending.state is State.HOLDING:
            outbox.wait_for_row(pending, outcome)
            return
        self._conclude(pending, outcome)

    def _learn(self, pending: PendingDelivery, outcome: Outcome) -> None:
        """Note at the outbox and the destination how an attempt ended."""
        outbox, now = pending.outbox, self._loop.time()
        if outcome.verdict is Verdict.DELIVERED:
            outbox.entry.state.attempted = time.time()
            if outbox.entry.state.trouble is not None or outbox.destination.trouble is not None:
                self.scheduler.troubles.succeeded(outbox)
        else:
            self.scheduler.troubles.failed(outbox, outcome)
        if outcome.verdict is Verdict.RETRY:
            outbox.note_failure(pending, outcome, now)
            if outcome.connecting and outbox.destination.breaker.open:
                for waiting in list(outbox.destination.queue):
                    waiting.owner.stalled(waiting)
        elif outbox.note_answer(pending, now) and outbox.width > 1 and outbox.stored:
            self.backlog.hasten(outbox)
        probation = outbox.destination.probation
        if probation is not None and probation.over:
            self._never_agreed(outbox.entry, True)

    def _conclude(self, pending: PendingDelivery, outcome: Outcome) -> None:
        """Do what the outcome of an attempt leads to, and let the outbox go on."""
        outbox = pending.outbox
        left = outbox.finish(pending)
        if not left:
            if pending.heartbeat and (why := REFUSALS.get(outcome.verdict)):
                self._give_up(outbox.entry, why)
        elif outcome.verdict is Verdict.DELIVERED:  # As `decide` says; it is asked for failures.
            going = self._goes_on(outbox)  # The consumer works while we count.
            hurry = self.settlement.messages >= self._half
            self._results.delivered(left, hurry=hurry)
            if going:
                return
        elif outcome.verdict is Verdict.EXPIRED:
            for one in left:
                self._results.expired(one)
        elif outcome.verdict is Verdict.WITHDRAWN:
            self._end_withdrawn(left)
        else:
            self._results.failed(left, outcome)
        self._after(outbox)

    def _end_withdrawn(self, deliveries: Iterable[PendingDelivery]) -> None:
        """End those of *deliveries*, of one attempt, to which their subscriber has no right; others
        that were to go with them have another turn."""
        others = []
        for pending in deliveries:
            if self.scheduler.is_withdrawn(pending):
                self._results.withdrawn(pending)
            else:
                others.append(pending)
        if others:
            self._results.again(others)

    # After an attempt.

    def _after(self, outbox: Outbox, first: bool = False) -> None:
        """Go on with *outbox*, of which something has changed; *first*: it had its turn already."""
        if self.outboxes.get(outbox.entry) is not outbox:
            pass  # It was forgotten.
        elif outbox.idle:
            self.outboxes.rest(outbox)
        elif first or not (outbox.ready or self._goes_on(outbox)):
            self._ready(outbox, first=first)
        if first:
            self.scheduler.turn(outbox.destination)

    def _goes_on(self, outbox: Outbox) -> bool:
        """Start the first delivery that *outbox* has in memory alone, where it stands behind
        nothing and nobody, as `accept` does. Returns whether it was started."""
        if not outbox.entry.delivery.reliable:
            self._drop_unsendable(outbox)
        if not (outbox.live and outbox.may_go_on and self._may_go(outbox, self._loop.time())):
            return False
        pending = outbox.take_live()
        if pending is None:
            return False
        if not self.scheduler.start(pending):
            outbox.put_back(pending)
            return False
        return True

    def _overflows(self, outbox: Outbox) -> None:
        self._give_up(outbox.entry, "More waits for the consumer than is kept.")

    def stalled(self, outbox: Outbox) -> None:
        """Move deliveries in memory to the store. Those of a subscription that has ended are
        dropped: nothing waits for it."""
        if self._abandoned:
            return
        if outbox.entry.ended:
            for pending in outbox.drop_in_flight():
                self.settlement.resolved(pending.message, outbox.entry, "cancelled")
        elif not outbox.entry.delivery.at_most_once:
            self.backlog.spill(outbox)
        elif self._stopped:
            self._drop_waiting(outbox)

    def _drop_waiting(self, outbox: Outbox) -> None:
        """Give up the deliveries of a subscription that wants each event at most once."""
        for pending in outbox.drop_waiting():
            self.settlement.resolved(pending.message, outbox.entry, "cancelled")

    # What happens to a subscription.

    def quiet(self, entry: Entry) -> None:
        """Move deliveries to *entry*, which was paused or halted, from memory to the store."""
        if (outbox := self.outboxes.get(entry)) is not None:
            self._drop_heartbeat(outbox)
            if entry.delivery.at_most_once:
                self._drop_waiting(outbox)
            else:
                self.backlog.spill(outbox)

    def resume(self, entry: Entry) -> None:
        """Send to *entry* again."""
        if (outbox := self.outboxes.get(entry)) is not None:
            self._ready(outbox)

    def hasten(self, entry: Entry) -> None:
        """Make the next attempt at *entry* now."""
        outbox = self.outboxes.busy(entry)
        if outbox is not None:
            outbox.hasten(self._loop.time())
            self._ready(outbox)

    def beat(self, entry: Entry) -> float:
        """Let a heartbeat to the sink of *entry* have its turn, unless an event is on its way or
        can be sent instead. Returns the seconds after which to ask again where it can be neither
        now, else 0.

        It has its turn at its destination as an event has, and may be a breaker's probe: nothing
        else might ever be.
        """
        if entry.silent or self._stopped:
            return 0.0
        now, outbox = self._loop.time(), self.outboxes[entry]
        if not outbox.idle:
            outbox.hurry()
            self._ready(outbox)
            return 0.0
        wait = max(self._wait(outbox), outbox.destination.blocked(now))
        if wait <= 0 and self._may_go(outbox, now) and outbox.destination.takes_heartbeats:
            outbox.want_heartbeat()
            self.scheduler.offer(outbox)
            return 0.0
        self.outboxes.rest(outbox)
        return max(wait, AGAIN)

    def _drop_heartbeat(self, outbox: Outbox) -> None:
        """Let no heartbeat of *outbox* wait, to which nothing may be sent."""
        if outbox.drop_heartbeat() and outbox.idle:
            self._after(outbox)

    def add_rows(self, entry: Entry, count: int, octets: int) -> None:
        """Take on rows that someone else added to the store for *entry*."""
        if entry.ended:
            return  # The rows went with the subscription.
        outbox = self.outboxes[entry]
        self.backlog.hold_outbox(outbox)
        outbox.add_rows(count, octets, self._loop.time())
        self._ready(outbox)

    def end(self, entry: Entry, *, expired: bool = False) -> None:
        """Start nothing more for *entry*, which has ended and left the store."""
        outbox = self.outboxes.get(entry)
        if outbox is None:
            return
        total = "expired" if expired else "cancelled"
        for pending in outbox.end():
            self.settlement.resolved(pending.message, entry, total)
        self.backlog.end(outbox, expired=expired)
        self._after(outbox)

    async def settled(self) -> None:
        """Return when all messages that were accepted until now are settled."""
        now, done = self._loop.time(), asyncio.Event()
        while True:  # Those that are late are held soon.
            if not any(one.arrived <= now and one.unsettled for one in self._messages):
                break
            await asyncio.sleep(SETTLED)
        self.settlement.submit(lambda _: None, lambda _: done.set())  # Behind what is held.
        while not (done.is_set() or self._abandoned):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(SETTLED):
                    await done.wait()

    def clear_old(self) -> None:
        """Bury what has waited for too long."""
        for outbox in list(self.outboxes.values()):
            if outbox.held:
                self.backlog.bound(outbox, by_age=True)

    async def stop(self, seconds: float) -> None:
        """Start nothing more, give what is under way *seconds*, keep the rest in the store."""
        self._stopped = True
        for outbox in list(self.outboxes.values()):
            self.stalled(outbox)
        self.backlog.flush()
        await self.scheduler.stop(seconds, self)
        for outbox in list(self.outboxes.values()):
            if outbox.entry.delivery.at_most_once:
                for pending in outbox.drop_in_flight():
                    self.settlement.resolved(pending.message, outbox.entry, "cancelled")
        self.backlog.flush()
        if not await self.settlement.drained():
            _log.error("delivery.not-settled-at-the-end", why="the store takes nothing")
            self.abandon()  # Unsettled messages come again.
        for outbox in self.outboxes.values():
            outbox.leave_rows()

    def abandon(self) -> None:
        """Another gateway may have the partition: send, store and settle nothing more."""
        self._stopped = self._abandoned = True
        self.settlement.abandon()
        self.backlog.abandon()
        self._messages.clear()
        for outbox in list(self.outboxes.values()):
            outbox.abandon()
            self.outboxes.forget(outbox)
