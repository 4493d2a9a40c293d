"""What comes (MercuryInHandler): a message is read, its parts are taken, each in a transaction, and
then it is answered."""

from dataclasses import replace

from filters import Reason, Refused
from gateway.reliability.back_channel import fetch
from gateway.reliability.destination import Destination
from gateway.reliability.exchange import Exchange, outgoing_fault
from gateway.reliability.party import Manners, Party
from gateway.reliability.records import Wire
from gateway.reliability.source_worker import pending_told
from gateway.reliability.steps import begin
from gateway.reliability.values import Reply
from mediation.reliable_messaging import (
    CloseSequence,
    CloseSequenceResponse,
    CreateSequence,
    CreateSequenceResponse,
    FaultName,
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
    octets: bytes,
    now: float,
    *,
    owner: str | None = None,
    content_type: str = "",
    service: str = "",
    back: str | None = None,
    manners: Manners | None = None,
    peer: str = "",
) -> Reply:
    """Take a message that came. What the reply says is committed.

    Args:
        owner: The identity of who sent it, where callers are told apart.
        service: The application that gets what comes in a sequence that is made now.
        back: It came back on a connection that the sequence with this key opened; an answer has
            to go elsewhere then, or nowhere.
        peer: The network address of who sent it, whose sequences are counted where *owner* is None.
        manners: What *peer* may ask for how often.

    Raises:
        Refused: It is no message that can be read; who asks answers with a fault of SOAP.
        StorageUnavailable: Nothing is promised; it may come again.
    """
    try:
        message = read_message(octets)
    except RmRefused as refused:
        rm, soap, wsa, message_id = spoken_in(octets)
        fault = refused.fault
        if fault.name is FaultName.MESSAGE_NUMBER_ROLLOVER and not rm.rules.closes:
            # 1.1 may go on with what it has.
            with begin(party, now) as step:
                Destination(step, owner).terminate(fault.identifier or "", None)
        return Reply(outgoing_fault(Wire(rm, wsa, soap), fault, message_id), fault=True)
    if message.sequence is not None and isinstance(message.body, _NEVER_IN_SEQUENCE):
        raise Refused(
            Reason.MESSAGE_INVALID, "A message that makes or ends a sequence is sent in none."
        )
    if back is not None and message.message_pending:
        pending_told(party, back, now)
    if back is None and message.makes_connection:
        return _fetched(party, message.selection or Selection(), now, owner)
    hurries = manners is not None and isinstance(message.body, CreateSequence)
    if manners is not None and hurries and not manners.creations.allows(peer, now):
        rm = message.rm or Rm.V1_1
        wire = Wire(rm, message.wsa or rm.rules.wsa[0], message.soap)
        refused_now = RmFault(FaultName.CREATE_SEQUENCE_REFUSED, reason="Too many at once.")
        hurried = outgoing_fault(wire, refused_now, message.headers.message_id, about_header=False)
        return Reply(hurried, fault=True)
    exchange = Exchange(party, message, octets, now, owner, content_type, service, back, peer)
    return hushed(exchange, exchange.run(), manners, peer, now)


def hushed(
    exchange: "Exchange", reply: Reply, manners: Manners | None, peer: str, now: float
) -> Reply:
    """The reply to a message, without the fault that says once more that nobody knows its sequence:
    who guesses learns little."""
    unknown = (reply.fault or exchange.away is not None) and exchange.knows_nothing
    if manners is None or not unknown or manners.unknowns.allows(peer, now):
        return reply
    others = tuple(each for each in reply.outgoing if each is not exchange.away)
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


def _fetched(party: Party, selection: Selection, now: float, owner: str | None) -> Reply:
    found, more = fetch(party, selection.address, now, owner=owner)
    if found is None:
        return Reply()
    return Reply(replace(found, envelope=with_pending(found.envelope, more)))
