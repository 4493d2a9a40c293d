"""The source of a sequence (RMSSequence), as clients change it: store a message, give it a number,
end a sequence, give it up. `source_input` handles what the destination says, `source_worker`
decides what is sent."""

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

from gateway.reliability.party import Channel, Party, is_callable, replies_on_connections, reply_key
from gateway.reliability.records import OutgoingMessage, OutgoingSequence, Wire, changed
from gateway.reliability.steps import Step, due_now
from gateway.reliability.values import NoticeKind, SequenceCallback
from mediation.model.messages import EndpointReference
from mediation.model.values import checked_dataclass
from mediation.reliable_messaging import (
    Kind,
    Ranges,
)
from mediation.reliable_messaging.application import write_application_message
from mediation.reliable_messaging.machines import SourceEvent, SourceState, after_source
from mediation.soap.addressing import id_to_keep, is_anonymous
from mediation.soap.body_elements import BodyContent

GENERATIONS = 16
"""The most sequences of one name: the newest takes messages, those before it come to their ends."""

_OPEN = frozenset({SourceState.WAITING, SourceState.SENDING, SourceState.IDLE})
_UNFINISHED = frozenset({SourceState.SENDING, SourceState.SENDING_ENDED})


class SourceFull(Exception):
    """Too many messages, or sequences, of one name wait to be acknowledged; nothing was changed."""


@checked_dataclass(frozen=True, slots=True)
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
    body: BodyContent = b""
    message_id: str | None = None
    relates_to: str | None = None
    wants_reply: bool = False
    last: bool = False
    envelope: bytes | None = None


@checked_dataclass(frozen=True, slots=True)
class Sent:
    """The place and number that a message was stored with."""

    key: str
    number: int
    message_id: str
    message: OutgoingMessage


class Source:
    """The source of sequences, in a transaction that the caller began."""

    __slots__ = ("_step",)

    def __init__(self, step: Step) -> None:
        self._step = step

    def send(self, name: str, channel: Channel, message: Message) -> Sent:
        """Store a message in the sequence *name* to the target of *channel*; make one where there
        is none that takes messages.

        Raises:
            SourceFull: Too much waits already.
        """
        return self.append(self.sequence_for(name, channel), message)

    def sequence_for(self, name: str, channel: Channel) -> OutgoingSequence:
        """The sequence *name* to the target of *channel* that takes messages; a new one, which is
        not stored yet, where there is none.

        Raises:
            SourceFull: Too many wait already.
        """
        return self._open_sequence(name, channel) or self._new_sequence(name, channel)

    def _open_sequence(self, name: str, channel: Channel) -> OutgoingSequence | None:
        step = self._step
        for key in _keys(name, channel.target):
            sequence = step.tx.outgoing.find(key)
            if sequence is None or not takes_messages(sequence):
                continue
            if not step.party.policy.is_half_gone(
                sequence.created_at, sequence.expires_at, step.now
            ):
                return sequence
            self.end_sequence(sequence)
        return None

    def _new_sequence(self, name: str, channel: Channel) -> OutgoingSequence:
        step = self._step
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

    def append(
        self, sequence: OutgoingSequence, message: Message, *, next_at: float | None = None
    ) -> Sent:
        """Store a message in a sequence that takes messages. The number and the message are of one
        transaction: one that is rolled back leaves no gap.

        Args:
            next_at: When it is sent again, where the caller sends it; None: the worker of the
                sequence sends it.

        Raises:
            SourceFull: Too much waits already.
            OutOfTurn: The last message is there.
        """
        step = self._step
        if sequence.count >= step.party.policy.stored and _only_keeps(sequence):
            sequence = self._without_first(sequence)
        message_id = message.message_id or step.party.new_id()
        if next_at is None:
            due_at = due_now(sequence.due_at, step.now)
        else:
            due_at = next_at if sequence.due_at is None else min(sequence.due_at, next_at)
        number = self._take_number(sequence, last=message.last, due_at=due_at)
        kept = OutgoingMessage(
            number,
            id_to_keep(message_id),
            message.action,
            message.envelope or _written(sequence, message, message_id),
            relates_to=id_to_keep(message.relates_to) if message.relates_to else None,
            wants_reply=message.wants_reply
            and (step.party.policy.reply_within is not None or replies_on_connections(sequence)),
            tries=0 if next_at is None else 1,
            next_at=next_at,
        )
        step.tx.outgoing.put_message(sequence.key, kept)
        return Sent(sequence.key, number, message_id, kept)

    def _without_first(self, sequence: OutgoingSequence) -> OutgoingSequence:
        [first] = self._step.tx.outgoing.messages(sequence.key, 1)
        numbers = Ranges().add(first.number)
        left = self._step.tx.outgoing.acknowledge(sequence.key, numbers, replied=True)
        return replace(sequence, count=left)

    def number(self, sequence: OutgoingSequence, message_id: str) -> OutgoingMessage:
        """Give the next number of a sequence to a message that the caller keeps and sends: no
        worker does. It counts as sent once.

        Raises:
            SourceFull: Too much waits already.
            OutOfTurn: The last message is there.
        """
        taken = self._take_number(sequence, last=False, due_at=None)
        message = OutgoingMessage(taken, id_to_keep(message_id), "", b"", tries=1)
        self._step.tx.outgoing.put_message(sequence.key, message)
        return message

    def _take_number(self, sequence: OutgoingSequence, *, last: bool, due_at: float | None) -> int:
        if sequence.count >= self._step.party.policy.stored and not last:
            raise SourceFull(f"{sequence.count} messages of {sequence.key!r} are not acknowledged")
        taken = sequence.next_number
        event = SourceEvent.LMR if last else SourceEvent.AMR
        new = taken == 1 and sequence.identifier is None
        self._step.tx.outgoing.put(
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

    def take_back(self, key: str, numbers: Ranges) -> None:
        """Take back the highest *numbers* of a sequence, which `number` gave and of whose messages
        nothing was sent: the next message gets the first of them. Those that another number follows
        stay given."""
        step = self._step
        sequence = step.tx.outgoing.find(key)
        if sequence is None or not takes_messages(sequence):
            return
        last = sequence.next_number - 1
        taken = next((pair for pair in numbers.pairs if pair[0] <= last <= pair[1]), None)
        if taken is None:
            return
        left = step.tx.outgoing.acknowledge(key, Ranges(((taken[0], last),)), replied=True)
        step.tx.outgoing.put(after_removal(replace(sequence, next_number=taken[0], count=left)))

    def end(self, name: str, channel: Channel) -> bool:
        """End the sequence *name*: no message comes any more.

        Returns:
            Whether there was one that took messages.
        """
        sequence = self._open_sequence(name, channel)
        if sequence is not None:
            self.end_sequence(sequence)
        return sequence is not None

    def end_sequence(self, sequence: OutgoingSequence) -> None:
        """Let the sequence take no message more; those that wait are sent. Nothing changes where it
        has ended."""
        if not takes_messages(sequence):
            return
        if not is_callable(sequence.target) and is_anonymous(sequence.target.address):
            return  # Its replies go back on connections: it ends with the sequence of requests.
        if Kind.LAST_MESSAGE in sequence.wire.rm.rules.kinds and sequence.next_number > 1:
            # Nobody said that the last message was the last: 1.0 sends an empty one.
            action = sequence.wire.rm.action(Kind.LAST_MESSAGE)
            self.append(sequence, Message(action, last=True))
            return
        self._step.tx.outgoing.put(
            replace(
                sequence,
                state=after_source(sequence.state, SourceEvent.END),
                last_number=sequence.next_number - 1 or None,
                due_at=self._step.now,
                next_at=None,
                tries=0,
            )
        )

    def accept_offer(
        self,
        identifier: str,
        offered: str,
        wire: Wire,
        target: EndpointReference,
        *,
        owner: str | None,
        expires_at: float | None,
    ) -> None:
        """Make the sequence for replies that the creator of *identifier* offered."""
        step = self._step
        step.tx.outgoing.put(
            OutgoingSequence(
                reply_key(identifier),
                target,
                wire,
                SourceState.IDLE,
                identifier=offered,
                acks_to=_own_address(step.party, wire),
                owner=owner,
                expires_at=expires_at,
                created_at=step.now,
                last_acked_at=step.now,
            )
        )

    def give_up(self, sequence: OutgoingSequence, why: str) -> None:
        """End a sequence with messages that nobody acknowledged; its client is told in the same
        transaction."""
        step = self._step
        ended = replace(sequence, failure=why, ended_at=step.now, due_at=step.now, poll_at=None)
        step.tx.outgoing.put(ended)
        told = step.party.given_up.get(sequence.callback or "")
        if told is not None:
            self._tell(told, ended)
        step.tell(NoticeKind.GIVEN_UP, sequence.identifier or sequence.key, why)

    def finish(self, sequence: OutgoingSequence) -> None:
        """End a sequence that has nothing more to do: it is a tombstone."""
        step = self._step
        state = sequence.state
        if state is SourceState.COMPLETE:
            state = after_source(state, SourceEvent.TMS)
        ended = replace(sequence, state=state, answered=True, ended_at=step.now, due_at=step.now)
        step.tx.outgoing.put(ended)
        told = step.party.completed.get(sequence.callback or "")
        if told is not None and sequence.create_id is not None and not sequence.count:
            self._tell(told, ended)

    def _tell(self, told: SequenceCallback, ended: OutgoingSequence) -> None:
        self._step.call(ended.key)
        told(self._step.tx, ended)


def _only_keeps(sequence: OutgoingSequence) -> bool:
    """Return whether it has replies that go back on connections, which nobody ever acknowledges."""
    return sequence.identifier is None and sequence.create_id is None


def is_kept_elsewhere(message: OutgoingMessage) -> bool:
    """Return whether the caller of `Source.number` keeps *message*, and sends it."""
    return not message.envelope


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


def takes_messages(sequence: OutgoingSequence) -> bool:
    """Return whether another message may be stored in the sequence."""
    return sequence.ended_at is None and sequence.state in _OPEN


def key_of(name: str, target: EndpointReference) -> str:
    """The key of the first sequence *name* to *target*."""
    return _key(name, target.address)


@lru_cache(4096)
def _key(name: str, address: str) -> str:
    return f"to {id_to_keep(address)} as {name}"


def is_key_of(key: str, name: str, target: EndpointReference) -> bool:
    """Return whether *key* is of one of the sequences *name* to *target*."""
    return key in _keys(name, target)


def keys_upto(name: str, target: EndpointReference, last: str | None) -> list[str]:
    """The keys of the sequences *name* that are looked at to find *last*, which is one of them;
    none where it is not."""
    if last == key_of(name, target):
        return [last]  # Nearly always.
    found: list[str] = []
    for key in _keys(name, target) if last is not None else ():
        found.append(key)
        if key == last:
            return found
    return []


def _keys(name: str, target: EndpointReference) -> Iterator[str]:
    key = key_of(name, target)
    yield key
    for number in range(2, GENERATIONS + 1):  # In the order in which they are locked.
        yield f"{key} ({number:02})"


def _is_replaceable(sequence: OutgoingSequence) -> bool:
    """Return whether its key may be given to another sequence: it is a tombstone, and its worker
    needs it neither to end the sequence of its replies nor to fetch them."""
    return sequence.ended_at is not None and sequence.offered is None


def _own_address(party: Party, wire: Wire) -> EndpointReference | None:
    return None if party.address is None else EndpointReference(party.address, wire.wsa)


def after_removal(sequence: OutgoingSequence) -> OutgoingSequence:
    """*sequence* after messages were removed, in the state that it has if none is left."""
    if sequence.count or sequence.state not in _UNFINISHED:
        return sequence
    state = after_source(sequence.state, SourceEvent.ACKALL)
    return changed(sequence, state=state, tries=0, next_at=None)


def is_peer(sequence: OutgoingSequence, owner: str | None) -> bool:
    """Return whether *owner* is the other side of the sequence."""
    return sequence.owner is None or sequence.owner == owner
