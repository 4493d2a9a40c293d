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
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

from sqlalchemy import Connection

from gateway.delivery.outbox import Outbox, PendingDelivery
from gateway.delivery.partition_share import PartitionShare
from gateway.delivery.sequences import message_numbers
from gateway.delivery.sequences.message_numbers import NumberedDelivery
from gateway.delivery.sequences.protocol import SequenceProtocol, broken
from gateway.delivery.sequences.unsaved_numbers import UnsavedNumbers
from gateway.delivery.verdicts import (
    DELIVERED,
    NO_RIGHT,
    NOT_ACKNOWLEDGED,
    WITHDRAWN,
    Outcome,
    Verdict,
    failed,
    judge,
)
from gateway.egress import Answer, Request, SendFailed
from gateway.reliability.party import anonymous
from gateway.reliability.records import OutgoingSequence
from gateway.reliability.source import SourceFull
from gateway.reliability.storage import StorageManager
from gateway.reliability.stores.joined_store import run_joined
from gateway.store import Store, StoreUnavailable
from gateway.store.replicas import Fenced
from mediation.reliable_messaging import ReliableMessage
from mediation.rendering import delivery_id
from mediation.soap.answers import PeerFault

T = TypeVar("T")

NUMBERED_AT_ONCE = 32
"""Deliveries that get their numbers in one operation: as many as are in memory for an outbox."""


class SequenceSending:
    """Sends deliveries in sequences.

    Attributes:
        messages: Counts of messages in sequences, by what became of them.
    """

    def __init__(self, store: Store, protocol: SequenceProtocol) -> None:
        self._store = store
        self._protocol = protocol
        self.messages = dict.fromkeys(("acknowledged", "repeated", "unacknowledged"), 0)

    async def send(
        self,
        pending: PendingDelivery,
        request: Request,
        *,
        withdrawn: Callable[[PendingDelivery], bool] = lambda _: False,
    ) -> tuple[Outcome, int]:
        """Make an attempt, with what *request* has for it. How it ended, and how many attachments
        were left out.

        Args:
            withdrawn: Whether the subscriber of a delivery has lost its right to the event. It gets
                no number then. One that may have been sent with its number ends the sequence.
        """
        try:
            return await self._send(pending, request, withdrawn)
        except (StoreUnavailable, SourceFull, Fenced) as error:
            return Outcome(Verdict.RETRY, why=f"it got no number: {type(error).__name__}"), 0

    async def _send(
        self,
        pending: PendingDelivery,
        request: Request,
        withdrawn: Callable[[PendingDelivery], bool],
    ) -> tuple[Outcome, int]:
        outbox = pending.outbox
        share = outbox.owner.share
        message_id, numbers = request.message_id or "", self._numbers_of(outbox)
        lost = withdrawn(pending)
        place = None if lost else numbers.take(message_id, time.time())
        if place is None:
            expired = pending.message.expires_at <= time.time()

            def unsendable(one: PendingDelivery) -> bool:
                return one.message.expires_at <= time.time() or withdrawn(one)

            following = _following(outbox, unsendable)
            place = await self._number(
                outbox, message_id, numbers, following, unwanted=expired or lost
            )
        if place.unwanted:
            return (WITHDRAWN if lost else Outcome(Verdict.EXPIRED)), 0
        if lost and not (place.delivered or place.broken):
            return broken(NO_RIGHT), 0
        for _ in range(2):
            if place.delivered:
                self.messages["repeated"] += 1
                return DELIVERED, 0
            if place.broken or place.sequence is None:
                return broken(place.broken), 0
            sequence = place.sequence
            if sequence.identifier is None:
                opened = await self._open(sequence, request, share)
                if isinstance(opened, Outcome):
                    await self._unsent(sequence, place, share)
                    return opened, 0
                sequence = opened
            try:
                answer, said = await self._protocol.exchange(request, sequence, place.number)
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
                closing = await self._protocol.close(
                    sequence, request, numbers.highest_sent(sequence)
                )
                place = await self._answered(outbox, given, closing, place, numbers)
            if not place.again:
                return self._judge(answer, said, place), answer.dropped
        return Outcome(Verdict.RETRY, why=NOT_ACKNOWLEDGED), 0

    def _judge(
        self, answer: Answer, said: ReliableMessage | None, place: NumberedDelivery
    ) -> Outcome:
        if place.delivered:
            self.messages["acknowledged"] += 1
            return Outcome(Verdict.DELIVERED, answer.status, answered=True)
        self.messages["unacknowledged"] += 1
        if place.broken:
            return broken(place.broken)
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
        self,
        outbox: Outbox,
        message_id: str,
        numbers: UnsavedNumbers,
        following: Sequence[str],
        *,
        unwanted: bool,
    ) -> NumberedDelivery:
        subscription, share = outbox.entry.subscription, outbox.owner.share
        partition, now, unsaved = share.partition, time.time(), numbers.unsaved()
        base = self._protocol.base(subscription, outbox.entry.target)

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
                unwanted=unwanted,
            )

        place = await self._run(share, numbers.key, work)
        if not place.unwanted or place.taken_back:
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
        base = self._protocol.base(subscription, outbox.entry.target)

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
        response = await self._protocol.create(
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
            return broken(opened.failure if opened is not None and opened.failure else "")
        return opened


def _following(outbox: Outbox, unsendable: Callable[[PendingDelivery], bool]) -> list[str]:
    """The message ids of the deliveries that are sent next."""
    recipient, id_ = outbox.entry.recipient, outbox.entry.id
    return [
        delivery_id(one.message.as_seen_by(recipient).notification, id_)
        for one in outbox.upcoming(NUMBERED_AT_ONCE - 1, unsendable)
    ]


def _keeps_silent(answer: Answer, said: ReliableMessage | None, place: NumberedDelivery) -> bool:
    """True if the consumer took a message that it may have had before, and does not say whether it
    has it, though it is asked. So does gSOAP, whose first answer was lost."""
    if place.delivered or place.broken or place.again or place.sequence is None:
        return False
    if place.sends < 2 or not place.sequence.wire.rm.rules.closes:
        return False
    silent = said is None or (said.fault is None and not said.acknowledgements)
    return silent and 200 <= answer.status < 300


def _unacknowledged(answer: Answer, said: ReliableMessage | None) -> Outcome:
    """The outcome of an attempt whose message was not acknowledged, as `judge`."""
    fault = said.fault if said is not None else None
    outcome = judge(answer, fault if isinstance(fault, PeerFault) else None, now=time.time())
    if outcome.verdict is not Verdict.DELIVERED:
        return outcome
    detail = answer.body[:1024].decode(errors="replace")
    return replace(outcome, verdict=Verdict.RETRY, why=NOT_ACKNOWLEDGED, detail=detail)
