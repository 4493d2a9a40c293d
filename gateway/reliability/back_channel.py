"""Send on connections that peers opened: the reply to a request, and messages that are fetched by
WS-MakeConnection."""

from dataclasses import replace

from gateway.reliability import acknowledgements
from gateway.reliability.destination import Destination
from gateway.reliability.party import Party, is_callable, reply_key
from gateway.reliability.records import IncomingSequence
from gateway.reliability.source import is_peer
from gateway.reliability.source_worker import message_with_blocks, send_due
from gateway.reliability.steps import Step, begin
from gateway.reliability.values import Awaited, Outgoing
from mediation.model.messages import EndpointReference
from mediation.reliable_messaging import write_acknowledgement
from mediation.soap.addressing import id_to_keep

PAGE = 64


def reply_to(party: Party, awaited: Awaited, now: float) -> Outgoing | None:
    """The reply of the application, if there is one, with an acknowledgement of the requests if
    those go back on connections, too. It is given as often as it is asked for."""
    with begin(party, now) as step:
        incoming = step.tx.incoming.find(awaited.identifier)
        if incoming is None:
            return None
        elsewhere = is_callable(incoming.acks_to)
        block = b"" if elsewhere else acknowledgements.block_of(step, incoming)
        key = reply_key(awaited.identifier)
        sequence = step.tx.outgoing.find(key)
        message = step.tx.outgoing.message_relating(key, id_to_keep(awaited.message_id))
        if sequence is None or message is None or sequence.ended_at is not None:
            return None
        step.tx.outgoing.put_message(key, replace(message, tries=message.tries + 1))
        if not elsewhere:
            _note_acknowledged(step, incoming)
        envelope = message_with_blocks(
            sequence, message, acknowledgement=block, asking=message.tries > 0
        )
        label = f"reply {message.number}" + (" again" if message.tries else "")
        return Outgoing(sequence.target, envelope, message.action, sequence.wire, label)


def may_answer(party: Party, awaited: Awaited, now: float) -> bool:
    """Return whether the application may still give a reply: it has not taken the message yet. To
    be asked before `reply_to`, whose None is final after that."""
    with begin(party, now) as step:
        buffer = step.tx.invoker.find(awaited.identifier)
        return buffer is not None and buffer.delivered < awaited.number


def _note_acknowledged(step: Step, incoming: IncomingSequence) -> None:
    after = acknowledgements.on_its_way(step, incoming)
    if after is not incoming:
        step.tx.incoming.put(after)


def fetch(
    party: Party, address: str, now: float, *, owner: str | None
) -> tuple[Outgoing | None, bool]:
    """Take one message that waits for *address* (WS-MakeConnection 1.1, section 3).

    Returns:
        The message, or None; and whether more wait.
    """
    with party.storage.look() as look:
        keys = look.outgoing_to(address, PAGE)
        identifiers = look.incoming_to(address, PAGE)
    found: Outgoing | None = None
    for key in keys:
        if not _may_fetch(party, key, now, owner):
            continue
        if found is not None:
            # It may have no message that is due: that is seen when it is fetched.
            return found, True
        work = send_due(party, key, now, limit=1, fetching=True)
        if work.outgoing:
            found = work.outgoing[0]
            if work.more:
                return found, True
    for identifier in identifiers:
        outgoing = _acknowledgement(party, identifier, now, owner, take=found is None)
        if outgoing is None:
            continue
        if found is not None:
            return found, True
        found = outgoing
    return found, False


def _may_fetch(party: Party, key: str, now: float, owner: str | None) -> bool:
    with begin(party, now) as step:
        sequence = step.tx.outgoing.find(key)
        return sequence is not None and is_peer(sequence, owner)


def _acknowledgement(
    party: Party, identifier: str, now: float, owner: str | None, *, take: bool
) -> Outgoing | None:
    with begin(party, now) as step:
        incoming = Destination(step, owner).find(identifier)
        if incoming is None or not incoming.unacknowledged:
            return None
        if take:
            _note_acknowledged(step, incoming)
        return acknowledgement_alone(step, incoming)


def acknowledgement_alone(step: Step, incoming: IncomingSequence) -> Outgoing:
    """A message that is only there to acknowledge."""
    return alone(incoming, acknowledgements.block_of(step, incoming))


def alone(incoming: IncomingSequence, block: bytes, label: str = "Acknowledgement") -> Outgoing:
    """A message that has nothing but an acknowledgement, or a Nack."""
    to: EndpointReference = incoming.acks_to
    action, envelope = write_acknowledgement(incoming.wire, to, block)
    return Outgoing(to, envelope, action, incoming.wire, label)
