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
from collections.abc import Callable, Iterable
from functools import partial

import structlog

from adapters import Delivery
from gateway.delivery.backlog import MOST, MOST_OCTETS, BacklogStorage, take_up
from gateway.delivery.outbox import WINDOW, Entry, Message, Outbox, PendingDelivery, State
from gateway.delivery.partition_share import PartitionShare, next_position
from gateway.delivery.schedule import Outcome, Schedule, Verdict, failed, judge
from gateway.delivery.scheduler import SLOTS, SendScheduler
from gateway.delivery.settlement import CROWD, RETRY, Conservation, Settlement
from gateway.delivery.stall_timer import StallTimer
from gateway.delivery.status import DeliveryStatus, Trouble, status_of
from gateway.egress import (
    Answer,
    FailureKind,
    Lane,
    Posted,
    Posting,
    Request,
    SendFailed,
    Transport,
    hops_kept,
    with_hops,
)
from gateway.egress.hops import HOPS_PROPERTY
from gateway.egress.origins import Origins
from gateway.model.deaths import DeathReason
from gateway.parsing import Parsing
from gateway.store import Store, totals
from gateway.store.held import Backlog
from mediation import delivery_id, render

PATIENCE = 1.0
"""Seconds after which a delivery that is not made is held."""
HURRY, LATE = 0.05, 0.1
"""The same, at least, for an attempt and for a message, while half of the messaging system's window
is unsettled or half of what may lie in memory does: whom it waits for must not hold up others."""
HURRY_FACTOR = 8.0
"""Then an attempt hangs that takes so many times as long as the answered ones do: when it is this
process that is busy, all take long and none hangs."""
RESTING = 256
"""Outboxes that are kept though nothing is under way, because more is likely to come."""
HOPELESS = 5 * 86400.0
HOPELESS_ATTEMPTS = 20

NEVER_AGREED = "The consumer's host never accepted a message."
FORMER = "what went wrong was known to an earlier run alone"

_log = structlog.get_logger("dragoman.delivery")


class Dispatcher:
    """Delivers.

    Args:
        prefetch: How many messages the messaging system lets be unsettled.
        window: Deliveries of one subscription in memory; what exceeds them goes to the store.
        producer: The gateway's own address, for events without a producer reference.
        give_up: Called with a subscription that ends for want of delivery, and why.
        never_agreed: Called instead where the host never accepted anything, and whether that is
            known since now; it may not be for the last time.
        most, most_octets: What may wait for one subscription.
        retry: Seconds after which a transaction that failed is tried again.
        share: Its part of the work.
        scheduler: The scheduler that it has in common with others.
        parsing: Where consumers' answers are parsed.
        origins: Says which event a message is.
    """

    def __init__(
        self,
        store: Store,
        transport: Transport,
        *,
        share: PartitionShare,
        prefetch: int,
        window: int = WINDOW,
        producer: str,
        give_up: Callable[[Entry, str], None],
        never_agreed: Callable[[Entry, bool], None] | None = None,
        schedule: Schedule | None = None,
        slots: int = SLOTS,
        most: int = MOST,
        most_octets: int = MOST_OCTETS,
        end_on_overflow: bool = False,
        retry: float = RETRY,
        scheduler: SendScheduler | None = None,
        parsing: Parsing | None = None,
        origins: Origins | None = None,
    ) -> None:
        self._store = store
        self._transport = transport
        self._posting = transport if isinstance(transport, Posting) else None
        self._loop = asyncio.get_running_loop()
        self._producer = producer
        self._give_up = give_up
        self._never_agreed = never_agreed or (lambda entry, _: give_up(entry, NEVER_AGREED))
        self._schedule = schedule or Schedule()
        self._parsing = parsing or Parsing()
        self._origins = origins or Origins()
        self._share = share
        self.settlement = Settlement(store, retry=retry, share=share)
        self.scheduler = scheduler or SendScheduler(slots=slots, probe=self._schedule.probe)
        self._owns_scheduler = scheduler is None
        self._backlog = BacklogStorage(
            self.settlement,
            age=self._schedule.age,
            completed=self._conclude,
            changed=self._after,
            most=most,
            most_octets=most_octets,
            overflows=self._overflows if end_on_overflow else None,
            partition=share.partition,
        )
        self._half = max(1, prefetch // 2)
        self._window = window
        self._messages: dict[Message, None] = {}
        self._outboxes: dict[Entry, Outbox] = {}
        self._resting: dict[Outbox, None] = {}
        """Those that had nothing under way when they were looked at last, the oldest first."""
        self._sweep_timer = StallTimer(self._sweep)
        self._reading: set[asyncio.Task[None]] = set()
        """Answers to what was posted that have a body."""
        self._stopped = False
        self._abandoned = False
        self._position = 0

    async def start(self, entries: Iterable[Entry]) -> None:
        """Take up what waits in the store for *entries*."""
        backlogs, last = await self._store.submit(partial(take_up, partition=self._share.partition))
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
        if backlog.attempts and outbox.entry.trouble is None:
            now = time.time()
            outbox.entry.trouble = Trouble(backlog.attempts, now, now, FORMER)
        self._ready(outbox)

    async def room(self) -> None:
        """Wait until another message may be taken on."""
        await self.settlement.room()

    def accept(
        self, delivery: Delivery, entries: Iterable[Entry], unfiltered: Iterable[Entry] = ()
    ) -> None:
        """Take on a message for all that it matched; those for whom that was not found out within
        the budget of filters get a dead letter of it."""
        message = Message(delivery.notification, delivery, self._loop.time())
        message.unsettled = 1
        self.settlement.messages += 1
        author = self._share.author
        self._position = position = next_position(self._position, time.time_ns(), author)
        wall = time.time()
        waiting: list[Outbox] = []
        for entry in entries:
            if entry.silent:
                self._pass_by(entry)
                continue
            outbox = self._outboxes.get(entry) or self._outbox(entry)
            message.unsettled += 1
            self.settlement.matched()
            if self._must_wait(outbox):
                waiting.append(outbox)
            else:
                pending = PendingDelivery(message, outbox, position, wall)
                message.deliveries.append(pending)
                if not (outbox.ready and self._may_go(outbox) and self.scheduler.start(pending)):
                    outbox.live.append(pending)
                    self.scheduler.offer(outbox)
        for entry in unfiltered:
            if entry.silent:
                self._pass_by(entry)
                continue
            message.unsettled += 1
            self.settlement.matched()
            self._backlog.bury_unsent(message, entry, position, wall)
        if message.deliveries:
            self._messages[message] = None
            self._sweep_timer.start()
        if waiting:
            for outbox in waiting:
                if outbox.live or not outbox.stored:
                    self._backlog.hold_outbox(outbox)
            self._backlog.hold_message(message, waiting, position, wall)
        self.settlement.release(message)

    def _pass_by(self, entry: Entry) -> None:
        """A message is not for *entry*, which is silent."""
        if entry.subscription.policy.paused:
            self.settlement.skipped(entry)

    def _must_wait(self, outbox: Outbox) -> bool:
        """Whether what comes for *outbox* goes to the store at once."""
        return (
            (outbox.stored and not outbox.catches_up)
            or len(outbox.live) + len(outbox.in_flight) >= self._window
            or outbox.breaker.open
            or outbox.destination.congested
            or self._stopped
        )

    @property
    def patience(self) -> float:
        """Seconds after which an attempt hangs."""
        crowded = self.settlement.live > CROWD // 2 and self.settlement.messages > 1
        if self.settlement.messages < self._half and not crowded:
            return PATIENCE
        return min(PATIENCE, max(HURRY, HURRY_FACTOR * self.scheduler.answer_time))

    def _sweep(self, stalled: bool) -> None:
        """Messages that are late go to the store, for whom they wait."""
        old = self._loop.time() - (PATIENCE if stalled else max(LATE, self.patience))
        for message in list(self._messages):
            if message.unsettled == 0:
                del self._messages[message]
                message.deliveries.clear()  # They name it, too: else only the collector frees them.
            elif message.arrived <= old:
                del self._messages[message]
                for pending in message.deliveries:
                    if pending.state is State.LIVE:
                        self.stalled(pending.outbox)
                message.deliveries.clear()
        if self._messages:
            self._sweep_timer.start()

    def _outbox(self, entry: Entry) -> Outbox:
        outbox = self._outboxes.get(entry)
        if outbox is None:
            destination = self.scheduler.destination(entry.target, entry.subscription.owner)
            outbox = Outbox(entry, destination, self, self._schedule.probe)
            self._outboxes[entry] = outbox
        return outbox

    def outbox(self, entry: Entry) -> Outbox | None:
        """The outbox of *entry*, if anything is under way."""
        outbox = self._outboxes.get(entry)
        return None if outbox is None or outbox.idle else outbox

    # What is sent, and when.

    def _ready(self, outbox: Outbox, *, first: bool = False) -> None:
        """Offer *outbox* to the scheduler now, or when its time has come."""
        if outbox.entry.silent:
            return
        wait = self._wait(outbox)
        if wait > 0:
            self._wake_at(outbox, self._loop.time() + wait)
        elif first:
            self.scheduler.offer_first(outbox)
        else:
            self.scheduler.offer(outbox)

    def _wait(self, outbox: Outbox) -> float:
        now = self._loop.time()
        if outbox.breaker.until is not None:
            return outbox.breaker.until - now
        if outbox.destination.breaker.open:
            return 0.0  # The destination's own queue waits for its probe.
        return outbox.until - now

    def _wake_at(self, outbox: Outbox, at: float) -> None:
        """Not later than *at*: what it waited for when its timer was set may come sooner now."""
        if outbox.timer is not None:
            if outbox.wake_at <= at:
                return
            outbox.timer.cancel()
        outbox.wake_at = at
        outbox.timer = self._loop.call_at(at, self._wake, outbox)

    def _wake(self, outbox: Outbox) -> None:
        outbox.timer = None
        self._ready(outbox)

    def next(self, outbox: Outbox) -> PendingDelivery | None:
        if outbox.entry.silent or not self._may_go(outbox):
            return None
        probation = outbox.destination.probation
        if probation is not None and probation.over:
            self._never_agreed(outbox.entry, False)
            return None
        if self._wait(outbox) > 0:
            self._ready(outbox)
            return None
        if outbox.stored or outbox.loaded:
            if not outbox.loaded:
                self._backlog.load(outbox)
                return None
            pending = outbox.loaded.popleft()
            outbox.breaker.probing(self._loop.time())
            pending.counts = time.time() >= pending.due
            return pending
        return outbox.live.popleft() if outbox.live else None

    def _may_go(self, outbox: Outbox) -> bool:
        """Whether one more of *outbox* may be in flight."""
        if not outbox.has_room or self._stopped:
            return False
        if len(outbox.in_flight) >= outbox.width and self._lane(outbox) is not outbox.lane:
            return False  # In order behind what is in flight, or not at all.
        return self._share.until > self._loop.time()

    async def send(self, pending: PendingDelivery) -> Outcome:
        answer = await self._transport.send(self._request(pending))
        outcome = await self._judge(answer)
        if answer.dropped and outcome.verdict is Verdict.DELIVERED:
            self.scheduler.attachments_dropped += answer.dropped
            _log.info(
                "delivery.without-attachments",
                subscription=pending.outbox.entry.id,
                attachments=answer.dropped,
            )
        return outcome

    def post(
        self, pending: PendingDelivery, told: Callable[[PendingDelivery, Outcome], None]
    ) -> Posted | None:
        outbox = pending.outbox
        lane = self._lane(outbox)
        outbox.lane = lane if lane is not None and lane.in_order else None
        if lane is None:
            return None
        return lane.post(self._request(pending), partial(self._answered, told, pending))

    def _answered(
        self,
        told: Callable[[PendingDelivery, Outcome], None],
        pending: PendingDelivery,
        answer: Answer | SendFailed,
    ) -> None:
        """What was posted is answered, or is not."""
        if isinstance(answer, SendFailed):
            told(pending, failed(answer))
        elif answer.body:
            task = self._loop.create_task(self._read(answer, told, pending))
            self._reading.add(task)
            task.add_done_callback(self._reading.discard)
        else:
            told(pending, judge(answer, None, now=time.time()))

    async def _read(
        self,
        answer: Answer,
        told: Callable[[PendingDelivery, Outcome], None],
        pending: PendingDelivery,
    ) -> None:
        try:
            outcome = await self._judge(answer)
        except Exception:
            _log.exception("delivery.error", subscription=pending.outbox.entry.id)
            outcome = Outcome(Verdict.RETRY)
        told(pending, outcome)

    async def _judge(self, answer: Answer) -> Outcome:
        fault = await self._parsing.fault_in(answer.body) if answer.body else None
        return judge(answer, fault, now=time.time())

    def _lane(self, outbox: Outbox) -> Lane | None:
        return self._posting.lane(outbox.entry.target) if self._posting is not None else None

    def _request(self, pending: PendingDelivery) -> Request:
        message, entry = pending.message, pending.outbox.entry
        destination = pending.outbox.destination
        shape = entry.recipient.shape
        rendering = message.renderings.get(shape)
        if rendering is None:
            rendering = render(message.notification, shape, self._producer)
            message.renderings[shape] = rendering
        message_id = delivery_id(message.notification, entry.id)
        body = rendering.fill(entry.recipient, message_id)
        hops = hops_kept(message.notification.properties.get(HOPS_PROPERTY))
        if not message.origin:
            message.origin = self._origins.of(message.notification)
        return Request(
            entry.target,
            body,
            with_hops(rendering.http_headers, hops),
            soap=shape.soap,
            attachments=message.notification.attachments,
            packaging=entry.subscription.policy.packaging,
            message_id=message_id,
            origin=message.origin,
            admit=self.scheduler.gate(destination) if destination.probation is not None else None,
        )

    def completed(self, pending: PendingDelivery, outcome: Outcome) -> None:
        outbox = pending.outbox
        if self._abandoned:
            outbox.in_flight.discard(pending)
            return
        entry = outbox.entry
        now = self._loop.time()
        if outcome.verdict is Verdict.DELIVERED:
            entry.attempted = time.time()
            if entry.trouble is not None or outbox.destination.trouble is not None:
                self.scheduler.troubles.succeeded(outbox)
        else:
            self.scheduler.troubles.failed(outbox, outcome)
        if outcome.verdict is Verdict.RETRY:
            outbox.smooth = False
            entry.failing_attempts += 1
            entry.failing_since = entry.failing_since or now
            if not outcome.connecting:
                outbox.breaker.failed(now, at_least=outcome.retry_after or 0.0)
            elif outbox.destination.breaker.open:
                for waiting in list(outbox.destination.queue):
                    waiting.owner.stalled(waiting)
        else:
            outbox.smooth = True
            outbox.pace += 0.2 * (now - pending.started - outbox.pace)
            entry.failing_attempts, entry.failing_since = 0, None
            outbox.breaker.succeeded()
        probation = outbox.destination.probation
        if probation is not None and probation.over:
            self._never_agreed(entry, True)
        if pending.state is State.HOLDING:
            pending.outcome = outcome  # It keeps its place until its row is there.
        else:
            self._conclude(pending, outcome)

    def _conclude(self, pending: PendingDelivery, outcome: Outcome) -> None:
        outbox = pending.outbox
        outbox.in_flight.discard(pending)
        if pending.state is State.DONE:
            pass
        elif outcome.verdict is Verdict.DELIVERED:
            going = self._goes_on(outbox)  # The consumer works while we count.
            self._delivered(pending)
            if going:
                return
        elif outbox.entry.ended:
            self._cancel(pending, "cancelled")
        elif outcome.verdict is Verdict.RETRY:
            self._retry(pending, outcome)
        else:
            pending.attempts += 1
            too_large = outcome.failure is FailureKind.TOO_LARGE
            self._bury(
                pending, DeathReason.TOO_LARGE if too_large else DeathReason.REJECTED, outcome
            )
            if outcome.verdict is Verdict.GONE:
                self._give_up(outbox.entry, "The consumer answered that it is gone.")
        self._after(outbox)

    def _after(self, outbox: Outbox, first: bool = False) -> None:
        """Something about *outbox* has changed; *first*: it had its turn already."""
        if self._outboxes.get(outbox.entry) is not outbox:
            pass  # It was forgotten.
        elif outbox.idle:
            self._rest(outbox)
        elif first or not (outbox.ready or self._goes_on(outbox)):
            self._ready(outbox, first=first)
        if first:
            self.scheduler.turn(outbox.destination)

    def _goes_on(self, outbox: Outbox) -> bool:
        """Start what *outbox* has in memory, where that stands behind nothing and nobody, as
        `accept` does; whether it was."""
        if (
            not outbox.live or outbox.stored or outbox.loaded or outbox.loading or outbox.queued
            or outbox.breaker.until is not None or outbox.entry.silent or not self._may_go(outbox)
        ):  # fmt: skip
            return False
        pending = outbox.live.popleft()
        if not self.scheduler.start(pending):
            outbox.live.appendleft(pending)
            return False
        return True

    def _rest(self, outbox: Outbox) -> None:
        """Nothing is under way for *outbox*: it goes, or stays a while with few others."""
        if outbox.entry.ended or outbox.destination.recovering is not None:
            self._forget(outbox)
        elif outbox not in self._resting:
            self._resting[outbox] = None
            if len(self._resting) > RESTING:
                oldest = next(iter(self._resting))
                del self._resting[oldest]
                if oldest.idle:
                    self._forget(oldest)

    def _forget(self, outbox: Outbox) -> None:
        self._resting.pop(outbox, None)
        if outbox.timer is not None:
            outbox.timer.cancel()
        del self._outboxes[outbox.entry]
        self.scheduler.release(outbox.destination)

    def _delivered(self, pending: PendingDelivery) -> None:
        if pending.state is State.HELD:
            self._backlog.delivered(pending)
        else:
            pending.state = State.DONE
            self.settlement.resolved(pending.message, pending.outbox.entry, "delivered")

    def _cancel(self, pending: PendingDelivery, total: str) -> None:
        """Its subscription has ended; what was a row is removed with the subscription."""
        if pending.state is State.LIVE:
            self.settlement.resolved(pending.message, pending.outbox.entry, total)
        pending.state = State.DONE

    def _retry(self, pending: PendingDelivery, outcome: Outcome) -> None:
        outbox, wall = pending.outbox, time.time()
        if pending.counts:
            pending.attempts += 1
            pending.answered += outcome.answered
            delay = self._schedule.next(pending.attempts)
        else:
            delay = max(0.0, pending.due - wall)
        behind = outbox.held + len(outbox.live) + outbox.holding - (pending.state is State.HELD)
        reason = None
        if (
            outcome.failure is FailureKind.FORBIDDEN
            and pending.attempts >= self._schedule.forbidden
        ):
            reason = DeathReason.EGRESS_FORBIDDEN
        elif delay is None or (pending.answered >= self._schedule.answered and behind > 0):
            reason = DeathReason.EXHAUSTED
        elif wall - pending.since > self._schedule.age:
            reason = DeathReason.EXPIRED_BACKLOG
        if reason is not None or delay is None:
            self._bury(pending, reason or DeathReason.EXHAUSTED, outcome)
            if reason is DeathReason.EGRESS_FORBIDDEN:
                self._give_up(outbox.entry, "The consumer's address is not allowed.")
        else:
            pending.due = wall + max(delay, outcome.retry_after or 0.0)
            if outbox.width == 1:
                outbox.until = self._loop.time() + pending.due - wall
            if pending.state is State.HELD:
                self._backlog.postpone(pending)
                self._backlog.hold_outbox(outbox)  # What stands behind it in memory.
            else:
                self._backlog.hold_outbox(outbox, first=pending)
        self._check_hopeless(outbox.entry)

    def _bury(self, pending: PendingDelivery, reason: DeathReason, outcome: Outcome) -> None:
        death = self._backlog.bury(pending, reason, outcome)
        _log.warning(
            "delivery.dead",
            subscription=death.subscription,
            delivery=death.delivery_id,
            reason=reason.value,
        )

    def _overflows(self, outbox: Outbox) -> None:
        self._give_up(outbox.entry, "More waits for the consumer than is kept.")

    def _check_hopeless(self, entry: Entry) -> None:
        since = entry.failing_since
        if (
            since is not None
            and self._loop.time() - since > HOPELESS
            and entry.failing_attempts >= HOPELESS_ATTEMPTS
        ):
            self._give_up(entry, "Nothing could be delivered for five days.")

    def stalled(self, outbox: Outbox) -> None:
        """What lies in memory goes to the store; nothing waits for an ended subscription."""
        if self._abandoned:
            return
        if outbox.entry.ended:
            for pending in outbox.in_flight:
                if pending.state is State.LIVE:
                    self._cancel(pending, "cancelled")
        else:
            self._backlog.spill(outbox)

    # What happens to a subscription.

    def quiet(self, entry: Entry) -> None:
        """*entry* was paused or halted: what lies in memory goes to the store."""
        if (outbox := self._outboxes.get(entry)) is not None:
            self._backlog.spill(outbox)

    def resume(self, entry: Entry) -> None:
        """*entry* may be sent to again."""
        if (outbox := self._outboxes.get(entry)) is not None:
            self._ready(outbox)

    def waits(self, entry: Entry, count: int, octets: int) -> None:
        """Rows for *entry* were added to the store by someone else."""
        if entry.ended:
            return  # They went with it.
        outbox = self._outbox(entry)
        self._backlog.hold_outbox(outbox)
        outbox.held += count
        outbox.octets += octets
        outbox.until = self._loop.time()
        self._ready(outbox)

    def end(self, entry: Entry, *, expired: bool = False) -> None:
        """*entry* has ended and left the store: nothing more starts."""
        entry.ended = True
        outbox = self._outboxes.get(entry)
        if outbox is None:
            return
        for pending in outbox.live:
            self._cancel(pending, "expired" if expired else "cancelled")
        outbox.live.clear()
        for pending in outbox.in_flight:
            if pending.state is State.HELD:
                pending.state = State.DONE
        self._backlog.end(outbox, expired=expired)
        self._after(outbox)

    def clear_old(self) -> None:
        """What has waited for too long dies."""
        for outbox in list(self._outboxes.values()):
            if outbox.held:
                self._backlog.bound(outbox, by_age=True)

    async def counted(self) -> None:
        """Have the store know the counts of this moment, if it can in one."""
        await self.settlement.counted()

    def outboxes(self, entry: Entry) -> list[Outbox]:
        """What is kept for *entry* at the moment."""
        found = self._outboxes.get(entry)
        return [] if found is None else [found]

    def status(self, entry: Entry) -> DeliveryStatus:
        """How it stands with the deliveries of *entry*."""
        return status_of(entry, self.outboxes(entry))

    @property
    def open_breakers(self) -> int:
        """Subscriptions whose own breaker is open: their consumers answer with failures."""
        return sum(outbox.breaker.open for outbox in self._outboxes.values())

    async def conservation(self) -> Conservation:
        """The conservation law, now."""
        durable, held, letters = await self._store.submit(totals.overall)
        return self.settlement.conservation(durable, held, letters, self.scheduler.in_flight)

    async def stop(self, seconds: float) -> None:
        """Start nothing more, give what is under way *seconds*, keep the rest in the store."""
        self._stopped = True
        for outbox in list(self._outboxes.values()):
            self.stalled(outbox)
        self._backlog.flush()
        await self.scheduler.stop(seconds, None if self._owns_scheduler else self)
        self._backlog.flush()
        await self.settlement.drained()

    def abandon(self) -> None:
        """Another gateway may have the partition: send, store and settle nothing more."""
        self._stopped = self._abandoned = True
        self.settlement.abandon()
        self._backlog.abandon()
        self._messages.clear()
        for outbox in list(self._outboxes.values()):
            for pending in outbox.in_flight:
                pending.state = State.DONE
            outbox.live.clear()
            outbox.loaded.clear()
            self._forget(outbox)

    @property
    def unsettled(self) -> int:
        """Messages that are not settled."""
        return self.settlement.messages
