"""Requests that are acknowledged, and wait for their replies: how long, and when they go again."""

from gateway.reliability.records import OutgoingMessage, OutgoingSequence, changed
from gateway.reliability.steps import Step, soonest
from mediation.reliable_messaging import Ranges
from mediation.soap.addressing import is_anonymous


def replies_on_connections(sequence: OutgoingSequence) -> bool:
    """Whether replies come back on the connections of their requests."""
    return sequence.acks_to is not None and is_anonymous(sequence.acks_to.address)


def await_replies(step: Step, sequence: OutgoingSequence, numbers: Ranges) -> float | None:
    """Begin the time that the replies to *numbers* may take, which are acknowledged now; when there
    is something to do about one of them."""
    due_at: float | None = None
    if step.party.policy.reply_within is None:
        return due_at
    for low, high in numbers.pairs:
        for number in range(low, high + 1):
            message = step.tx.outgoing.message(sequence.key, number)
            if message is not None and message.wants_reply and message.answer_by is None:
                message = awaiting(step, sequence, message)
                step.tx.outgoing.put_message(sequence.key, message)
                due_at = soonest(due_at, message.next_at)
    return due_at


def awaiting(step: Step, sequence: OutgoingSequence, message: OutgoingMessage) -> OutgoingMessage:
    """*message*, which is acknowledged, with the times of its reply. It is sent again only where
    that brings the reply, or now and then, so that the other side does not forget the sequence."""
    policy = step.party.policy
    answer_by = message.answer_by
    if answer_by is None and policy.reply_within is not None:
        answer_by = step.now + policy.reply_within
    next_at = message.next_at
    if not replies_on_connections(sequence):
        next_at = step.now + policy.keep_alive
    return changed(message, next_at=soonest(next_at, answer_by), answer_by=answer_by)
