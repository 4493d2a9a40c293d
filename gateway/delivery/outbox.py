"""Outboxes: the deliveries under way for each subscription, and every change of them.

A delivery, one message for one subscription, is in one of four states, which `states` draws;
nothing but the methods of `Outbox` makes a transition.

A healthy delivery goes from LIVE to DONE and writes no row.

Deliveries of an outbox stand in three places, in this order: under way (``in_flight``); rows of the
store, of which the first are in memory, too (``held``, ``holding``, ``loaded``); and what is in
memory alone (``live``).
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Protocol

from gateway.delivery.batching import goes_alone, most_elements, number_beside
from gateway.delivery.consequences import UNTIL_ENDED
from gateway.delivery.destinations.breaker import FAILURES, FIRST_PROBE, Breaker
from gateway.delivery.destinations.destination import Destination
from gateway.delivery.entry import Entry
from gateway.delivery.partition_share import PartitionShare
from gateway.delivery.pending import Message, Pending
from gateway.delivery.sequences.unsaved_numbers import UnsavedNumbers
from gateway.delivery.states import TRANSITIONS, Event, State
from gateway.delivery.timers import Timed
from gateway.delivery.verdicts import Outcome
from gateway.egress import FailureKind, Lane
from mediation.model.delivery_modes import Oversize
from mediation.model.messages import Notification

WINDOW = 32
"""Deliveries of one subscription in memory."""
UNORDERED_WIDTH = 8
"""Deliveries of one subscription in flight at a time, where they need not arrive in order."""
LANE_WIDTH = 8
"""The same where they must, on one lane, which keeps the order of what is posted on it."""
SOON = 1.0
"""Seconds within which the backlog can be sent."""
PACE_WEIGHT = 0.2
"""Of the last attempt in the moving average of an outbox's pace."""

_NOTHING = Notification("", "", b"", datetime.min.replace(tzinfo=UTC))
"""The event of a heartbeat, which carries no event."""


class PendingDelivery(Pending["Outbox"]):
    """One message for one subscription. Times are POSIX seconds."""

    __slots__ = ()


class Owner(Protocol):
    """The port to the dispatcher that an outbox belongs to: what the scheduler asks, and tells."""

    def next(self, outbox: "Outbox") -> PendingDelivery | None:
        """The delivery that *outbox* sends now, if any."""

    def completed(self, pending: PendingDelivery, outcome: Outcome) -> None:
        """Go on after an attempt that is over."""

    def stalled(self, outbox: "Outbox") -> None:
        """Go on though an attempt of *outbox*, or of a neighbour at its destination, takes long."""

    def patience_for(self, tenant: str) -> float:
        """Seconds after which an attempt for *tenant* counts as stalled."""

    @property
    def share(self) -> PartitionShare:
        """The part of the work that is its."""


class Outbox(Timed):
    """The deliveries of one subscription, in order.

    While many rows wait, or its consumer is in trouble, new deliveries become rows, too.
    """

    __slots__ = (
        "batched", "beats", "behind", "breaker", "destination", "entry", "failing_keys",
        "gathers_until", "held", "holding", "in_flight", "keyed", "lane", "live", "loaded",
        "loading", "octets", "one_by_one", "owner", "pace", "queued", "rows_changed", "smooth",
        "unsaved_numbers", "until", "width",
    )  # fmt: skip

    def __init__(
        self,
        entry: Entry,
        destination: "Destination[Outbox]",
        owner: Owner,
        probe: float = FIRST_PROBE,
        rows_changed: Callable[[int, int], None] | None = None,
    ) -> None:
        self.timer = None
        self.rings_at = 0.0
        self.entry = entry
        self.owner = owner
        self.failing_keys: set[str | None] = set()
        """Keys that the consumer refused for now since the last success: several are a consumer in
        trouble."""
        self.batched = entry.delivery.batched
        """One message has several deliveries."""
        delivery = entry.delivery
        # An event that is too large ends the subscription: none behind it may overtake it.
        self.one_by_one = delivery.oversize is Oversize.CANCEL
        """None may be sent before it is known what became of the one before it."""
        self.keyed = bool(entry.subscription.policy.order_key)
        """Those of one key are sent in order, and those of different keys side by side."""
        in_turn = (
            (entry.subscription.policy.ordered and not self.keyed)
            or delivery.acknowledged
            or bool(delivery.reliable)
            or self.one_by_one
        )
        self.width = 1 if in_turn else UNORDERED_WIDTH
        """How many may be in flight at a time, each by itself."""
        self.destination = destination
        self.live: deque[PendingDelivery] = deque()
        self.loaded: deque[PendingDelivery] = deque()
        self.in_flight: set[PendingDelivery] = set()
        self.held = 0
        self.rows_changed = rows_changed
        """Called with the number of its rows before it changes, and then; None: nobody counts."""
        self.holding = 0
        self.octets = 0
        """Bytes of the held deliveries."""
        self.until = 0.0
        """Before this time of the event loop's clock nothing of the store is sent."""
        self.gathers_until: float | None = None
        """Before this time of the loop's clock a batch waits for more; None: no batch waits."""
        self.breaker = Breaker(probe)
        self.unsaved_numbers: UnsavedNumbers | None = None
        """Numbers of its sequence in memory, where it has one."""
        self.behind = False
        """All rows are of keys that are under way: none can be loaded before one of these ends."""
        self.lane: Lane | None = None
        """On which the last of what is in flight was posted, where it keeps the order."""
        self.loading = False
        """The first of its rows are being read, or cut off."""
        self.queued = False
        """The outbox stands in the queue of its destination."""
        self.beats = False
        """A heartbeat waits for its turn."""
        self.smooth = False
        """The last attempt succeeded: more than one is loaded at a time."""
        self.pace = 0.0
        """Seconds that an attempt takes, on a moving average."""

    # Its state.

    @property
    def stored(self) -> bool:
        """True if a delivery of it waits in the store, or is about to."""
        return bool(self.held or self.holding)

    @property
    def waiting(self) -> int:
        """Count the deliveries that wait, in the store or in memory alone."""
        return self.held + self.holding + len(self.live)

    @property
    def catches_up(self) -> bool:
        """True if the deliveries in the store will be gone within `SOON`, so that new ones may
        stay in memory behind them.

        Without this a consumer that was late once would never be in time again: each new message
        stands behind rows, so it becomes a row, and all of a broker's queue moves into the store,
        a transaction for each message. The product of rows and pace is the time that they take;
        where several are sent at a time there is no such estimate, nor an order to keep.
        """
        return self.smooth and self.width == 1 and (self.held + self.holding) * self.pace <= SOON

    @property
    def ready(self) -> bool:
        """True if nothing waits to be sent: a new delivery has its turn at once."""
        return not (
            self.live or self.loaded or self.held or self.holding or self.loading or self.queued
            or self.breaker.until is not None
        )  # fmt: skip

    @property
    def idle(self) -> bool:
        """True if nothing is under way, and nothing waits."""
        return not (
            self.live or self.loaded or self.in_flight or self.held or self.holding
            or self.loading or self.beats
        )  # fmt: skip

    @property
    def may_go_on(self) -> bool:
        """True if the first delivery in memory alone stands behind no other of this outbox."""
        return not (
            not self.live or self.held or self.holding or self.loaded or self.loading
            or self.queued or self.batched or self.breaker.until is not None or self.entry.silent
        )  # fmt: skip

    @property
    def must_load(self) -> bool:
        """True if the next delivery is a row that is not in memory."""
        if self.keyed and not self.loaded:  # Rows under way stay rows.
            return not self.behind and self.held + self.holding > len(self.in_flight)
        return self.stored and not self.loaded

    @property
    def has_room(self) -> bool:
        """True if one more may be in flight: beside others, or in order behind others on a lane."""
        in_flight = len(self.in_flight)
        if in_flight < self.width:
            return True
        return (
            self.lane is not None and in_flight < LANE_WIDTH and self.smooth and not self.stored
            and not self.loaded and not self.one_by_one
        )  # fmt: skip

    # New deliveries.

    def append(self, pending: PendingDelivery) -> None:
        """Keep a new delivery in memory, behind the others."""
        self.live.append(pending)

    def find_rows(self, count: int, octets: int, until: float) -> None:
        """Take on the rows of an earlier run, of which none is sent before *until*."""
        self._set_rows(count, octets)
        self.until = until

    def add_rows(self, count: int, octets: int, now: float) -> None:
        """Take on rows that somebody else added to the store, and send them from *now* on."""
        self._set_rows(self.held + count, self.octets + octets)
        self.until = now
        self.behind = False

    def want_heartbeat(self) -> None:
        """Let a heartbeat, which nothing of it is in the way of, wait for its turn."""
        self.beats = True
        self.destination.heartbeats += 1

    def take_heartbeat(self, now: float) -> "PendingDelivery | None":
        """Take the heartbeat whose turn it is, if one waits. It may be a breaker's probe."""
        if not self.drop_heartbeat():
            return None
        self.breaker.probing(now)
        return PendingDelivery(Message(_NOTHING, None), self, 0, 0.0, State.DONE)

    def drop_heartbeat(self) -> bool:
        """Let none wait: an event goes instead, or nothing may. Returns whether one did."""
        if not self.beats:
            return False
        self.beats = False
        self.destination.heartbeats -= 1
        return True

    # Batches.

    def gather(self, now: float) -> None:
        """Let the first that comes wait for others of its batch, unless something waits."""
        if not self.waiting:
            self.gathers_until = now + (self.entry.delivery.max_time or 0.0)

    def gathering(self, now: float, room: int) -> float:
        """Seconds for which the batch that is next, with events of *room* octets at most, waits for
        more deliveries."""
        if self.gathers_until is None or self.waiting >= most_elements(self.entry.delivery):
            return 0.0
        octets = self.octets + sum([pending.octets for pending in self.live])
        return 0.0 if octets >= room else self.gathers_until - now

    def hurry(self) -> None:
        """Wait for no more deliveries of the batch that is next."""
        self.gathers_until = None

    def take_batch(self, first: PendingDelivery, room: int) -> None:
        """Let the attempt of *first* carry as many of those behind it as go into one message with
        events of *room* octets."""
        source = self.loaded if first.state is State.HELD else self.live
        number = number_beside(first, source, most_elements(self.entry.delivery), room)
        batch = (first, *(source.popleft() for _ in range(number)))
        if first.state is State.HELD and not goes_alone(self.loaded):
            self.loaded.clear()  # The next batch is as many rows as there are by then.
        for pending in batch:
            pending.batch = batch
            pending.counts = first.counts
        if self.live and first.state is State.LIVE:
            arrived = self.live[0].message.arrived
            self.gathers_until = arrived + (self.entry.delivery.max_time or 0.0)
        elif first.state is State.LIVE or self.held + self.holding <= len(batch):
            self.gathers_until = None

    # Keys.

    def may_start(self, pending: PendingDelivery) -> bool:
        """True if no delivery of the key of *pending* is under way; always, where there are no
        keys. Else its consumer might get it first."""
        return not self.keyed or all(pending.order_key != one.order_key for one in self.in_flight)

    def _take_first(self, waiting: deque[PendingDelivery]) -> PendingDelivery | None:
        """Take the first of *waiting* that may start."""
        if not self.keyed:
            return waiting.popleft() if waiting else None
        busy = {one.order_key for one in self.in_flight}
        for number, pending in enumerate(waiting):
            if pending.order_key not in busy:
                del waiting[number]
                return pending
        return None

    # Into the store.

    def hold(self, failed: Sequence[PendingDelivery] = ()) -> list[PendingDelivery]:
        """Take all that is in memory alone, and what *failed* with it, on the way into the store.
        Returns it in its order."""
        deliveries = [pending for pending in self.in_flight if pending.state is State.LIVE]
        deliveries += failed
        deliveries += self.live
        self.live.clear()
        for pending in deliveries:
            pending.happens(Event.HOLD)
        self.holding += len(deliveries)
        deliveries.sort(key=lambda pending: pending.position)
        return deliveries

    def spill(self) -> list[PendingDelivery]:
        """Hold all, and keep nothing in memory but attempts under way."""
        deliveries = self.hold()
        self.loaded.clear()
        return deliveries

    def hold_new(self) -> None:
        """Count a new delivery that goes to the store at once, behind the others."""
        self.holding += 1

    def store(self, pending: PendingDelivery, *, new: bool) -> Outcome | None:
        """Note that the row of *pending* is in the store; not *new*: it was before, or the
        subscription is no more. Returns the outcome of its attempt, if that ended meanwhile."""
        pending.happens(Event.STORED if new else Event.ALREADY_THERE)
        self.store_new(pending.octets if new else None)
        outcome, pending.outcome = pending.outcome, None
        return outcome

    def store_new(self, octets: int | None) -> None:
        """Note that a row is there, with its bytes; None: it was there already."""
        self.holding -= 1
        if octets is not None and not self.entry.ended:
            self._set_rows(self.held + 1, self.octets + octets)
            if self.width > 1:
                self.until = 0.0  # Others of it are due before those that wait.
                self.behind = False

    # Out of the store.

    def begin_load(self) -> None:
        """Begin to read the first rows. Meanwhile the outbox takes one of its destination's places,
        so that no more are loaded than can be sent."""
        self.loading = True
        self.destination.loading += 1

    def end_load(
        self,
        loaded: Iterable[PendingDelivery],
        *,
        found: bool,
        until: float | None,
        behind: bool = False,
    ) -> None:
        """Take the first rows into memory; where none was *found*, *until* says when one is due,
        or they are *behind* what is under way."""
        self.cancel_load()
        self.loaded.extend(loaded)
        self.behind = behind
        if until is not None:
            self.until = until
        elif not (found or behind or self.holding):
            self._set_rows(0, 0)

    def cancel_load(self) -> None:
        """Give the place back that `begin_load` took."""
        self.loading = False
        self.destination.loading -= 1

    def begin_burial(self) -> None:
        """Begin to move the oldest rows to the dead letters; nothing is sent meanwhile."""
        self.loading = True
        self.loaded.clear()

    def end_burial(self, number: int, octets: int) -> None:
        """Note that so many rows, with so many bytes, were moved to the dead letters."""
        self.loading = False
        if not self.entry.ended:
            self._set_rows(self.held - number, self.octets - octets)

    # An attempt.

    def take_next(self, now: float, wall: float) -> PendingDelivery | None:
        """Take the delivery that is sent next: a row before a delivery in memory alone."""
        if self.loaded:
            loaded = self._take_first(self.loaded)
            if loaded is not None:
                self.breaker.probing(now)
                loaded.counts = wall >= loaded.due
            return loaded
        return self._take_first(self.live)

    def upcoming(
        self, most: int, unsendable: Callable[[PendingDelivery], bool]
    ) -> list[PendingDelivery]:
        """Deliveries in memory that are sent next, in order, each by itself; without those that are
        *unsendable*."""
        if self.batched:
            return []
        waiting = islice(self.live if not self.stored else self.loaded, most)
        return [one for one in waiting if not unsendable(one)]

    def take_live(self) -> PendingDelivery | None:
        """Take the first delivery in memory alone that may start; None: those of its key are under
        way."""
        return self._take_first(self.live)

    def put_back(self, pending: PendingDelivery) -> None:
        """*pending*, from `take_live`, could not be sent."""
        self.live.appendleft(pending)

    def start(self, pending: PendingDelivery, now: float) -> None:
        """Begin an attempt."""
        if pending.batch:
            self.in_flight.update(pending.batch)
        else:
            self.in_flight.add(pending)
        pending.started = now
        pending.slot = True
        self.destination.start(now)
        if self.entry.rate:
            self.entry.state.start(now, self.entry.rate)

    def use_lane(self, lane: Lane | None) -> None:
        """Remember the *lane* of an attempt, which keeps the order, so that others may follow; None
        where it went by none that does."""
        self.lane = lane

    def hasten(self, now: float) -> None:
        """Let the next attempt begin *now*: its consumer has just shown itself."""
        self.until = min(self.until, now)
        self.breaker.hasten(now)
        self.destination.breaker.hasten(now)

    def note_answer(self, pending: PendingDelivery, now: float) -> bool:
        """Note that an attempt ended with an answer that is final, whatever it says. Returns
        whether it is the first one after some failures."""
        recovered = self.entry.state.failing_attempts >= FAILURES
        self.smooth = True
        self.pace += PACE_WEIGHT * (now - pending.started - self.pace)
        self.entry.state.failing_attempts, self.entry.state.failing_since = 0, None
        self.entry.state.timeouts = 0
        self.failing_keys.clear()
        self.breaker.succeeded()
        return recovered

    def note_failure(self, pending: PendingDelivery, outcome: Outcome, now: float) -> None:
        """Note that an attempt of *pending* failed, so that it is tried again."""
        self.smooth = False
        self.entry.state.failing_attempts += 1
        self.entry.state.timeouts += outcome.failure is FailureKind.TIMEOUT
        self.entry.state.failing_since = self.entry.state.failing_since or now
        at_least = outcome.retry_after or 0.0
        if outcome.connecting or self.entry.delivery.at_most_once:
            return
        if self.keyed and outcome.answered and not (self.breaker.open or at_least):
            if pending.order_key in self.failing_keys:
                return  # One key that fails again and again holds up no others.
            self.failing_keys.add(pending.order_key)
        self.breaker.failed(now, at_least=at_least)

    def rest(self, seconds: float, now: float) -> None:
        """Send nothing for *seconds*, for which the subscription is black-listed."""
        self.entry.state.rests_until = now + seconds
        self.breaker.failed(now, at_least=seconds)

    def wait_for_end(self, why: str, now: float) -> None:
        """Send nothing for `UNTIL_ENDED`, in which the subscription is to end."""
        self.entry.state.ending = why
        self.breaker.failed(now, at_least=UNTIL_ENDED)

    def wait_for_row(self, pending: PendingDelivery, outcome: Outcome) -> None:
        """Keep the outcome of an attempt that ended before its row is there: until then *pending*
        keeps its place."""
        pending.outcome = outcome

    def release(self, pending: PendingDelivery) -> bool:
        """Give back what an attempt took of the destination. Returns whether it had a slot of the
        scheduler."""
        self.destination.active -= 1
        had, pending.slot = pending.slot, False
        return had

    def finish(self, pending: PendingDelivery) -> Sequence[PendingDelivery]:
        """Remove from those in flight all deliveries that the attempt of *pending* carried. Returns
        those that have not come to their end."""
        if self.keyed:  # The next one of its key need not wait until it is looked at again.
            self.until = 0.0
            self.behind = False
        if not pending.batch:
            self.in_flight.discard(pending)
            return () if pending.state is State.DONE else (pending,)
        carried = pending.batch
        self.in_flight.difference_update(carried)
        for one in carried:
            one.batch = ()
        return [one for one in carried if one.state is not State.DONE]

    # The end of a delivery.

    def deliver(self, pending: PendingDelivery) -> bool:
        """End *pending*, which was delivered. Returns whether it was a row, to be removed."""
        held = pending.state is State.HELD
        pending.state = TRANSITIONS[pending.state, Event.DELIVERED]
        if held:
            self._remove_row(pending)
        return held

    def bury(self, pending: PendingDelivery) -> bool:
        """End *pending*, which becomes a dead letter. Returns whether it was a row."""
        held = pending.state is State.HELD
        pending.happens(Event.BURIED)
        if held:
            self._remove_row(pending)
        return held

    def take_unsendable(
        self, unsendable: Callable[[PendingDelivery], bool]
    ) -> list[PendingDelivery]:
        """Take what would be sent next, but is *unsendable*."""
        taken = []
        for waiting in (self.loaded, self.live):
            while waiting and unsendable(waiting[0]):
                taken.append(waiting.popleft())
            several = self.batched or self.keyed
            if several and any(unsendable(one) for one in waiting):
                taken += [one for one in waiting if unsendable(one)]
                left = [one for one in waiting if not unsendable(one)]
                waiting.clear()
                waiting.extend(left)
        return taken

    def expire(self, pending: PendingDelivery) -> bool:
        """End *pending*, whose event's life is over. Returns whether it was a row, to be
        removed."""
        held = pending.state is State.HELD
        pending.happens(Event.EXPIRED)
        if held:
            self._remove_row(pending)
        return held

    def drop(self, pending: PendingDelivery) -> bool:
        """End *pending*, whose subscription has ended. Returns whether it was in memory alone: a
        row goes with the subscription."""
        live = pending.state is State.LIVE
        pending.happens(Event.DROPPED)
        return live

    def postpone(self, pending: PendingDelivery, due: float, until: float) -> bool:
        """Put *pending* off until POSIX time *due*, which is *until* by the event loop's clock.
        Returns whether it is a row; else it must be held."""
        pending.due = due
        if self.width == 1:
            self.until = until
        if pending.state is not State.HELD:
            return False
        pending.happens(Event.POSTPONED)
        self.loaded.clear()
        return True

    def _remove_row(self, pending: PendingDelivery) -> None:
        if not self.entry.ended:
            self._set_rows(self.held - 1, self.octets - pending.octets)

    def _set_rows(self, number: int, octets: int) -> None:
        """Note how many rows there are, and their bytes."""
        if self.rows_changed is not None:
            self.rows_changed(self.held, number)
        self.held, self.octets = number, octets

    @property
    def spare_rows(self) -> int:
        """The rows that are not under way."""
        return self.held - sum(one.state is State.HELD for one in self.in_flight)

    # The end of its subscription, or of its partition.

    def end(self) -> list[PendingDelivery]:
        """Drop the deliveries to the subscription, which has ended; its rows have left the store.
        Returns those in memory alone; attempts under way go on."""
        dropped = self.drop_waiting()
        for pending in self.in_flight:
            if pending.state is State.HELD:
                pending.happens(Event.DROPPED)
        self.loaded.clear()
        self._set_rows(0, 0)
        self.drop_heartbeat()
        return dropped

    def drop_waiting(self) -> list[PendingDelivery]:
        """Drop the deliveries that wait in memory alone. Returns them."""
        dropped = list(self.live)
        self.live.clear()
        for pending in dropped:
            pending.happens(Event.DROPPED)
        return dropped

    def drop_in_flight(self) -> list[PendingDelivery]:
        """Wait for attempts under way no longer: the subscription has ended. Returns those of them
        that were in memory alone."""
        dropped = [pending for pending in self.in_flight if pending.state is State.LIVE]
        for pending in dropped:
            pending.happens(Event.DROPPED)
        return dropped

    def abandon(self) -> None:
        """Let go of everything: another gateway may have the partition."""
        for pending in self.in_flight:
            pending.happens(Event.ABANDONED)
        self.live.clear()
        self.loaded.clear()
        self.leave_rows()
        self.drop_heartbeat()

    def leave_rows(self) -> None:
        """Have its rows counted no longer: another gateway may have them."""
        if self.rows_changed is not None:
            self.rows_changed(self.held, 0)
            self.rows_changed = None


OutboxDestination = Destination[Outbox]
"""A destination, at which outboxes wait for their turn."""
