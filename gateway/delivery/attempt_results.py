"""The results of attempts: what `consequences` decides of each is done to the outbox, the backlog
and the settlement."""

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial

import structlog

from gateway.delivery.backlog import BacklogStorage
from gateway.delivery.batching import times_apart
from gateway.delivery.consequences import (
    Bury,
    Done,
    GiveUp,
    History,
    Rest,
    Retry,
    Split,
    Step,
    decide,
)
from gateway.delivery.entry import Entry
from gateway.delivery.outbox import PendingDelivery
from gateway.delivery.pending import Message
from gateway.delivery.retry_schedule import Schedule
from gateway.delivery.settlement import Settlement
from gateway.delivery.states import State
from gateway.delivery.verdicts import WITHDRAWN, Outcome, Verdict
from gateway.egress import FailureKind
from gateway.model.dead_letter_reasons import DeathReason
from gateway.security.resource_addresses import shown
from gateway.store import bookmarks
from mediation.model.delivery_modes import Oversize

_log = structlog.get_logger("dragoman.delivery")


class AttemptResults:
    """Does what attempts lead to.

    Args:
        give_up: Called with a subscription that ends, and why.
    """

    def __init__(
        self,
        settlement: Settlement,
        backlog: BacklogStorage,
        schedule: Schedule,
        *,
        give_up: Callable[[Entry, str], None],
    ) -> None:
        self._settlement = settlement
        self._backlog = backlog
        self._schedule = schedule
        self._give_up = give_up
        self._loop = asyncio.get_running_loop()

    def delivered(self, deliveries: Sequence[PendingDelivery], *, hurry: bool) -> None:
        """Note that *deliveries*, which one attempt carried, are made.

        Args:
            hurry: The messaging system waits for much that is not settled.
        """
        entry = deliveries[0].outbox.entry
        resolved: list[Message] = []
        rows: list[PendingDelivery] = []
        numbers = deliveries[0].outbox.unsaved_numbers
        if entry.delivery.bookmarks:
            self._acknowledge(entry, max(one.position for one in deliveries), resolved)
        for pending in deliveries:
            if pending.left_out:  # The consumer was told that it does not get the event.
                outcome = Outcome(Verdict.REJECTED, failure=FailureKind.TOO_LARGE)
                self._bury(pending, DeathReason.TOO_LARGE, outcome)
            elif pending.outbox.deliver(pending):
                rows.append(pending)
            elif entry.delivery.bookmarks:
                resolved.append(pending.message)
            elif numbers is not None:
                self._settlement.delivered(pending.message, entry)
                resolved.append(pending.message)
            else:
                self._settlement.resolved(pending.message, entry, "delivered")
        if numbers is not None:  # A repetition before the commit is recognised by the sequence.
            self._settlement.note(numbers, resolved, hurry=hurry)
        for pending in rows:
            self._backlog.delivered(pending)
            self._settlement.traces.delivered(pending.message.notification, entry.id)

    def expired(self, pending: PendingDelivery) -> None:
        """Note that nobody gets the event of *pending* any more: its life is over."""
        if pending.outbox.expire(pending):
            self._backlog.expire(pending)
        else:
            self._settlement.resolved(pending.message, pending.outbox.entry, "expired")

    def withdrawn(self, pending: PendingDelivery) -> None:
        """Note that the subscriber of *pending* has lost its right to the event. It is a dead
        letter: should the rules have said so by mistake, nothing is lost."""
        entry = pending.outbox.entry
        if entry.ended or entry.delivery.at_most_once:
            if pending.outbox.drop(pending):
                self._settlement.resolved(pending.message, entry, "cancelled")
        else:
            self._bury(pending, DeathReason.RIGHT_WITHDRAWN, WITHDRAWN)

    def again(self, deliveries: Sequence[PendingDelivery]) -> None:
        """Have *deliveries* of one attempt, which sent nothing, tried at once."""
        self._retry(deliveries, [time.time()] * len(deliveries))

    def failed(self, deliveries: Sequence[PendingDelivery], outcome: Outcome) -> None:
        """Do what the failed attempt of *deliveries* leads to."""
        schedule = self._schedule.wanted_by(deliveries[0].outbox.entry.delivery)
        history = self._history(deliveries, outcome, schedule)
        for step in decide(outcome, history, schedule, now=time.time()):
            self._take(step, deliveries, outcome)

    def _history(
        self, deliveries: Sequence[PendingDelivery], outcome: Outcome, schedule: Schedule
    ) -> History:
        """Count a failed attempt of *deliveries*, and say what went before it: what they were
        through together the first tells for all."""
        pending = deliveries[0]
        outbox, entry = pending.outbox, pending.outbox.entry
        delay: float | None
        if pending.counts or outcome.verdict is not Verdict.RETRY:
            for one in deliveries:
                one.count_attempt(answered=outcome.answered)
            delay = schedule.next(pending.attempts)
        else:
            delay = max(0.0, pending.due - time.time())
        since = entry.state.failing_since
        return History(
            attempts=pending.attempts,
            answered=pending.answered,
            delay=delay,
            since=pending.since,
            behind=outbox.waiting - sum(one.state is State.HELD for one in deliveries),
            ended=entry.ended,
            failing_for=0.0 if since is None else self._loop.time() - since,
            failing_attempts=entry.state.failing_attempts,
            cancels=entry.delivery.oversize is Oversize.CANCEL,
            together=len(deliveries),
            unbroken=bool(entry.delivery.reliable),
            timeouts=entry.state.timeouts,
            once=entry.delivery.at_most_once,
        )

    def _take(self, step: Step, deliveries: Sequence[PendingDelivery], outcome: Outcome) -> None:
        """Do one thing that an attempt of *deliveries* led to."""
        match step:
            case Done(total):
                for pending in deliveries:
                    if pending.outbox.drop(pending):
                        self._settlement.resolved(pending.message, pending.outbox.entry, total)
            case Retry(at):
                self._retry(deliveries, [at] * len(deliveries))
            case Split(at):
                deliveries[0].outbox.hurry()
                self._retry(deliveries, times_apart(at, len(deliveries)))
            case Bury(reason):
                for pending in deliveries:
                    self._bury(pending, reason, outcome)
            case Rest(seconds):
                outbox = deliveries[0].outbox
                outbox.rest(seconds, self._loop.time())
                _log.warning(
                    "delivery.black-listed",
                    subscription=outbox.entry.id,
                    consumer=shown(outbox.entry.target.url),
                    timeouts=outbox.entry.state.timeouts,
                    seconds=seconds,
                )
            case GiveUp(text, at_once):
                outbox = deliveries[0].outbox
                if at_once:
                    outbox.wait_for_end(text, self._loop.time())
                self._give_up(outbox.entry, text)

    def _bury(self, pending: PendingDelivery, reason: DeathReason, outcome: Outcome) -> None:
        death = self._backlog.bury(pending, reason, outcome)
        _log.warning(
            "delivery.dead",
            subscription=death.subscription,
            delivery=death.delivery_id,
            message=pending.message.notification.id,
            reason=reason.value,
            failure=death.failure,
        )

    def _acknowledge(self, entry: Entry, position: int, resolved: Sequence[Message]) -> None:
        """Keep that the sink of *entry*, which has bookmarks, has acknowledged all up to
        *position*.

        Only then are messages settled that are *resolved* with it, or rows removed: a bookmark
        before it is refused for ever, also after a crash, for nothing behind it would come again.
        """
        entry.state.acknowledged = max(entry.state.acknowledged, position)

        def kept(_: None) -> None:
            for message in resolved:
                self._settlement.resolved(message, entry, "delivered")

        operation = partial(bookmarks.acknowledge, subscription=entry.id, position=position)
        self._settlement.submit(operation, kept)

    def _retry(self, deliveries: Sequence[PendingDelivery], times: Iterable[float]) -> None:
        """Put *deliveries* off, each until its one of *times*."""
        outbox = deliveries[0].outbox
        to_loop_time = self._loop.time() - time.time()
        failed = []
        for pending, at in zip(deliveries, times, strict=True):
            if outbox.postpone(pending, at, at + to_loop_time):
                self._backlog.postpone(pending)
            else:
                failed.append(pending)
        self._backlog.hold_outbox(outbox, failed)  # And what stands behind it in memory.
