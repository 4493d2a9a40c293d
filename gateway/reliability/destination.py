"""The destination of a sequence (RMDSequence): what comes in, each thing in one transaction, and
what goes back. What it says was committed before."""

from dataclasses import dataclass, replace
from datetime import timedelta

from gateway.reliability import acknowledging, sequence_end
from gateway.reliability.party import Offers, Party, empty_key, is_callable, reply_key
from gateway.reliability.records import (
    IncomingSequence,
    InvokerBuffer,
    InvokerMessage,
    Wire,
    changed,
)
from gateway.reliability.source import accepted
from gateway.reliability.source_input import replied
from gateway.reliability.steps import Step, begin, due_now
from gateway.reliability.storage import Taken
from mediation.model.messages import EndpointReference
from mediation.names import WSA_NONE
from mediation.reliable_messaging import (
    CONNECTION_LIMIT_REACHED,
    CreateSequence,
    CreateSequenceResponse,
    FaultName,
    IncompleteBehaviour,
    Kind,
    ReliableMessage,
    RmFault,
    SequenceHeader,
)
from mediation.reliable_messaging.machines import (
    DestinationEvent,
    DestinationState,
    InvokerEvent,
    after_destination,
    after_invoker,
)
from mediation.reliable_messaging.policy import Verdict
from mediation.soap.addressing import id_to_keep


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a message on a sequence led to.

    Attributes:
        fault: What is answered instead.
        acknowledgement: The header block that goes back at once, on the connection; empty: none.
        nack: The one that asks for what is missing before the message, and goes where
            acknowledgements go: on the connection, instead of one; empty: nothing is asked for.
        sequence: As it is committed.
        taken: The message is stored now.
        known: The message was known already.
    """

    fault: RmFault | None = None
    acknowledgement: bytes = b""
    nack: bytes = b""
    sequence: IncomingSequence | None = None
    taken: bool = False
    known: bool = False


def find(step: Step, identifier: str, owner: str | None) -> IncomingSequence | None:
    """The sequence, if *owner* may use it; of those of others nothing is said."""
    sequence = step.tx.incoming.find(identifier)
    return sequence if sequence is not None and sequence.owner in (None, owner) else None


def create(
    party: Party,
    message: ReliableMessage,
    request: CreateSequence,
    now: float,
    *,
    owner: str | None,
    service: str,
    peer: str = "",
) -> tuple[CreateSequenceResponse | RmFault, IncomingSequence | None]:
    """Make a sequence; one that was asked for with the same MessageID already gets the same answer
    again.

    Args:
        peer: The network address of who asks, whose sequences are counted where *owner* is None.
    """
    of_nobody = peer or None if owner is None else None
    assert message.rm is not None
    assert message.wsa is not None
    wire = Wire(message.rm, message.wsa, message.soap)
    message_id = message.headers.message_id
    create_id = id_to_keep(message_id) if message_id else None
    try:
        with begin(party, now) as step:
            sequence = None
            if create_id is not None:
                sequence = step.tx.incoming.find_created(create_id, owner)
            if sequence is None:
                refusal = _refusal(step, message, request, wire, owner, of_nobody)
                if refusal is not None:
                    return refusal, None
                sequence = _make(step, message, request, wire, create_id, owner, service, of_nobody)
    except Taken:
        return _refuse("The offered identifier is in use."), None
    return _response(party, message, sequence), sequence


def _refuse(reason: str, subcode: str = "") -> RmFault:
    return RmFault(FaultName.CREATE_SEQUENCE_REFUSED, reason=reason, subcode=subcode)


def _refusal(
    step: Step,
    message: ReliableMessage,
    request: CreateSequence,
    wire: Wire,
    owner: str | None,
    peer: str | None,
) -> RmFault | None:
    party, incoming = step.party, step.tx.incoming
    if request.acks_to.address == WSA_NONE:  # WS-ReliableMessaging 1.1, section 3.4.
        return _refuse("Nothing can be acknowledged at the address that AcksTo has.")
    of_peer = 0
    if owner:
        of_peer = incoming.count(owner)
    elif peer:
        of_peer = incoming.count(peer=peer)
    if not party.policy.admits(of_peer, incoming.count()):
        return _refuse("There are too many sequences.", CONNECTION_LIMIT_REACHED)
    offer = request.offer
    named = [request.acks_to, message.headers.reply_to, offer.endpoint if offer else None]
    for epr in named:
        if epr is not None and is_callable(epr) and not party.allows(epr.address):
            return _refuse("Nothing is sent to an address of the request.")
    if request.token is not None or message.uses_token or message.uses_tls:
        return _refuse("No sequence is bound to a token here.")
    if offer is not None:
        if party.offers is Offers.REFUSE:
            return _refuse("No offer of a sequence is accepted here.")
        if step.tx.outgoing.find_identified(offer.identifier) is not None:
            return _refuse("The offered identifier is in use.")
    return None


def _make(
    step: Step,
    message: ReliableMessage,
    request: CreateSequence,
    wire: Wire,
    create_id: str | None,
    owner: str | None,
    service: str,
    peer: str | None,
) -> IncomingSequence:
    policy = step.party.policy
    asked = request.expires.total_seconds() if request.expires else None
    lifetime = policy.lifetime(asked)
    identifier = step.party.new_id()
    offer = request.offer if step.party.offers is Offers.ACCEPT else None
    opposite = reply_key(identifier) if offer is not None else None
    if (
        request.offer is not None
        and offer is None
        and Kind.CLOSE_SEQUENCE not in wire.rm.rules.kinds
    ):
        opposite = empty_key(request.offer.identifier)  # 1.0 cannot decline it.
    incomplete = IncompleteBehaviour.NO_DISCARD
    if step.party.after_delivery or "IncompleteSequenceBehavior" in wire.rm.rules.elements:
        incomplete = step.party.incomplete
    sequence = IncomingSequence(
        identifier,
        wire,
        request.acks_to,
        DestinationState.CREATED,
        owner=owner,
        service=service,
        create_id=create_id,
        opposite=opposite,
        incomplete=incomplete,
        expires_at=step.now + lifetime,
        last_seen=step.now,
        token=request.token,
        lifetime=lifetime,
        peer=peer,
    )
    sequence = acknowledging.planned(step, sequence)
    step.tx.incoming.put(sequence)
    step.tx.invoker.put(new_buffer(sequence))
    if offer is not None:
        target = offer.endpoint or message.headers.reply_to or request.acks_to
        expires_at = step.now + policy.lifetime(
            offer.expires.total_seconds() if offer.expires else None
        )
        accepted(
            step,
            identifier,
            offer.identifier,
            wire,
            target,
            owner=owner,
            expires_at=expires_at,
        )
    return sequence


def new_buffer(sequence: IncomingSequence) -> InvokerBuffer:
    """The buffer between a new sequence and its application."""
    return InvokerBuffer(
        sequence.identifier,
        service=sequence.service,
        owner=sequence.owner,
        held=sequence.incomplete is IncompleteBehaviour.DISCARD_ENTIRE_SEQUENCE,
    )


def _response(
    party: Party, message: ReliableMessage, sequence: IncomingSequence
) -> CreateSequenceResponse:
    accept = None
    if sequence.opposite is not None:
        # WCF wants the very address that it sent CreateSequence to.
        address = message.headers.to or party.address or sequence.wire.wsa.anonymous
        accept = EndpointReference(address, sequence.wire.wsa)
    lifetime = timedelta(seconds=sequence.lifetime) if sequence.lifetime else None
    incomplete = IncompleteBehaviour.NO_DISCARD
    if "IncompleteSequenceBehavior" in sequence.wire.rm.rules.elements:
        incomplete = sequence.incomplete  # 1.0 has no word for it.
    return CreateSequenceResponse(sequence.identifier, lifetime, incomplete, accept)


def receive(
    party: Party,
    message: ReliableMessage,
    header: SequenceHeader,
    envelope: bytes,
    content_type: str,
    now: float,
    *,
    owner: str | None,
) -> Outcome:
    """Take a message of a sequence: its number and the message itself are of one transaction."""
    with begin(party, now) as step:
        return _receive(step, message, header, envelope, content_type, owner)


def _receive(
    step: Step,
    message: ReliableMessage,
    header: SequenceHeader,
    envelope: bytes,
    content_type: str,
    owner: str | None,
) -> Outcome:
    sequence = find(step, header.identifier, owner)
    if sequence is None or not _is_spoken(sequence, message):
        return Outcome(RmFault(FaultName.UNKNOWN_SEQUENCE, header.identifier))
    if sequence.ended_at is not None:
        return _late(step, sequence, header)
    if sequence.expires_at is not None and sequence.expires_at <= step.now:
        ended = sequence_end.terminate(step, sequence, None)
        return Outcome(RmFault(FaultName.SEQUENCE_TERMINATED, header.identifier), sequence=ended)
    buffer = step.tx.invoker.find(header.identifier) or new_buffer(sequence)
    verdict = step.party.policy.verdict(
        header.number,
        sequence.received,
        last=sequence.last_number,
        waiting=buffer.count,
    )
    if header.last and verdict is Verdict.TAKE and header.number < sequence.received.highest:
        verdict = (
            Verdict.AFTER_LAST
        )  # A number above that which is said to be the last came before.
    match verdict:
        case Verdict.ROLLOVER:
            ended = sequence_end.terminate(step, sequence, None)
            fault = RmFault(FaultName.MESSAGE_NUMBER_ROLLOVER, header.identifier)
            return Outcome(fault, sequence=ended)
        case Verdict.AFTER_LAST if sequence.wire.rm.rules.closes:
            return Outcome(
                RmFault(FaultName.SEQUENCE_CLOSED, header.identifier),
                acknowledging.block_of(step, sequence),
                sequence=sequence,
            )
        case Verdict.AFTER_LAST:
            ended = sequence_end.terminate(step, sequence, None)
            fault = RmFault(FaultName.LAST_MESSAGE_NUMBER_EXCEEDED, header.identifier)
            return Outcome(fault, sequence=ended)
        case Verdict.TOO_FAR | Verdict.FULL:
            return Outcome(sequence=sequence)
        case Verdict.DUPLICATE:
            # The acknowledgement was lost, probably.
            outcome = _seen(step, sequence, at_once=True, known=True)
            _relate(step, sequence, message)
            return outcome
    if sequence.closed:
        return Outcome(
            RmFault(FaultName.SEQUENCE_CLOSED, header.identifier),
            acknowledging.block_of(step, sequence),
            sequence=sequence,
        )
    asked = any(asked.identifier == header.identifier for asked in message.ack_requested)
    at_once = asked or header.last
    nack = b""
    if step.party.nacks and not at_once:
        nack = acknowledging.nack_of(sequence, header.number)
    sequence = _with_number(sequence, header)
    _fill(step, sequence, buffer, InvokerMessage(header.number, envelope, content_type))
    outcome = _seen(step, sequence, at_once=at_once, known=False)
    _relate(step, sequence, message)
    if not nack:
        return outcome
    here = nack if outcome.acknowledgement else b""
    return replace(outcome, nack=nack, acknowledgement=here)


def _is_spoken(sequence: IncomingSequence, message: ReliableMessage) -> bool:
    """Whether a message speaks the versions of its sequence, which are those of CreateSequence up
    to its end; one without WS-Addressing has the version of none."""
    wire = sequence.wire
    return message.rm is wire.rm and message.wsa in (None, wire.wsa)


def _relate(step: Step, sequence: IncomingSequence, message: ReliableMessage) -> None:
    """Take a reply as the end of its request, which is not sent again."""
    if sequence.opposite is not None and message.headers.relates_to is not None:
        replied(step, sequence.opposite, message.headers.relates_to)


def _late(step: Step, sequence: IncomingSequence, header: SequenceHeader) -> Outcome:
    """Answer from the tombstone: what is known is acknowledged in 1.1."""
    name = FaultName.UNKNOWN_SEQUENCE
    if sequence.wire.rm.rules.closes:
        name = FaultName.SEQUENCE_CLOSED
    block = acknowledging.block_of(step, sequence) if sequence.wire.rm.rules.closes else b""
    return Outcome(RmFault(name, header.identifier), block, sequence=sequence)


def _with_number(sequence: IncomingSequence, header: SequenceHeader) -> IncomingSequence:
    received = sequence.received.add(header.number)
    last = header.number if header.last else sequence.last_number
    complete = last is not None and received.is_all(last)
    if header.last:
        event = DestinationEvent.LMR_SC if complete else DestinationEvent.LMR_SNC
    else:
        event = DestinationEvent.AMR_SC if complete else DestinationEvent.AMR_SNC
    return changed(
        sequence,
        state=after_destination(sequence.state, event),
        received=received,
        last_number=last,
        complete=complete,
        unacknowledged=sequence.unacknowledged + 1,
    )


def _fill(
    step: Step, sequence: IncomingSequence, buffer: InvokerBuffer, message: InvokerMessage
) -> None:
    """Put a message into the buffer."""
    add_new = getattr(step.tx.invoker, "add_new_message", None)
    if add_new is not None:
        add_new(sequence.identifier, message)
    elif not step.tx.invoker.add_message(sequence.identifier, message):
        raise AssertionError("a message that was never received waits already")
    ended = sequence.last_number is not None
    deliverable = message.number == buffer.delivered + 1
    held = buffer.held and not sequence.complete
    now_due = not held and (deliverable or (buffer.held and sequence.complete))
    step.tx.invoker.put(
        changed(
            buffer,
            due_at=due_now(buffer.due_at, step.now) if now_due else buffer.due_at,
            state=after_invoker(buffer.state, InvokerEvent.LMR if ended else InvokerEvent.AMR),
            last_number=sequence.last_number,
            count=buffer.count + 1,
            held=held,
        )
    )


def _seen(step: Step, sequence: IncomingSequence, *, at_once: bool, known: bool) -> Outcome:
    """Commit what the sequence is now, and acknowledge it: on the connection where that is the way,
    else by the worker."""
    policy = step.party.policy
    block = b""
    if is_callable(sequence.acks_to):
        ack_at = step.now
        if not at_once:
            ack_at = policy.acknowledge_at(sequence.unacknowledged, sequence.ack_at, step.now)
        sequence = acknowledging.planned(step, sequence, last_seen=step.now, ack_at=ack_at)
    else:
        block = acknowledging.block_of(step, sequence)
        sequence = acknowledging.planned(
            step, sequence, last_seen=step.now, unacknowledged=0, ack_at=None
        )
    step.tx.incoming.put(sequence)
    return Outcome(None, block, sequence=sequence, taken=not known, known=known)


def acknowledge(party: Party, identifier: str, now: float, *, owner: str | None) -> Outcome:
    """Answer AckRequested."""
    with begin(party, now) as step:
        sequence = find(step, identifier, owner)
        if sequence is None:
            return Outcome(RmFault(FaultName.UNKNOWN_SEQUENCE, identifier))
        if sequence.ended_at is not None:
            block = acknowledging.block_of(step, sequence)
            return Outcome(None, block, sequence=sequence, known=True)
        return _seen(step, sequence, at_once=True, known=True)


def close(
    party: Party, identifier: str, last: int | None, now: float, *, owner: str | None
) -> Outcome:
    """Take CloseSequence; what was received is final."""
    with begin(party, now) as step:
        sequence = find(step, identifier, owner)
        if sequence is None:
            return Outcome(RmFault(FaultName.UNKNOWN_SEQUENCE, identifier))
        if sequence.ended_at is None:
            sequence = sequence_end.close(step, replace(sequence, last_seen=step.now), last)
            sequence = acknowledging.planned(step, replace(sequence, unacknowledged=0, ack_at=None))
            step.tx.incoming.put(sequence)
        return Outcome(None, acknowledging.block_of(step, sequence), sequence=sequence)


def terminate(
    party: Party, identifier: str, last: int | None, now: float, *, owner: str | None
) -> Outcome:
    """Take TerminateSequence; one that came before is answered again."""
    with begin(party, now) as step:
        sequence = find(step, identifier, owner)
        if sequence is None:
            return Outcome(RmFault(FaultName.UNKNOWN_SEQUENCE, identifier))
        if sequence.ended_at is None:
            sequence = sequence_end.terminate(step, replace(sequence, last_seen=step.now), last)
        return Outcome(None, acknowledging.block_of(step, sequence), sequence=sequence)
