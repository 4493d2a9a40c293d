"""The verdict on an attempt: pure functions of its answer, or of the failure to get one."""

from dataclasses import dataclass, replace
from enum import Enum

from gateway.egress import Answer, FailureKind, SendFailed, status_words
from mediation.eventing.management import acknowledges, refuses_delivery
from mediation.soap.answers import PeerFault, PeerReply


class Verdict(Enum):
    __hash__ = object.__hash__  # Enum's own is a Python function, called for every delivery.

    DELIVERED = "delivered"
    RETRY = "retry"
    REJECTED = "rejected"
    GONE = "gone"
    UNWANTED = "unwanted"
    """The consumer wants nothing more of the subscription."""
    EXPIRED = "expired"
    """Nothing was sent: the life of the event is over."""
    WITHDRAWN = "withdrawn"
    """Nothing was sent: the subscriber has lost the right to the event."""
    BROKEN = "broken"
    """The sequence of the subscription cannot go on: nothing after it would come in order."""


NOTHING_SENT = frozenset({Verdict.EXPIRED, Verdict.WITHDRAWN})
"""What says nothing of the consumer."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one attempt.

    ``connecting``: it failed before there was a connection, which counts for the destination;
    ``answered``: the consumer said something about the message; not who says that it is away or
    has too much to do, often a proxy in its place. ``detail`` is at most 1 KiB of what it said.
    ``why``: the failure in a few words, where neither status nor kind says it.
    """

    verdict: Verdict
    status: int | None = None
    failure: FailureKind | None = None
    connecting: bool = False
    answered: bool = False
    retry_after: float | None = None
    detail: str = ""
    why: str = ""

    @property
    def failure_text(self) -> str | None:
        """The failure in a few words; None after a success."""
        if self.why:
            return self.why
        if self.failure is not None:
            return self.failure.value
        if self.verdict is Verdict.DELIVERED:
            return None
        if self.status is None:
            return "the attempt went wrong inside the gateway"
        return status_words(self.status)


DELIVERED = Outcome(Verdict.DELIVERED, answered=True)
NO_RIGHT = "the subscriber has no right to it any more"
WITHDRAWN = Outcome(Verdict.WITHDRAWN, why=NO_RIGHT)
_WITHOUT_BODY = {one: Outcome(Verdict.DELIVERED, one, answered=True) for one in (200, 202, 204)}
"""The outcomes of almost all attempts, by status: made once."""

_REJECTING = frozenset({400, 401, 402, 403, 405, 406, 407, 411, 412, 413, 414, 415, 416, 417, 422})
_RETRYING = frozenset({404, 408, 409, 421, 423, 424, 425, 426, 428, 429, 431})
_AWAY = frozenset({429, 502, 503, 504})
"""No word about the message: each other one would be answered so, too."""


def judge(answer: Answer, fault: PeerFault | None, *, now: float) -> Outcome:
    """The outcome of an attempt with this *answer*, received at POSIX time *now*.

    The *fault* in its body decides where the status is one of success, or 500; else the status.
    """
    status = answer.status
    if 200 <= status < 300 and not answer.body:
        outcome = _WITHOUT_BODY.get(status)
        return outcome or Outcome(Verdict.DELIVERED, status, answered=True)
    verdict = _by_status(status)
    if fault is not None and (200 <= status < 300 or status == 500):
        verdict = Verdict.REJECTED if fault.permanent else Verdict.RETRY
    detail = answer.body[:1024].decode(errors="replace")
    if verdict is Verdict.DELIVERED:
        return Outcome(verdict, status, answered=True, detail=detail)
    return Outcome(
        verdict,
        status,
        answered=status not in _AWAY,
        retry_after=answer.retry_after(now),
        detail=detail,
        why="" if fault is None or status >= 300 else f"{status_words(status)} with a fault",
    )


NOT_ACKNOWLEDGED = "not acknowledged"


def judge_acknowledged(
    answer: Answer, reply: PeerReply | None, message_id: str, *, now: float
) -> Outcome:
    """The outcome of an attempt whose message, with *message_id*, is to be acknowledged (DSP0226
    1.2, section 10.2.9.3), as `judge`. Whatever the status: wseventsink's is 0 or 20."""
    if acknowledges(reply, message_id):
        detail = answer.body[:1024].decode(errors="replace")
        return Outcome(Verdict.DELIVERED, answer.status, answered=True, detail=detail)
    outcome = judge(answer, reply.fault if reply is not None else None, now=now)
    if refuses_delivery(reply):
        return replace(outcome, verdict=Verdict.UNWANTED, why="the consumer refuses deliveries")
    if outcome.verdict is Verdict.DELIVERED:
        detail = answer.body[:1024].decode(errors="replace")
        return replace(outcome, verdict=Verdict.RETRY, why=NOT_ACKNOWLEDGED, detail=detail)
    return outcome


def _by_status(status: int) -> Verdict:
    if 200 <= status < 300:
        return Verdict.DELIVERED
    if status == 410:
        return Verdict.GONE
    if status in _REJECTING:
        return Verdict.REJECTED
    if status in _RETRYING or not 400 <= status < 500:
        return Verdict.RETRY
    return Verdict.REJECTED


def failed(error: SendFailed) -> Outcome:
    """The outcome of an attempt without a whole answer.

    Who answers more than is read, or what cannot be read, has said its status all the same.
    """
    verdict = Verdict.RETRY
    if error.kind is FailureKind.ANSWER and error.status is not None:
        verdict = _by_status(error.status)
    elif error.kind in (FailureKind.TOO_LARGE, FailureKind.UNSIGNABLE):  # It stays so.
        verdict = Verdict.REJECTED
    return Outcome(
        verdict,
        error.status,
        error.kind,
        error.connecting,
        answered=error.status is not None and error.status not in _AWAY,
        why=error.detail,
    )
