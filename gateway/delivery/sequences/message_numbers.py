"""The numbers of deliveries that go in a sequence of WS-ReliableMessaging: parts of operations of
the store.

    assign_number        a delivery gets its number, before it is first sent; the same on every
                         attempt, after kill -9 too: it is found by its message id. Those behind
                         it get theirs in the same operation
    record_opened        the consumer has made the sequence
    record_acknowledged  the consumer has acknowledged messages
    take_answer          it answered otherwise: for example, it does not know the sequence

`endings` ends sequences with their subscriptions, and takes acknowledgements at addresses.

The state of a sequence is what `gateway.reliability` keeps of any source; its messages have no
content there: what is sent is the delivery, which the messaging system or a row keeps, and when it
is sent again is the schedule of deliveries. A number is given up never: with a delivery that cannot
be made its subscription ends, so that no consumer waits for what is in a gap.

A sequence belongs to one subscription and one partition, as the order of deliveries does.
"""

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlalchemy import Connection, func, select

from gateway.delivery.sequences.acknowledgement_addresses import address_of
from gateway.reliability.party import Party, anonymous
from gateway.reliability.records import OutgoingMessage, OutgoingSequence, Wire
from gateway.reliability.sequence_creation import take_create_response
from gateway.reliability.source import Source, takes_messages
from gateway.reliability.source_input import SourceInput
from gateway.reliability.steps import Step, begin
from gateway.reliability.storage import StorageManager
from gateway.reliability.stores.tables import outgoing
from gateway.security.keys import message_urn, public_id
from gateway.store import sequence_deliveries
from gateway.store.schema import subscriptions
from mediation.model.messages import EndpointReference, Subscription
from mediation.reliable_messaging import (
    NO_NUMBERS,
    Acknowledgement,
    CreateSequenceResponse,
    FaultName,
    Ranges,
    ReliableMessage,
    Rm,
    RmFault,
)
from mediation.reliable_messaging.machines import SourceState
from mediation.reliable_messaging.policy import Policy
from mediation.specifications import SPECIFICATIONS

RETIRED = 8
"""Sequences at most that one subscription and partition had before, and that are remembered."""
_POLICY = Policy()
_ENDED = "Its sequence has ended."
_OVER = frozenset(
    {FaultName.UNKNOWN_SEQUENCE, FaultName.SEQUENCE_TERMINATED, FaultName.SEQUENCE_CLOSED}
)


@dataclass(frozen=True, slots=True)
class NumberedDelivery:
    """The place of a delivery.

    Attributes:
        sequence: As it is committed; None where it has none.
        number: 0 where it has none, because the rest says why.
        sends: How often it may have been sent, this time included.
        delivered: The consumer has acknowledged it.
        again: It is the first of a new sequence, because the consumer knew the former no more and
            had got nothing of the delivery.
        broken: Why the sequence cannot go on.
        following: The places of deliveries behind it, by message id, which need no operation of
            their own when they are sent.
        taken_back: Numbers of messages that were not sent (`UnsavedState`) are free again.
        unwanted: It has no number, and gets none: nobody is to get its event any more.
    """

    sequence: OutgoingSequence | None
    number: int = 0
    sends: int = 0
    delivered: bool = False
    again: bool = False
    broken: str = ""
    following: Mapping[str, "AssignedNumber"] = field(default_factory=dict)
    taken_back: bool = False
    unwanted: bool = False


@dataclass(frozen=True, slots=True)
class AssignedNumber:
    """The number of a delivery that is sent later, and how often it may have been sent then."""

    number: int
    sends: int


@dataclass(frozen=True, slots=True)
class UnsavedState:
    """Facts of a sequence that one process has in memory, and the store does not have yet.

    Attributes:
        identifier: Of the sequence.
        acknowledged: Numbers that the consumer has acknowledged.
        unsent: Numbers that were given, and of whose messages nothing was sent.
    """

    identifier: str
    acknowledged: Ranges = NO_NUMBERS
    unsent: Ranges = NO_NUMBERS


def wire_of(subscription: Subscription) -> Wire:
    """The versions that the sequences of a subscription speak.

    Raises:
        ValueError: Its specification is not sent in any.
    """
    spec = subscription.spec
    rm, wsa = Rm.of(subscription.policy.delivery.reliable), spec.wsa or subscription.consumer.wsa
    if SPECIFICATIONS[spec.version].bodies is not None or wsa not in rm.rules.wsa:
        raise ValueError(f"{spec.version.value} is not sent in sequences")
    return Wire(rm, wsa, spec.soap)


def party_in(storage: StorageManager) -> Party:
    """The gateway as the source of sequences."""
    return Party(storage, message_urn, random.random, policy=_POLICY)


def key_of(subscription: str, partition: int | None) -> str:
    """The key of the sequence for a subscription, by its id, and a partition."""
    return f"{key_start(subscription)}/{partition or 0}"


def key_start(subscription: str) -> str:
    """The beginning of the keys of the sequences for a subscription, by its id."""
    return f"subscription {subscription}"


def subscription_of(key: str) -> str | None:
    """The id of the subscription whose sequence has this key; None: it is of none."""
    start, _, rest = key.partition(" ")
    return rest.partition("/")[0] if start == "subscription" else None


def assign_number(
    storage: StorageManager,
    connection: Connection,
    subscription: Subscription,
    partition: int | None,
    message_id: str,
    now: float,
    *,
    following: Sequence[str] = (),
    unsaved: UnsavedState | None = None,
    base: str | None = None,
    unwanted: bool = False,
) -> NumberedDelivery:
    """Give a delivery its number, or find it: it is about to be sent.

    Args:
        unwanted: Nobody is to get its event any more: it gets none, and one with which nothing
            was sent is taken back, with those behind it.
        following: The message ids of deliveries that are sent after it, in order.
        base: The gateway's address, at which the consumer acknowledges; None: on connections.
    """
    key = key_of(subscription.id, partition)
    with begin(party_in(storage), now) as step:
        note(step, connection, subscription.id, key, unsaved)
        sequence = step.tx.outgoing.find(key)
        message = None
        if sequence is not None:
            message = step.tx.outgoing.message_identified(key, message_id)
        if message is None and sequence_deliveries.is_known(
            connection, subscription.id, message_id
        ):
            return NumberedDelivery(sequence, delivered=True)
        if sequence is not None and sequence.ended_at is not None:
            return NumberedDelivery(sequence, broken=sequence.failure or _ENDED)
        unsent = unsaved.unsent if unsaved is not None else NO_NUMBERS
        if unwanted and message is not None and message.number in unsent:
            Source(step).take_back(key, unsent)
            return NumberedDelivery(sequence, unwanted=True, taken_back=True)
        if message is not None:
            step.tx.outgoing.put_message(key, replace(message, tries=message.tries + 1))
            place = NumberedDelivery(sequence, message.number, message.tries + 1)
            return _with_following(step, connection, subscription.id, place, following, unsaved)
        if unwanted:
            return NumberedDelivery(sequence, unwanted=True)
        if sequence is not None and not takes_messages(sequence):
            return NumberedDelivery(sequence, broken=_ENDED)
        if sequence is not None and _is_worn(sequence, now):
            _retire(step, connection, sequence)
            sequence = None
        if sequence is None:
            if not _is_there(connection, subscription):
                return NumberedDelivery(None, broken=_ENDED)
            sequence = _fresh(step, key, subscription, base)
        if unsaved is not None:  # Else it would come behind them.
            Source(step).take_back(key, unsaved.unsent)
            sequence = step.tx.outgoing.find(key) or sequence
        place = replace(_first_in(step, sequence, message_id), taken_back=True)
        return _with_following(step, connection, subscription.id, place, following)


def _with_following(
    step: Step,
    connection: Connection,
    subscription: str,
    place: NumberedDelivery,
    following: Sequence[str],
    unsaved: UnsavedState | None = None,
) -> NumberedDelivery:
    """*place*, and those of what follows it: they count as sent once more, but for those that are
    known not to have been. None in a sequence that is not made yet, or is soon to be replaced."""
    sequence = place.sequence
    if not following or sequence is None or not is_usable(sequence, step.now):
        return place
    room = _POLICY.stored - sequence.count
    known = sequence_deliveries.known(connection, subscription, following)
    unsent = unsaved.unsent if unsaved is not None else NO_NUMBERS
    waiting = step.tx.outgoing.messages(sequence.key, sequence.count)
    numbered = {one.message_id: one for one in waiting}
    given: dict[str, AssignedNumber] = {}
    for message_id in following:
        message = numbered.get(message_id)
        if message is not None:
            if message.number not in unsent:
                message = replace(message, tries=message.tries + 1)
                step.tx.outgoing.put_message(sequence.key, message)
            given[message_id] = AssignedNumber(message.number, message.tries)
        elif message_id not in known and room > 0:
            sequence = step.tx.outgoing.find(sequence.key) or sequence
            new = Source(step).number(sequence, message_id)
            given[message_id] = AssignedNumber(new.number, new.tries)
            room -= 1
    return replace(place, sequence=step.tx.outgoing.find(sequence.key), following=given)


def is_usable(sequence: OutgoingSequence, now: float) -> bool:
    """True if a sequence is made, and has its time before it."""
    if sequence.identifier is None or sequence.closed or not takes_messages(sequence):
        return False
    return not _POLICY.is_half_gone(sequence.created_at, sequence.expires_at, now)


def record_acknowledged(
    storage: StorageManager,
    connection: Connection,
    subscription: str,
    key: str,
    unsaved: UnsavedState,
    now: float,
) -> None:
    """Note what the consumer has acknowledged. Where the sequence has another identifier, or is
    gone, that was done."""
    with begin(party_in(storage), now) as step:
        note(step, connection, subscription, key, unsaved)


def note(
    step: Step, connection: Connection, subscription: str, key: str, unsaved: UnsavedState | None
) -> None:
    """As `noted`, in a transaction that somebody began."""
    if unsaved is None or not unsaved.acknowledged:
        return
    sequence = step.tx.outgoing.find(key)
    if sequence is None or sequence.ended_at is not None:
        return
    if sequence.identifier != unsaved.identifier:
        return
    waiting = step.tx.outgoing.messages(key, sequence.count)
    said = Acknowledgement(unsaved.identifier, unsaved.acknowledged)
    SourceInput(step, sequence.owner).acknowledge(said)
    after = quiet(step, key)
    if after is not None:
        _remember(connection, subscription, waiting, after)


def _remember(
    connection: Connection,
    subscription: str,
    waiting: Iterable[OutgoingMessage],
    after: OutgoingSequence,
) -> None:
    """Remember which of the deliveries that were *waiting* the consumer has."""
    has = [one.message_id for one in waiting if one.number in after.acknowledged]
    sequence_deliveries.add(connection, subscription, has)


def _first_in(step: Step, sequence: OutgoingSequence, message_id: str) -> NumberedDelivery:
    given = Source(step).number(sequence, message_id)
    return NumberedDelivery(step.tx.outgoing.find(sequence.key), given.number, given.tries)


def _is_worn(sequence: OutgoingSequence, now: float) -> bool:
    """True if the next message goes in another sequence, because this one expires before long, or
    the consumer has closed it. Only where all is acknowledged: so nothing is in doubt."""
    if sequence.count or sequence.identifier is None:
        return False
    return sequence.closed or _POLICY.is_half_gone(sequence.created_at, sequence.expires_at, now)


def _retire(step: Step, connection: Connection, sequence: OutgoingSequence) -> None:
    """Let a sequence come to its end beside the one that takes its place. Where there are many such
    already it is forgotten: its consumer closes it, or lets it expire."""
    step.tx.outgoing.remove(sequence.key)
    key, start = outgoing.c.key, f"{sequence.key}-"
    others = select(func.count()).where(key > start, key < f"{sequence.key}.")  # Behind a hyphen.
    if connection.execute(others).scalar_one() < RETIRED:
        retired = replace(sequence, key=f"{start}{public_id(sequence.create_id or '')}")
        Source(step).end_sequence(retired)


def _is_there(connection: Connection, subscription: Subscription) -> bool:
    """True if *subscription* is still in the store: else nobody would end its sequence."""
    query = select(subscriptions.c.id).where(subscriptions.c.key == subscription.key)
    return connection.execute(query).first() is not None


def _fresh(step: Step, key: str, subscription: Subscription, base: str | None) -> OutgoingSequence:
    wire, create_id = wire_of(subscription), step.party.new_id()
    return OutgoingSequence(
        key,
        subscription.consumer,
        wire,
        SourceState.WAITING,
        acks_to=acknowledgement_address(wire, create_id, base),
        create_id=create_id,
        owner=subscription.owner,
        created_at=step.now,
    )


def acknowledgement_address(wire: Wire, create_id: str, base: str | None) -> EndpointReference:
    """The address of acknowledgements: an address of the gateway at *base*, or on connections."""
    if base is None:
        return anonymous(wire.wsa)
    return EndpointReference(address_of(base, create_id), wire.wsa)


def record_created(
    storage: StorageManager,
    subscription: Subscription,
    create_id: str,
    response: CreateSequenceResponse,
    now: float,
    base: str | None = None,
) -> None:
    """Keep the sequence that the consumer made when it was asked at Subscribe.

    Raises:
        Taken: Another sequence has its identifier.
    """
    with begin(party_in(storage), now) as step:
        sequence = _fresh(step, key_of(subscription.id, None), subscription, base)
        lifetime = response.expires.total_seconds() if response.expires else None
        step.tx.outgoing.put(
            replace(
                sequence,
                state=SourceState.IDLE,
                create_id=create_id,
                acks_to=acknowledgement_address(sequence.wire, create_id, base),
                identifier=response.identifier,
                expires_at=now + lifetime if lifetime else None,
                last_acked_at=now,
            )
        )


def record_opened(
    storage: StorageManager,
    sequence: OutgoingSequence,
    response: CreateSequenceResponse,
    now: float,
) -> OutgoingSequence | None:
    """Take CreateSequenceResponse. The sequence as it is then."""
    party = party_in(storage)
    take_create_response(party, response, sequence.create_id or "", now, sequence.owner)
    with begin(party, now) as step:
        return quiet(step, sequence.key)


def take_answer(
    storage: StorageManager,
    connection: Connection,
    subscription: Subscription,
    partition: int | None,
    message: tuple[int, str],
    said: ReliableMessage,
    now: float,
    *,
    unsaved: UnsavedState | None = None,
    base: str | None = None,
) -> NumberedDelivery:
    """Take what a consumer answered to the *message* with this number and id. Numbers of what was
    not sent yet are taken back: what it said may be the end of the sequence."""
    key = key_of(subscription.id, partition)
    with begin(party_in(storage), now) as step:
        note(step, connection, subscription.id, key, unsaved)
        if unsaved is not None:
            Source(step).take_back(key, unsaved.unsent)
        sequence = step.tx.outgoing.find(key)
        if sequence is None or sequence.ended_at is not None:
            failure = sequence.failure if sequence is not None else None
            return NumberedDelivery(sequence, broken=failure or _ENDED, taken_back=True)
        own = step.tx.outgoing.message(key, message[0])
        if own is not None and _got_nothing(sequence, own, said):
            step.tx.outgoing.remove(key)
            first = _first_in(step, _fresh(step, key, subscription, base), message[1])
            return replace(first, again=True, taken_back=True)
        waiting = [own] if own is not None else []
        if sequence.count > 1:
            waiting = step.tx.outgoing.messages(key, sequence.count)
        SourceInput(step, sequence.owner).take_answer(key, said)
        after = quiet(step, key)
        assert after is not None
        _remember(connection, subscription.id, waiting, after)
        broken = "" if after.ended_at is None else after.failure or _ENDED
        delivered, sends = message[0] in after.acknowledged, own.tries if own is not None else 0
        return NumberedDelivery(after, message[0], sends, delivered, broken=broken, taken_back=True)


def _got_nothing(sequence: OutgoingSequence, own: OutgoingMessage, said: ReliableMessage) -> bool:
    """True if the consumer takes nothing more in the sequence, and certainly has got nothing of
    *own*, the only message that it has not acknowledged: its last word on the sequence says so, or
    *own* was sent just once, and this refusal is the answer."""
    if sequence.count != 1:
        return False
    told = [one for one in said.acknowledgements if one.identifier == sequence.identifier]
    if any(own.number in one.ranges for one in told):
        return False
    if any(one.final for one in told):
        return True
    if not isinstance(said.fault, RmFault) or said.fault.name not in _OVER:
        return False
    return own.tries == 1 and said.fault.identifier in (None, sequence.identifier)


def record_unsent(storage: StorageManager, key: str, given: int, now: float) -> None:
    """Note that message *given* was not sent after all: there was no connection."""
    with begin(party_in(storage), now) as step:
        if step.tx.outgoing.find(key) is None:
            return
        message = step.tx.outgoing.message(key, given)
        if message is not None:
            step.tx.outgoing.put_message(key, replace(message, tries=max(message.tries - 1, 0)))


def quiet(step: Step, key: str) -> OutgoingSequence | None:
    """Have no worker look at a sequence that takes messages: deliveries do."""
    sequence = step.tx.outgoing.find(key)
    if sequence is None or sequence.due_at is None or not takes_messages(sequence):
        return sequence
    quiet = replace(sequence, due_at=None)
    step.tx.outgoing.put(quiet)
    return quiet
