"""End an incoming sequence: deliver or discard waiting messages, and end the sequence of its
replies. Runs in the caller's transaction, which has locked the incoming sequence."""

from dataclasses import replace

from gateway.reliability import acknowledgements
from gateway.reliability.party import is_callable, is_fetched, reply_key
from gateway.reliability.records import IncomingSequence, InvokerBuffer
from gateway.reliability.source import Source
from gateway.reliability.steps import Step
from gateway.reliability.values import NoticeKind
from mediation.reliable_messaging import IncompleteBehaviour
from mediation.reliable_messaging.machines import (
    DestinationEvent,
    DestinationState,
    InvokerEvent,
    InvokerState,
    after_destination,
    after_invoker,
)

PAGE = 100


def close(step: Step, sequence: IncomingSequence, last: int | None) -> IncomingSequence:
    """Take no message more: those that have come are all.

    Args:
        last: The number of the last message, where the source tells.
    """
    if sequence.closed:
        return sequence
    if not acknowledgements.is_over(sequence):
        ends_at = max(last or 0, sequence.received.highest)
        complete = sequence.received.is_all(ends_at)
        event = DestinationEvent.LMR_SC if complete else DestinationEvent.LMR_SNC
        sequence = replace(
            sequence,
            state=after_destination(sequence.state, event),
            last_number=ends_at,
            complete=complete,
        )
    sequence = replace(sequence, closed=True)
    _end_buffer(step, sequence)
    return sequence


def terminate(step: Step, sequence: IncomingSequence, last: int | None) -> IncomingSequence:
    """End the sequence; it is a tombstone from now on."""
    if step.party.after_delivery:
        step.tx.invoker.find(sequence.identifier)  # It is asked once more, after the replies.
    sequence = close(step, sequence, last)
    sequence = replace(
        sequence,
        state=after_destination(sequence.state, DestinationEvent.TMR),
        complete=sequence.complete or sequence.state is DestinationState.COMPLETE,
        ended_at=step.now,
        unacknowledged=0,
        ack_at=None,
    )
    sequence = acknowledgements.with_due_time(step, sequence)
    step.tx.incoming.put(sequence)
    end_anonymous_replies(step, sequence)
    return sequence


def _end_buffer(step: Step, sequence: IncomingSequence) -> None:
    buffer = step.tx.invoker.find(sequence.identifier)
    if buffer is None or buffer.state is InvokerState.DELIVERED:
        return
    last = sequence.last_number or 0
    buffer = replace(buffer, last_number=last, due_at=step.now)
    if not sequence.complete and sequence.state is not DestinationState.COMPLETE:
        buffer = _with_gaps(step, sequence, buffer)
    if buffer.count:
        if buffer.state is InvokerState.WAITING:
            buffer = replace(buffer, state=after_invoker(buffer.state, InvokerEvent.LMR))
        step.tx.invoker.put(replace(buffer, held=False))
        return
    if buffer.state is not InvokerState.EMPTY:
        buffer = replace(buffer, state=after_invoker(buffer.state, InvokerEvent.LMR))
    buffer = replace(buffer, state=after_invoker(buffer.state, InvokerEvent.SAM_ALL), due_at=None)
    step.tx.invoker.put(buffer)
    finish_replies(step, sequence.identifier)


def _with_gaps(step: Step, sequence: IncomingSequence, buffer: InvokerBuffer) -> InvokerBuffer:
    """Apply IncompleteSequenceBehavior to the waiting messages."""
    gaps = ", ".join(
        f"{low}" if low == high else f"{low}-{high}"
        for low, high in list(sequence.received.gaps(sequence.last_number or 0))[:20]
    )
    match sequence.incomplete:
        case IncompleteBehaviour.NO_DISCARD:
            step.tell(NoticeKind.SKIPPED, sequence.identifier, f"{gaps} never came")
            return replace(buffer, skips=True)
        case IncompleteBehaviour.DISCARD_FOLLOWING_FIRST_GAP:
            first = sequence.received.first_gap
        case IncompleteBehaviour.DISCARD_ENTIRE_SEQUENCE:
            first = 1
    dropped = 0
    while page := step.tx.invoker.messages(sequence.identifier, first, PAGE):
        for message in page:
            step.tx.invoker.remove_message(sequence.identifier, message.number)
        dropped += len(page)
    step.tell(NoticeKind.DISCARDED, sequence.identifier, f"{dropped} messages: {gaps} never came")
    return replace(buffer, count=buffer.count - dropped, last_number=first - 1)


def finish_replies(step: Step, identifier: str) -> None:
    """End the sequence of the replies: the application has had the last request."""
    replies = step.tx.outgoing.find(reply_key(identifier))
    if replies is not None:
        Source(step).end_sequence(replies)


def end_anonymous_replies(step: Step, sequence: IncomingSequence) -> None:
    """End the replies that go back on connections: with the requests end the connections."""
    replies = step.tx.outgoing.find(reply_key(sequence.identifier))
    if replies is None or replies.ended_at is not None:
        return
    if not is_callable(replies.target) and not is_fetched(replies.target):
        Source(step).finish(replies)
