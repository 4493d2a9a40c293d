"""The start of an outgoing sequence: CreateSequenceResponse."""

from dataclasses import replace
from typing import TypeGuard
from urllib.parse import urlsplit

from gateway.reliability import acknowledgements
from gateway.reliability.destination import new_buffer
from gateway.reliability.party import Party, is_callable
from gateway.reliability.records import IncomingSequence, OutgoingSequence
from gateway.reliability.source import Source, is_peer
from gateway.reliability.steps import Step, begin, begin_with_callback
from gateway.reliability.storage import Taken
from gateway.reliability.values import NoticeKind
from mediation.model.messages import EndpointReference
from mediation.reliable_messaging import CreateSequenceResponse
from mediation.reliable_messaging.machines import DestinationState, SourceEvent, after_source
from mediation.soap.addressing import id_to_keep


def take_create_response(
    party: Party, response: CreateSequenceResponse, relates_to: str, now: float, owner: str | None
) -> None:
    """Take CreateSequenceResponse. One that comes twice, or from a stranger, changes nothing."""
    with begin(party, now) as step:
        # The sequence for replies comes before the other in the lock order, so that its name has
        # to be known before.
        seen = step.tx.outgoing.find_creating(id_to_keep(relates_to))
    if seen is None or not _awaits(seen, seen, owner):
        return
    try:
        _take(party, response, seen, now, owner)
    except Taken:
        with begin_with_callback(party, now) as step:
            sequence = step.tx.outgoing.find(seen.key)
            if _awaits(sequence, seen, owner):
                Source(step).give_up(
                    sequence, "the destination gave it the identifier of another one"
                )


def _take(
    party: Party,
    response: CreateSequenceResponse,
    seen: OutgoingSequence,
    now: float,
    owner: str | None,
) -> None:
    accept = response.accept_acks_to
    if accept is not None and is_callable(accept) and not _may_send(party, seen, accept):
        accept = None  # As if the offer were declined: nothing is ever sent there.
    with begin(party, now) as step:
        known = None
        if seen.offered is not None and accept is not None:
            known = step.tx.incoming.find(seen.offered)
            step.tx.invoker.find(seen.offered)  # In the lock order.
        sequence = step.tx.outgoing.find(seen.key)
        if not _awaits(sequence, seen, owner):
            return
        if sequence.offered is not None and accept is not None and known is None:
            _make(step, sequence, sequence.offered, accept)
        if sequence.offered is not None and accept is None:
            step.tell(NoticeKind.DECLINED, response.identifier)
            sequence = replace(sequence, offered=None)
        lifetime = response.expires.total_seconds() if response.expires else None
        step.tx.outgoing.put(
            replace(
                sequence,
                state=after_source(sequence.state, SourceEvent.CRR),
                identifier=response.identifier,
                expires_at=now + lifetime if lifetime else None,
                tries=0,
                next_at=None,
                last_acked_at=now,
                due_at=now,
            )
        )


def _may_send(party: Party, seen: OutgoingSequence, accept: EndpointReference) -> bool:
    """Return whether acknowledgements of replies may go to *accept*: to the server of the
    destination, which the program itself named, or to an address that strangers may name."""
    return _server(accept) == _server(seen.target) or party.allows(accept.address)


def _server(reference: EndpointReference) -> tuple[str, str]:
    try:
        parts = urlsplit(reference.address)
    except ValueError:  # A bracket that is not closed, say.
        return ("", reference.address)
    return (parts.scheme, parts.netloc)


def _awaits(
    sequence: OutgoingSequence | None, seen: OutgoingSequence, owner: str | None
) -> TypeGuard[OutgoingSequence]:
    """Return whether *sequence* is the one that was *seen*, and waits for its identifier from
    *owner*."""
    return (
        sequence is not None
        and sequence.create_id == seen.create_id
        and sequence.ended_at is None
        and not sequence.identifier
        and is_peer(sequence, owner)
    )


def _make(step: Step, outgoing: OutgoingSequence, offered: str, acks_to: EndpointReference) -> None:
    """Make the sequence for replies that the destination accepted."""
    policy = step.party.policy
    sequence = IncomingSequence(
        offered,
        outgoing.wire,
        acks_to,
        DestinationState.CREATED,
        owner=outgoing.owner,
        service=outgoing.callback or "",
        opposite=outgoing.key,
        expires_at=step.now + policy.expiry,
        last_seen=step.now,
    )
    step.tx.incoming.put(acknowledgements.with_due_time(step, sequence))
    step.tx.invoker.put(new_buffer(sequence))
