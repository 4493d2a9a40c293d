"""The scheduler: which outbox sends next, within which bounds, and which attempts stall.

Tenants have turns, and so have the destinations of each, and the outboxes of a destination. An
attempt takes a slot while it is young: one that takes long gives its slot back and goes on beside,
so that no number of consumers that stall takes the slots of the others.
"""

import asyncio
import contextlib
import time
from collections.abc import Collection, Iterable

import structlog

from adapters.tenant_admission import TenantAdmission
from adapters.tenant_turns import TenantTurns
from gateway.delivery.attempt import Attempts
from gateway.delivery.destinations.breaker import FIRST_PROBE
from gateway.delivery.destinations.probation import Name, Probations
from gateway.delivery.latencies import Latencies
from gateway.delivery.outbox import Outbox, OutboxDestination, Owner, PendingDelivery
from gateway.delivery.states import State
from gateway.delivery.status import Troubles
from gateway.delivery.timers import TICK, StallTimer
from gateway.delivery.verdicts import NOTHING_SENT, Outcome, Verdict, failed
from gateway.egress import FailureKind, Posted, SendFailed, Target
from gateway.mailboxes.transport import SCHEME as MAILBOX_SCHEME
from gateway.model.host_decisions import HostDecisions
from gateway.observing.attempts import AttemptLog
from gateway.observing.samples import Histogram
from gateway.observing.system_events import SystemEvents
from gateway.observing.taps import Taps
from gateway.observing.traces import MessageTraces
from gateway.security.audit import DELIVERED, NO_AUDIT, Audit
from gateway.security.principals import tenant_of
from gateway.security.resource_addresses import shown

SLOTS = 512
"""Young attempts at a time."""
BURST = 16
"""Attempts that begin in a row, while there are several tenants, before other tasks of the event
loop run; those of light tenants begin at once. All slots at once take 90 ms, for which no other
tenant's event is taken. With 8, connections were left idle, messages came late, and rows of them in
the store made a delivery cost up to half as much again."""
YOUNG = 0.25
"""Seconds for which an attempt takes a slot."""
MAX_IN_FLIGHT = 4096
MAX_OCTETS = 128 * 2**20
"""Bytes of payloads under way: stalled attempts must not take all memory, nor stop the others."""
CUT_AFTER = 3.0
"""Seconds after which a stalled attempt is given up, when there is too much under way."""

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""The upper bounds of the buckets of attempts' seconds."""

GAVE_WAY = f"no answer within {CUT_AFTER:.0f} s, and given up: too much was under way"
_WORDS = {verdict: verdict.value for verdict in Verdict}
"""Looked up for each attempt, in a fourth of the time that `value` takes."""
_NOT_POSTED = failed(SendFailed(FailureKind.RESET, "the connection was closed before it was sent"))
_log = structlog.get_logger("dragoman.delivery")


class SendScheduler:
    """Deals slots to destinations in turn.

    Args:
        attempts: Makes the attempts.
        probations: The hosts that have not agreed; None: all have.
        decisions: The hosts that operators have forbidden.
        quotes_answers: As of `Troubles`.
        system_events: Told of subscriptions that fail and of dead letters.
        admission: Says when an attempt for a tenant may begin.
        audit: Notes who was sent documents' metadata.
    """

    def __init__(
        self,
        attempts: Attempts,
        *,
        slots: int = SLOTS,
        probe: float = FIRST_PROBE,
        probations: Probations | None = None,
        decisions: HostDecisions | None = None,
        quotes_answers: bool = True,
        system_events: SystemEvents | None = None,
        admission: TenantAdmission | None = None,
        audit: Audit = NO_AUDIT,
    ) -> None:
        self._admission = admission or TenantAdmission()
        self._admission.when_resumed(self._pump)
        self._audit = audit
        self.system_events = system_events or SystemEvents("urn:dragoman")
        self._attempts = attempts
        self._probations = probations
        self._decisions = decisions or HostDecisions()
        self._loop = asyncio.get_running_loop()
        self._slots = slots
        self._probe = probe
        self._turns: TenantTurns[OutboxDestination] = TenantTurns()
        self._destinations: dict[tuple[Name, str], OutboxDestination] = {}
        """By name and tenant."""
        self._in_flight: dict[PendingDelivery, asyncio.Task[None] | Posted] = {}
        self._stopping: asyncio.Event | None = None
        """Set when an attempt has ended, while a stop waits for attempts."""
        self._octets = 0
        self._cut: set[PendingDelivery] = set()
        self._stall_timer = StallTimer(self._tick)
        self._stalled = False
        """The timer rang too late to tell anything; its next ring counts, however late."""
        self._pumping = False
        self._burst = 0
        """Attempts that have begun since other tasks ran, while several tenants are sent to."""
        self.troubles = Troubles(self.system_events, quotes_answers=quotes_answers)
        self.traces = MessageTraces()
        self.attempts = AttemptLog()
        self.taps = Taps()
        self.verdicts: dict[Verdict, int] = dict.fromkeys(Verdict, 0)
        """Numbers of attempts that ended so."""
        self.of_tenants: dict[tuple[str, str], int] = {}
        """Numbers of attempts of tenants but the default one, by tenant and verdict."""
        self.seconds = {verdict: Histogram(SECONDS) for verdict in Verdict}
        """The seconds that they took, by verdict."""
        self.latencies = Latencies()
        self.answer_time = 0.0
        """Seconds that successful attempts take, on a moving average."""

    @property
    def in_flight(self) -> int:
        """Attempts under way whose deliveries have not come to their end in another way."""
        return sum(
            one.state is not State.DONE for pending in self._in_flight for one in pending.carried
        )

    @property
    def attachments_dropped(self) -> int:
        """Attachments left out of deliveries, for want of a packaging that the consumer
        reads."""
        return self._attempts.attachments_dropped

    @property
    def open_breakers(self) -> int:
        return sum(destination.breaker.open for destination in self._destinations.values())

    def destination(self, target: Target, owner: str = "") -> OutboxDestination:
        """The destination of *target*, taken by one outbox more, of a subscription of *owner*."""
        key = target.destination, tenant_of(owner)
        found = self._destinations.get(key)
        if found is None:
            self._admission.needed(key[1])  # From now on what is sent is counted.
            found = self._destinations[key] = OutboxDestination(key[0], self._probe, key[1])
            found.forbid(self._decisions.forbids(target.host))
        found.take()
        if self._probations is not None:
            self._probations.admit(found, owner, self._loop.time())
        return found

    def release(self, destination: OutboxDestination) -> None:
        """One outbox less; a destination that nobody needs is forgotten."""
        if destination.give_back():
            destination.cancel_timer()
            self._destinations.pop((destination.name, destination.tenant), None)
            if self._probations is not None:
                self._probations.forget(destination)

    def start(self, pending: PendingDelivery) -> bool:
        """Start *pending* now, if its destination is free and nobody waits for a slot.

        Returns False when it must queue.
        """
        destination = pending.outbox.destination
        if not self._has_place() or not destination.is_free:
            return False
        if (
            self._turns or self._burst >= BURST or self._admission.holds_back
        ) and not self._admission.is_light(destination.tenant):
            return False
        self._start(pending)
        return True

    def offer(self, outbox: Outbox) -> None:
        """Let *outbox*, which may have something to send, wait for its turn."""
        outbox.destination.enqueue(outbox)
        self.turn(outbox.destination)

    def offer_first(self, outbox: Outbox) -> None:
        """Give *outbox* the next turn: it had one, and only now has something to send."""
        outbox.destination.enqueue(outbox, first=True)
        self.turn(outbox.destination)

    def turn(self, destination: OutboxDestination) -> None:
        """Look at *destination*, of which something has changed: it may be able to send."""
        self._turn(destination)
        self._pump()

    def _turn(self, destination: OutboxDestination) -> None:
        if destination.turning or destination.forbidden or not destination.queue:
            return
        now = self._loop.time()
        if destination.may_start(now):
            destination.turn(waits=True)
            self._turns.append(destination, destination.tenant)
            return
        wait = destination.wait(now)
        if wait > 0:  # Else a connection must become free, and says so.
            destination.wake_at(now + wait + 0.001, self._loop, self.turn)

    def _pump(self) -> None:
        if self._pumping:
            return
        self._pumping = True
        try:
            while self._turns and self._has_place():
                if (self._burst >= BURST or self._admission.holds_back) and (
                    not self._admission.is_light(self._turns.tenant())
                ):
                    break
                destination = self._turns.popleft()
                destination.turn(waits=False)
                if not destination.queue or not destination.may_start(self._loop.time()):
                    self._turn(destination)
                    continue
                outbox = destination.dequeue()
                pending = outbox.owner.next(outbox)
                if pending is not None:
                    self._start(pending)
                    self._turns.sent(destination.tenant, pending.carried_octets)
                self._turn(destination)
        finally:
            self._pumping = False

    def _has_place(self) -> bool:
        return (
            self._slots > 0 and len(self._in_flight) < MAX_IN_FLIGHT and self._octets < MAX_OCTETS
        )

    def _end_burst(self) -> None:
        self._burst = 0
        self._pump()

    def _start(self, pending: PendingDelivery) -> None:
        """Start an attempt: posted where a connection is open, which needs no task and no turn of
        the event loop, else in a task that makes the connection.

        A task may overtake what was posted. So one that follows others in order is not sent in a
        task when its lane has just closed: it fails here, in a later turn as if it had been sent,
        and is tried again behind the others.
        """
        now = self._loop.time()
        outbox = pending.outbox
        follows = len(outbox.in_flight) >= outbox.width
        outbox.start(pending, now)
        if not (pending.attempts or pending.heartbeat):
            self.latencies.attempt(pending.message, time.time())
        self._slots -= 1
        if self._admission.counts:
            self._admission.use(outbox.destination.tenant, pending.carried_octets)
            if self._admission.several:
                if not self._burst:
                    self._loop.call_soon(self._end_burst)
                self._burst += 1
        self._octets += pending.carried_octets if pending.batch else pending.octets
        posted = self._attempts.post(pending, self._over)
        if posted is not None:
            self._in_flight[pending] = posted
        elif follows:
            self._in_flight[pending] = self._loop.call_soon(self._over, pending, _NOT_POSTED)
        else:
            self._in_flight[pending] = self._loop.create_task(self._attempt(pending))
        if (
            not outbox.queued
            and (outbox.live or outbox.loaded or outbox.stored)
            and outbox.has_room
        ):
            outbox.destination.enqueue(outbox)
        self._stall_timer.start()

    async def _attempt(self, pending: PendingDelivery) -> None:
        try:
            outcome = await self._attempts.send(pending)
        except asyncio.CancelledError:
            if pending not in self._cut:
                self._release(pending)
                raise
            outcome = failed(SendFailed(FailureKind.TIMEOUT, GAVE_WAY))
        self._over(pending, outcome)

    def _over(self, pending: PendingDelivery, outcome: Outcome) -> None:
        """Note how an attempt ended, tell its owner, and let the next ones start."""
        if pending not in self._in_flight:
            return  # It was given up.
        self._cut.discard(pending)
        if self._stopping is not None:
            self._stopping.set()
        self._release(pending)
        now, wall = self._loop.time(), time.time()
        destination = pending.outbox.destination
        if outcome.verdict in NOTHING_SENT:
            destination.withhold(now)
        elif outcome.connecting:
            destination.breaker.failed(now)
        else:
            destination.note_answer(now)
        self.verdicts[outcome.verdict] += 1
        if destination.tenant:
            key = destination.tenant, _WORDS[outcome.verdict]
            self.of_tenants[key] = self.of_tenants.get(key, 0) + 1
        self.seconds[outcome.verdict].observe(now - pending.started)
        if outcome.verdict not in NOTHING_SENT:
            self._note(pending, outcome, wall, now - pending.started)
        if outcome.verdict is Verdict.DELIVERED:
            if not pending.heartbeat:
                self.latencies.deliver(pending.carried, wall)
                if self._audit.documents:
                    self._note_documents(pending)
            self.answer_time += 0.05 * (now - pending.started - self.answer_time)
            if not destination.agreed:
                self._agree(destination)
        elif (
            outcome.verdict not in NOTHING_SENT
            and destination.probation is not None
            and self._probations is not None
        ):
            self._probations.failed(destination, now, at_least=outcome.retry_after or 0.0)
        pending.outbox.owner.completed(pending, outcome)
        if destination.queue:
            self._turn(destination)
        if self._turns:
            self._pump()

    def _note_documents(self, pending: PendingDelivery) -> None:
        """Have the audit log note what left the gateway; out of a mailbox it is fetched."""
        entry = pending.outbox.entry
        if entry.target.scheme != MAILBOX_SCHEME:
            to = shown(entry.target.url)
            for one in pending.carried:
                event = one.message.notification
                self._audit.note_documents("gateway", "", DELIVERED, event, to=to)

    def _note(
        self, pending: PendingDelivery, outcome: Outcome, wall: float, seconds: float
    ) -> None:
        """Keep how an attempt ended at *wall* that took so many *seconds*."""
        verdict = outcome.verdict
        error = None if verdict is Verdict.DELIVERED else outcome.failure_text
        message = pending.message.notification.id
        number = len(pending.batch) or 1
        subscription = pending.outbox.entry.subscription.id
        attempt = (
            wall, seconds, _WORDS[verdict], outcome.status, error, outcome.detail, message,
            number, False,
        )  # fmt: skip
        self.attempts.note(subscription, attempt)
        if self.taps.watchers and not pending.heartbeat:
            for one in pending.carried:
                self.taps.attempted(one.message.notification, subscription, attempt)

    @property
    def checks_rights(self) -> bool:
        """True if subscribers may lose rights to what waits for them."""
        return self._attempts.checks_rights

    def is_withdrawn(self, pending: PendingDelivery) -> bool:
        """See `Attempts.is_withdrawn`."""
        return self._attempts.is_withdrawn(pending)

    def may_follow(self, outbox: Outbox) -> bool:
        """See `Attempts.may_follow`."""
        return self._attempts.may_follow(outbox)

    def _agree(self, destination: OutboxDestination) -> None:
        """Note that the host of *destination* has accepted its first message."""
        destination.agree()
        self.agree(destination.name, destination.address)

    def agree(self, name: Name, address: str = "") -> None:
        """Note that the host at *name*, which led to *address*, accepted a message, and send what
        waits for it."""
        if self._probations is None:
            return
        for free in self._probations.agree(name, address):
            destination = self._destinations.get((free.name, free.tenant))
            if destination is not None:
                self._turn(destination)
        self._pump()

    def obey(self, outboxes: Iterable[Outbox], hosts: Collection[str]) -> list[Outbox]:
        """Do what operators have decided about *hosts* now, at the destinations that there are, and
        at those of *outboxes*, which are all. Returns those of them that may send no more."""
        now, silenced = self._loop.time(), []
        there = [one for one in self._destinations.values() if one.name[1] in hosts]
        for destination in there:
            destination.forbid(self._decisions.forbids(destination.name[1]))
        for outbox in outboxes:
            destination = outbox.destination
            if destination.name[1] not in hosts:
                continue
            if destination.forbidden:
                silenced.append(outbox)
            elif self._probations is not None:
                self._probations.reconsider(destination, outbox.entry.subscription.owner, now)
        if self._probations is not None:
            for host in hosts:
                if self._decisions.approves(host):
                    list(self._probations.release(host))
        for destination in there:
            self._turn(destination)
        self._pump()
        return silenced

    def _release(self, pending: PendingDelivery) -> None:
        del self._in_flight[pending]
        self._octets -= pending.carried_octets if pending.batch else pending.octets
        if pending.outbox.release(pending):
            self._slots += 1

    def _tick(self, late: bool) -> None:
        """Take the slots of attempts that are no longer young, and tell owners of stalled ones."""
        self._stalled = late and not self._stalled
        if self._stalled:
            self._stall_timer.start()
            return
        now = self._loop.time()
        patiences: dict[tuple[Owner, str], float] = {}
        freed = False
        for pending in list(self._in_flight):
            age = now - pending.started
            if age < TICK:
                break
            owner = pending.outbox.owner
            tenant = pending.outbox.destination.tenant
            patience = patiences.get((owner, tenant))
            if patience is None:
                patience = patiences[owner, tenant] = owner.patience_for(tenant)
            if age >= YOUNG and pending.give_slot():
                self._slots += 1
                freed = True
            if age >= patience and pending.stall():
                owner.stalled(pending.outbox)
                for waiting in list(pending.outbox.destination.queue):
                    waiting.owner.stalled(waiting)
        if self._octets >= MAX_OCTETS:
            self._make_place(now)
        if self._in_flight:
            self._stall_timer.start()
        if freed:
            self._pump()

    def _make_place(self, now: float) -> None:
        """Give up the oldest attempts until there is room for new ones."""
        left = self._octets
        for pending, task in self._in_flight.items():
            if left < MAX_OCTETS or now - pending.started < CUT_AFTER:
                return
            left -= pending.carried_octets
            if pending not in self._cut:
                self._cut.add(pending)
                task.cancel()

    async def stop(self, seconds: float, owner: Owner) -> None:
        """Give what *owner* has under way *seconds* to end, then cancel it."""
        mine = {
            pending: flight
            for pending, flight in self._in_flight.items()
            if pending.outbox.owner is owner
        }
        end = self._loop.time() + seconds
        tasks = [flight for flight in mine.values() if isinstance(flight, asyncio.Task)]
        if tasks:
            _, running = await asyncio.wait(tasks, timeout=seconds)
            for task in running:
                task.cancel()
            if running:
                await asyncio.wait(running)
        posted = [
            pending for pending, flight in mine.items() if not isinstance(flight, asyncio.Task)
        ]
        if self._stopping is None:  # Else another owner stops, and waits for the same event.
            self._stopping = asyncio.Event()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(end):
                while any(pending in self._in_flight for pending in posted):
                    self._stopping.clear()
                    await self._stopping.wait()
        for pending in posted:
            if pending in self._in_flight:
                self._release(pending)
                mine[pending].cancel()
