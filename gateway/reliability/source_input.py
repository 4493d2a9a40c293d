"""Acknowledgements, replies, responses and faults that a source receives: `SourceInput`."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from gateway.reliability.party import is_callable, is_fetched, replies_on_connections
from gateway.reliability.records import OutgoingMessage, OutgoingSequence, changed
from gateway.reliability.source import Source, after_removal, is_peer
from gateway.reliability.steps import Step, due_now, soonest
from mediation.reliable_messaging import (
    Acknowledgement,
    CloseSequenceResponse,
    FaultName,
    Ranges,
    ReliableMessage,
    RmFault,
    TerminateSequenceResponse,
)
from mediation.reliable_messaging.machines import SourceState
from mediation.soap.addressing import id_to_keep

_ENDING = frozenset(
    {
        FaultName.SEQUENCE_TERMINATED,
        FaultName.UNKNOWN_SEQUENCE,
        FaultName.MESSAGE_NUMBER_ROLLOVER,
        FaultName.LAST_MESSAGE_NUMBER_EXCEEDED,
        FaultName.SEQUENCE_CLOSED,
    }
)


class SourceInput:
    """Takes what one destination says about our sequences, in a transaction that the caller began.

    Args:
        owner: The identity of the peer, where callers are told apart.
    """

    __slots__ = ("_owner", "_step")

    def __init__(self, step: Step, owner: str | None) -> None:
        self._step = step
        self._owner = owner

    def acknowledge(self, said: Acknowledgement) -> RmFault | None:
        """Take an acknowledgement: the messages that it lists are removed.

        Returns:
            The fault to answer; None: there is none.
        """
        step = self._step
        sequence = step.tx.outgoing.find_identified(said.identifier)
        if sequence is None or not is_peer(sequence, self._owner):
            return RmFault(FaultName.UNKNOWN_SEQUENCE, said.identifier)
        if sequence.ended_at is not None:
            return None
        numbers = (*said.nacks, said.ranges.highest)
        if max(numbers) >= sequence.next_number:
            return RmFault(FaultName.INVALID_ACKNOWLEDGEMENT, said.identifier)
        left = _removed(step, sequence, said.ranges)
        sequence = _after_acknowledgement(step, sequence, said, left)
        hurries = step.party.policy.hurries
        for number in said.nacks:
            message = step.tx.outgoing.message(sequence.key, number)
            if message is not None and hurries(message.tries, message.next_at, step.now):
                step.tx.outgoing.put_message(sequence.key, replace(message, next_at=None))
        if said.final and not sequence.acknowledged.is_all(sequence.next_number - 1):
            Source(step).give_up(sequence, "the destination closed it before it had all messages")
            return None
        step.tx.outgoing.put(after_removal(sequence))
        return None

    def take_reply(
        self, key: str, relates_to: str, *, alone: bool = False
    ) -> tuple[OutgoingSequence, int] | None:
        """Take the reply to a message, which is not sent again then.

        Args:
            alone: The reply is in no sequence. It counts only where a reply was wanted, and no
                sequence offered for it: else it may be the fault of an intermediary.

        Returns:
            The sequence and the number of the message; None where none waits for that reply.
        """
        step = self._step
        sequence = step.tx.outgoing.find(key)
        if sequence is None or sequence.ended_at is not None:
            return None
        message = step.tx.outgoing.message_identified(key, id_to_keep(relates_to))
        if message is None or (alone and (sequence.offered or not message.wants_reply)):
            return None
        # Whoever answered the message has received it.
        numbers = Ranges().add(message.number)
        left = step.tx.outgoing.acknowledge(key, numbers, replied=True)
        acknowledged = sequence.acknowledged | numbers
        after = replace(sequence, acknowledged=acknowledged, count=left, due_at=step.now)
        step.tx.outgoing.put(after_removal(after))
        return sequence, message.number

    def is_waiting(self, key: str, relates_to: str) -> bool:
        """Return whether the message, or the CreateSequence, that an answer relates to will be sent
        again."""
        outgoing, message_id = self._step.tx.outgoing, id_to_keep(relates_to)
        sequence = outgoing.find(key)
        if sequence is None or sequence.ended_at is not None:
            return False
        creates = sequence.identifier is None and sequence.create_id == message_id
        return creates or outgoing.message_identified(key, message_id) is not None

    def take_answer(self, key: str, said: ReliableMessage) -> None:
        """Take an answer on a connection of the sequence *key*: its acknowledgements, a fault, the
        answer to a protocol message. What it says about other sequences is ignored."""
        sequence = self._step.tx.outgoing.find(key)
        if sequence is None or sequence.identifier is None:
            return
        identifier = sequence.identifier
        for acknowledgement in said.acknowledgements:
            if acknowledgement.identifier == identifier:
                self.acknowledge(acknowledgement)
        if isinstance(said.fault, RmFault) and said.fault.identifier in (identifier, None):
            self.take_fault(replace(said.fault, identifier=identifier))
        match said.body:
            case CloseSequenceResponse(of) if of == identifier:
                self.take_close_response(identifier)
            case TerminateSequenceResponse(of) if of == identifier:
                self.take_terminate_response(identifier)

    def take_close_response(self, identifier: str) -> None:
        """Take CloseSequenceResponse."""
        step = self._step
        sequence = step.tx.outgoing.find_identified(identifier)
        if sequence is None or sequence.ended_at is not None or not is_peer(sequence, self._owner):
            return
        if sequence.state is SourceState.COMPLETE and not sequence.closed:
            step.tx.outgoing.put(
                replace(sequence, closed=True, tries=0, next_at=None, due_at=step.now)
            )

    def take_terminate_response(self, identifier: str) -> None:
        """Take TerminateSequenceResponse."""
        sequence = self._step.tx.outgoing.find_identified(identifier)
        if sequence is None or sequence.ended_at is not None or not is_peer(sequence, self._owner):
            return
        if sequence.state is SourceState.TERMINATED:
            Source(self._step).finish(sequence)

    def take_fault(self, fault: RmFault) -> bool:
        """Take a fault about one of our sequences.

        Returns:
            Whether it was about one.
        """
        step = self._step
        if fault.identifier is None or fault.name not in _ENDING:
            return False
        sequence = step.tx.outgoing.find_identified(fault.identifier)
        if sequence is None or not is_peer(sequence, self._owner):
            return False
        if sequence.ended_at is not None:
            return True
        if sequence.state in (SourceState.COMPLETE, SourceState.TERMINATED):
            Source(step).finish(sequence)  # All is acknowledged; it is gone there already.
        elif fault.name is FaultName.SEQUENCE_CLOSED:
            # The final acknowledgement decides; it is asked for.
            step.tx.outgoing.put(replace(sequence, due_at=step.now))
        else:
            Source(step).give_up(
                sequence, f"the destination says {fault.name.value}: {fault.reason}"
            )
        return True

    def take_refusal(self, create_id: str, why: str) -> None:
        """Take the refusal of our CreateSequence."""
        sequence = self._step.tx.outgoing.find_creating(create_id)
        if sequence is None or not is_peer(sequence, self._owner):
            return
        if sequence.identifier is None and sequence.ended_at is None:
            Source(self._step).give_up(sequence, why)


def acknowledge_all_plain(step: Step, answers: Sequence[tuple[str, Acknowledgement]]) -> list[bool]:
    """Take acknowledgements of several sequences, at most one of each, which are locked.

    Args:
        answers: The key of each sequence, and its acknowledgement.

    Returns:
        Whether each was taken: it only lists messages of a sequence that goes on.
    """
    found: dict[str, tuple[OutgoingSequence, Acknowledgement]] = {}
    for key, said in answers:
        sequence = step.tx.outgoing.find(key)
        if sequence is not None and _is_plain(sequence, said):
            found[key] = sequence, said
    for key, left in _left(step, found).items():
        sequence, said = found[key]
        step.tx.outgoing.put(after_removal(_after_acknowledgement(step, sequence, said, left)))
    return [key in found for key, _ in answers]


def _is_plain(sequence: OutgoingSequence, said: Acknowledgement) -> bool:
    """Return whether an acknowledgement only lists messages of a sequence that goes on."""
    return (
        sequence.identifier == said.identifier
        and sequence.ended_at is None
        and sequence.owner is None
        and said.ranges.highest < sequence.next_number
        and not (said.final or said.nacks)
    )


def _left(
    step: Step, found: Mapping[str, tuple[OutgoingSequence, Acknowledgement]]
) -> dict[str, int]:
    """Remove the acknowledged messages; return how many are left of each sequence."""
    remove = getattr(step.tx.outgoing, "remove_all", None)
    if remove is None:
        return {
            key: _removed(step, sequence, said.ranges) for key, (sequence, said) in found.items()
        }
    new = {key: _new(sequence, said.ranges) for key, (sequence, said) in found.items()}
    removed = remove({key: ranges for key, ranges in new.items() if ranges})
    return {key: sequence.count - removed.get(key, 0) for key, (sequence, _) in found.items()}


def _after_acknowledgement(
    step: Step, sequence: OutgoingSequence, said: Acknowledgement, left: int
) -> OutgoingSequence:
    """*sequence* after an acknowledgement, with *left* messages left."""
    policy = step.party.policy
    held_back = sequence.next_number - 1 > policy.highest_sent(
        sequence.acknowledged, sequence.window
    )
    # A look of the worker reads the messages on their way, so that it has to have a reason.
    looks = held_back or said.nacks or left == 0
    # A closed sequence keeps its intervals: a peer that repeats Final does not shorten them.
    anew = sequence.state is SourceState.IDLE or (said.final and not sequence.closed)
    due_at = due_now(sequence.due_at, step.now) if looks or anew else sequence.due_at
    if left == 0 and not (said.nacks or anew) and _rests(sequence):
        # The worker would find nothing to do but to set this time.
        due_at = soonest(step.now + policy.keep_alive, sequence.expires_at)
    due_at = soonest(due_at, await_replies(step, sequence, _new(sequence, said.ranges)))
    return changed(
        sequence,
        acknowledged=sequence.acknowledged | said.ranges,
        count=left,
        window=said.buffer_remaining,
        last_acked_at=step.now,
        closed=sequence.closed or said.final,
        tries=0 if anew else sequence.tries,
        next_at=None if anew else sequence.next_at,
        due_at=due_at,
    )


def _rests(sequence: OutgoingSequence) -> bool:
    """Return whether a sequence without messages has nothing to do before its keep-alive."""
    return (
        sequence.state is SourceState.SENDING
        and sequence.poll_at is None
        and is_callable(sequence.target)
        and (sequence.acks_to is None or not is_fetched(sequence.acks_to))
    )


def _removed(step: Step, sequence: OutgoingSequence, ranges: Ranges) -> int:
    """Remove the acknowledged messages; return how many are left."""
    remove = getattr(step.tx.outgoing, "remove_acknowledged", None)
    if remove is None:
        return step.tx.outgoing.acknowledge(sequence.key, ranges)
    return sequence.count - int(remove(sequence.key, _new(sequence, ranges)))


def _new(sequence: OutgoingSequence, ranges: Ranges) -> Ranges:
    """The part of *ranges* that may have messages: those acknowledged before are gone, or wait for
    their replies."""
    first = sequence.acknowledged.first_gap
    return Ranges(tuple((max(low, first), high) for low, high in ranges.pairs if high >= first))


def await_replies(step: Step, sequence: OutgoingSequence, numbers: Ranges) -> float | None:
    """Start the time for replies to *numbers*, which are acknowledged now; return the next time
    when one of these messages is due."""
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
    """*message*, which is acknowledged, with the time by which its reply has to come. It is sent
    again where its reply comes on the connection; otherwise rarely, as a keep-alive."""
    policy = step.party.policy
    answer_by = message.answer_by
    if answer_by is None and policy.reply_within is not None:
        answer_by = step.now + policy.reply_within
    next_at = message.next_at
    if not replies_on_connections(sequence):
        next_at = step.now + policy.keep_alive
    return changed(message, next_at=soonest(next_at, answer_by), answer_by=answer_by)
