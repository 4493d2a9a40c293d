"""Send a message from the transaction that stores it, which notes that it was sent once, so that
no worker has to look for it. If the process dies before it is sent, it is as lost as in the
network."""

from gateway.reliability.party import Channel, is_callable
from gateway.reliability.records import OutgoingSequence
from gateway.reliability.source import Message, Sent, Source
from gateway.reliability.source_worker import outgoing_of
from gateway.reliability.steps import Step
from gateway.reliability.values import Outgoing
from mediation.reliable_messaging.machines import SourceState

_SENDING = frozenset({SourceState.SENDING, SourceState.IDLE})


def send_at_once(
    step: Step, name: str, channel: Channel, message: Message
) -> tuple[Sent, Outgoing | None]:
    """Store a message as `Source.send` does.

    Returns:
        Where it was stored, and what is to be sent once the transaction is committed; None: the
        worker of its sequence sends it.

    Raises:
        SourceFull: Too much waits already.
    """
    source = Source(step)
    sequence = source.sequence_for(name, channel)
    if message.last or not _is_free(step, sequence):
        return source.append(sequence, message), None
    policy = step.party.policy
    next_at = step.now + policy.retry_after(1, step.party.random())
    sent = source.append(sequence, message, next_at=next_at)
    return sent, outgoing_of(sequence, sent.message)


def _is_free(step: Step, sequence: OutgoingSequence) -> bool:
    """Return whether the worker of *sequence* would send a new message now, and nothing else: no
    other message waits, and no acknowledgement could travel on it."""
    if sequence.identifier is None or sequence.state not in _SENDING:
        return False
    if sequence.offered is not None or sequence.create_id is None:
        return False
    if sequence.due_at is not None and sequence.due_at <= step.now:
        return False
    if not is_callable(sequence.target):
        return False
    highest = step.party.policy.highest_sent(sequence.acknowledged, sequence.window)
    return sequence.next_number <= highest
