"""The verdicts on answers and on failures."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from gateway.delivery.verdicts import Outcome, Verdict, failed, judge
from gateway.egress import Answer, FailureKind, SendFailed
from mediation.soap.answers import fault_in
from tests.rigs.cases import for_each

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


@for_each(
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
    assert outcome.answered is (status not in (429, 502, 503, 504))
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
            SendFailed(FailureKind.ANSWER, status=503),
            Outcome(Verdict.RETRY, 503, FailureKind.ANSWER),
            id="503 and more than is read",
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
