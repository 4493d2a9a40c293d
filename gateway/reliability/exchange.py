"""One message that was received, and its answer: `Exchange`."""

from dataclasses import dataclass, field, replace

from gateway.reliability import sequence_end
from gateway.reliability.back_channel import alone, may_answer, reply_to
from gateway.reliability.destination import Destination, Outcome, create
from gateway.reliability.invoker import Invoker
from gateway.reliability.party import (
    Party,
    anonymous,
    empty_of,
    is_callable,
    reply_endpoint,
    reply_key,
)
from gateway.reliability.records import IncomingSequence, Wire
from gateway.reliability.sequence_creation import take_create_response
from gateway.reliability.source import Source, is_peer
from gateway.reliability.source_input import SourceInput
from gateway.reliability.steps import Step, begin, begin_with_callback
from gateway.reliability.storage import StorageUnavailable
from gateway.reliability.values import Awaited, Delivered, NoticeKind, Outgoing, Reply
from mediation.model.messages import EndpointReference
from mediation.reliable_messaging import (
    Acknowledgement,
    Body,
    CloseSequence,
    CloseSequenceResponse,
    CreateSequence,
    CreateSequenceResponse,
    FaultName,
    LastMessage,
    ReliableMessage,
    Rm,
    RmFault,
    SequenceHeader,
    TerminateSequence,
    TerminateSequenceResponse,
    acknowledgement_block,
    status_of,
    with_blocks,
    write_message,
    write_rm_fault,
)
from mediation.soap.addressing import id_to_keep, is_anonymous
from mediation.soap.answers import PeerFault

ACKNOWLEDGEMENT, NACK = "Acknowledgement", "Nack"


@dataclass(slots=True)
class Exchange:
    """One message that was received, and its answer. `take` commits each part of the message before
    `finish` writes the answer, so that every word of it is durable.

    Attributes:
        body: The answer to a protocol message.
        fault, about_header: The fault that is answered instead; whether it is about a header block.
        blocks: Acknowledgements that go back on the connection.
        sequence: The sequence that they are about.
        misread: The fault about an acknowledgement, which replaces no other answer.
        ready: The reply of an application.
        awaited: The reply for which the connection may stay open.
        addressed_fault: The fault that answers the message, where it goes to an address.
    """

    party: Party
    message: ReliableMessage
    envelope: bytes
    now: float
    owner: str | None
    content_type: str
    service: str
    back: str | None
    peer: str = ""
    body: Body | None = None
    fault: RmFault | None = None
    about_header: bool = True
    blocks: list[bytes] = field(default_factory=list)
    sequence: IncomingSequence | None = None
    outgoing: list[Outgoing] = field(default_factory=list)
    misread: RmFault | None = None
    ready: Outgoing | None = None
    awaited: Awaited | None = None
    addressed_fault: Outgoing | None = None
    label: str = ACKNOWLEDGEMENT

    @property
    def is_of_unknown_sequence(self) -> bool:
        """Return whether the answer is UnknownSequence."""
        faults = (self.fault, self.misread)
        return any(each and each.name is FaultName.UNKNOWN_SEQUENCE for each in faults)

    @property
    def only_acknowledges(self) -> bool:
        """Return whether the answer, on the connection, is an acknowledgement and nothing else: no
        Nack either."""
        if self.label != ACKNOWLEDGEMENT or self.fault is not None or self.misread is not None:
            return False
        return self.body is None and self.awaited is None and any(self.blocks)

    @property
    def is_asked(self) -> bool:
        """Return whether the message asks to be acknowledged."""
        header = self.message.sequence
        return bool(self.message.ack_requested) or (header is not None and header.last)

    def run(self) -> Reply:
        self.take()
        return self.finish()

    def take(self) -> None:
        """Take each part of the message, in a transaction each; no application gets it yet."""
        message = self.message
        if message.rm is None:
            return
        for said in message.acknowledgements:
            self._take_acknowledgement(said)
        for refusal in message.refusals:
            self.misread = refusal
        if isinstance(message.fault, RmFault):
            self._take_fault(message.fault)
        elif message.body is not None and not isinstance(message.body, LastMessage):
            self._take_protocol_message(message.body)
        if message.sequence is not None:
            self._take_sequence_message(message.sequence)
        for asked in message.ack_requested:
            if message.sequence is None or message.sequence.identifier != asked.identifier:
                self._take_ack_request(asked.identifier)

    def finish(self) -> Reply:
        """Write the answer, with the reply of the application where that is there at once."""
        if self.message.rm is None:
            return self._answer_unreliable()
        self._take_reply_alone()
        if self.awaited is not None:
            self._deliver_now(self.awaited)
        return self._reply(self.message.rm)

    def _answer_unreliable(self) -> Reply:
        headers = self.message.headers
        if self.back is not None:
            if headers.relates_to is not None and self._take_unsequenced_reply(
                self.back, headers.relates_to
            ):
                return Reply()
            if isinstance(self.message.fault, PeerFault):
                said = self.message.fault
                words = f"a fault, {said.code or 'without a code'}: {said.reason}"
                definite = said.code not in ("Server", "Receiver")
                self.party.refused(self.back, words, self.now, definite=definite)
        elif self.party.requires:
            wire = Wire(Rm.V1_1, headers.wsa or Rm.V1_1.rules.wsa[0], self.message.soap)
            fault = RmFault(FaultName.WSRM_REQUIRED)
            return Reply(outgoing_fault(wire, fault, headers.message_id), fault=True)
        return Reply(unreliable=self.message)

    def _take_reply_alone(self) -> None:
        """Take a reply that is in no sequence, and acknowledges its request."""
        message = self.message
        relates_to = message.headers.relates_to
        if self.back is None or relates_to is None or message.sequence is not None:
            return
        if message.body is None and not isinstance(message.fault, RmFault):
            self._take_unsequenced_reply(self.back, relates_to)

    def _take_unsequenced_reply(self, key: str, relates_to: str) -> bool:
        """Take a reply that is in no sequence, but came back on the connection of its request. The
        application gets it in the transaction that forgets the request, so that it gets it once.
        Where the application raises, the reply counts as lost, and the request is sent again.

        Returns:
            False where there is no application for it, or it is a fault of SOAP about something
            that will be sent again.
        """
        taken = True
        with begin_with_callback(self.party, self.now) as step:
            source = SourceInput(step, self.owner)
            found = source.take_reply(key, relates_to, alone=True)
            if found is None:  # It came before, or is not a reply.
                refuses = isinstance(self.message.fault, PeerFault)
                return not (refuses and source.is_waiting(key, relates_to))
            sequence, number = found
            service = sequence.callback or ""
            application = self.party.applications.get(service)
            taken = application is not None
            if application is not None:
                delivered = Delivered(
                    sequence.identifier or "",
                    number,
                    self.message,
                    self.envelope,
                    self.content_type,
                    service,
                    sequence.owner,
                    self.now,
                )
                step.call(sequence.key)
                application(step.tx, delivered)
        return taken

    def _take_acknowledgement(self, said: Acknowledgement) -> None:
        fault = None
        with begin_with_callback(self.party, self.now) as step:
            fault = SourceInput(step, self.owner).acknowledge(said)
            if fault is not None and fault.name is FaultName.INVALID_ACKNOWLEDGEMENT:
                self._complain(step, said)
        if fault is None or self.message.rm is None:
            return
        if fault.name is FaultName.INVALID_ACKNOWLEDGEMENT:
            shown = Acknowledgement(said.identifier, said.ranges, said.final)
            fault = replace(fault, detail=acknowledgement_block(self.message.rm, shown))
        self.misread = fault

    def _complain(self, step: Step, said: Acknowledgement) -> None:
        """Tell people, now and then, that a destination acknowledges numbers that were never sent:
        its acknowledgements are ignored."""
        if self.party.complaints.allows(said.identifier, self.now):
            numbers = ", ".join(map(str, said.nacks)) if said.nacks else str(said.ranges)
            text = f"it speaks of numbers that were never sent: {numbers[:100]}"
            step.tell(NoticeKind.REFUSED, said.identifier, text)

    def _take_fault(self, fault: RmFault) -> None:
        relates_to = self.message.headers.relates_to
        ours = True
        with begin_with_callback(self.party, self.now) as step:
            if fault.name is FaultName.CREATE_SEQUENCE_REFUSED:
                if relates_to is not None:
                    why = f"the destination refused it: {fault.reason}"
                    SourceInput(step, self.owner).take_refusal(id_to_keep(relates_to), why)
                return
            ours = SourceInput(step, self.owner).take_fault(fault)
        if ours or fault.identifier is None:
            return
        gone = fault.name in (FaultName.SEQUENCE_TERMINATED, FaultName.UNKNOWN_SEQUENCE)
        with begin(self.party, self.now) as step:
            incoming = Destination(step, self.owner).find(fault.identifier)
            if incoming is None:
                return
            if gone and incoming.ended_at is None:
                sequence_end.terminate(step, incoming, None)
            step.tell(NoticeKind.REFUSED, fault.identifier, fault.name.value)

    def _take_protocol_message(self, body: Body) -> None:
        party, now, owner = self.party, self.now, self.owner
        match body:
            case CreateSequence():
                self._create(body)
            case CreateSequenceResponse():
                if self.message.headers.relates_to is not None:
                    take_create_response(party, body, self.message.headers.relates_to, now, owner)
            case CloseSequence(identifier, last):
                with begin(party, now) as step:
                    outcome = Destination(step, owner).close(identifier, last)
                self._answer_end(outcome, CloseSequenceResponse(identifier))
            case TerminateSequence(identifier, last):
                with begin(party, now) as step:
                    outcome = Destination(step, owner).terminate(identifier, last)
                self._answer_end(outcome, TerminateSequenceResponse(identifier))
            case CloseSequenceResponse(identifier):
                with begin(party, now) as step:
                    SourceInput(step, owner).take_close_response(identifier)
            case TerminateSequenceResponse(identifier):
                with begin_with_callback(party, now) as step:
                    SourceInput(step, owner).take_terminate_response(identifier)

    def _create(self, body: CreateSequence) -> None:
        answer, self.sequence = create(
            self.party,
            self.message,
            body,
            self.now,
            owner=self.owner,
            service=self.service,
            peer=self.peer,
        )
        if isinstance(answer, RmFault):
            self.fault, self.about_header = answer, False
        else:
            self.body = answer

    def _answer_end(self, outcome: Outcome, answer: Body) -> None:
        """Answer CloseSequence or TerminateSequence."""
        if outcome.fault is not None and outcome.fault.identifier is not None:
            if self._ended_by_destination(outcome.fault.identifier):
                self.body = answer
            else:
                self.fault, self.about_header = outcome.fault, False
            return
        sequence = outcome.sequence
        assert sequence is not None
        self.sequence = sequence
        if sequence.wire.rm.rules.terminate_answered:
            self.body = answer
            self.blocks.append(outcome.acknowledgement)
        elif sequence.opposite is not None:
            self.body = self._end_of_replies(sequence)

    def _end_of_replies(self, sequence: IncomingSequence) -> Body | None:
        """End the sequence of the replies in the answer: in 1.0 no other message could do it."""
        empty = empty_of(sequence.opposite or "")
        if empty is not None:
            return TerminateSequence(empty) if is_anonymous(sequence.acks_to.address) else None
        with begin(self.party, self.now) as step:
            replies = step.tx.outgoing.find(reply_key(sequence.identifier))
        if replies is None or replies.identifier is None:
            return None
        if not is_anonymous(replies.target.address):
            return None
        return TerminateSequence(replies.identifier)

    def _ended_by_destination(self, identifier: str) -> bool:
        """Take a TerminateSequence of the destination for one of our sequences."""
        with begin_with_callback(self.party, self.now) as step:
            sequence = step.tx.outgoing.find_identified(identifier)
            if sequence is None or not is_peer(sequence, self.owner):
                return False
            if sequence.ended_at is None:
                if sequence.count:
                    Source(step).give_up(sequence, "the destination ended it")
                else:
                    Source(step).finish(sequence)
        return True

    def _take_sequence_message(self, header: SequenceHeader) -> None:
        message = self.message
        with begin(self.party, self.now) as step:
            outcome = Destination(step, self.owner).receive(
                message, header, self.envelope, self.content_type
            )
        self.sequence = outcome.sequence
        if outcome.acknowledgement:
            self.blocks.append(outcome.acknowledgement)
        if outcome.fault is not None:
            self.fault = outcome.fault
            return
        if outcome.nack:
            self._ask_again(outcome)
        if not (outcome.taken or outcome.known) or isinstance(message.body, LastMessage):
            return
        message_id, to = message.headers.message_id, self._reply_endpoint()
        if to is None or message_id is None or self.back is not None:
            return
        if is_anonymous(to.address):
            self.awaited = Awaited(header.identifier, message_id, header.number)

    def _ask_again(self, outcome: Outcome) -> None:
        """Ask for missing messages, where acknowledgements go."""
        assert outcome.sequence is not None
        if is_callable(outcome.sequence.acks_to):
            self.outgoing.append(alone(outcome.sequence, outcome.nack, NACK))
        else:
            self.label = NACK  # It takes the place of the acknowledgement.

    def _deliver_now(self, awaited: Awaited) -> None:
        """Give the application the message now, to answer with its reply."""
        party, now = self.party, self.now
        try:
            Invoker(party, awaited.identifier, now).deliver()
            self.ready = reply_to(party, awaited, now)
            if self.ready is None and not may_answer(party, awaited, now):
                self.awaited = None  # The application took the message, and gave no reply.
        except StorageUnavailable:
            pass  # The message is stored, and the acknowledgement promises no more.

    def _reply_endpoint(self) -> EndpointReference | None:
        sequence = self.sequence
        offered = False
        if self.message.headers.reply_to is None and sequence is not None and sequence.opposite:
            with begin(self.party, self.now) as step:
                replies = step.tx.outgoing.find(sequence.opposite)
            offered = replies is not None and is_anonymous(replies.target.address)
        return reply_endpoint(self.message, offered=offered)

    def _take_ack_request(self, identifier: str) -> None:
        with begin(self.party, self.now) as step:
            outcome = Destination(step, self.owner).acknowledge(identifier)
        if outcome.fault is not None:
            self.fault = self.fault or outcome.fault
        elif outcome.acknowledgement:
            self.blocks.append(outcome.acknowledgement)
            self.sequence = self.sequence or outcome.sequence

    def _reply(self, rm: Rm) -> Reply:
        message = self.message
        headers = message.headers
        wire = Wire(rm, headers.wsa or rm.rules.wsa[0], message.soap)
        answer, failed = self._answer(wire)
        if answer is not None and is_callable(answer.to):
            self.outgoing.append(answer)
            self.addressed_fault = answer if failed else None
            answer, failed = None, False
        if self.misread is not None:
            # It must not replace the answer to the message itself.
            misread = outgoing_fault(wire, self.misread, headers.message_id)
            if answer is None:
                answer, failed = misread, True
        if self.back is not None:
            if self.misread is not None:
                self._refuse_answer(wire, self.back, self.misread)
            answer, failed = None, False
        awaited = self.awaited if self.ready is None else None
        return Reply(answer, failed, tuple(self.outgoing), awaited)

    def _refuse_answer(self, wire: Wire, key: str, fault: RmFault) -> None:
        """Send the fault about an answer to the destination: on a connection that we opened, an
        answer cannot be answered."""
        if fault.name is not FaultName.INVALID_ACKNOWLEDGEMENT:
            return
        with begin(self.party, self.now) as step:
            sequence = step.tx.outgoing.find(key)
        if sequence is None or sequence.identifier != fault.identifier:
            return
        if is_callable(sequence.target):
            relates_to = self.message.headers.message_id
            self.outgoing.append(outgoing_fault(wire, fault, relates_to, to=sequence.target))

    def _answer(self, wire: Wire) -> tuple[Outgoing | None, bool]:
        """Write the answer; whether it is a fault."""
        headers, sequence = self.message.headers, self.sequence
        if self.fault is not None:
            to = None
            if self.about_header and sequence is not None and is_callable(sequence.acks_to):
                to = sequence.acks_to
            else:
                to = self._callable_fault_to()
            fault = outgoing_fault(
                wire,
                self.fault,
                headers.message_id,
                to=to,
                about_header=self.about_header,
                blocks=self.blocks,
            )
            return fault, True
        if self.body is not None:
            to = self._callable_reply_to() or anonymous(wire.wsa)
            action, envelope = write_message(
                wire, self.body, to=to, relates_to=headers.message_id, blocks=self.blocks
            )
            return Outgoing(to, envelope, action, wire, type(self.body).__name__), False
        if self.ready is not None:
            # The first one is on the reply, where it is of the sequence of the request.
            elsewhere = sequence is not None and is_callable(sequence.acks_to)
            others = [block for block in self.blocks[0 if elsewhere else 1 :] if block]
            return replace(self.ready, envelope=with_blocks(self.ready.envelope, others)), False
        if any(self.blocks) and sequence is not None:
            to = anonymous(sequence.wire.wsa)
            found = alone(sequence, b"".join(self.blocks), self.label)
            return replace(found, to=to), False
        return None, False

    def _callable_fault_to(self) -> EndpointReference | None:
        """The address of a fault that does not go to AcksTo (WS-Addressing 1.0, section 3.4)."""
        fault_to = self.message.headers.fault_to
        return self._callable_reply_to() if fault_to is None else self._callable(fault_to)

    def _callable_reply_to(self) -> EndpointReference | None:
        reply_to = self.message.headers.reply_to
        return None if reply_to is None else self._callable(reply_to)

    def _callable(self, to: EndpointReference) -> EndpointReference | None:
        return to if is_callable(to) and self.party.allows(to.address) else None


def outgoing_fault(
    wire: Wire,
    fault: RmFault,
    relates_to: str | None,
    *,
    to: EndpointReference | None = None,
    about_header: bool = True,
    blocks: list[bytes] | None = None,
) -> Outgoing:
    """A fault about a sequence, to *to* or back on the connection.

    Args:
        about_header: It answers a header block of an application's message, not a protocol message.
        blocks: Header blocks that go with it.
    """
    to = to or anonymous(wire.wsa)
    action, envelope = write_rm_fault(
        wire,
        fault,
        about_header=about_header,
        to=to,
        relates_to=relates_to,
        blocks=blocks or (),
    )
    return Outgoing(
        to, envelope, action, wire, fault.name.value, status=status_of(fault, wire.soap)
    )
