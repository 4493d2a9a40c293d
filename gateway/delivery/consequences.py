"""The consequences of an attempt: pure functions of its outcome and of what went before.

delivered ------------------------------------------> Done
not delivered, its subscription has ended ----------> Done
its consumer wants no more of its subscription -----> GiveUp, and Retry until it has ended
its sequence is broken -----------------------------> GiveUp, and Retry until it has ended
wanted at most once --------------------------------> Done, and the GiveUp of a row below
in a sequence, and a row below says Bury -----------> GiveUp, and Retry until it has ended
rejected or too large, with others in its message --> Split
rejected, gone, too large --------------------------> Bury (gone: and GiveUp; too large for who
                                                      wants none after it: and GiveUp at once)
timed out, as those before it, and there is a list -> Bury, and Rest
failed, and its attempts or its time are used up ---> Bury (forbidden address, or the attempts that
                                                      its consumer asked for: and GiveUp)
failed otherwise -----------------------------------> Retry
nothing delivered for `HOPELESS` seconds -----------> GiveUp, besides
"""

from dataclasses import dataclass
from typing import TypeAlias

from gateway.delivery.retry_schedule import Schedule
from gateway.delivery.verdicts import Outcome, Verdict
from gateway.egress import FailureKind
from gateway.model.dead_letter_reasons import DeathReason

HOPELESS = 5 * 86400.0
"""Seconds without a delivery after which a subscription ends,"""
HOPELESS_ATTEMPTS = 20
"""if so many attempts in a row failed."""

TOO_LARGE = "An event is too large for the consumer, which wants none after it."
UNTIL_ENDED = 60.0
"""Seconds until the next attempt of a subscription that ends, should that not be possible now."""
REFUSALS = {
    Verdict.GONE: "The consumer answered that it is gone.",
    Verdict.UNWANTED: "The consumer refused further deliveries.",
}
"""Why a subscription ends after one answer, to an event or to a heartbeat, by its verdict."""
RETRIES_USED = "The attempts that the consumer asked for are used up."
FORBIDDEN = "The consumer's address is not allowed."
NOT_MADE = "A delivery could not be made, and none may be left out of its sequence."
NOTHING_DELIVERED = "Nothing could be delivered for five days."


@dataclass(frozen=True, slots=True)
class History:
    """The history of a delivery, read when an attempt has failed. Times are POSIX seconds.

    Attributes:
        attempts: Attempts of the delivery, this one counted unless it was a probe ahead of time.
        answered: Those of them that were answered.
        delay: Seconds until the next attempt by the schedule; None when all are used up.
        since: When the message came.
        behind: Deliveries of the subscription that wait behind this one.
        ended: Its subscription has ended.
        failing_for: Seconds for which every attempt of the subscription failed.
        failing_attempts: The number of these attempts.
        cancels: The subscriber wants no more after an event that is too large for it.
        together: The deliveries that the attempt carried.
        unbroken: None of the subscription may be left out: they are numbered in a sequence.
        timeouts: Attempts of the subscription that timed out since its consumer last answered with
            success or a refusal, this one counted.
        once: The subscriber wants each event at most once: it is not tried again, and not kept.
    """

    attempts: int
    answered: int
    delay: float | None
    since: float
    behind: int = 0
    ended: bool = False
    failing_for: float = 0.0
    failing_attempts: int = 0
    cancels: bool = False
    together: int = 1
    unbroken: bool = False
    timeouts: int = 0
    once: bool = False


@dataclass(frozen=True, slots=True)
class Done:
    """The delivery is at its end; *total* counts it."""

    total: str


@dataclass(frozen=True, slots=True)
class Retry:
    """The delivery is tried again *at* a POSIX time."""

    at: float


@dataclass(frozen=True, slots=True)
class Split:
    """Deliveries that one message carried are tried once more, each by itself, from a POSIX time
    *at* on: one event that its consumer refuses must not take the others with it."""

    at: float


@dataclass(frozen=True, slots=True)
class Bury:
    """The delivery becomes a dead letter."""

    reason: DeathReason


@dataclass(frozen=True, slots=True)
class GiveUp:
    """The subscription ends; *at_once*: nothing more is sent until it has."""

    text: str
    at_once: bool = False


@dataclass(frozen=True, slots=True)
class Rest:
    """The subscription is black-listed for so many *seconds*: nothing is sent, and every message
    is a dead letter."""

    seconds: float


Step: TypeAlias = Done | Retry | Split | Bury | GiveUp | Rest

DELIVERED = (Done("delivered"),)
CANCELLED = (Done("cancelled"),)


def decide(
    outcome: Outcome, history: History, schedule: Schedule, *, now: float
) -> tuple[Step, ...]:
    """The steps that follow an attempt that ended *now*, in order."""
    if outcome.verdict is Verdict.DELIVERED:
        return DELIVERED
    if history.ended:
        return CANCELLED
    if outcome.verdict is Verdict.UNWANTED:
        return (Retry(now + UNTIL_ENDED), GiveUp(REFUSALS[outcome.verdict]))
    if outcome.verdict is Verdict.BROKEN:
        return (Retry(now + UNTIL_ENDED), GiveUp(outcome.why or NOT_MADE))
    steps = _steps(outcome, history, schedule, now)
    if history.once:
        return (*CANCELLED, *(step for step in steps if isinstance(step, GiveUp)))
    if not history.unbroken or not any(isinstance(step, Bury) for step in steps):
        return steps
    given_up = next((step for step in steps if isinstance(step, GiveUp)), GiveUp(NOT_MADE))
    return (Retry(now + UNTIL_ENDED), given_up)


def _steps(outcome: Outcome, history: History, schedule: Schedule, now: float) -> tuple[Step, ...]:
    if outcome.verdict is Verdict.REJECTED and history.together > 1:
        return (Split(now),)
    if outcome.verdict is not Verdict.RETRY:
        too_large = outcome.failure is FailureKind.TOO_LARGE
        bury = Bury(DeathReason.TOO_LARGE if too_large else DeathReason.REJECTED)
        if too_large and history.cancels:
            return (bury, GiveUp(TOO_LARGE, at_once=True))
        why = REFUSALS.get(outcome.verdict)
        return (bury, GiveUp(why)) if why else (bury,)
    steps = _after_failure(outcome, history, schedule, now)
    if history.failing_for > HOPELESS and history.failing_attempts >= HOPELESS_ATTEMPTS:
        steps += (GiveUp(NOTHING_DELIVERED),)
    return steps


def _after_failure(
    outcome: Outcome, history: History, schedule: Schedule, now: float
) -> tuple[Step, ...]:
    black_list = schedule.black_list
    if (
        black_list is not None
        and outcome.failure is FailureKind.TIMEOUT
        and history.timeouts >= black_list.after
        and not history.unbroken
    ):
        return (Bury(DeathReason.BLACK_LISTED), Rest(black_list.seconds))
    forbidden = outcome.failure is FailureKind.FORBIDDEN
    if forbidden and history.attempts >= schedule.forbidden:
        return (Bury(DeathReason.EGRESS_FORBIDDEN), GiveUp(FORBIDDEN))
    if history.delay is None:
        bury = Bury(DeathReason.EXHAUSTED)
        return (bury, GiveUp(RETRIES_USED)) if schedule.gives_up else (bury,)
    # A consumer that answers is there: it delays those behind no longer than a few attempts.
    patient = history.unbroken or not history.behind
    if history.answered >= schedule.answered and not patient:
        return (Bury(DeathReason.EXHAUSTED),)
    if now - history.since > schedule.age:
        return (Bury(DeathReason.EXPIRED_BACKLOG),)
    return (Retry(now + max(history.delay, outcome.retry_after or 0.0)),)
