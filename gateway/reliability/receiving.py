"""Receive messages (MercuryInHandler): read one, take its parts, each in a transaction, answer."""

from dataclasses import replace

from filters import Reason, Refused
from gateway.reliability.back_channel import fetch
from gateway.reliability.destination import Destination
from gateway.reliability.exchange import Exchange, outgoing_fault
from gateway.reliability.party import Party, PeerLimits
from gateway.reliability.records import Wire
from gateway.reliability.source_worker import note_messages_pending
from gateway.reliability.steps import begin
from gateway.reliability.values import Reply
from mediation.reliable_messaging import (
    CloseSequence,
    CloseSequenceResponse,
    CreateSequence,
    CreateSequenceResponse,
    FaultName,
    ReliableMessage,
    Rm,
    RmFault,
    RmRefused,
    TerminateSequence,
    TerminateSequenceResponse,
    read_message,
)
from mediation.reliable_messaging.application import spoken_in
from mediation.soap.make_connection import Selection, with_pending


def receive(
    party: Party,
    envelope: bytes,
    now: float,
    *,
    owner: str | None = None,
    content_type: str = "",
    service: str = "",
    back: str | None = None,
    peer_limits: PeerLimits | None = None,
    peer: str = "",
) -> Reply:
    """Take a message. Everything that the reply says is committed.

    Args:
        owner: The identity of the sender, where callers are told apart.
        service: The application that gets the messages of a sequence that is made now.
        back: The key of the sequence that opened the connection on which the message came back;
            an answer goes elsewhere then, or nowhere.
        peer: The network address of the sender, whose sequences are counted where *owner* is None.
        peer_limits: How often *peer* may ask for a sequence, and hear of unknown ones.

    Raises:
        Refused: It cannot be read as a message; the caller answers a fault of SOAP.
        StorageUnavailable: Nothing is promised; it may be sent again.
    """
    try:
        message = read_message(envelope)
    except RmRefused as refused:
        rm, soap, wsa, message_id = spoken_in(envelope)
        fault = refused.fault
        if fault.name is FaultName.MESSAGE_NUMBER_ROLLOVER and not rm.rules.closes:
            # 1.0 ends the sequence; 1.1 goes on with the messages that it has.
            with begin(party, now) as step:
                Destination(step, owner).terminate(fault.identifier or "", None)
        return Reply(outgoing_fault(Wire(rm, wsa, soap), fault, message_id), fault=True)
    if message.sequence is not None and isinstance(message.body, _NEVER_IN_SEQUENCE):
        raise Refused(
            Reason.MESSAGE_INVALID,
            "A message that makes or ends a sequence is never a message of a sequence.",
        )
    if back is not None and message.message_pending:
        note_messages_pending(party, back, now)
    if back is None and message.makes_connection:
        return _answer_make_connection(party, message.selection or Selection(), now, owner)
    creates = isinstance(message.body, CreateSequence)
    if creates and peer_limits is not None and not peer_limits.creations.allows(peer, now):
        return _too_many_sequences(message)
    exchange = Exchange(party, message, envelope, now, owner, content_type, service, back, peer)
    return without_repeated_fault(exchange, exchange.run(), peer_limits, peer, now)


def without_repeated_fault(
    exchange: Exchange, reply: Reply, peer_limits: PeerLimits | None, peer: str, now: float
) -> Reply:
    """The reply to a message, without UnknownSequence where *peer* was told that a moment ago: who
    guesses identifiers learns little."""
    faulted = reply.fault or exchange.addressed_fault is not None
    unknown = faulted and exchange.is_of_unknown_sequence
    if peer_limits is None or not unknown or peer_limits.unknowns.allows(peer, now):
        return reply
    others = tuple(each for each in reply.outgoing if each is not exchange.addressed_fault)
    answer = None if reply.fault else reply.answer
    return replace(reply, answer=answer, fault=False, outgoing=others)


_NEVER_IN_SEQUENCE = (
    CreateSequence,
    CreateSequenceResponse,
    CloseSequence,
    CloseSequenceResponse,
    TerminateSequence,
    TerminateSequenceResponse,
)


def _too_many_sequences(message: ReliableMessage) -> Reply:
    rm = message.rm or Rm.V1_1
    wire = Wire(rm, message.wsa or rm.rules.wsa[0], message.soap)
    fault = RmFault(FaultName.CREATE_SEQUENCE_REFUSED, reason="Too many at once.")
    answer = outgoing_fault(wire, fault, message.headers.message_id, about_header=False)
    return Reply(answer, fault=True)


def _answer_make_connection(
    party: Party, selection: Selection, now: float, owner: str | None
) -> Reply:
    found, more = fetch(party, selection.address, now, owner=owner)
    if found is None:
        return Reply()
    return Reply(replace(found, envelope=with_pending(found.envelope, more)))
