"""Deliver events from the buffer of a sequence to the messaging system, in order: one gateway
leases the next messages, publishes them, which takes a while, and notes that."""

from dataclasses import dataclass, replace

from gateway.reliability import acknowledgements
from gateway.reliability.party import is_callable
from gateway.reliability.records import IncomingSequence, InvokerBuffer, InvokerMessage
from gateway.reliability.sequence_end import finish_replies
from gateway.reliability.steps import Step
from mediation.reliable_messaging.machines import InvokerEvent, InvokerState, after_invoker

LEASE = 30.0
"""Seconds for which the next messages are one gateway's. A gateway that is killed meanwhile holds
them up so long, where others share the store."""
ENOUGH = 0.5
"""The part of a lease that has to be left where something is still to be published: a messaging
system that confirms nothing is given up within it."""
MOST = 64
MOST_OCTETS = 4 * 2**20
"""Messages, and bytes of them, that are published at once; always one at least."""


@dataclass(frozen=True, slots=True)
class Turn:
    """Messages that are this gateway's to publish, in order.

    Attributes:
        leased_until: The end of this lease, which tells it from others.
        delivered: The number of the last message before them.
        publish_until: Nothing of it is begun to be published later.
    """

    identifier: str
    messages: tuple[InvokerMessage, ...]
    leased_until: float
    delivered: int
    publish_until: float


def lease(step: Step, identifier: str, seconds: float = LEASE) -> Turn | None:
    """Lease the next messages; None where there are none, or another gateway has them."""
    buffer = step.tx.invoker.find(identifier)
    if buffer is None or not buffer.count:
        return None
    until = buffer.leased_until
    if until is not None and until > step.now:
        if buffer.due_at is None or buffer.due_at < until:  # Nothing can be done before.
            step.tx.invoker.put(replace(buffer, due_at=until))
        return None
    found: list[InvokerMessage] = []
    octets, after = 0, buffer.delivered
    for message in step.tx.invoker.messages(identifier, buffer.delivered + 1, MOST):
        octets += len(message.envelope)
        if buffer.held or (message.number != after + 1 and not buffer.skips):
            break
        if found and octets > MOST_OCTETS:
            break
        found.append(message)
        after = message.number
    if not found:
        step.tx.invoker.put(replace(buffer, due_at=None, leased_until=None))
        return None
    until = step.now + seconds
    step.tx.invoker.put(replace(buffer, due_at=until, leased_until=until))
    return Turn(
        identifier, tuple(found), until, buffer.delivered, step.now + seconds * (1.0 - ENOUGH)
    )


def is_busy(step: Step, identifier: str) -> bool:
    """Return whether messages wait that could be published: nothing but time hinders it."""
    buffer = step.tx.invoker.find(identifier)
    if buffer is None or not buffer.count or buffer.held:
        return False
    first = step.tx.invoker.messages(identifier, buffer.delivered + 1, 1)
    return bool(first) and (first[0].number == buffer.delivered + 1 or buffer.skips)


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a sequence.

    Attributes:
        delivered: The number of the last message that is published.
        sequence: As it is committed; None where it is gone.
        octets: The bytes of the messages that left the buffer now.
    """

    delivered: int
    sequence: IncomingSequence | None
    octets: int = 0


def published(step: Step, turn: Turn, count: int) -> Progress:
    """Note that the first *count* messages of *turn* are published, and give up the lease. Where
    another took it meanwhile, nothing changes."""
    sequence = step.tx.incoming.find(turn.identifier)
    buffer = step.tx.invoker.find(turn.identifier)
    if buffer is None:
        return Progress(turn.delivered, sequence)
    if buffer.leased_until != turn.leased_until:
        return Progress(buffer.delivered, sequence)
    for message in turn.messages[:count]:
        step.tx.invoker.remove_message(turn.identifier, message.number)
        left = buffer.count - 1
        buffer = replace(
            buffer,
            state=after_invoker(buffer.state, _event(buffer, left)),
            delivered=message.number,
            count=left,
            attempts=0,
        )
    waits = count < len(turn.messages)
    attempts = buffer.attempts + 1 if waits else 0
    due_at = step.now if buffer.count else None
    if waits:
        due_at = step.now + step.party.policy.retry_after(attempts, step.party.random())
    step.tx.invoker.put(replace(buffer, attempts=attempts, due_at=due_at, leased_until=None))
    if buffer.state is InvokerState.DELIVERED:
        finish_replies(step, turn.identifier)
    if count and sequence is not None:
        _acknowledge_soon(step, sequence)
    octets = sum(len(message.envelope) for message in turn.messages[:count])
    return Progress(buffer.delivered, sequence, octets)


def _event(buffer: InvokerBuffer, left: int) -> InvokerEvent:
    if left:
        return InvokerEvent.SAM_GAP
    ended = buffer.state is InvokerState.WAITING_ENDED
    return InvokerEvent.SAM_ALL if ended else InvokerEvent.SAM_EMPTY


def _acknowledge_soon(step: Step, sequence: IncomingSequence) -> None:
    """Have a worker acknowledge messages that were published later than they came."""
    if sequence.ended_at is not None or not is_callable(sequence.acks_to):
        return
    if sequence.ack_at is None:
        step.tx.incoming.put(
            acknowledgements.with_due_time(step, replace(sequence, ack_at=step.now))
        )
