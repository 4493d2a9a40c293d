"""The destination of a sequence (RMDSequence): it makes a sequence, receives its messages, ends it.
The answer to each goes when the transaction is committed."""

from dataclasses import dataclass, replace
from datetime import timedelta

from gateway.reliability import acknowledgements, sequence_end
from gateway.reliability.party import Offers, Party, empty_key, is_callable, reply_key
from gateway.reliability.records import (
    IncomingSequence,
    InvokerBuffer,
    InvokerMessage,
    Wire,
    changed,
)
from gateway.reliability.source import Source
from gateway.reliability.source_input import SourceInput
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
    Offer,
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
    """The outcome of a message of a sequence.

    Attributes:
        fault: The fault to answer.
        acknowledgement: The header block that goes back at once, on the connection; empty: none.
        nack: The header block that asks for the messages missing before this one. It goes where
            acknowledgements go: on the connection, instead of one; empty: none is missing.
        sequence: The sequence as it is committed.
        taken: The message is stored now.
        known: The message was known already.
        unproved: Nothing was done: the sequence is bound to a token or a TLS session, and the
            message is not by that.
    """

    fault: RmFault | None = None
    acknowledgement: bytes = b""
    nack: bytes = b""
    sequence: IncomingSequence | None = None
    taken: bool = False
    known: bool = False
    unproved: bool = False


Proofs = frozenset[bytes]
"""What a message proves: the token that signed it, the certificate that its sender showed in TLS;
each a word without white space, which the caller makes."""
NO_PROOFS: Proofs = frozenset()


def unproved(sequence: IncomingSequence, proofs: Proofs) -> bool:
    """Return whether *sequence* is bound to what a message with these *proofs* does not prove."""
    return sequence.token is not None and not proofs.issuperset(sequence.token.split())


def create(
    party: Party,
    message: ReliableMessage,
    request: CreateSequence,
    now: float,
    *,
    owner: str | None,
    service: str,
    peer: str = "",
    bound_to: Proofs = NO_PROOFS,
) -> tuple[CreateSequenceResponse | RmFault, IncomingSequence | None]:
    """Make a sequence, in a transaction of its own: see `Destination.create`."""
    try:
        with begin(party, now) as step:
            made = Destination(step, owner, bound_to).create(
                message, request, service=service, peer=peer
            )
    except Taken:  # By another sequence that was made at the same time.
        made = _refuse("The offered identifier is in use.")
    if isinstance(made, RmFault):
        return made, None
    return _response(party, message, made), made


class Destination:
    """The destination of the sequences of one peer, in a transaction that the caller began. What a
    method puts is committed, or lost, with everything else of that transaction.

    Args:
        owner: The identity of the peer, where callers are told apart.
        proofs: What its message proves; of CreateSequence, what its sequence is to be bound to.
    """

    __slots__ = ("_owner", "_proofs", "_step")

    def __init__(self, step: Step, owner: str | None, proofs: Proofs = NO_PROOFS) -> None:
        self._step = step
        self._owner = owner
        self._proofs = proofs

    def find(self, identifier: str) -> IncomingSequence | None:
        """Find a sequence that the peer may use; one of another peer is as one that is unknown."""
        sequence = self._step.tx.incoming.find(identifier)
        return sequence if sequence is not None and sequence.owner in (None, self._owner) else None

    def may_use(self, sequence: IncomingSequence) -> bool:
        """Return whether *sequence* is the peer's, and its message is by what that is bound to."""
        mine = sequence.owner in (None, self._owner)
        return mine and not unproved(sequence, self._proofs)

    def _usable(self, identifier: str) -> IncomingSequence | Outcome:
        """The sequence that the message may use, or what it is answered."""
        sequence = self._step.tx.incoming.find(identifier)
        if sequence is not None and unproved(sequence, self._proofs):
            return Outcome(unproved=True)
        return self.find(identifier) or _unknown(identifier)

    def create(
        self, message: ReliableMessage, request: CreateSequence, *, service: str, peer: str
    ) -> IncomingSequence | RmFault:
        """Make a sequence, or find the one that a request with the same MessageID made before.

        Args:
            peer: The network address of the peer, by which its sequences are counted where it has
                no identity.

        Raises:
            Taken: At the end of the transaction, at the latest: the offered identifier is in use.
        """
        message_id = message.headers.message_id
        create_id = id_to_keep(message_id) if message_id else None
        if create_id is not None:
            sequence = self._step.tx.incoming.find_created(create_id, self._owner)
            if sequence is not None:
                if unproved(sequence, self._proofs):
                    return _refuse("Another CreateSequence had this MessageID.")
                return sequence
        refusal = self._refusal(message, request, peer)
        return refusal or self._make(message, request, create_id, service, peer)

    def _refusal(
        self, message: ReliableMessage, request: CreateSequence, peer: str
    ) -> RmFault | None:
        """Why no sequence is made; None: one is."""
        step = self._step
        party, incoming = step.party, step.tx.incoming
        if request.acks_to.address == WSA_NONE:  # WS-ReliableMessaging 1.1, section 3.4.
            return _refuse("Nothing can be acknowledged at the address that AcksTo has.")
        of_peer = 0
        if self._owner:
            of_peer = incoming.count(self._owner)
        elif peer and self._owner is None:
            of_peer = incoming.count(peer=peer)
        if not party.policy.admits(of_peer, incoming.count()):
            return _refuse("There are too many sequences.", CONNECTION_LIMIT_REACHED)
        offer = request.offer
        named = [request.acks_to, message.headers.reply_to, offer.endpoint if offer else None]
        for epr in named:
            if epr is not None and is_callable(epr) and not party.allows(epr.address):
                return _refuse("Nothing is sent to an address of the request.")
        binds = request.token is not None or message.uses_token or message.uses_tls
        if binds and not self._proofs:
            return _refuse("No sequence is bound to a token here.")
        if offer is not None:
            if party.offers is Offers.REFUSE:
                return _refuse("No offer of a sequence is accepted here.")
            if step.tx.outgoing.find_identified(offer.identifier) is not None:
                return _refuse("The offered identifier is in use.")
        return None

    def _make(
        self,
        message: ReliableMessage,
        request: CreateSequence,
        create_id: str | None,
        service: str,
        peer: str,
    ) -> IncomingSequence:
        step, party = self._step, self._step.party
        assert message.rm is not None
        assert message.wsa is not None
        wire = Wire(message.rm, message.wsa, message.soap)
        lifetime = party.policy.lifetime(_seconds(request.expires))
        incomplete = IncompleteBehaviour.NO_DISCARD
        if party.after_delivery or "IncompleteSequenceBehavior" in wire.rm.rules.elements:
            incomplete = party.incomplete
        identifier = party.new_id()
        sequence = IncomingSequence(
            identifier,
            wire,
            request.acks_to,
            DestinationState.CREATED,
            owner=self._owner,
            service=service,
            create_id=create_id,
            opposite=_opposite(party, wire, identifier, request.offer),
            incomplete=incomplete,
            expires_at=step.now + lifetime,
            last_seen=step.now,
            token=b" ".join(sorted(self._proofs)) or None,
            lifetime=lifetime,
            peer=peer or None if self._owner is None else None,
        )
        sequence = acknowledgements.with_due_time(step, sequence)
        step.tx.incoming.put(sequence)
        step.tx.invoker.put(new_buffer(sequence))
        if request.offer is not None and party.offers is Offers.ACCEPT:
            target = request.offer.endpoint or message.headers.reply_to or request.acks_to
            self._accept_offer(sequence, request.offer, target)
        return sequence

    def _accept_offer(
        self, sequence: IncomingSequence, offer: Offer, target: EndpointReference
    ) -> None:
        """Make the sequence for the replies to *sequence*."""
        step = self._step
        Source(step).accept_offer(
            sequence.identifier,
            offer.identifier,
            sequence.wire,
            target,
            owner=self._owner,
            expires_at=step.now + step.party.policy.lifetime(_seconds(offer.expires)),
        )

    def receive(
        self, message: ReliableMessage, header: SequenceHeader, envelope: bytes, content_type: str
    ) -> Outcome:
        """Take a message of a sequence: its number and the message are of one transaction."""
        step = self._step
        sequence = self._usable(header.identifier)
        if isinstance(sequence, Outcome):
            return sequence
        if not _is_spoken(sequence, message):
            return _unknown(header.identifier)
        if sequence.ended_at is not None:
            return self._late(sequence, header)
        if sequence.expires_at is not None and sequence.expires_at <= step.now:
            return self._terminated(sequence, FaultName.SEQUENCE_TERMINATED)
        buffer = step.tx.invoker.find(header.identifier) or new_buffer(sequence)
        verdict = step.party.policy.verdict(
            header.number,
            sequence.received,
            last=sequence.last_number,
            waiting=buffer.count,
        )
        if header.last and verdict is Verdict.TAKE and header.number < sequence.received.highest:
            # A number above that which is said to be the last came before.
            verdict = Verdict.AFTER_LAST
        match verdict:
            case Verdict.ROLLOVER:
                return self._terminated(sequence, FaultName.MESSAGE_NUMBER_ROLLOVER)
            case Verdict.AFTER_LAST if sequence.wire.rm.rules.closes:
                return self._closed(sequence)
            case Verdict.AFTER_LAST:
                return self._terminated(sequence, FaultName.LAST_MESSAGE_NUMBER_EXCEEDED)
            case Verdict.TOO_FAR | Verdict.FULL:
                return Outcome(sequence=sequence)
            case Verdict.DUPLICATE:
                # The acknowledgement was lost, probably.
                outcome = self._seen(sequence, at_once=True, known=True)
                self._relate(sequence, message)
                return outcome
        if sequence.closed:
            return self._closed(sequence)
        asked = any(asked.identifier == header.identifier for asked in message.ack_requested)
        at_once = asked or header.last
        nack = b""
        if step.party.nacks and not at_once:
            nack = acknowledgements.nack_of(sequence, header.number)
        sequence = _with_number(sequence, header)
        self._fill(sequence, buffer, InvokerMessage(header.number, envelope, content_type))
        outcome = self._seen(sequence, at_once=at_once, known=False)
        self._relate(sequence, message)
        if not nack:
            return outcome
        here = nack if outcome.acknowledgement else b""
        return replace(outcome, nack=nack, acknowledgement=here)

    def _relate(self, sequence: IncomingSequence, message: ReliableMessage) -> None:
        """End a request to which this message is the reply: it is not sent again."""
        if sequence.opposite is not None and message.headers.relates_to is not None:
            SourceInput(self._step, self._owner).take_reply(
                sequence.opposite, message.headers.relates_to
            )

    def _late(self, sequence: IncomingSequence, header: SequenceHeader) -> Outcome:
        """Answer a message of a sequence that has ended; 1.1 acknowledges all once more."""
        if not sequence.wire.rm.rules.closes:
            return replace(_unknown(header.identifier), sequence=sequence)
        return self._closed(sequence)

    def _terminated(self, sequence: IncomingSequence, name: FaultName) -> Outcome:
        """End a sequence because of a message that breaks its rules, or because it expired."""
        ended = sequence_end.terminate(self._step, sequence, None)
        return Outcome(RmFault(name, sequence.identifier), sequence=ended)

    def _closed(self, sequence: IncomingSequence) -> Outcome:
        """Refuse a message of a closed sequence, and acknowledge those that came before."""
        return Outcome(
            RmFault(FaultName.SEQUENCE_CLOSED, sequence.identifier),
            acknowledgements.block_of(self._step, sequence),
            sequence=sequence,
        )

    def _fill(
        self, sequence: IncomingSequence, buffer: InvokerBuffer, message: InvokerMessage
    ) -> None:
        """Put a message into the buffer."""
        step = self._step
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

    def _seen(self, sequence: IncomingSequence, *, at_once: bool, known: bool) -> Outcome:
        """Store the sequence, and acknowledge its messages: on the connection where AcksTo says so,
        otherwise by the worker, later."""
        step = self._step
        policy = step.party.policy
        block = b""
        if is_callable(sequence.acks_to):
            ack_at = step.now
            if not at_once:
                ack_at = policy.acknowledge_at(sequence.unacknowledged, sequence.ack_at, step.now)
            sequence = acknowledgements.with_due_time(
                step, sequence, last_seen=step.now, ack_at=ack_at
            )
        else:
            block = acknowledgements.block_of(step, sequence)
            sequence = acknowledgements.with_due_time(
                step, sequence, last_seen=step.now, unacknowledged=0, ack_at=None
            )
        step.tx.incoming.put(sequence)
        return Outcome(None, block, sequence=sequence, taken=not known, known=known)

    def acknowledge(self, identifier: str) -> Outcome:
        """Answer AckRequested."""
        sequence = self._usable(identifier)
        if isinstance(sequence, Outcome):
            return sequence
        if sequence.ended_at is None:
            return self._seen(sequence, at_once=True, known=True)
        return replace(self._last_word(sequence), known=True)

    def close(self, identifier: str, last: int | None) -> Outcome:
        """Take CloseSequence: no message is received after it."""
        sequence = self._usable(identifier)
        if isinstance(sequence, Outcome):
            return sequence
        if sequence.ended_at is None:
            step = self._step
            sequence = sequence_end.close(step, replace(sequence, last_seen=step.now), last)
            sequence = acknowledgements.with_due_time(
                step, replace(sequence, unacknowledged=0, ack_at=None)
            )
            step.tx.incoming.put(sequence)
        return self._last_word(sequence)

    def terminate(self, identifier: str, last: int | None) -> Outcome:
        """Take TerminateSequence; a repetition gets the same answer."""
        sequence = self._usable(identifier)
        if isinstance(sequence, Outcome):
            return sequence
        if sequence.ended_at is None:
            step = self._step
            sequence = sequence_end.terminate(step, replace(sequence, last_seen=step.now), last)
        return self._last_word(sequence)

    def _last_word(self, sequence: IncomingSequence) -> Outcome:
        return Outcome(None, acknowledgements.block_of(self._step, sequence), sequence=sequence)


def _opposite(party: Party, wire: Wire, identifier: str, offer: Offer | None) -> str | None:
    """The key of the sequence for replies to *identifier*; None: there is none."""
    if offer is None:
        return None
    if party.offers is Offers.ACCEPT:
        return reply_key(identifier)
    if Kind.CLOSE_SEQUENCE not in wire.rm.rules.kinds:
        return empty_key(offer.identifier)  # 1.0 cannot decline it.
    return None


def _seconds(duration: timedelta | None) -> float | None:
    return duration.total_seconds() if duration else None


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


def _unknown(identifier: str) -> Outcome:
    return Outcome(RmFault(FaultName.UNKNOWN_SEQUENCE, identifier))


def _refuse(reason: str, subcode: str = "") -> RmFault:
    return RmFault(FaultName.CREATE_SEQUENCE_REFUSED, reason=reason, subcode=subcode)


def _is_spoken(sequence: IncomingSequence, message: ReliableMessage) -> bool:
    """Return whether a message has the versions of its sequence, which are those of CreateSequence
    up to its end. One without WS-Addressing may have any version of it."""
    wire = sequence.wire
    return message.rm is wire.rm and message.wsa in (None, wire.wsa)


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
