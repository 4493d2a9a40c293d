"""Which deliveries go into one message: the bounds, and a model of an outbox that batches."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from gateway.delivery.batching import (
    MOST_ELEMENTS,
    MOST_OCTETS,
    USUAL_ELEMENTS,
    goes_alone,
    most_elements,
    number_beside,
    room_for_events,
    times_apart,
)
from gateway.delivery.outbox import Outbox, PendingDelivery
from gateway.delivery.states import State
from mediation.model.delivery_modes import DeliveryMode, Mode
from tests.gateway.delivery.test_outbox import make, make_outbox

NOW = 100.0


@dataclass
class Item:
    size: int
    attempts: int = 0
    due: float = 0.0


items = st.builds(Item, st.integers(1, 50), st.integers(0, 1))


@given(items, st.lists(items, max_size=20), st.integers(1, 10), st.integers(1, 200))
def test_bounds(first: Item, others: list[Item], most: int, room: int) -> None:
    """As many as there may be, and not one more."""
    number = number_beside(first, others, most, room)
    chosen = [first, *others[:number]]
    assert len(chosen) <= most
    assert sum(one.size for one in chosen) <= room or number == 0
    assert len({one.attempts for one in chosen}) == 1
    if number < len(others):
        following = others[number]
        assert (
            len(chosen) == most
            or sum(one.size for one in chosen) + following.size > room
            or following.attempts != first.attempts
        )


@given(st.floats(0, 1e10), st.integers(1, MOST_ELEMENTS))
def test_what_is_due_apart_goes_alone(at: float, number: int) -> None:
    """In its order, and before a hundredth of a second is over."""
    times = times_apart(at, number)
    assert times[0] == at and times == sorted(times) and times[-1] < at + 0.01
    waiting = [Item(1, 1, due) for due in times]
    while waiting:
        assert goes_alone(waiting) == (len(waiting) > 1)
        assert number_beside(waiting.pop(0), waiting, MOST_ELEMENTS, MOST_OCTETS) == 0


def test_what_may_go_with_others_does_not_go_alone() -> None:
    assert not goes_alone([])
    assert not goes_alone([Item(1)])
    assert not goes_alone([Item(1), Item(1), Item(1, 1)])


def test_rows_that_go_alone_are_loaded_once() -> None:
    """Else each of them would have all that wait behind it read again."""
    outbox = make_outbox(delivery=DeliveryMode(Mode.EVENTS, 10))
    rows = [make(outbox, number) for number in range(1, 4)]
    for row, due in zip(rows, times_apart(NOW, 3), strict=True):
        outbox.hold_new()
        outbox.store_new(row.octets)
        row.state, row.due = State.HELD, due
    outbox.begin_load()
    outbox.end_load(rows, found=True, until=None)
    for row in rows[:2]:
        taken = outbox.take_next(NOW, NOW)
        assert taken is row
        outbox.take_batch(row, 100)
        assert row.carried == (row,)
    assert outbox.must_load  # What came meanwhile may go with the last one.


@pytest.mark.parametrize(
    ("wanted", "most", "room"),
    [
        (DeliveryMode(Mode.EVENTS), USUAL_ELEMENTS, MOST_OCTETS),
        (DeliveryMode(Mode.EVENTS, max_elements=7), 7, MOST_OCTETS),
        (DeliveryMode(Mode.EVENTS, max_elements=10**6), MOST_ELEMENTS, MOST_OCTETS),
        (DeliveryMode(Mode.EVENTS, max_envelope_size=9000), USUAL_ELEMENTS, 8000),
        (
            DeliveryMode(Mode.EVENTS, max_envelope_size=9000, encoding="utf-16"),
            USUAL_ELEMENTS,
            3500,
        ),
    ],
)
def test_wishes(wanted: DeliveryMode, most: int, room: int) -> None:
    assert most_elements(wanted) == most
    assert room_for_events(wanted, 1000) == room


class BatchingMachine(RuleBasedStateMachine):
    """An outbox that batches, against two lists: what has come, and what was delivered."""

    MOST = 3

    def __init__(self) -> None:
        super().__init__()
        self.outbox: Outbox = make_outbox(delivery=DeliveryMode(Mode.EVENTS, self.MOST))
        self.rows: list[PendingDelivery] = []
        """Those of the store, in order."""
        self.came = 0
        self.delivered: list[int] = []
        self.flying: list[PendingDelivery] = []
        self.failed: list[int] = []
        """The positions of a batch that is to be tried again as it was."""
        self.refused = 0
        """Up to this position each goes by itself."""

    @rule()
    def come(self) -> None:
        self.came += 1
        pending = make(self.outbox, self.came)
        pending.size = 1
        self.outbox.gather(NOW)
        if self.outbox.stored:  # As `Dispatcher._must_wait` says: behind rows, a row.
            self.outbox.hold_new()
            self._store(pending)
        else:
            self.outbox.append(pending)

    @rule()
    def spill(self) -> None:
        for pending in self.outbox.spill():
            self._store(pending, held=True)

    def _store(self, pending: PendingDelivery, *, held: bool = False) -> None:
        if held:
            self.outbox.store(pending, new=True)
        else:
            self.outbox.store_new(pending.octets)
            pending.state = State.HELD
        self.rows.append(pending)
        self.rows.sort(key=lambda one: one.position)

    @precondition(lambda self: self.outbox.must_load and self.outbox.has_room)
    @rule()
    def load(self) -> None:
        self.outbox.begin_load()
        first = self.rows[: self.MOST]
        self.outbox.end_load(first, found=bool(first), until=None)

    @precondition(lambda self: self.outbox.has_room and not self.outbox.must_load)
    @rule(room=st.integers(1, 4))
    def start(self, room: int) -> None:
        first = self.outbox.take_next(NOW, NOW)
        if first is None:
            return
        if self.failed:
            room = self.MOST  # The room of a sink does not change.
        self.outbox.take_batch(first, room)
        self.outbox.start(first, NOW)
        self.flying = list(first.carried)
        assert len(self.flying) <= min(self.MOST, room)
        positions = [one.position for one in self.flying]
        assert positions == sorted(positions)
        assert positions[0] == len(self.delivered) + 1, "out of order, or lost"
        if self.failed:
            assert positions == self.failed
        assert len(positions) == 1 or positions[0] > self.refused
        assert not self.outbox.has_room, "two messages at a time"

    def _land(self) -> list[PendingDelivery]:
        flying, self.flying = self.flying, []
        self.outbox.release(flying[0])
        assert list(self.outbox.finish(flying[0])) == flying
        return flying

    @precondition(lambda self: self.flying)
    @rule()
    def succeed(self) -> None:
        for one in self._land():
            if self.outbox.deliver(one):
                self.rows.remove(one)
            self.delivered.append(one.position)
        self.failed = []

    @precondition(lambda self: self.flying)
    @rule()
    def fail(self) -> None:
        landed = self._land()
        self.failed = [one.position for one in landed]
        self._postpone(landed, [NOW] * len(landed))

    @precondition(lambda self: len(self.flying) > 1)
    @rule()
    def refuse(self) -> None:
        landed = self._land()
        self.failed, self.refused = [], landed[-1].position
        self.outbox.hurry()
        self._postpone(landed, times_apart(NOW, len(landed)))

    def _postpone(self, landed: list[PendingDelivery], times: list[float]) -> None:
        again = []
        for one, due in zip(landed, times, strict=True):
            one.count_attempt(answered=True)
            if not self.outbox.postpone(one, due, NOW):
                again.append(one)
        for one in self.outbox.hold(again):
            self._store(one, held=True)

    @invariant()
    def nothing_is_lost(self) -> None:
        assert self.delivered == list(range(1, len(self.delivered) + 1))
        flying_live = [one for one in self.flying if one.state is State.LIVE]
        known = len(self.delivered) + len(self.rows) + len(self.outbox.live) + len(flying_live)
        assert known == self.came
        assert self.outbox.held == len(self.rows)
        assert self.outbox.holding == 0


TestBatching = BatchingMachine.TestCase
