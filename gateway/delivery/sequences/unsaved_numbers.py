"""Numbers of one outbox's sequence that are in memory, and not in the store yet (`UnsavedNumbers`).

    given         numbers of deliveries that are sent next, without an operation of their own
    acknowledged  numbers that the consumer has acknowledged: saved a little later, many at a time

So neither sending nor acknowledging costs a transaction for each delivery. A crash forgets both:
given numbers count as sent then; acknowledged messages are sent again, and acknowledged again,
because a message is settled only when its acknowledgement is saved.
"""

from collections.abc import Callable
from functools import partial

from sqlalchemy import Connection

from gateway.delivery.sequences import message_numbers
from gateway.delivery.sequences.message_numbers import (
    AssignedNumber,
    NumberedDelivery,
    UnsavedState,
)
from gateway.reliability.records import OutgoingSequence
from gateway.reliability.stores.joined_store import run_joined
from mediation.reliable_messaging import (
    NO_NUMBERS,
    AcknowledgementAlone,
    Ranges,
    ReliableMessage,
)


class UnsavedNumbers:
    """The numbers of one outbox that its process has in memory.

    Attributes:
        key: Of the sequence.
    """

    __slots__ = ("_acknowledged", "_given", "_sequence", "_subscription", "key")

    def __init__(self, subscription: str, partition: int | None) -> None:
        self._subscription = subscription
        self.key = message_numbers.key_of(subscription, partition)
        self._sequence: OutgoingSequence | None = None
        self._given: dict[str, AssignedNumber] = {}
        self._acknowledged = NO_NUMBERS

    @property
    def lock(self) -> str:
        """The name of what other gateways change, too (`Store.submit`)."""
        return f"sequence {self.key}"

    # Numbers of messages that are sent.

    def follow(self, place: NumberedDelivery) -> None:
        """Remember the numbers that deliveries behind *place* were given with it."""
        if self._is_another(place.sequence):
            self._given, self._acknowledged = {}, NO_NUMBERS
        if place.taken_back:
            self._given = {}
        self._sequence = place.sequence
        self._given.update(place.following)

    def _is_another(self, sequence: OutgoingSequence | None) -> bool:
        former = self._sequence.identifier if self._sequence is not None else None
        return sequence is None or sequence.identifier != former

    def take(self, message_id: str, now: float) -> NumberedDelivery | None:
        """The place of a delivery that is sent *now*; None where the store has to say it."""
        sequence = self._sequence
        if sequence is None or not message_numbers.is_usable(sequence, now):
            return None
        given = self._given.pop(message_id, None)
        return None if given is None else NumberedDelivery(sequence, given.number, given.sends)

    def highest_sent(self, sequence: OutgoingSequence) -> int:
        """The highest number of *sequence* that may have been sent."""
        last = sequence.next_number - 1
        for low, high in reversed(self._unsent.pairs):
            if high == last:
                last = low - 1
        return last

    @property
    def _unsent(self) -> Ranges:
        numbers = [one.number for one in self._given.values() if one.sends == 1]
        return Ranges.of((number, number) for number in numbers)

    # Acknowledged numbers.

    def take_acknowledgement(
        self, place: NumberedDelivery, said: ReliableMessage, now: float
    ) -> bool:
        """Take an answer that acknowledges the message at *place*, and others before it. Returns
        False if it says anything else: then the store decides what it means."""
        sequence = place.sequence
        if (
            sequence is None
            or self._is_another(sequence)
            or not message_numbers.is_usable(sequence, now)
        ):
            return False
        if said.rm is not sequence.wire.rm or said.fault is not None:
            return False
        if not isinstance(said.body, AcknowledgementAlone | None) or said.refusals:
            return False
        told = [one for one in said.acknowledgements if one.identifier == sequence.identifier]
        if len(told) != 1 or told[0].final or told[0].nacks:
            return False
        ranges = told[0].ranges
        if place.number not in ranges or ranges.highest > self._last_sent(sequence):
            return False
        self._acknowledged |= ranges
        return True

    def _last_sent(self, sequence: OutgoingSequence) -> int:
        return self.highest_sent(self._sequence or sequence)

    # For the store.

    def unsaved(self) -> UnsavedState | None:
        """The numbers that the store does not have; None if it has all."""
        sequence, unsent = self._sequence, self._unsent
        if sequence is None or sequence.identifier is None or not (unsent or self._acknowledged):
            return None
        return UnsavedState(sequence.identifier, self._acknowledged, unsent)

    def stop(self) -> UnsavedState | None:
        """Give out no number any more, because the sequence ends. As `unsaved`."""
        unsaved, self._given = self.unsaved(), {}
        return unsaved

    def saving(self, now: float) -> Callable[[Connection], None]:
        """The operation that saves the acknowledgements of now."""
        sequence, acknowledged, self._acknowledged = self._sequence, self._acknowledged, NO_NUMBERS
        if sequence is None or not acknowledged:
            return lambda _: None
        unsaved = UnsavedState(sequence.identifier or "", acknowledged)

        def operation(connection: Connection) -> None:
            run_joined(
                connection,
                partial(
                    message_numbers.record_acknowledged,
                    connection=connection,
                    subscription=self._subscription,
                    key=self.key,
                    unsaved=unsaved,
                    now=now,
                ),
            )

        return operation
