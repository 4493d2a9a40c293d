"""One attempt of a delivery in a sequence of WS-ReliableMessaging: it gets its number, the
consumer makes the sequence if need be, and the messages that it acknowledges are delivered.

    number    committed, before anything is sent          an operation of the store, for many
    create    CreateSequence, where there is no sequence  an exchange, and an operation
    send      the message, which asks to be acknowledged  an exchange
    noted     its acknowledgement                         an operation of `settlement`, for many
    answered  any other answer                            an operation

Those that wait behind a delivery get their numbers in its operation (`unsaved_numbers`), so they
follow one another without any. Acknowledgements come back on the connection. A bare 202 is not an
acknowledgement: the delivery is tried again when its schedule says so, with its number. A consumer
that does not say whether it has a repeated message is asked for its last word (CloseSequence, 1.1);
then another sequence begins.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import TypeVar

from sqlalchemy import Connection

from filters import Refused
from gateway.delivery.outbox import Outbox, PendingDelivery
from gateway.delivery.partition_share import PartitionShare
from gateway.delivery.sequences import message_numbers
from gateway.delivery.sequences.acknowledgement_addresses import (
    AcknowledgementAddresses,
    base_of,
    decides_on,
)
from gateway.delivery.sequences.message_numbers import NumberedDelivery
from gateway.delivery.sequences.unsaved_numbers import UnsavedNumbers
from gateway.delivery.verdicts import DELIVERED, NOT_ACKNOWLEDGED, Outcome, Verdict, failed, judge
from gateway.egress import Answer, FailureKind, Request, SendFailed, Target, Transport
from gateway.parsing import Parsing
from gateway.reliability.party import anonymous, is_callable
from gateway.reliability.records import OutgoingSequence, Wire
from gateway.reliability.source import SourceFull
from gateway.reliability.storage import StorageManager
from gateway.reliability.stores.joined_store import run_joined
from gateway.security.keys import message_urn
from gateway.store import Store, StoreUnavailable
from gateway.store.replicas import Fenced
from mediation.model.messages import EndpointReference, Subscription
from mediation.reliable_messaging import (
    AckRequested,
    CloseSequence,
    CreateSequence,
    CreateSequenceResponse,
    ReliableMessage,
    RmFault,
    SequenceHeader,
    ack_requested_block,
    read_message,
    sequence_block,
    with_blocks,
    write_message,
)
from mediation.rendering import delivery_id
from mediation.soap.answers import PeerFault
from mediation.soap.envelopes import http_headers

T = TypeVar("T")

REFUSED = "The consumer makes no sequence"
NUMBERED_AT_ONCE = 32
"""Deliveries that get their numbers in one operation: as many as are in memory for an outbox."""
CALLED_BACK = 5.0
"""Seconds that an attempt waits for the acknowledgement of a consumer that sends it elsewhere."""
SHORTEST = timedelta(minutes=1)
"""The shortest life of a sequence: one that ends sooner would have a successor with every few
deliveries, and each is remembered for an hour."""


class SequenceSending:
    """Sends deliveries in sequences.

    Args:
        parsing: Where consumers' answers are parsed.
        calls_back: Whether a consumer acknowledges at an address of the gateway.

    Attributes:
        acknowledgements: The attempts that wait for one at such an address.
        messages: Counts of messages in sequences, by what became of them.
    """

    def __init__(
        self,
        store: Store,
        transport: Transport,
        parsing: Parsing,
        *,
        calls_back: Callable[[Target], bool] = lambda _: False,
    ) -> None:
        self._store = store
        self._calls_back = calls_back
        self.acknowledgements = AcknowledgementAddresses()
        self._transport = transport
        self._parsing = parsing
        self.messages = dict.fromkeys(("acknowledged", "repeated", "unacknowledged"), 0)

    async def send(self, pending: PendingDelivery, request: Request) -> tuple[Outcome, int]:
        """Make an attempt, with what *request* has for it. How it ended, and how many attachments
        were left out."""
        try:
            return await self._send(pending, request)
        except (StoreUnavailable, SourceFull, Fenced) as error:
            return Outcome(Verdict.RETRY, why=f"it got no number: {type(error).__name__}"), 0

    async def _send(self, pending: PendingDelivery, request: Request) -> tuple[Outcome, int]:
        outbox = pending.outbox
        share = outbox.owner.share
        message_id, numbers = request.message_id or "", self._numbers_of(outbox)
        place = numbers.take(message_id, time.time())
        if place is None:
            expired = pending.message.expires_at <= time.time()
            place = await self._number(outbox, message_id, numbers, expired=expired)
        if place.expired:
            return Outcome(Verdict.EXPIRED), 0
        for _ in range(2):
            if place.delivered:
                self.messages["repeated"] += 1
                return DELIVERED, 0
            if place.broken or place.sequence is None:
                return _broken(place.broken), 0
            sequence = place.sequence
            if sequence.identifier is None:
                opened = await self._open(sequence, request, share)
                if isinstance(opened, Outcome):
                    await self._unsent(sequence, place, share)
                    return opened, 0
                sequence = opened
            try:
                answer, said = await self._exchange(request, sequence, place.number)
            except SendFailed as error:
                if error.connecting:
                    await self._unsent(sequence, place, share)
                self.messages["unacknowledged"] += 1
                return failed(error), 0
            ended = outbox.entry.ended  # Then nobody would have it noted later.
            if (
                said is not None
                and not ended
                and numbers.take_acknowledgement(place, said, time.time())
            ):
                return self._judge(answer, said, replace(place, delivered=True)), answer.dropped
            given = (place.number, message_id)
            place = await self._answered(outbox, given, said, place, numbers)
            if _keeps_silent(answer, said, place):
                closing = await self._close(sequence, request, numbers)
                place = await self._answered(outbox, given, closing, place, numbers)
            if not place.again:
                return self._judge(answer, said, place), answer.dropped
        return Outcome(Verdict.RETRY, why=NOT_ACKNOWLEDGED), 0

    async def _exchange(
        self, request: Request, sequence: OutgoingSequence, number: int
    ) -> tuple[Answer, ReliableMessage | None]:
        """Send message *number*: the answer, and what the consumer says of it there, or elsewhere.

        Raises:
            SendFailed: There was no answer.
        """
        sent = _in_sequence(request, sequence, number)
        if sequence.acks_to is None or not is_callable(sequence.acks_to):
            answer = await self._transport.send(sent)
            return answer, await self.read(answer.document)
        with self.acknowledgements.expect(sequence.create_id or "") as queue:
            answer = await self._transport.send(sent)
            said = await self.read(answer.document)
            if said is None and 200 <= answer.status < 300:
                decides = partial(decides_on, sequence, number)
                said = await self.acknowledgements.word(queue, decides, CALLED_BACK)
            return answer, said

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

    def _judge(
        self, answer: Answer, said: ReliableMessage | None, place: NumberedDelivery
    ) -> Outcome:
        if place.delivered:
            self.messages["acknowledged"] += 1
            return Outcome(Verdict.DELIVERED, answer.status, answered=True)
        self.messages["unacknowledged"] += 1
        if place.broken:
            return _broken(place.broken)
        return _unacknowledged(answer, said)

    @staticmethod
    def _numbers_of(outbox: Outbox) -> UnsavedNumbers:
        if outbox.unsaved_numbers is None:
            outbox.unsaved_numbers = UnsavedNumbers(outbox.entry.id, outbox.owner.share.partition)
        return outbox.unsaved_numbers

    # Operations of the store.

    async def _run(
        self, share: PartitionShare, key: str, work: Callable[[StorageManager, Connection], T]
    ) -> T:
        def operation(connection: Connection) -> T:
            share.check(connection)
            return run_joined(connection, lambda storage: work(storage, connection))

        return await self._store.submit(operation, locks=(f"sequence {key}",))

    async def _number(
        self, outbox: Outbox, message_id: str, numbers: UnsavedNumbers, *, expired: bool
    ) -> NumberedDelivery:
        subscription, share = outbox.entry.subscription, outbox.owner.share
        partition, now, unsaved = share.partition, time.time(), numbers.unsaved()
        following, base = _following(outbox), self.base(subscription, outbox.entry.target)

        def work(storage: StorageManager, connection: Connection) -> NumberedDelivery:
            return message_numbers.assign_number(
                storage,
                connection,
                subscription,
                partition,
                message_id,
                now,
                following=following,
                unsaved=unsaved,
                base=base,
                expired=expired,
            )

        place = await self._run(share, numbers.key, work)
        if not place.expired:
            numbers.follow(place)
        return place

    async def _answered(
        self,
        outbox: Outbox,
        message: tuple[int, str],
        said: ReliableMessage | None,
        place: NumberedDelivery,
        numbers: UnsavedNumbers,
    ) -> NumberedDelivery:
        """*place* after what the consumer said of it, if it said anything."""
        if said is None or place.sequence is None or said.rm is not place.sequence.wire.rm:
            return place
        subscription, share = outbox.entry.subscription, outbox.owner.share
        partition, now, unsaved = share.partition, time.time(), numbers.unsaved()
        base = self.base(subscription, outbox.entry.target)

        def work(storage: StorageManager, connection: Connection) -> NumberedDelivery:
            return message_numbers.take_answer(
                storage,
                connection,
                subscription,
                partition,
                message,
                said,
                now,
                unsaved=unsaved,
                base=base,
            )

        after = await self._run(share, numbers.key, work)
        numbers.follow(after)
        return after

    async def _unsent(
        self, sequence: OutgoingSequence, place: NumberedDelivery, share: PartitionShare
    ) -> None:
        given = partial(
            message_numbers.record_unsent, key=sequence.key, given=place.number, now=time.time()
        )
        await self._run(share, sequence.key, lambda storage, _: given(storage))

    # The sequence.

    async def _open(
        self, sequence: OutgoingSequence, request: Request, share: PartitionShare
    ) -> OutgoingSequence | Outcome:
        """Have the consumer make the sequence; it as it is then, or how that failed."""
        acks_to = sequence.acks_to or anonymous(sequence.wire.wsa)
        response = await self.create(
            sequence.wire, sequence.target, sequence.create_id or "", request, acks_to
        )
        if isinstance(response, Outcome):
            return response
        now = time.time()
        opened = await self._run(
            share,
            sequence.key,
            lambda storage, _: message_numbers.record_opened(storage, sequence, response, now),
        )
        if opened is None or opened.identifier is None or opened.ended_at is not None:
            return _broken(opened.failure if opened is not None and opened.failure else "")
        return opened

    async def _close(
        self, sequence: OutgoingSequence, like: Request, numbers: UnsavedNumbers
    ) -> ReliableMessage | None:
        """Close a sequence, to hear what the consumer has, for the last time; None: no answer."""
        wire, identifier = sequence.wire, sequence.identifier or ""
        body = CloseSequence(identifier, numbers.highest_sent(sequence))
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
        action, envelope = write_message(
            wire, CreateSequence(acks_to), to=consumer, message_id=create_id, reply_to=to
        )
        try:
            answer, said = await self._ask(_own(like, wire, action, envelope), create_id, _is_made)
        except SendFailed as error:
            return failed(error)
        if said is not None and isinstance(said.body, CreateSequenceResponse):
            expires = said.body.expires
            if expires is not None and timedelta() < expires < SHORTEST:
                return _broken(f"{REFUSED}: it would end after {expires}", answer.status)
            return said.body
        fault = said.fault if said is not None else None
        if fault is not None and (isinstance(fault, RmFault) or fault.permanent):
            return _broken(f"{REFUSED}: {fault.reason or 'it answered a fault'}", answer.status)
        outcome = judge(answer, fault if isinstance(fault, PeerFault) else None, now=time.time())
        match outcome.verdict:
            case Verdict.DELIVERED:
                return _broken(f"{REFUSED}: it does not answer CreateSequence", answer.status)
            case Verdict.REJECTED:
                return _broken(f"{REFUSED}: it {outcome.failure_text}", answer.status)
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


def handshake(target: Target, admit: Callable[[str], bool] | None) -> Request:
    """A request that tells `SequenceSending.create` of a consumer to which nothing was sent yet."""
    return Request(target, b"", (), admit=admit)


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


def _following(outbox: Outbox) -> list[str]:
    """The message ids of the deliveries that are sent next."""
    recipient, id_ = outbox.entry.recipient, outbox.entry.id
    return [
        delivery_id(one.message.as_seen_by(recipient).notification, id_)
        for one in outbox.upcoming(NUMBERED_AT_ONCE - 1, time.time())
    ]


def _own(like: Request, wire: Wire, action: str, envelope: bytes) -> Request:
    """A protocol message, sent where *like* is."""
    headers = http_headers(wire.soap, action)
    return Request(like.target, envelope, headers, soap=wire.soap, admit=like.admit)


def _keeps_silent(answer: Answer, said: ReliableMessage | None, place: NumberedDelivery) -> bool:
    """True if the consumer took a message that it may have had before, and does not say whether it
    has it, though it is asked. So does gSOAP, whose first answer was lost."""
    if place.delivered or place.broken or place.again or place.sequence is None:
        return False
    if place.sends < 2 or not place.sequence.wire.rm.rules.closes:
        return False
    silent = said is None or (said.fault is None and not said.acknowledgements)
    return silent and 200 <= answer.status < 300


def _in_sequence(request: Request, sequence: OutgoingSequence, number: int) -> Request:
    """*request* as message *number* of *sequence*. Who gets it is asked to say at once that it has
    it."""
    rm, soap, identifier = sequence.wire.rm, sequence.wire.soap, sequence.identifier or ""
    blocks = (
        sequence_block(rm, soap, SequenceHeader(identifier, number)),
        ack_requested_block(rm, AckRequested(identifier)),
    )
    return replace(request, body=with_blocks(request.body, blocks), once=True)


def _broken(why: str, status: int | None = None) -> Outcome:
    return Outcome(Verdict.BROKEN, status, answered=True, why=why or "The sequence cannot go on.")


def _unacknowledged(answer: Answer, said: ReliableMessage | None) -> Outcome:
    """The outcome of an attempt whose message was not acknowledged, as `judge`."""
    fault = said.fault if said is not None else None
    outcome = judge(answer, fault if isinstance(fault, PeerFault) else None, now=time.time())
    if outcome.verdict is not Verdict.DELIVERED:
        return outcome
    detail = answer.body[:1024].decode(errors="replace")
    return replace(outcome, verdict=Verdict.RETRY, why=NOT_ACKNOWLEDGED, detail=detail)
