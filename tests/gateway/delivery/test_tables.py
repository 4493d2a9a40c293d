"""What needs no event loop: verdicts, schedules, breakers, rates, leases, sums."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from filters import Reason
from gateway.delivery.destinations.breaker import FAILURES, FIRST_PROBE, LAST_PROBE, Breaker
from gateway.delivery.destinations.destination import RECOVERY_RATE
from gateway.delivery.outbox import OutboxDestination
from gateway.delivery.retry_schedule import JITTER, Schedule
from gateway.mailboxes.transport import SCHEME
from gateway.store import Totals
from gateway.subscriptions.lifecycle.leases import LeaseRefused, LeaseTerms, grant
from mediation.model.expiry import NEVER, UNSPECIFIED, Expiry
from mediation.model.versions import Version
from mediation.specifications import SPECIFICATIONS
from tests.rigs.cases import for_each

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def test_schedule() -> None:
    """Eleven attempts in about a day."""
    schedule = Schedule()
    assert schedule.attempts == 11
    delays = [schedule.next(attempts) for attempts in range(1, 12)]
    assert delays.pop() is None
    for delay, plain in zip(delays, schedule.delays, strict=True):
        assert delay is not None
        assert plain * (1 - JITTER) <= delay <= plain * (1 + JITTER)
    assert 23 * 3600 < sum(schedule.delays) < 25 * 3600
    assert schedule.age > sum(schedule.delays)


class BreakerMachine(RuleBasedStateMachine):
    """Against a plain account of what happened."""

    def __init__(self) -> None:
        super().__init__()
        self.breaker = Breaker()
        self.now = 1000.0
        self.failures = 0
        self.opened = 0
        """How often it opened since it last was closed."""
        self.probing = False

    @rule(seconds=st.floats(0, 400))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @precondition(lambda self: not self.breaker.blocks(self.now))
    @rule()
    def start(self) -> None:
        self.probing = self.breaker.open
        self.breaker.probing(self.now)
        if self.probing:
            assert self.breaker.blocks(self.now), "two probes at a time"

    @rule()
    def withhold(self) -> None:
        """It sent nothing: whatever was known is known still, and a probe may start at once."""
        self.breaker.withhold(self.now)
        assert not (self.probing and self.breaker.blocks(self.now))
        self.probing = False

    @rule()
    def succeed(self) -> None:
        assert self.breaker.succeeded() == bool(self.opened)
        self.failures = self.opened = 0
        self.probing = False

    @rule()
    def fail(self) -> None:
        before = self.breaker.until
        self.breaker.failed(self.now)
        self.failures += 1
        if self.opened and not self.probing:
            assert self.breaker.until == max(before or 0.0, self.now)
        elif self.failures >= FAILURES or self.opened:
            self.opened += 1
            self.probing = False
            delay = min(FIRST_PROBE * 2 ** (self.opened - 1), LAST_PROBE)
            assert self.breaker.until == self.now + delay

    @rule(seconds=st.floats(0.1, 3600))
    def fail_with_retry_after(self, seconds: float) -> None:
        self.breaker.failed(self.now, at_least=seconds)
        self.failures += 1
        if not self.opened or self.probing:
            self.opened += 1
        self.probing = False if self.breaker.until is not None else self.probing
        assert self.breaker.until is not None
        assert self.breaker.until >= self.now + seconds

    @invariant()
    def is_open_after_failures_in_a_row(self) -> None:
        assert self.breaker.open == bool(self.opened)


TestBreaker = BreakerMachine.TestCase


def test_destination_recovers_slowly() -> None:
    """50 a second, doubling every 10 s."""
    destination = OutboxDestination(("http", "localhost", 80))
    destination.ease_in(0.0)
    now, started = 0.0, 0
    while now < 10.0:
        wait = destination.wait(now)
        if wait > 0:
            now += wait + 1e-6
            continue
        destination.start(now)
        destination.active -= 1
        started += 1
    assert RECOVERY_RATE * 10 < started < RECOVERY_RATE * 2 * 10
    assert destination.wait(100.0) == 0
    assert destination.recovering is None


def test_a_mailbox_of_our_own_is_not_eased_in() -> None:
    """What waits for one after a restart goes there as quickly as the store takes it."""
    destination = OutboxDestination((SCHEME, "a key", 0))
    destination.ease_in(0.0)
    for _ in range(1000):
        assert destination.may_start(0.0)
        destination.start(0.0)
        destination.active -= 1
    assert destination.is_free


WSE, WSN = Version.WSE_2004_08, Version.WSN_1_3
HOUR, DAY, MONTH = timedelta(hours=1), timedelta(days=1), timedelta(days=30)
YEAR = timedelta(days=365)


@for_each(
    ("asked", "version", "trusted", "granted"),
    [
        pytest.param(UNSPECIFIED, WSE, False, DAY, id="nothing asked"),
        pytest.param(UNSPECIFIED, WSN, True, DAY, id="nothing asked, trusted"),
        pytest.param(Expiry(instant=NOW + HOUR), WSE, False, HOUR, id="an hour"),
        pytest.param(Expiry(instant=NOW + HOUR), WSN, False, HOUR, id="an hour, WSN"),
        pytest.param(Expiry(instant=NOW + YEAR), WSE, False, DAY, id="a year is shortened"),
        pytest.param(Expiry(instant=NOW + YEAR), WSN, False, Reason.EXPIRY_TOO_LONG, id="WSN"),
        pytest.param(
            Expiry(instant=NOW + YEAR, best_effort=True), WSN, False, DAY, id="best effort"
        ),
        pytest.param(
            Expiry(never=True, best_effort=True), WSN, False, DAY, id="for ever, best effort"
        ),
        pytest.param(Expiry(instant=NOW + YEAR), WSE, True, YEAR, id="a year, trusted"),
        pytest.param(Expiry(instant=NOW + YEAR), WSN, True, YEAR, id="a year, WSN, trusted"),
        pytest.param(NEVER, WSE, False, DAY, id="for ever is shortened"),
        pytest.param(NEVER, WSE, True, MONTH, id="for ever, trusted"),
        pytest.param(NEVER, WSN, False, Reason.EXPIRY_TOO_LONG, id="for ever, WSN"),
        pytest.param(NEVER, WSN, True, None, id="for ever, WSN, trusted"),
        *[
            pytest.param(
                Expiry(instant=NOW - HOUR), version, trusted, Reason.EXPIRY_IN_THE_PAST,
                id=f"over, {version.value}, {trusted}",
            )
            for version in (WSE, WSN)
            for trusted in (False, True)
        ],
        pytest.param(Expiry(instant=NOW), WSE, False, Reason.EXPIRY_IN_THE_PAST, id="now is over"),
    ],
)  # fmt: skip
def test_leases(
    asked: Expiry, version: Version, trusted: bool, granted: timedelta | Reason | None
) -> None:
    terms, rules = LeaseTerms(), SPECIFICATIONS[version].leases
    if isinstance(granted, Reason):
        with pytest.raises(LeaseRefused) as caught:
            grant(asked, rules, terms, trusted=trusted, now=NOW)
        assert caught.value.reason is granted
    else:
        until = grant(asked, rules, terms, trusted=trusted, now=NOW)
        assert until == (None if granted is None else NOW + granted)


@given(st.builds(Totals, *[st.integers(0, 10**6)] * 6))
def test_sums(totals: Totals) -> None:
    """What is skipped was never matched, and so is not settled."""
    expected = totals.delivered + totals.dead + totals.expired + totals.cancelled
    assert totals.settled() == expected
