"""Exchanges with the consumer of a sequence of WS-ReliableMessaging: CreateSequence, messages with
their numbers, CloseSequence, and the answers on the connection or at an address of the gateway.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial

from filters import Refused
from gateway.delivery.sequences.acknowledgement_addresses import (
    AcknowledgementAddresses,
    base_of,
    decides_on,
)
from gateway.delivery.verdicts import Outcome, Verdict, failed, judge
from gateway.egress import Answer, FailureKind, Request, SendFailed, Target, Transport
from gateway.parsing import Parsing
from gateway.reliability.party import anonymous, is_callable
from gateway.reliability.records import OutgoingSequence, Wire
from gateway.security.keys import message_urn
from mediation.model.messages import EndpointReference, Subscription
from mediation.reliable_messaging import (
    AckRequested,
    CloseSequence,
    CreateSequence,
    CreateSequenceResponse,
    FaultName,
    ReliableMessage,
    RmFault,
    SequenceHeader,
    ack_requested_block,
    read_message,
    sequence_block,
    uses_token_block,
    with_blocks,
    write_message,
)
from mediation.soap.answers import PeerFault
from mediation.soap.envelopes import http_headers

REFUSED = "The consumer makes no sequence"
CALLED_BACK = 5.0
"""Seconds that an attempt waits for the acknowledgement of a consumer that sends it elsewhere."""
_OTHER_TOKEN = "FailedAuthentication"
"""The fault of WS-Security about a token that cannot be authorised."""
SHORTEST = timedelta(minutes=1)
"""The shortest life of a sequence: one that ends sooner would have a successor with every few
deliveries, and each is remembered for an hour."""


class SequenceProtocol:
    """Speaks with the consumers of sequences. It keeps nothing: the store has the sequences.

    Args:
        parsing: Where consumers' answers are parsed.
        calls_back: Whether a consumer acknowledges at an address of the gateway.
        token_for: What a consumer's sequence for a subscription of an owner is bound to, as
            CreateSequence refers to it: its messages are signed so. Empty: nothing.

    Attributes:
        acknowledgements: The attempts that wait for an answer at such an address.
    """

    def __init__(
        self,
        transport: Transport,
        parsing: Parsing,
        *,
        calls_back: Callable[[Target], bool] = lambda _: False,
        token_for: Callable[[Target, str | None], bytes] = lambda *_: b"",
    ) -> None:
        self._transport = transport
        self._parsing = parsing
        self._calls_back = calls_back
        self._token_for = token_for
        self.acknowledgements = AcknowledgementAddresses()

    async def exchange(
        self, request: Request, sequence: OutgoingSequence, number: int
    ) -> tuple[Answer, ReliableMessage | None]:
        """Send message *number*: the answer, and what the consumer says of it there, or elsewhere.

        Raises:
            SendFailed: There was no answer.
        """
        sent = _in_sequence(request, sequence, number)
        if sequence.acks_to is None or not is_callable(sequence.acks_to):
            answer = await self._sent(sent)
            said = await self.read(answer.document)
            return answer, self._unbound(request, sequence, said)
        with self.acknowledgements.expect(sequence.create_id or "") as queue:
            answer = await self._sent(sent)
            said = await self.read(answer.document)
            if said is None and 200 <= answer.status < 300:
                decides = partial(decides_on, sequence, number)
                said = await self.acknowledgements.word(queue, decides, CALLED_BACK)
            return answer, self._unbound(request, sequence, said)

    async def _sent(self, request: Request) -> Answer:
        """Send a message of a sequence. That a credential is not accepted is an answer where it may
        be the sequence alone that is bound to another.

        Raises:
            SendFailed: There was no answer.
        """
        try:
            return await self._transport.send(request)
        except SendFailed as error:
            if error.answer is None or not self._token_for(request.target, request.owner):
                raise
            return error.answer

    def _unbound(
        self, request: Request, sequence: OutgoingSequence, said: ReliableMessage | None
    ) -> ReliableMessage | None:
        """*said*, where a consumer does not take our certificate in a sequence: it is bound to the
        one before, so it is as one that the consumer does not know, and another begins."""
        if said is None or not isinstance(said.fault, PeerFault):
            return said
        code = said.fault.subcode or said.fault.code
        if code != _OTHER_TOKEN or not self._token_for(request.target, request.owner):
            return said
        unknown = RmFault(FaultName.UNKNOWN_SEQUENCE, sequence.identifier)
        return replace(said, rm=sequence.wire.rm, fault=unknown)

    async def _ask(
        self, request: Request, create_id: str, answers: Callable[[ReliableMessage], bool]
    ) -> tuple[Answer, ReliableMessage | None]:
        """Send a protocol message of the sequence with this id: the answer, and what it says; where
        a transport has no answers, what *answers* it, which comes to the gateway's address.

        Raises:
            SendFailed: There was no answer.
        """
        if not is_one_way(request.target):
            answer = await self._transport.send(request)
            return answer, await self.read(answer.document)
        with self.acknowledgements.expect(create_id) as queue:
            answer = await self._transport.send(request)
            said = await self.acknowledgements.word(queue, answers, CALLED_BACK)
        if said is None:
            text = f"no acknowledgement came to our address within {CALLED_BACK:.0f} s"
            raise SendFailed(FailureKind.TIMEOUT, text)
        return answer, said

    def base(self, subscription: Subscription, target: Target) -> str | None:
        """The gateway's address where the consumer of *subscription* acknowledges at one; None
        where it does on connections."""
        calls_back = is_one_way(target) or self._calls_back(target)
        return base_of(subscription) if calls_back else None

    async def close(
        self, sequence: OutgoingSequence, like: Request, highest: int
    ) -> ReliableMessage | None:
        """Close a sequence, of which *highest* is the last number that was sent, to hear for the
        last time what the consumer has; None: no answer."""
        wire, identifier = sequence.wire, sequence.identifier or ""
        body = CloseSequence(identifier, highest)
        action, envelope = write_message(
            wire,
            body,
            to=sequence.target,
            message_id=message_urn(),
            reply_to=_reply_to(like.target, sequence.acks_to or anonymous(wire.wsa)),
        )
        request = _own(like, wire, action, envelope)
        try:
            _, said = await self._ask(request, sequence.create_id or "", _is_last_word)
        except SendFailed:
            return None
        return said

    async def create(
        self,
        wire: Wire,
        consumer: EndpointReference,
        create_id: str,
        like: Request,
        acks_to: EndpointReference,
    ) -> CreateSequenceResponse | Outcome:
        """Ask *consumer* to make a sequence: its response, or how that failed. A refusal is broken.

        Args:
            like: A request to the same consumer: its target, and what is asked before anything is
                written to it.
            acks_to: Where the consumer acknowledges.
        """
        to = _reply_to(like.target, acks_to)
        token = self._token_for(like.target, like.owner)
        action, envelope = write_message(
            wire,
            CreateSequence(acks_to, token=token or None),
            to=consumer,
            message_id=create_id,
            reply_to=to,
            blocks=[uses_token_block(wire.rm, wire.soap)] if token else (),
        )
        try:
            answer, said = await self._ask(_own(like, wire, action, envelope), create_id, _is_made)
        except SendFailed as error:
            return failed(error)
        if said is not None and isinstance(said.body, CreateSequenceResponse):
            expires = said.body.expires
            if expires is not None and timedelta() < expires < SHORTEST:
                return broken(f"{REFUSED}: it would end after {expires}", answer.status)
            return said.body
        fault = said.fault if said is not None else None
        if fault is not None and (isinstance(fault, RmFault) or fault.permanent):
            return broken(f"{REFUSED}: {fault.reason or 'it answered a fault'}", answer.status)
        outcome = judge(answer, fault if isinstance(fault, PeerFault) else None, now=time.time())
        match outcome.verdict:
            case Verdict.DELIVERED:
                return broken(f"{REFUSED}: it does not answer CreateSequence", answer.status)
            case Verdict.REJECTED:
                return broken(f"{REFUSED}: it {outcome.failure_text}", answer.status)
        return outcome

    async def read(self, octets: bytes) -> ReliableMessage | None:
        """Read a consumer's answer; None if it is not a message, or cannot be read now."""
        if not octets:
            return None
        try:
            return await self._parsing.run_answer_parser(
                len(octets), lambda learnt: read_message(octets, learnt=learnt)
            )
        except Refused:
            return None


def broken(why: str, status: int | None = None) -> Outcome:
    """The outcome of an attempt whose sequence cannot go on."""
    return Outcome(Verdict.BROKEN, status, answered=True, why=why or "The sequence cannot go on.")


def handshake(target: Target, owner: str, admit: Callable[[str], bool] | None) -> Request:
    """A request to a consumer to which nothing was sent yet, for `SequenceProtocol.create`."""
    return Request(target, b"", (), admit=admit, owner=owner)


def is_one_way(target: Target) -> bool:
    """True if nothing that is sent to *target* has an answer."""
    return target.scheme in ("soap.tcp", "soap.tcps")


def _reply_to(target: Target, acks_to: EndpointReference) -> EndpointReference:
    """The address of answers to protocol messages: back on the connection, where it has answers."""
    return acks_to if is_one_way(target) else anonymous(acks_to.wsa)


def _is_made(said: ReliableMessage) -> bool:
    return isinstance(said.body, CreateSequenceResponse)


def _is_last_word(said: ReliableMessage) -> bool:
    return any(one.final for one in said.acknowledgements)


def _own(like: Request, wire: Wire, action: str, envelope: bytes) -> Request:
    """A protocol message, sent where *like* is."""
    headers = http_headers(wire.soap, action)
    return Request(
        like.target, envelope, headers, soap=wire.soap, admit=like.admit, owner=like.owner
    )


def _in_sequence(request: Request, sequence: OutgoingSequence, number: int) -> Request:
    """*request* as message *number* of *sequence*. Who gets it is asked to say at once that it has
    it."""
    rm, soap, identifier = sequence.wire.rm, sequence.wire.soap, sequence.identifier or ""
    blocks = (
        sequence_block(rm, soap, SequenceHeader(identifier, number)),
        ack_requested_block(rm, AckRequested(identifier)),
    )
    return replace(request, body=with_blocks(request.body, blocks), once=True)
