"""Handlers of requests about sequences, and of events that come in one."""

from dataclasses import dataclass, field, replace

from adapters import AdapterUnavailable
from filters import Reason, Refused
from gateway.exchange import Handlers, Inbound
from gateway.publishing.operations import PublishingOperations
from gateway.reliability.back_channel import alone
from gateway.reliability.party import empty_of, is_callable
from gateway.reliability.records import Wire
from gateway.sequences.bindings import proofs_of, wanted_binding
from gateway.sequences.contents import named, write_content
from gateway.sequences.sequences import Acknowledged as Told
from gateway.sequences.sequences import Sequences
from mediation.model.messages import EndpointReference
from mediation.model.requests import (
    Acknowledged,
    Incoming,
    Publish,
    Published,
    RunSequence,
    SequenceAnswered,
    SetAside,
)
from mediation.reliable_messaging import (
    AcknowledgementAlone,
    AckRequestedAlone,
    Body,
    Bound,
    CloseSequence,
    CloseSequenceResponse,
    CreateSequence,
    ReliableMessage,
    TerminateSequence,
    TerminateSequenceResponse,
    write_message,
)


@dataclass(frozen=True, slots=True)
class PublishInSequence(Publish):
    """Events that came in a sequence. ``told`` gets the acknowledgements to send."""

    told: list[Told] = field(default_factory=list, compare=False)


def parts_of(incoming: Incoming) -> ReliableMessage | None:
    """The header blocks of reliable messaging in *incoming*."""
    said = incoming.context.reliable
    return said if isinstance(said, ReliableMessage) else None


class SequenceOperations:
    """Carries out requests about sequences.

    Args:
        binding: What new sequences must be bound to.
    """

    def __init__(
        self, sequences: Sequences, publishing: PublishingOperations, binding: Bound
    ) -> None:
        self._sequences = sequences
        self._binding = binding
        self._publishing = publishing

    def handlers(self) -> Handlers:
        return {RunSequence: self.run, PublishInSequence: self.publish}

    async def publish(
        self, request: PublishInSequence, incoming: Incoming, inbound: Inbound
    ) -> Published | Acknowledged | None:
        """Publish events that came in a sequence, in their turn. They are checked now: events that
        wait for their turn are not refused any more.

        Raises:
            RmRefused: The sequence cannot take them.
            Refused: ``UNAVAILABLE``: they are not stored, and their sender asked for an answer;
                silence is the answer to others, who send them again.
        """
        said = parts_of(incoming)
        assert said is not None
        assert said.sequence is not None
        sequence = said.sequence
        events = named(request.notifications, sequence.identifier, sequence.number)
        asked = replace(
            request,
            notifications=events,
            set_aside=_set_aside(request, sequence.identifier, sequence.number),
        )
        events = await self._publishing.admit(asked, incoming, inbound)
        content = write_content(events) if events else b""
        told = await self._sequences.take(said, content, inbound.principal, proofs_of(inbound))
        if told.sequence is None and (request.acknowledged or request.answered):
            raise AdapterUnavailable("Too many messages of the sequence wait.")
        request.told.append(told)
        if request.acknowledged:
            return Acknowledged()
        if request.answered:
            return Published(asked.first_id)
        return None

    async def run(
        self, _request: RunSequence, incoming: Incoming, inbound: Inbound
    ) -> SequenceAnswered | None:
        """Make, ask about or end a sequence."""
        said = parts_of(incoming)
        assert said is not None
        principal, sequences, proofs = inbound.principal, self._sequences, proofs_of(inbound)
        match said.body:
            case CreateSequence() as asked:
                binding = wanted_binding(said, asked, inbound, self._binding)
                return _written(said, await sequences.create(said, asked, principal, binding))
            case CloseSequence(identifier, last):
                told = await sequences.end(identifier, last, principal, proofs, terminate=False)
                return _written(said, CloseSequenceResponse(identifier), told.block)
            case TerminateSequence(identifier, last):
                told = await sequences.end(identifier, last, principal, proofs, terminate=True)
                if not said.rm or not said.rm.rules.terminate_answered:
                    return _end_of_empty(said, told)
                return _written(said, TerminateSequenceResponse(identifier), told.block)
            case AckRequestedAlone() if said.ack_requested:
                identifier = said.ack_requested[0].identifier
                told = await sequences.ask(identifier, principal, proofs)
                return acknowledgement(told)
            case AcknowledgementAlone():
                return None  # Nothing is sent in sequences here.
        raise Refused(Reason.ACTION_UNSUPPORTED, "That is no request about a sequence.")


def _set_aside(request: Publish, identifier: str, number: int) -> tuple[SetAside, ...]:
    """The notifications set aside of message *number* of a sequence, with the same ids each time
    that the message comes."""
    if not request.set_aside:
        return ()
    kept = [one.notification for one in request.set_aside]
    again = named(kept, f"{identifier} set aside", number)
    return tuple(
        replace(one, notification=each) for one, each in zip(request.set_aside, again, strict=True)
    )


def _end_of_empty(said: ReliableMessage, told: Told) -> SequenceAnswered | None:
    """The end of the sequence that was offered and stayed empty; None where there was none, or its
    messages would go elsewhere."""
    sequence = told.sequence
    if sequence is None or is_callable(sequence.acks_to):
        return None
    empty = empty_of(sequence.opposite or "")
    return None if empty is None else _written(said, TerminateSequence(empty))


def acknowledgement(told: Told) -> SequenceAnswered | None:
    """A message that only acknowledges, for the connection; None where it goes elsewhere."""
    if told.sequence is None or not told.block or is_callable(told.sequence.acks_to):
        return None
    outgoing = alone(told.sequence, told.block)
    return SequenceAnswered(outgoing.action, outgoing.envelope)


def _written(said: ReliableMessage, body: Body, block: bytes = b"") -> SequenceAnswered:
    assert said.rm is not None
    wsa = said.wsa or said.rm.rules.wsa[0]
    reply_to = said.headers.reply_to
    to = reply_to if reply_to is not None and is_callable(reply_to) else None
    action, envelope = write_message(
        Wire(said.rm, wsa, said.soap),
        body,
        to=to or EndpointReference(wsa.anonymous, wsa),
        relates_to=said.headers.message_id,
        blocks=[block] if block else (),
    )
    return SequenceAnswered(action, envelope)
