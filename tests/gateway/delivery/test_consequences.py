"""The consequences of an attempt, as a table."""

from dataclasses import replace

import pytest

from gateway.delivery.consequences import (
    FORBIDDEN,
    HOPELESS,
    HOPELESS_ATTEMPTS,
    NOT_MADE,
    NOTHING_DELIVERED,
    REFUSALS,
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
from gateway.delivery.consequences import TOO_LARGE as WANTS_NONE
from gateway.delivery.retry_schedule import DELAYS, BlackList, Schedule
from gateway.delivery.verdicts import DELIVERED, Outcome, Verdict
from gateway.egress import FailureKind
from gateway.model.dead_letter_reasons import DeathReason
from tests.rigs.cases import for_each

NOW = 1_000_000.0
SCHEDULE = Schedule(answered=5, forbidden=3, age=3600.0)
FIRST = History(attempts=1, answered=0, delay=5.0, since=NOW - 1.0)
"""The first attempt of a delivery that is alone."""
ONE_OF_THREE = replace(FIRST, together=3)
UNBROKEN = replace(FIRST, unbroken=True)
ANSWERED = replace(FIRST, attempts=5, answered=5)
HOPELESS_NOW = replace(FIRST, failing_for=HOPELESS + 1, failing_attempts=HOPELESS_ATTEMPTS)

UNREACHABLE = Outcome(Verdict.RETRY, failure=FailureKind.CONNECT, connecting=True)
BUSY = Outcome(Verdict.RETRY, 500, answered=True, retry_after=60.0)
REFUSED = Outcome(Verdict.RETRY, failure=FailureKind.FORBIDDEN)
REJECTED = Outcome(Verdict.REJECTED, 400, answered=True)
TOO_LARGE = Outcome(Verdict.REJECTED, failure=FailureKind.TOO_LARGE)
BROKEN = Outcome(Verdict.BROKEN, answered=True, why="It forgot.")
IS_GONE = Outcome(Verdict.GONE, 410, answered=True)

LATE = Outcome(Verdict.RETRY, failure=FailureKind.TIMEOUT)
BLACK = replace(SCHEDULE, black_list=BlackList(after=2, seconds=300.0))
SECOND_LATE = replace(FIRST, timeouts=2)
BLACK_LISTED = [Bury(DeathReason.BLACK_LISTED), Rest(300.0)]

BLACK_CASES = [
    pytest.param(LATE, replace(FIRST, timeouts=1), [Retry(NOW + 5.0)], id="the first time-out"),
    pytest.param(LATE, SECOND_LATE, BLACK_LISTED, id="the second"),
    pytest.param(
        replace(LATE, connecting=True), replace(FIRST, timeouts=3), BLACK_LISTED,
        id="again, without a connection",
    ),
    pytest.param(
        LATE, replace(SECOND_LATE, delay=None), BLACK_LISTED, id="whatever attempts are left"
    ),
    pytest.param(UNREACHABLE, SECOND_LATE, [Retry(NOW + 5.0)], id="refused connections are none"),
    pytest.param(BUSY, SECOND_LATE, [Retry(NOW + 60.0)], id="nor are failures that are answered"),
    pytest.param(
        LATE, replace(SECOND_LATE, unbroken=True), [Retry(NOW + 5.0)], id="never in a sequence"
    ),
    pytest.param(LATE, replace(SECOND_LATE, ended=True), [Done("cancelled")], id="after the end"),
]  # fmt: skip


@pytest.mark.parametrize(("outcome", "history", "steps"), BLACK_CASES)
def test_a_black_list(outcome: Outcome, history: History, steps: list[Step]) -> None:
    assert list(decide(outcome, history, BLACK, now=NOW)) == steps


def test_there_is_no_black_list_unless_one_is_wanted() -> None:
    many = replace(FIRST, timeouts=1000)
    assert decide(LATE, many, SCHEDULE, now=NOW) == (Retry(NOW + 5.0),)


CASES = [
    pytest.param(DELIVERED, FIRST, [Done("delivered")], id="delivered"),
    pytest.param(
        DELIVERED, replace(FIRST, ended=True), [Done("delivered")], id="delivered after the end"
    ),
    pytest.param(UNREACHABLE, FIRST, [Retry(NOW + 5.0)], id="unreachable"),
    pytest.param(BUSY, FIRST, [Retry(NOW + 60.0)], id="Retry-After is longer than the schedule"),
    pytest.param(
        BUSY, replace(FIRST, delay=90.0), [Retry(NOW + 90.0)], id="the schedule is longer"
    ),
    pytest.param(
        UNREACHABLE, replace(FIRST, delay=0.0), [Retry(NOW)], id="a probe ahead of its time"
    ),
    pytest.param(
        UNREACHABLE,
        replace(FIRST, attempts=11, delay=None),
        [Bury(DeathReason.EXHAUSTED)],
        id="attempts used up",
    ),
    pytest.param(BUSY, ANSWERED, [Retry(NOW + 60.0)], id="answered, nobody behind"),
    pytest.param(
        BUSY, replace(ANSWERED, behind=1), [Bury(DeathReason.EXHAUSTED)], id="answered, one behind"
    ),
    pytest.param(
        BUSY,
        replace(ANSWERED, answered=4, behind=1),
        [Retry(NOW + 60.0)],
        id="answered not often enough",
    ),
    pytest.param(
        UNREACHABLE,
        replace(FIRST, since=NOW - 3601.0),
        [Bury(DeathReason.EXPIRED_BACKLOG)],
        id="too old",
    ),
    pytest.param(
        REFUSED, replace(FIRST, attempts=2), [Retry(NOW + 5.0)], id="forbidden, the second time"
    ),
    pytest.param(
        REFUSED,
        replace(FIRST, attempts=3),
        [Bury(DeathReason.EGRESS_FORBIDDEN), GiveUp(FORBIDDEN)],
        id="forbidden, the third time",
    ),
    pytest.param(REJECTED, FIRST, [Bury(DeathReason.REJECTED)], id="rejected"),
    pytest.param(TOO_LARGE, FIRST, [Bury(DeathReason.TOO_LARGE)], id="too large"),
    pytest.param(
        TOO_LARGE,
        replace(FIRST, cancels=True),
        [Bury(DeathReason.TOO_LARGE), GiveUp(WANTS_NONE, at_once=True)],
        id="too large for who wants none after it",
    ),
    pytest.param(IS_GONE, FIRST, [Bury(DeathReason.REJECTED), GiveUp(REFUSALS[Verdict.GONE])], id="gone"),
    *[
        pytest.param(outcome, history, [Retry(NOW + 60.0), GiveUp(why)], id=f"in a sequence, {name}")
        for name, outcome, history, why in (
            ("rejected", REJECTED, UNBROKEN, NOT_MADE),
            ("too large", TOO_LARGE, UNBROKEN, NOT_MADE),
            ("gone", IS_GONE, UNBROKEN, REFUSALS[Verdict.GONE]),
            ("used up", UNREACHABLE, replace(UNBROKEN, delay=None), NOT_MADE),
            ("too old", UNREACHABLE, replace(UNBROKEN, since=NOW - 3601.0), NOT_MADE),
            ("broken", BROKEN, UNBROKEN, "It forgot."),
        )
    ],
    pytest.param(
        BUSY,
        replace(UNBROKEN, attempts=5, answered=5, behind=1),
        [Retry(NOW + 60.0)],
        id="in a sequence, those behind wait",
    ),
    pytest.param(
        BROKEN, replace(UNBROKEN, ended=True), [Done("cancelled")], id="broken after the end"
    ),
    pytest.param(REJECTED, ONE_OF_THREE, [Split(NOW)], id="rejected with others"),
    pytest.param(
        REJECTED,
        replace(ONE_OF_THREE, attempts=11, delay=None),
        [Split(NOW)],
        id="rejected with others, the last time",
    ),
    pytest.param(
        TOO_LARGE, replace(ONE_OF_THREE, cancels=True), [Split(NOW)], id="too large with others"
    ),
    pytest.param(
        IS_GONE, ONE_OF_THREE, [Bury(DeathReason.REJECTED), GiveUp(REFUSALS[Verdict.GONE])], id="gone for several"
    ),
    pytest.param(UNREACHABLE, ONE_OF_THREE, [Retry(NOW + 5.0)], id="unreachable for several"),
    *[
        pytest.param(
            outcome, replace(FIRST, ended=True), [Done("cancelled")], id=f"{name} after the end"
        )
        for name, outcome in (
            ("unreachable", UNREACHABLE), ("rejected", REJECTED), ("gone", IS_GONE),
        )
    ],
    *[
        pytest.param(
            outcome,
            replace(ONE_OF_THREE, ended=True),
            [Done("cancelled")],
            id=f"{name} with others after the end",
        )
        for name, outcome in (("rejected", REJECTED), ("too large", TOO_LARGE))
    ],
    pytest.param(
        UNREACHABLE, HOPELESS_NOW, [Retry(NOW + 5.0), GiveUp(NOTHING_DELIVERED)], id="hopeless"
    ),
    pytest.param(
        UNREACHABLE,
        replace(HOPELESS_NOW, delay=None),
        [Bury(DeathReason.EXHAUSTED), GiveUp(NOTHING_DELIVERED)],
        id="hopeless, and attempts used up",
    ),
    pytest.param(
        UNREACHABLE,
        replace(HOPELESS_NOW, failing_attempts=HOPELESS_ATTEMPTS - 1),
        [Retry(NOW + 5.0)],
        id="failing for long, with few attempts",
    ),
    pytest.param(
        UNREACHABLE,
        replace(HOPELESS_NOW, failing_for=HOPELESS),
        [Retry(NOW + 5.0)],
        id="failing often, not for long",
    ),
    pytest.param(REJECTED, HOPELESS_NOW, [Bury(DeathReason.REJECTED)], id="it answered at last"),
]  # fmt: skip


@for_each(("outcome", "history", "steps"), CASES)
def test_what_an_attempt_leads_to(outcome: Outcome, history: History, steps: list[Step]) -> None:
    assert list(decide(outcome, history, SCHEDULE, now=NOW)) == steps


@pytest.mark.parametrize("verdict", list(Verdict))
def test_every_verdict_ends_or_goes_on_in_one_way(verdict: Verdict) -> None:
    """A delivery is counted, tried again or buried, and just one of these."""
    for history in (FIRST, ONE_OF_THREE, ANSWERED, HOPELESS_NOW, replace(FIRST, ended=True)):
        steps = decide(Outcome(verdict), history, SCHEDULE, now=NOW)
        assert sum(isinstance(step, Done | Retry | Split | Bury) for step in steps) == 1


def test_a_schedule_without_delays_tries_once() -> None:
    assert Schedule(()).attempts == 1 and Schedule(()).next(1) is None


@pytest.mark.parametrize(
    ("delays", "answered"),
    [
        pytest.param(DELAYS, 5, id="by default"),
        pytest.param((1.0,) * 300, 301, id="all of a schedule of five minutes"),
        pytest.param((1.0,) * 1000, 601, id="ten minutes of a longer one"),
        pytest.param((3600.0,) * 10, 5, id="five however long they take"),
        pytest.param((), 5, id="none"),
    ],
)
def test_failures_that_are_answered_are_borne_for_ten_minutes(
    delays: tuple[float, ...], answered: int
) -> None:
    assert Schedule.of(delays).answered == answered
