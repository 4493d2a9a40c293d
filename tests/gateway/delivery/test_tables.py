"""What needs no event loop: verdicts, schedules, breakers, rates, leases, sums."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from filters import Reason
from gateway.delivery.breaker import FAILURES, FIRST_PROBE, LAST_PROBE, Breaker
from gateway.delivery.destination import RECOVERY_RATE
from gateway.delivery.outbox import OutboxDestination
from gateway.delivery.schedule import JITTER, Outcome, Schedule, Verdict, failed, judge
from gateway.egress import Answer, FailureKind, SendFailed
from gateway.mailboxes.transport import SCHEME
from gateway.store import Totals
from gateway.subscriptions.leases import LeaseRefused, LeaseTerms, grant
from mediation.model.expiry import NEVER, UNSPECIFIED, Expiry
from mediation.model.versions import Version
from mediation.soap.answers import fault_in
from mediation.specifications import SPECIFICATIONS

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
SOAP_12 = (
    '<s:Envelope xmlns:s="http://www.w3.org/2003/05/soap-envelope"><s:Body><s:Fault><s:Code>'
    "<s:Value>s:{}</s:Value></s:Code><s:Reason><s:Text>No.</s:Text></s:Reason></s:Fault></s:Body>"
    "</s:Envelope>"
)
SOAP_11 = (
    '<s:Envelope xmlns:s="http://schemas.xmlsoap.org/soap/envelope/"><s:Body><s:Fault>'
    "<faultcode>s:{}</faultcode><faultstring>No.</faultstring></s:Fault></s:Body></s:Envelope>"
)
RESPONSE = (
    '<s:Envelope xmlns:s="http://www.w3.org/2003/05/soap-envelope"><s:Body><ok>Fault</ok></s:Body>'
    "</s:Envelope>"
)


@pytest.mark.parametrize(
    ("status", "body", "verdict"),
    [
        *[pytest.param(n, "", Verdict.DELIVERED, id=str(n)) for n in (200, 201, 202, 204)],
        pytest.param(200, RESPONSE, Verdict.DELIVERED, id="200 with a response"),
        pytest.param(200, "not XML, Fault", Verdict.DELIVERED, id="200 with anything"),
        *[pytest.param(n, "", Verdict.RETRY, id=str(n)) for n in (301, 302, 303, 307, 308)],
        *[
            pytest.param(n, "", Verdict.REJECTED, id=str(n))
            for n in (400, 401, 403, 405, 413, 415, 422)
        ],
        pytest.param(404, "", Verdict.RETRY, id="404"),
        pytest.param(410, "", Verdict.GONE, id="410"),
        pytest.param(410, SOAP_12.format("Receiver"), Verdict.GONE, id="410 with a fault"),
        *[
            pytest.param(n, "", Verdict.RETRY, id=str(n))
            for n in (408, 409, 425, 429, 500, 501, 502, 503, 504)
        ],
        pytest.param(500, "<html>Fault</html>", Verdict.RETRY, id="500 with a page"),
        *[
            pytest.param(status, shape.format(code), verdict, id=f"{status} {code}")
            for status in (200, 202, 500)
            for shape, code, verdict in (
                (SOAP_11, "Server", Verdict.RETRY),
                (SOAP_12, "Receiver", Verdict.RETRY),
                (SOAP_11, "Client", Verdict.REJECTED),
                (SOAP_12, "Sender", Verdict.REJECTED),
                (SOAP_12, "MustUnderstand", Verdict.REJECTED),
                (SOAP_11, "VersionMismatch", Verdict.REJECTED),
            )
        ],
        pytest.param(503, SOAP_12.format("Sender"), Verdict.RETRY, id="503 with a fault"),
    ],
)
def test_answers(status: int, body: str, verdict: Verdict) -> None:
    answer = Answer(status, body.encode())
    outcome = judge(answer, fault_in(answer.body), now=0.0)
    assert outcome.verdict is verdict
    assert outcome.answered
    assert not outcome.connecting
    if verdict is not Verdict.DELIVERED:
        assert (outcome.status, outcome.detail) == (status, body[:1024])


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        pytest.param("120", 120.0, id="seconds"),
        pytest.param("0", 0.0, id="now"),
        pytest.param("99999999999999999999", 3600.0, id="too long"),
        pytest.param("Thu, 01 Jan 1970 00:01:40 GMT", 40.0, id="date"),
        pytest.param("Thu, 01 Jan 1970 00:00:01 GMT", 0.0, id="date that is over"),
        pytest.param("soon", None, id="neither"),
    ],
)
def test_retry_after(said: str, seconds: float | None) -> None:
    outcome = judge(Answer(503, headers={"retry-after": said}), None, now=60.0)
    assert outcome.retry_after == seconds


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        *[
            pytest.param(
                SendFailed(kind, connecting=True),
                Outcome(Verdict.RETRY, None, kind, True),
                id=f"{kind.value}, connecting",
            )
            for kind in (
                FailureKind.CONNECT,
                FailureKind.NAME,
                FailureKind.TLS,
                FailureKind.TIMEOUT,
            )
        ],
        pytest.param(
            SendFailed(FailureKind.TIMEOUT),
            Outcome(Verdict.RETRY, None, FailureKind.TIMEOUT),
            id="no answer",
        ),
        pytest.param(
            SendFailed(FailureKind.RESET, status=200),
            Outcome(Verdict.RETRY, 200, FailureKind.RESET, answered=True),
            id="cut off in the body",
        ),
        pytest.param(
            SendFailed(FailureKind.ANSWER, status=200),
            Outcome(Verdict.DELIVERED, 200, FailureKind.ANSWER, answered=True),
            id="200 and more than is read",
        ),
        pytest.param(
            SendFailed(FailureKind.ANSWER, status=400),
            Outcome(Verdict.REJECTED, 400, FailureKind.ANSWER, answered=True),
            id="400 and more than is read",
        ),
        pytest.param(
            SendFailed(FailureKind.ANSWER),
            Outcome(Verdict.RETRY, None, FailureKind.ANSWER),
            id="no HTTP",
        ),
        pytest.param(
            SendFailed(FailureKind.FORBIDDEN),
            Outcome(Verdict.RETRY, None, FailureKind.FORBIDDEN),
            id="forbidden",
        ),
        pytest.param(
            SendFailed(FailureKind.TOO_LARGE),
            Outcome(Verdict.REJECTED, None, FailureKind.TOO_LARGE),
            id="larger than the consumer takes",
        ),
    ],
)
def test_failures(error: SendFailed, outcome: Outcome) -> None:
    assert failed(error) == replace(outcome, why=error.detail)


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


@pytest.mark.parametrize(
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
