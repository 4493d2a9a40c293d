"""The worker of incoming sequences (RMDSequenceWorker): acknowledgements that are due, sequences
that nobody ends, tombstones."""

from dataclasses import replace

from gateway.reliability import acknowledgements, sequence_end
from gateway.reliability.back_channel import acknowledgement_alone
from gateway.reliability.party import Party, is_callable
from gateway.reliability.records import IncomingSequence
from gateway.reliability.steps import Step, begin
from gateway.reliability.values import Outgoing
from mediation.reliable_messaging import FaultName, RmFault, write_rm_fault
from mediation.reliable_messaging.machines import DestinationState


def watch(party: Party, identifier: str, now: float) -> list[Outgoing]:
    """Look at an incoming sequence, and decide what is sent now."""
    with begin(party, now) as step:
        sequence = step.tx.incoming.find(identifier)
        if sequence is None or sequence.due_at is None or sequence.due_at > now:
            return []
        if sequence.ended_at is not None:
            _bury(step, sequence, sequence.ended_at)
            return []
        quiet_until = sequence.last_seen + party.policy.inactivity
        if quiet_until <= now or (sequence.expires_at is not None and sequence.expires_at <= now):
            return _expire(step, sequence)
        outgoing: list[Outgoing] = []
        if sequence.ack_at is not None and sequence.ack_at <= now:
            if is_callable(sequence.acks_to):
                outgoing.append(acknowledgement_alone(step, sequence))
            sequence = replace(sequence, unacknowledged=0, ack_at=None)
        step.tx.incoming.put(acknowledgements.with_due_time(step, sequence))
        return outgoing


def _expire(step: Step, sequence: IncomingSequence) -> list[Outgoing]:
    """End a sequence that its source forgot."""
    whole = sequence.state is DestinationState.COMPLETE
    ended = sequence_end.terminate(step, sequence, None)
    if whole or not is_callable(ended.acks_to):
        return []
    action, envelope = write_rm_fault(
        ended.wire,
        RmFault(FaultName.SEQUENCE_TERMINATED, ended.identifier),
        about_header=True,
        to=ended.acks_to,
    )
    return [Outgoing(ended.acks_to, envelope, action, ended.wire, "SequenceTerminated")]


def _bury(step: Step, sequence: IncomingSequence, ended_at: float) -> None:
    """Remove a tombstone whose time is over, unless its application has not taken everything."""
    tombstone = step.party.policy.tombstone
    buffer = step.tx.invoker.find(sequence.identifier)
    waits = buffer is not None and buffer.count > 0
    if step.now < ended_at + tombstone or waits:
        due_at = max(ended_at + tombstone, step.now + (tombstone if waits else 0))
        step.tx.incoming.put(replace(sequence, due_at=due_at))
        return
    step.tx.incoming.remove(sequence.identifier)
    step.tx.invoker.remove(sequence.identifier)
    # Messages that were delivered after the end may have been answered.
    sequence_end.end_anonymous_replies(step, sequence)
