"""The source of a sequence (RMSSequence): what clients and peers change of it, each in a
transaction that somebody began. What it sends is decided in `sending`."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from gateway.reliability.party import Channel, is_callable, is_fetched, reply_key
from gateway.reliability.records import OutgoingMessage, OutgoingSequence, Wire, changed
from gateway.reliability.replies import await_replies, replies_on_connections
from gateway.reliability.steps import Step, soonest
from gateway.reliability.values import NoticeKind, Told
from mediation import EndpointReference, id_to_keep, is_anonymous
from mediation.reliable_messaging import (
    Acknowledgement,
    CloseSequenceResponse,
    FaultName,
    Kind,
    Ranges,
    ReliableMessage,
    RmFault,
    TerminateSequenceResponse,
)
from mediation.reliable_messaging.application import write_application_message
from mediation.reliable_messaging.machines import SourceEvent, SourceState, after_source

GENERATIONS = 16
"""The most sequences of one name: the newest takes messages, those before it come to their ends."""

_OPEN = frozenset({SourceState.WAITING, SourceState.SENDING, SourceState.IDLE})
_UNFINISHED = frozenset({SourceState.SENDING, SourceState.SENDING_ENDED})


class SourceFull(Exception):
    """Too many messages, or sequences, of one name wait to be acknowledged; nothing was changed."""


@dataclass(frozen=True, slots=True)
class Message:
    """A message of an application on its way out.

    Attributes:
        body: The element in its body, which declares every namespace that it uses; or nothing.
        message_id: None: a new one.
        wants_reply: A reply is expected where the channel gets its replies.
        last: It is the last one of its sequence.
        envelope: The finished envelope, with *message_id*, instead of *body*.
    """

    action: str
    body: bytes = b""
    message_id: str | None = None
    relates_to: str | None = None
    wants_reply: bool = False
    last: bool = False
    envelope: bytes | None = None


@dataclass(frozen=True, slots=True)
class Sent:
    """Where a message was stored."""

    key: str
    number: int
    message_id: str


def send(step: Step, name: str, channel: Channel, message: Message) -> Sent:
    """Store a message in the sequence *name* to the target of *channel*; make one where there is
    none that takes messages.

    Raises:
        SourceFull: Too much waits already.
    """
    sequence = _open_sequence(step, name, channel)
    if sequence is None:
        sequence = _new_sequence(step, name, channel)
    return append(step, sequence, message)


def append(step: Step, sequence: OutgoingSequence, message: Message) -> Sent:
    """Store a message in a sequence that takes messages. The number and the message are of one
    transaction: one that is rolled back leaves no gap.

    Raises:
        SourceFull: Too much waits already.
        OutOfTurn: The last message is there.
    """
    if sequence.count >= step.party.policy.stored and _only_keeps(sequence):
        sequence = _without_first(step, sequence)
    message_id = message.message_id or step.party.new_id()
    number = _take_number(step, sequence, last=message.last, due_at=step.now)
    step.tx.outgoing.put_message(
        sequence.key,
        OutgoingMessage(
            number,
            id_to_keep(message_id),
            message.action,
            message.envelope or _written(sequence, message, message_id),
            relates_to=id_to_keep(message.relates_to) if message.relates_to else None,
            wants_reply=message.wants_reply
            and (step.party.policy.reply_within is not None or replies_on_connections(sequence)),
        ),
    )
    return Sent(sequence.key, number, message_id)


def _only_keeps(sequence: OutgoingSequence) -> bool:
    """Whether it has replies that go back on connections, and that nobody ever acknowledges."""
    return sequence.identifier is None and sequence.create_id is None


def _without_first(step: Step, sequence: OutgoingSequence) -> OutgoingSequence:
    [first] = step.tx.outgoing.messages(sequence.key, 1)
    numbers = Ranges().add(first.number)
    left = step.tx.outgoing.acknowledge(sequence.key, numbers, replied=True)
    return replace(sequence, count=left)


def number(step: Step, sequence: OutgoingSequence, message_id: str) -> OutgoingMessage:
    """Give the next number of a sequence to a message that somebody else keeps, and sends: no
    worker does. It counts as sent once.

    Raises:
        SourceFull: Too much waits already.
        OutOfTurn: The last message is there.
    """
    taken = _take_number(step, sequence, last=False, due_at=None)
    message = OutgoingMessage(taken, id_to_keep(message_id), "", b"", tries=1)
    step.tx.outgoing.put_message(sequence.key, message)
    return message


def take_back(step: Step, key: str, numbers: Ranges) -> None:
    """Take back the highest *numbers* of a sequence, which `number` gave and of whose messages
    nothing was sent: the next message gets the first of them. Those that another number follows
    stay given."""
    sequence = step.tx.outgoing.find(key)
    if sequence is None or not takes_messages(sequence):
        return
    last = sequence.next_number - 1
    taken = next((pair for pair in numbers.pairs if pair[0] <= last <= pair[1]), None)
    if taken is None:
        return
    left = step.tx.outgoing.acknowledge(key, Ranges(((taken[0], last),)), replied=True)
    step.tx.outgoing.put(_emptied(replace(sequence, next_number=taken[0], count=left)))


def is_kept_elsewhere(message: OutgoingMessage) -> bool:
    """Whether somebody else keeps *message*, which got its number of `number`."""
    return not message.envelope


def _take_number(
    step: Step, sequence: OutgoingSequence, *, last: bool, due_at: float | None
) -> int:
    if sequence.count >= step.party.policy.stored and not last:
        raise SourceFull(f"{sequence.count} messages of {sequence.key!r} are not acknowledged")
    taken = sequence.next_number
    event = SourceEvent.LMR if last else SourceEvent.AMR
    new = taken == 1 and sequence.identifier is None
    step.tx.outgoing.put(
        changed(
            sequence,
            state=after_source(None if new else sequence.state, event),
            next_number=taken + 1,
            last_number=taken if last else None,
            count=sequence.count + 1,
            due_at=due_at,
        )
    )
    return taken


def _written(sequence: OutgoingSequence, message: Message, message_id: str) -> bytes:
    return write_application_message(
        sequence.wire.soap,
        sequence.wire.wsa,
        action=message.action,
        body=message.body,
        to=sequence.target,
        message_id=message_id,
        relates_to=message.relates_to,
        reply_to=sequence.acks_to if message.wants_reply else None,
    )


def end(step: Step, name: str, channel: Channel) -> bool:
    """End the sequence *name*: no message comes any more.

    Returns:
        Whether there was one that took messages.
    """
    sequence = _open_sequence(step, name, channel)
    if sequence is not None:
        end_sequence(step, sequence)
    return sequence is not None


def end_sequence(step: Step, sequence: OutgoingSequence) -> None:
    """Let no message more come; what waits is sent. Nothing changes where it has ended."""
    if not takes_messages(sequence):
        return
    if not is_callable(sequence.target) and is_anonymous(sequence.target.address):
        return  # Its messages go back on connections: it ends with the sequence of the requests.
    if Kind.LAST_MESSAGE in sequence.wire.rm.rules.kinds and sequence.next_number > 1:
        # Nobody said that the last message was the last: 1.0 sends an empty one.
        action = sequence.wire.rm.action(Kind.LAST_MESSAGE)
        append(step, sequence, Message(action, last=True))
        return
    step.tx.outgoing.put(
        replace(
            sequence,
            state=after_source(sequence.state, SourceEvent.END),
            last_number=sequence.next_number - 1 or None,
            due_at=step.now,
            next_at=None,
            tries=0,
        )
    )


def takes_messages(sequence: OutgoingSequence) -> bool:
    """Whether another message may be stored in it."""
    return sequence.ended_at is None and sequence.state in _OPEN


def key_of(name: str, target: EndpointReference) -> str:
    """The key of the first sequence *name* to *target*."""
    return f"to {id_to_keep(target.address)} as {name}"


def is_key_of(key: str, name: str, target: EndpointReference) -> bool:
    """Whether *key* is of one of the sequences *name* to *target*."""
    return key in _keys(name, target)


def _keys(name: str, target: EndpointReference) -> Iterator[str]:
    key = key_of(name, target)
    yield key
    for number in range(2, GENERATIONS + 1):  # In the order in which they are locked.
        yield f"{key} ({number:02})"


def _open_sequence(step: Step, name: str, channel: Channel) -> OutgoingSequence | None:
    for key in _keys(name, channel.target):
        sequence = step.tx.outgoing.find(key)
        if sequence is None or not takes_messages(sequence):
            continue
        if not step.party.policy.is_half_gone(sequence.created_at, sequence.expires_at, step.now):
            return sequence
        end_sequence(step, sequence)
    return None


def _new_sequence(step: Step, name: str, channel: Channel) -> OutgoingSequence:
    for key in _keys(name, channel.target):
        found = step.tx.outgoing.find(key)
        if found is not None and not _is_replaceable(found):
            continue
        if found is not None:
            step.tx.outgoing.remove(key)
        return OutgoingSequence(
            key,
            channel.target,
            channel.wire,
            SourceState.WAITING,
            offered=step.party.new_id() if channel.offers else None,
            callback=channel.callback,
            acks_to=channel.acks_to,
            create_id=step.party.new_id(),
            owner=channel.owner,
            created_at=step.now,
        )
    raise SourceFull(
        f"{GENERATIONS} sequences {name!r} to {channel.target.address!r} have not ended"
    )


def _is_replaceable(sequence: OutgoingSequence) -> bool:
    """Whether its key may be given to another one: it is a tombstone, and its worker needs it
    neither to end the sequence of its replies nor to fetch them."""
    return sequence.ended_at is not None and sequence.offered is None


def accepted(
    step: Step,
    identifier: str,
    offered: str,
    wire: Wire,
    target: EndpointReference,
    *,
    owner: str | None,
    expires_at: float | None,
) -> None:
    """Make the sequence for replies that the creator of *identifier* offered."""
    step.tx.outgoing.put(
        OutgoingSequence(
            reply_key(identifier),
            target,
            wire,
            SourceState.IDLE,
            identifier=offered,
            acks_to=_own(step, wire),
            owner=owner,
            expires_at=expires_at,
            created_at=step.now,
            last_acked_at=step.now,
        )
    )


def _own(step: Step, wire: Wire) -> EndpointReference | None:
    address = step.party.address
    return EndpointReference(address, wire.wsa) if address is not None else None


def acknowledged(step: Step, said: Acknowledgement, owner: str | None) -> RmFault | None:
    """Take an acknowledgement: what it lists is removed.

    Returns:
        The fault to answer.
    """
    sequence = step.tx.outgoing.find_identified(said.identifier)
    if sequence is None or not is_peer(sequence, owner):
        return RmFault(FaultName.UNKNOWN_SEQUENCE, said.identifier)
    if sequence.ended_at is not None:
        return None
    numbers = (*said.nacks, said.ranges.highest)
    if max(numbers) >= sequence.next_number:
        return RmFault(FaultName.INVALID_ACKNOWLEDGEMENT, said.identifier)
    left = _removed(step, sequence, said.ranges)
    sequence = _told_of(step, sequence, said, left)
    hurries = step.party.policy.hurries
    for number in said.nacks:
        message = step.tx.outgoing.message(sequence.key, number)
        if message is not None and hurries(message.tries, message.next_at, step.now):
            step.tx.outgoing.put_message(sequence.key, replace(message, next_at=None))
    if said.final and not sequence.acknowledged.is_all(sequence.next_number - 1):
        give_up(step, sequence, "the destination closed it before it had all messages")
        return None
    step.tx.outgoing.put(_emptied(sequence))
    return None


def acknowledged_all(step: Step, answers: Sequence[tuple[str, Acknowledgement]]) -> list[bool]:
    """Take acknowledgements of several sequences, at most one of each, which are locked.

    Args:
        answers: The key of the sequence whose message was answered, and what was said.

    Returns:
        Whether each was taken: it says what `acknowledged` removes messages for, and nothing else.
    """
    found: dict[str, tuple[OutgoingSequence, Acknowledgement]] = {}
    for key, said in answers:
        sequence = step.tx.outgoing.find(key)
        if sequence is not None and _is_plain(sequence, said):
            found[key] = sequence, said
    for key, left in _left(step, found).items():
        sequence, said = found[key]
        step.tx.outgoing.put(_emptied(_told_of(step, sequence, said, left)))
    return [key in found for key, _ in answers]


def _is_plain(sequence: OutgoingSequence, said: Acknowledgement) -> bool:
    """Whether an acknowledgement only says what has arrived of a sequence that goes on."""
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
    """Remove what is acknowledged; how many messages are left of each sequence."""
    remove = getattr(step.tx.outgoing, "remove_all", None)
    if remove is None:
        return {
            key: _removed(step, sequence, said.ranges) for key, (sequence, said) in found.items()
        }
    new = {key: _new(sequence, said.ranges) for key, (sequence, said) in found.items()}
    removed = remove({key: ranges for key, ranges in new.items() if ranges})
    return {key: sequence.count - removed.get(key, 0) for key, (sequence, _) in found.items()}


def _told_of(
    step: Step, sequence: OutgoingSequence, said: Acknowledgement, left: int
) -> OutgoingSequence:
    """*sequence*, of which *left* messages are left, when that is said of it."""
    policy = step.party.policy
    held_back = sequence.next_number - 1 > policy.highest_sent(
        sequence.acknowledged, sequence.window
    )
    # Each look reads what is on its way: none is for nothing.
    looks = held_back or said.nacks or left == 0
    # One that was closed before has its intervals; a peer that says so again shortens none.
    anew = sequence.state is SourceState.IDLE or (said.final and not sequence.closed)
    due_at = step.now if looks or anew else sequence.due_at
    if left == 0 and not (said.nacks or anew) and _rests(sequence):
        # A worker would find nothing to do but to set this time.
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
    """Whether a sequence without messages has nothing to do until it asks for a sign of life."""
    return (
        sequence.state is SourceState.SENDING
        and sequence.poll_at is None
        and is_callable(sequence.target)
        and (sequence.acks_to is None or not is_fetched(sequence.acks_to))
    )


def _removed(step: Step, sequence: OutgoingSequence, ranges: Ranges) -> int:
    """Remove what is acknowledged; how many messages are left."""
    remove = getattr(step.tx.outgoing, "remove_acknowledged", None)
    if remove is None:
        return step.tx.outgoing.acknowledge(sequence.key, ranges)
    return sequence.count - int(remove(sequence.key, _new(sequence, ranges)))


def _new(sequence: OutgoingSequence, ranges: Ranges) -> Ranges:
    """Those of *ranges* that may have messages: what was acknowledged before is gone, or waits for
    its reply."""
    first = sequence.acknowledged.first_gap
    return Ranges(tuple((max(low, first), high) for low, high in ranges.pairs if high >= first))


def answered(step: Step, key: str, said: ReliableMessage, owner: str | None) -> None:
    """Take what came back on a connection of the sequence with this *key*: what it acknowledges of
    it, a fault about it, the answer to a protocol message. Of others nothing is taken."""
    sequence = step.tx.outgoing.find(key)
    if sequence is None or sequence.identifier is None:
        return
    identifier = sequence.identifier
    for acknowledgement in said.acknowledgements:
        if acknowledgement.identifier == identifier:
            acknowledged(step, acknowledgement, owner)
    if isinstance(said.fault, RmFault) and said.fault.identifier in (identifier, None):
        faulted(step, replace(said.fault, identifier=identifier), owner)
    match said.body:
        case CloseSequenceResponse(of) if of == identifier:
            closed(step, identifier, owner)
        case TerminateSequenceResponse(of) if of == identifier:
            terminated(step, identifier, owner)


def replied(
    step: Step, key: str, relates_to: str, *, alone: bool = False
) -> tuple[OutgoingSequence, int] | None:
    """Take the reply to a message, which is not sent again then.

    Args:
        alone: The reply is in no sequence. It is one only where one was asked for, and none was
            offered: else it is the fault of somebody in between.

    Returns:
        The sequence and the number of the message; None where none waits for that reply.
    """
    sequence = step.tx.outgoing.find(key)
    if sequence is None or sequence.ended_at is not None:
        return None
    message = step.tx.outgoing.message_identified(key, id_to_keep(relates_to))
    if message is None or (alone and (sequence.offered or not message.wants_reply)):
        return None
    # Who answered it has it.
    numbers = Ranges().add(message.number)
    left = step.tx.outgoing.acknowledge(key, numbers, replied=True)
    acknowledged = sequence.acknowledged | numbers
    after = replace(sequence, acknowledged=acknowledged, count=left, due_at=step.now)
    step.tx.outgoing.put(_emptied(after))
    return sequence, message.number


def _emptied(sequence: OutgoingSequence) -> OutgoingSequence:
    if sequence.count or sequence.state not in _UNFINISHED:
        return sequence
    state = after_source(sequence.state, SourceEvent.ACKALL)
    return changed(sequence, state=state, tries=0, next_at=None)


def is_peer(sequence: OutgoingSequence, owner: str | None) -> bool:
    """Whether *owner* is the other side of the sequence."""
    return sequence.owner is None or sequence.owner == owner


def give_up(step: Step, sequence: OutgoingSequence, why: str) -> None:
    """End a sequence with messages that nobody acknowledged; its client is told in the same
    transaction."""
    ended = replace(sequence, failure=why, ended_at=step.now, due_at=step.now, poll_at=None)
    step.tx.outgoing.put(ended)
    told = step.party.given_up.get(sequence.callback or "")
    if told is not None:
        _tell(step, told, ended)
    step.tell(NoticeKind.GIVEN_UP, sequence.identifier or sequence.key, why)


def finish(step: Step, sequence: OutgoingSequence) -> None:
    """End a sequence that has nothing more to do: it is a tombstone."""
    state = sequence.state
    if state is SourceState.COMPLETE:
        state = after_source(state, SourceEvent.TMS)
    ended = replace(sequence, state=state, answered=True, ended_at=step.now, due_at=step.now)
    step.tx.outgoing.put(ended)
    told = step.party.completed.get(sequence.callback or "")
    if told is not None and sequence.create_id is not None and not sequence.count:
        _tell(step, told, ended)


def _tell(step: Step, told: Told, ended: OutgoingSequence) -> None:
    step.call(ended.key)
    told(step.tx, ended)


def closed(step: Step, identifier: str, owner: str | None) -> None:
    """Take CloseSequenceResponse."""
    sequence = step.tx.outgoing.find_identified(identifier)
    if sequence is None or sequence.ended_at is not None or not is_peer(sequence, owner):
        return
    if sequence.state is SourceState.COMPLETE and not sequence.closed:
        step.tx.outgoing.put(replace(sequence, closed=True, tries=0, next_at=None, due_at=step.now))


def terminated(step: Step, identifier: str, owner: str | None) -> None:
    """Take TerminateSequenceResponse."""
    sequence = step.tx.outgoing.find_identified(identifier)
    if sequence is None or sequence.ended_at is not None or not is_peer(sequence, owner):
        return
    if sequence.state is SourceState.TERMINATED:
        finish(step, sequence)


_ENDING = frozenset(
    {
        FaultName.SEQUENCE_TERMINATED,
        FaultName.UNKNOWN_SEQUENCE,
        FaultName.MESSAGE_NUMBER_ROLLOVER,
        FaultName.LAST_MESSAGE_NUMBER_EXCEEDED,
        FaultName.SEQUENCE_CLOSED,
    }
)


def faulted(step: Step, fault: RmFault, owner: str | None) -> bool:
    """Take a fault about one of our sequences.

    Returns:
        Whether it was about one.
    """
    if fault.identifier is None or fault.name not in _ENDING:
        return False
    sequence = step.tx.outgoing.find_identified(fault.identifier)
    if sequence is None or not is_peer(sequence, owner):
        return False
    if sequence.ended_at is not None:
        return True
    if sequence.state in (SourceState.COMPLETE, SourceState.TERMINATED):
        finish(step, sequence)  # All is acknowledged; it is gone there already.
    elif fault.name is FaultName.SEQUENCE_CLOSED:
        # The final acknowledgement decides; it is asked for.
        step.tx.outgoing.put(replace(sequence, due_at=step.now))
    else:
        give_up(step, sequence, f"the destination says {fault.name.value}: {fault.reason}")
    return True


def refused(step: Step, create_id: str, why: str, owner: str | None) -> None:
    """Take the refusal of our CreateSequence."""
    sequence = step.tx.outgoing.find_creating(create_id)
    if sequence is None or not is_peer(sequence, owner):
        return
    if sequence.identifier is None and sequence.ended_at is None:
        give_up(step, sequence, why)
