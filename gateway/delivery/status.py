"""The status of the deliveries of one subscription, for operators: what went wrong last, and when
the next attempt is made.

The status lives in the memory of the gateway that delivers. After a restart a subscription whose
oldest delivery had failed counts as failing, with an error that is not known any more.
"""

import asyncio
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

import structlog

from gateway.delivery.destinations.breaker import Breaker
from gateway.delivery.destinations.failures import FailureCounts, Trouble
from gateway.delivery.entry import Entry
from gateway.delivery.outbox import Outbox
from gateway.delivery.verdicts import Outcome
from gateway.observing.system_events import FAILING, RECOVERED, SystemEvents
from gateway.token_bucket import TokenBucket

LINES, LINES_AT_ONCE = 5.0, 50.0
"""Lines about subscriptions that begin to fail, or recover, that the log gets: a second, at once.
What is left out is counted in the next line."""
OF_DESTINATION = 5
"""Subscriptions of one destination that the log names when it fails, until it recovers."""
LONGEST = 300
"""Characters of an error that are kept."""
_log = structlog.get_logger("dragoman.delivery")


class Condition(Enum):
    """The condition of a subscription: the first thing that an operator asks."""

    ACTIVE = "active"
    PAUSED = "paused"
    EXPIRED = "expired"
    """Its lease is over, but it may still be renewed."""
    FAILING = "failing"
    """The last attempt failed; or so many did, its own or of others to its host, that nothing is
    sent but a probe, or nothing at all for a while."""
    UNKNOWN = "unknown"
    """Other replicas deliver for it, too, and only they know."""


@dataclass(frozen=True, slots=True)
class DeliveryStatus:
    """The status of a subscription at one moment. Times are POSIX seconds; None: not known.

    ``next_attempt`` is when the first of what waits may be sent; ``breaker_until`` when the probe
    of an open breaker is due. ``elsewhere`` says which other replicas deliver for it.
    """

    state: Condition
    failures: int = 0
    last_error: str | None = None
    last_error_at: float | None = None
    last_attempt: float | None = None
    next_attempt: float | None = None
    breaker_until: float | None = None
    elsewhere: tuple[str, ...] = ()
    on_probation: bool = False
    """Its host never accepted a message: it gets few."""
    black_listed_until: float | None = None
    """Until then nothing is sent after time-outs, and each message is a dead letter."""


def status_of(
    entry: Entry, outboxes: list[Outbox], elsewhere: tuple[str, ...] = ()
) -> DeliveryStatus:
    """The status of *entry*, whose *outboxes* are those that this gateway has."""
    loop_now, now = asyncio.get_running_loop().time(), time.time()

    def wall(at: float) -> float:
        return now + at - loop_now

    breakers = [
        breaker.until
        for outbox in outboxes
        for breaker in _breakers(outbox)
        if breaker.until is not None
    ]
    black_listed = entry.state.rests_until if entry.state.rests_until > loop_now else None
    if black_listed is not None:  # Its outbox may be forgotten, and its breaker with it.
        breakers.append(black_listed)
    waiting = [outbox for outbox in outboxes if outbox.stored or outbox.live or outbox.loaded]
    attempts = [
        max((one.until for one in _breakers(outbox) if one.until is not None), default=outbox.until)
        for outbox in waiting
        if not outbox.in_flight
    ]
    trouble = entry.state.trouble
    error = trouble
    if breakers and (trouble is None or not trouble.failures):  # It has made no attempt itself.
        error = next(
            (one.destination.trouble for one in outboxes if one.destination.trouble), error
        )
    if entry.subscription.policy.paused:
        state = Condition.PAUSED
    elif entry.halted:
        state = Condition.EXPIRED
    elif breakers or is_troubled(entry, loop_now):
        state = Condition.FAILING
    else:
        state = Condition.UNKNOWN if elsewhere else Condition.ACTIVE
    return DeliveryStatus(
        state,
        trouble.failures if trouble else 0,
        error.error if error else None,
        error.at if error else None,
        entry.state.attempted or None,
        max(now, wall(min(attempts))) if attempts and not entry.silent else None,
        wall(min(breakers)) if breakers else None,
        elsewhere,
        any(outbox.destination.probation is not None for outbox in outboxes),
        wall(black_listed) if black_listed is not None else None,
    )


def is_troubled(entry: Entry, now: float) -> bool:
    """True if the last attempt of *entry* failed, or it is left alone after such; *now* is the
    event loop's time."""
    return (
        entry.state.trouble is not None and entry.state.trouble.failures > 0
    ) or entry.state.rests_until > now


def failing_among(entries: Iterable[Entry], outboxes: Iterable[Outbox], now: float) -> list[Entry]:
    """Select the failing ones of *entries*, as `status_of` says; *outboxes* are all outboxes.
    It may run in a thread, on copies of both."""
    held_up = {outbox.entry for outbox in outboxes if is_held_up(outbox)}
    return [
        entry
        for entry in entries
        if (entry in held_up or is_troubled(entry, now))
        and not (entry.halted or entry.subscription.policy.paused)
    ]


def is_held_up(outbox: Outbox) -> bool:
    """True if a breaker holds *outbox* up."""
    return any(breaker.until is not None for breaker in _breakers(outbox))


def _breakers(outbox: Outbox) -> Iterator[Breaker]:
    """The breakers that can hold *outbox* up: its own, its destination's and its probation's."""
    yield outbox.breaker
    yield outbox.destination.breaker
    if outbox.destination.probation is not None:
        yield outbox.destination.probation.breaker


class Troubles:
    """Notes how attempts end, and tells the log of the first that fails and of the recovery.

    Args:
        system_events: Told of the same.
        quotes_answers: Errors say what the consumer answered; not where fields of messages are
            hidden from operators, which it may have repeated.
    """

    def __init__(self, system_events: SystemEvents, *, quotes_answers: bool = True) -> None:
        self._system_events = system_events
        self._quotes_answers = quotes_answers
        self._lines = TokenBucket(LINES, LINES_AT_ONCE)
        self._left_out = 0
        self.counts = FailureCounts()
        """By destination."""

    def failed(self, outbox: Outbox, outcome: Outcome) -> None:
        """An attempt of *outbox* failed, whether it is tried again or not."""
        entry, destination, now = outbox.entry, outbox.destination, time.time()
        text = outcome.failure_text or "failed"
        if self._quotes_answers and outcome.detail.strip():
            text = f"{text}: {' '.join(outcome.detail.split())}"
        error = text[:LONGEST]
        self.counts.note(_host(outbox), error, now, destination.tenant)
        entry.state.attempted = now
        trouble = entry.state.trouble
        if trouble is None or not trouble.failures:
            trouble = entry.state.trouble = Trouble(0, now, now, error)
        trouble.failed(error, now)
        if outcome.connecting:
            destination.note_trouble(error, now)
        if trouble.failures == 1:
            fields = {"consumer": _host(outbox), "error": error}
            self._system_events.tell_of(entry.subscription, FAILING, **fields)
        if trouble.failures == 1 and destination.named < OF_DESTINATION:
            destination.name_failing(1)
            trouble.said = self._say("delivery.failing", outbox, reason=error)

    def succeeded(self, outbox: Outbox) -> None:
        """An attempt of *outbox* succeeded."""
        entry = outbox.entry
        trouble = entry.state.trouble
        outbox.destination.clear_trouble()
        if trouble is None or not trouble.failures:
            return
        failures, trouble.failures = trouble.failures, 0
        fields = {"consumer": _host(outbox), "failures": failures}
        self._system_events.tell_of(entry.subscription, RECOVERED, **fields)
        if trouble.said:
            trouble.said = False
            outbox.destination.name_failing(-1)
            self._say(
                "delivery.recovered",
                outbox,
                failures=failures,
                seconds=round(time.time() - trouble.since, 1),
            )

    def _say(self, event: str, outbox: Outbox, **fields: object) -> bool:
        if not self._lines.allows("", time.monotonic()):
            self._left_out += 1
            return False
        if self._left_out:
            fields["left_out"], self._left_out = self._left_out, 0
        say = _log.warning if event == "delivery.failing" else _log.info
        say(event, subscription=outbox.entry.id, consumer=_host(outbox), **fields)
        return True


def _host(outbox: Outbox) -> str:
    return host_shown(outbox.destination.name)


def host_shown(destination: tuple[str, str, int]) -> str:
    """The address without its path, which may have a secret; a mailbox's host is its key."""
    scheme, host, port = destination
    return f"{scheme}://{host}:{port}" if port else scheme
