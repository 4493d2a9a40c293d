"""Acknowledgements of an incoming sequence: write one, note one that is sent, plan the next.

Who decides when one goes: `gateway.reliability.destination` for programs, and for the gateway
`gateway.sequences.sequences`: it acknowledges what is published, and nothing else.
"""

from typing import Any

from gateway.reliability.party import is_callable
from gateway.reliability.records import IncomingSequence, changed
from gateway.reliability.steps import Step, soonest
from mediation.reliable_messaging import (
    NO_NUMBERS,
    Acknowledgement,
    Nothing,
    Ranges,
    acknowledgement_block,
)
from mediation.reliable_messaging.machines import DestinationState

MOST_NACKS = 64
"""The most messages that are asked for at once: as many as a source has on their way."""
EARLY = 16
"""The part of `Policy.inactivity` by which a look at a quiet sequence may come too early."""


def block_of(step: Step, sequence: IncomingSequence) -> bytes:
    """The header block that acknowledges all committed messages of *sequence*."""
    room, received, final = None, sequence.received, True
    if step.party.tells_room and sequence.ended_at is None:
        buffer = step.tx.invoker.find(sequence.identifier)
        waiting = 0 if buffer is None else buffer.count
        room = min(max(step.party.policy.stored - waiting, 0), 4096)
    if step.party.after_delivery:
        taken = step.tx.invoker.find(sequence.identifier)
        received = received.upto(received.highest if taken is None else taken.delivered)
        final = taken is None or not taken.count  # Messages that wait may be acknowledged later.
    return _written(sequence, received, room, final)


def nack_of(sequence: IncomingSequence, number: int) -> bytes:
    """The header block that asks for the messages missing before *number*, the highest until now;
    empty, where none is missing. It acknowledges none: Nack and ranges do not go together."""
    first = sequence.received.highest + 1
    missing = tuple(range(first, min(number, first + MOST_NACKS)))
    if not missing:
        return b""
    said = Acknowledgement(sequence.identifier, NO_NUMBERS, nacks=missing)
    return acknowledgement_block(sequence.wire.rm, said)


def block_upto(sequence: IncomingSequence, highest: int) -> bytes:
    """The header block that acknowledges messages of *sequence* up to number *highest*."""
    final = highest + 1 >= sequence.received.first_gap
    return _written(sequence, sequence.received.upto(highest), None, final)


def _written(sequence: IncomingSequence, received: Ranges, room: int | None, final: bool) -> bytes:
    """Write the block; with Final where *final*, if the sequence takes no message more."""
    return acknowledgement_block(
        sequence.wire.rm,
        Acknowledgement(
            sequence.identifier,
            received,
            final=final and (sequence.closed or sequence.ended_at is not None),
            buffer_remaining=room,
        ),
        nothing=None if sequence.wire.rm.rules.closes else Nothing.ZERO_RANGE,
    )


def on_its_way(step: Step, sequence: IncomingSequence) -> IncomingSequence:
    """*sequence* once an acknowledgement of all its messages is on its way."""
    if not sequence.unacknowledged and sequence.ack_at is None:
        return sequence
    return with_due_time(step, sequence, unacknowledged=0, ack_at=None)


def with_due_time(step: Step, sequence: IncomingSequence, **changes: Any) -> IncomingSequence:
    """*sequence* with *changes* (of its acknowledgement, or when it was seen), and with the time at
    which a worker looks at it."""
    policy = step.party.policy
    if sequence.ended_at is not None:
        return changed(sequence, **changes, due_at=sequence.ended_at + policy.tombstone)
    last_seen: float = changes.get("last_seen", sequence.last_seen)
    ack_at: float | None = changes.get("ack_at", sequence.ack_at)
    if ack_at is not None and not is_callable(sequence.acks_to):
        ack_at = None
    due_at = soonest(ack_at, sequence.expires_at, last_seen + policy.inactivity)
    return changed(sequence, **changes, due_at=_as_before(step, sequence.due_at, due_at))


def _as_before(step: Step, before: float | None, due_at: float | None) -> float | None:
    """The time *before*, if it is only a little too early. A look that finds nothing to do costs
    less than a change of the store's index of due times for each message."""
    if before is None or due_at is None or not step.now < before <= due_at:
        return due_at
    return before if due_at - before <= step.party.policy.inactivity / EARLY else due_at


def is_over(sequence: IncomingSequence) -> bool:
    """Return whether the sequence takes no message more: all have come, or it is closed."""
    return sequence.closed or sequence.state in (
        DestinationState.COMPLETE,
        DestinationState.TERMINATED,
    )
