"""The numbers of deliveries, on each store."""

import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import count
from typing import TypeVar

import pytest
from sqlalchemy import Connection

from gateway.delivery.sequences import endings, message_numbers
from gateway.delivery.sequences.message_numbers import (
    AssignedNumber,
    NumberedDelivery,
    UnsavedState,
)
from gateway.reliability.records import OutgoingSequence
from gateway.reliability.storage import StorageManager
from gateway.reliability.stores.joined_store import run_joined
from gateway.security.keys import message_urn, new_key, public_id
from gateway.store import Store
from gateway.store import subscriptions as rows
from gateway.subscriptions.sequences.listing import page
from mediation.model.delivery_modes import DeliveryMode
from mediation.model.messages import EndpointReference, Lease, MessageHeaders, Policy, Subscription
from mediation.model.versions import Soap, Spec, Version, Wsa
from mediation.reliable_messaging import (
    Acknowledgement,
    CreateSequenceResponse,
    FaultName,
    Ranges,
    ReliableMessage,
    Rm,
    RmFault,
)
from tests.rigs.stores import on_each_store

T = TypeVar("T")
pytestmark = on_each_store


@dataclass
class Numbers:
    """The sequences of one subscription."""

    store: Store
    subscription: Subscription
    names: count = field(default_factory=count)  # type: ignore[type-arg]
    now: float = field(default_factory=time.time)

    async def run(self, work: Callable[[StorageManager, Connection], T]) -> T:
        return await self.store.submit(
            lambda connection: run_joined(connection, lambda storage: work(storage, connection))
        )

    async def number(
        self,
        message_id: str,
        partition: int | None = None,
        following: Sequence[str] = (),
        unsaved: UnsavedState | None = None,
    ) -> NumberedDelivery:
        return await self.run(
            lambda storage, connection: message_numbers.assign_number(
                storage,
                connection,
                self.subscription,
                partition,
                message_id,
                self.now,
                following=following,
                unsaved=unsaved,
            )
        )

    async def open(self, place: NumberedDelivery) -> OutgoingSequence:
        assert place.sequence is not None
        sequence = place.sequence
        response = CreateSequenceResponse(f"urn:s:{next(self.names)}")
        opened = await self.run(
            lambda storage, _: message_numbers.record_opened(storage, sequence, response, self.now)
        )
        assert opened is not None
        return opened

    async def answered(
        self,
        place: NumberedDelivery,
        message_id: str,
        said: ReliableMessage,
        unsaved: UnsavedState | None = None,
    ) -> NumberedDelivery:
        given = (place.number, message_id)
        return await self.run(
            lambda storage, connection: message_numbers.take_answer(
                storage,
                connection,
                self.subscription,
                None,
                given,
                said,
                self.now,
                unsaved=unsaved,
            )
        )

    async def let_go(self, unsaved: Mapping[str, UnsavedState] | None = None) -> None:
        await self.run(
            lambda storage, connection: endings.end_sequences(
                storage, connection, self.subscription.id, self.now, unsaved or {}
            )
        )

    async def keys(self) -> list[str]:
        return await self.store.submit(
            lambda connection: endings.keys_of(connection, self.subscription.id)
        )


def acks(sequence: OutgoingSequence, *numbers: int, final: bool = False) -> ReliableMessage:
    ranges = Ranges.of([(number, number) for number in numbers])
    said = Acknowledgement(sequence.identifier or "", ranges, final)
    return ReliableMessage(Soap.V1_2, MessageHeaders(), Rm.V1_1, acknowledgements=(said,))


def refuses(sequence: OutgoingSequence, name: FaultName) -> ReliableMessage:
    return ReliableMessage(
        Soap.V1_2, MessageHeaders(), Rm.V1_1, fault=RmFault(name, sequence.identifier)
    )


@pytest.fixture
async def numbers(store_url: str) -> AsyncIterator[Numbers]:
    key = new_key()
    subscription = Subscription(
        key,
        public_id(key),
        "anonymous:127.0.0.1",
        Spec(Version.WSE_2004_08, Soap.V1_2, Wsa.V2005_08),
        EndpointReference("http://sink.example/x", Wsa.V2005_08),
        Lease(datetime.now(UTC), None),
        policy=Policy(delivery=DeliveryMode(reliable="1.1")),
    )
    store = Store(store_url)
    await store.start()
    try:
        await store.submit(lambda connection: rows.insert(connection, subscription))
        yield Numbers(store, subscription)
    finally:
        await store.close()


async def test_a_delivery_has_one_number(numbers: Numbers) -> None:
    one, two = message_urn(), message_urn()
    first = await numbers.number(one)
    assert (first.number, (await numbers.number(one)).number) == (1, 1)
    sequence = await numbers.open(first)
    assert (await numbers.number(two)).number == 2
    assert (await numbers.answered(first, one, acks(sequence, 1))).delivered
    again = await numbers.number(one)
    assert (again.number, again.delivered) == (0, True)
    assert (await numbers.number(two)).number == 2


async def test_what_comes_in_another_order_after_a_crash(numbers: Numbers) -> None:
    """A messaging system may give the second before the first: each has its own number."""
    one, two = message_urn(), message_urn()
    first = await numbers.number(one)
    sequence = await numbers.open(first)
    second = await numbers.number(two)
    assert (await numbers.answered(second, two, acks(sequence, 2))).delivered
    back = await numbers.number(one)
    assert back.number == 1
    assert (await numbers.answered(back, one, acks(sequence, 1, 2))).delivered


async def test_an_acknowledgement_that_was_late_counts(numbers: Numbers) -> None:
    one, two = message_urn(), message_urn()
    first = await numbers.number(one)
    sequence = await numbers.open(first)
    second = await numbers.number(two)
    await numbers.answered(second, two, acks(sequence, 1, 2))
    assert (await numbers.number(one)).delivered


@pytest.mark.parametrize(
    ("name", "tries", "again"),
    [
        (FaultName.UNKNOWN_SEQUENCE, 1, True),
        (FaultName.SEQUENCE_TERMINATED, 1, True),
        (FaultName.SEQUENCE_CLOSED, 1, True),
        (FaultName.UNKNOWN_SEQUENCE, 2, False),
        (FaultName.SEQUENCE_TERMINATED, 2, False),
        (FaultName.MESSAGE_NUMBER_ROLLOVER, 1, False),
    ],
)
async def test_a_sequence_that_is_over(
    numbers: Numbers, name: FaultName, tries: int, again: bool
) -> None:
    one = message_urn()
    place = await numbers.number(one)
    sequence = await numbers.open(place)
    for _ in range(tries - 1):
        place = await numbers.number(one)
    after = await numbers.answered(place, one, refuses(sequence, name))
    assert after.again is again
    assert bool(after.broken) is not again
    if again:
        assert after.sequence is not None
        assert (after.number, after.sequence.identifier) == (1, None)
        assert after.sequence.create_id != sequence.create_id
    else:
        assert (await numbers.number(one)).broken == after.broken


async def test_the_last_word_on_a_sequence(numbers: Numbers) -> None:
    """It says what the consumer has, however often something was sent."""
    one, two = message_urn(), message_urn()
    place = await numbers.number(one)
    sequence = await numbers.open(place)
    assert (await numbers.answered(place, one, acks(sequence, 1))).delivered
    await numbers.number(two)
    place = await numbers.number(two)
    assert (await numbers.answered(place, two, acks(sequence, 1, final=True))).again


async def test_a_sequence_that_was_closed_after_all_had_come(numbers: Numbers) -> None:
    one, two = message_urn(), message_urn()
    place = await numbers.number(one)
    sequence = await numbers.open(place)
    assert (await numbers.answered(place, one, acks(sequence, 1, final=True))).delivered
    following = await numbers.number(two)
    assert following.number == 1
    assert following.sequence is not None
    assert following.sequence.identifier is None
    assert len(await numbers.keys()) == 2


async def test_what_a_stranger_says_of_others(numbers: Numbers) -> None:
    one = message_urn()
    place = await numbers.number(one)
    sequence = await numbers.open(place)
    other = replace(sequence, identifier="urn:s:other")
    for said in (acks(other, 1), refuses(other, FaultName.UNKNOWN_SEQUENCE), acks(sequence, 7)):
        after = await numbers.answered(place, one, said)
        assert (after.delivered, after.again, after.broken) == (False, False, "")


async def test_each_partition_has_its_own(numbers: Numbers) -> None:
    one, two = message_urn(), message_urn()
    assert (await numbers.number(one, 3)).number == 1
    assert (await numbers.number(two, 4)).number == 1
    assert len(await numbers.keys()) == 2


async def test_the_end_of_the_subscription(numbers: Numbers) -> None:
    one, two = message_urn(), message_urn()
    place = await numbers.number(one)
    sequence = await numbers.open(place)
    await numbers.answered(place, one, acks(sequence, 1))
    await numbers.number(message_urn(), 5)  # Its consumer was never asked for this one.
    await numbers.let_go()
    assert len(await numbers.keys()) == 1
    assert (await numbers.number(two)).broken
    assert await numbers.store.submit(endings.next_due) == pytest.approx(numbers.now)
    sent, owner = await numbers.run(
        lambda storage, _: endings.end_due(storage, sequence.key, numbers.now)
    )
    assert [one.label for one in sent] == ["CloseSequence"]
    assert owner == numbers.subscription.owner


async def test_the_end_with_something_unacknowledged(numbers: Numbers) -> None:
    """It is not sent again, nor waited for longer than an attempt takes."""
    place = await numbers.number(message_urn())
    sequence = await numbers.open(place)
    await numbers.let_go()
    due = await numbers.store.submit(endings.next_due)
    assert due == pytest.approx(numbers.now + endings.GRACE)
    sent, _ = await numbers.run(
        lambda storage, _: endings.end_due(storage, sequence.key, due or 0.0)
    )
    assert [one.label for one in sent] == ["TerminateSequence"]


async def test_no_sequence_begins_after_the_end(numbers: Numbers) -> None:
    subscription = numbers.subscription
    await numbers.store.submit(
        lambda connection: rows.delete(connection, subscription, expired=False)
    )
    assert (await numbers.number(message_urn())).broken
    assert await numbers.keys() == []


async def test_few_sequences_are_remembered(numbers: Numbers) -> None:
    """A consumer that closes each after one message fills nothing."""
    for _ in range(12):
        message_id = message_urn()
        place = await numbers.number(message_id)
        assert (place.number, place.broken) == (1, "")
        opened = await numbers.open(place)
        place = await numbers.answered(place, message_id, acks(opened, 1, final=True))
        assert place.delivered
    assert len(await numbers.keys()) == 1 + message_numbers.RETIRED


# Numbers that are given ahead.


async def opened(numbers: Numbers) -> tuple[NumberedDelivery, OutgoingSequence]:
    """The sequence with one message, which was acknowledged."""
    first = message_urn()
    place = await numbers.number(first)
    sequence = await numbers.open(place)
    await numbers.answered(place, first, acks(sequence, 1))
    return place, sequence


def unsaved(
    sequence: OutgoingSequence, heard: Sequence[int], unsent: Sequence[int]
) -> UnsavedState:
    heard_, unsent_ = (Ranges.of((number, number) for number in some) for some in (heard, unsent))
    return UnsavedState(sequence.identifier or "", heard_, unsent_)


async def test_those_behind_get_theirs_with_it(numbers: Numbers) -> None:
    await opened(numbers)
    one, two, three = (message_urn() for _ in range(3))
    place = await numbers.number(one, following=[two, three])
    assert (place.number, place.following) == (
        2,
        {two: AssignedNumber(3, 1), three: AssignedNumber(4, 1)},
    )
    again = await numbers.number(two, following=[three])
    assert (again.number, again.sends, again.following) == (3, 2, {three: AssignedNumber(4, 2)})


async def test_what_is_known_not_to_have_been_sent(numbers: Numbers) -> None:
    _, sequence = await opened(numbers)
    one, two = message_urn(), message_urn()
    await numbers.number(one, following=[two])
    known = unsaved(sequence, [], [3])
    place = await numbers.number(one, following=[two], unsaved=known)
    assert (place.number, place.sends, place.following) == (2, 2, {two: AssignedNumber(3, 1)})


async def test_nothing_gets_a_number_ahead_in_a_sequence_that_is_not_made(
    numbers: Numbers,
) -> None:
    assert (await numbers.number(message_urn(), following=[message_urn()])).following == {}


async def test_one_before_those_with_numbers(numbers: Numbers) -> None:
    """The order of numbers is that in which they are sent."""
    _, sequence = await opened(numbers)
    one, two, three = (message_urn() for _ in range(3))
    await numbers.number(one, following=[three])
    known = unsaved(sequence, [2], [3])
    place = await numbers.number(two, following=[three], unsaved=known)
    assert (place.number, place.following) == (3, {three: AssignedNumber(4, 1)})


async def test_what_was_heard_is_noted_with_the_next(numbers: Numbers) -> None:
    _, sequence = await opened(numbers)
    one, two, three = (message_urn() for _ in range(3))
    await numbers.number(one, following=[two])
    place = await numbers.number(three, unsaved=unsaved(sequence, [2, 3], []))
    assert place.sequence is not None
    assert str(place.sequence.acknowledged) == "1-3"
    assert (await numbers.number(one)).delivered
    assert (await numbers.number(two)).delivered


async def test_what_a_consumer_that_forgot_was_not_sent(numbers: Numbers) -> None:
    """Its number in the former sequence is nobody's: it gets another one in the next."""
    _, sequence = await opened(numbers)
    one, two = message_urn(), message_urn()
    place = await numbers.number(one, following=[two])
    said = refuses(sequence, FaultName.UNKNOWN_SEQUENCE)
    known = unsaved(sequence, [], [3])
    after = await numbers.answered(place, one, said, known)
    assert after.again
    assert after.sequence is not None
    await numbers.open(after)
    assert (await numbers.number(two)).number == 2


async def test_what_a_consumer_that_forgot_may_have_been_sent(numbers: Numbers) -> None:
    _, sequence = await opened(numbers)
    one, two = message_urn(), message_urn()
    place = await numbers.number(one, following=[two])
    after = await numbers.answered(place, one, refuses(sequence, FaultName.UNKNOWN_SEQUENCE))
    assert after.broken


@pytest.mark.parametrize(("unsent", "last"), [([3, 4], 2), ([], None)])
async def test_the_end_before_all_was_sent(
    numbers: Numbers, unsent: list[int], last: int | None
) -> None:
    """The consumer is told of the numbers that it was sent, and no others."""
    _, sequence = await opened(numbers)
    await numbers.number(message_urn(), following=[message_urn(), message_urn()])
    await numbers.let_go({sequence.key: unsaved(sequence, [2], unsent)})
    [ended] = await numbers.store.submit(lambda connection: page(connection, "", 10))
    assert ended.sequence.count == (0 if last else 2)
    assert ended.sequence.last_number == (last or 4)
