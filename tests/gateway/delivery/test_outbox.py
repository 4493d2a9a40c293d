"""The state machine of a delivery, walked over its table, and what an outbox has meanwhile."""

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from gateway.delivery.entry import Entry
from gateway.delivery.outbox import Outbox, OutboxDestination, PendingDelivery
from gateway.delivery.partition_share import everything
from gateway.delivery.pending import Message
from gateway.delivery.states import TRANSITIONS, Event, State
from gateway.delivery.verdicts import DELIVERED, Outcome
from gateway.egress import parse_target
from gateway.security.keys import new_key, public_id
from mediation.model.delivery_modes import DeliveryMode
from mediation.model.messages import EndpointReference, Lease, Policy, Subscription
from mediation.model.versions import Soap, Spec, Version, Wsa
from mediation.rendering import prepare
from tests.rigs.cases import for_each
from tests.rigs.dispatching import notification

URL = "http://127.0.0.1/"
NOW = 100.0
PUSH = DeliveryMode()


class Nobody:
    """An owner that is not asked anything."""

    patience = 1.0
    share = everything()

    def patience_for(self, tenant: str) -> float:
        return self.patience

    def next(self, outbox: Outbox) -> PendingDelivery | None:
        raise AssertionError

    def completed(self, pending: PendingDelivery, outcome: Outcome) -> None:
        raise AssertionError

    def stalled(self, outbox: Outbox) -> None:
        raise AssertionError


def make_outbox(*, ordered: bool = True, delivery: DeliveryMode = PUSH) -> Outbox:
    key = new_key()
    subscription = Subscription(
        key,
        public_id(key),
        "anonymous:127.0.0.1",
        Spec(Version.WSE_2004_08, Soap.V1_2, Wsa.V2004_08),
        EndpointReference(URL, Wsa.V2004_08),
        Lease(datetime.now(UTC), None),
        policy=Policy(ordered=ordered, delivery=delivery),
    )
    entry = Entry(subscription, prepare(subscription), parse_target(URL))
    return Outbox(entry, OutboxDestination(entry.target.destination), Nobody())


def make(outbox: Outbox, position: int = 1) -> PendingDelivery:
    return PendingDelivery(Message(notification(str(position)), None), outbox, position, 0.0)


def in_state(state: State) -> PendingDelivery:
    """A delivery in flight that came to *state* by transitions."""
    outbox = make_outbox()
    pending = make(outbox)
    outbox.start(pending, NOW)
    if state in (State.HOLDING, State.HELD):
        assert outbox.hold() == [pending]
    if state is State.HELD:
        outbox.store(pending, new=True)
    if state is State.DONE:
        outbox.deliver(pending)
    assert pending.state is state
    return pending


MAKE: dict[Event, Callable[[PendingDelivery], object]] = {
    Event.HOLD: lambda pending: pending.outbox.hold(),
    Event.STORED: lambda pending: pending.outbox.store(pending, new=True),
    Event.ALREADY_THERE: lambda pending: pending.outbox.store(pending, new=False),
    Event.POSTPONED: lambda pending: pending.outbox.postpone(pending, 1.0, NOW),
    Event.DELIVERED: lambda pending: pending.outbox.deliver(pending),
    Event.BURIED: lambda pending: pending.outbox.bury(pending),
    Event.EXPIRED: lambda pending: pending.outbox.expire(pending),
    Event.DROPPED: lambda pending: pending.outbox.drop(pending),
    Event.ABANDONED: lambda pending: pending.outbox.abandon(),
}
"""The method of `Outbox` that makes each event happen."""
PASSED_OVER = {(state, Event.HOLD) for state in State} | {
    (state, Event.POSTPONED) for state in State
}
"""Pairs for which the method leaves the delivery as it is: only what is in memory alone is held,
and only rows are postponed."""


@for_each("event", list(Event))
@for_each("state", list(State))
def test_transitions(state: State, event: Event) -> None:
    """Each pair does what the table says, and what is not in the table cannot be done."""
    pending = in_state(state)
    following = TRANSITIONS.get((state, event))
    if following is not None:
        MAKE[event](pending)
        assert pending.state is following
    elif (state, event) in PASSED_OVER:
        MAKE[event](pending)
        assert pending.state is state
    else:
        with pytest.raises(KeyError):
            MAKE[event](pending)


def test_every_state_comes_to_an_end() -> None:
    reached = {State.LIVE}
    while (
        following := {after for (state, _), after in TRANSITIONS.items() if state in reached}
        - reached
    ):
        reached |= following
    assert reached == set(State)
    assert {after for (state, _), after in TRANSITIONS.items() if state is State.DONE} == {
        State.DONE
    }


def test_rows_come_before_what_is_in_memory_alone() -> None:
    outbox = make_outbox()
    live, row = make(outbox, 2), make(outbox, 1)
    outbox.append(live)
    outbox.find_rows(1, row.octets, 0.0)
    assert outbox.must_load
    outbox.begin_load()
    assert outbox.destination.loading == 1
    outbox.end_load([row], found=True, until=None)
    assert outbox.destination.loading == 0
    assert outbox.take_next(NOW, NOW) is row
    assert outbox.take_next(NOW, NOW) is live
    assert outbox.take_next(NOW, NOW) is None


def test_what_is_held_keeps_its_order() -> None:
    """Attempts under way, the one that failed, and what waits behind them."""
    outbox = make_outbox(ordered=False)
    first, second, third, fourth = (make(outbox, number) for number in range(1, 5))
    for pending in (third, first):
        outbox.start(pending, NOW)
    outbox.append(fourth)
    assert outbox.hold(failed=[second]) == [first, second, third, fourth]
    assert (outbox.holding, outbox.held, len(outbox.live)) == (4, 0, 0)
    for pending in (first, second, third, fourth):
        outbox.store(pending, new=True)
    assert (outbox.holding, outbox.held, outbox.octets) == (0, 4, 4 * first.octets)


def test_an_attempt_that_ends_before_its_row_is_there_waits_for_it() -> None:
    pending = in_state(State.HOLDING)
    pending.outbox.wait_for_row(pending, DELIVERED)
    assert pending.outbox.store(pending, new=True) is DELIVERED
    assert pending.outcome is None
    assert pending.outbox.deliver(pending), "its row is to be removed"
    assert pending.outbox.held == pending.outbox.octets == 0


def test_an_end_drops_all_but_attempts_of_what_is_in_memory_alone() -> None:
    outbox = make_outbox(ordered=False)
    live, row, waiting = (make(outbox, number) for number in range(1, 4))
    outbox.start(row, NOW)
    outbox.hold()
    outbox.store(row, new=True)
    outbox.start(live, NOW)
    outbox.append(waiting)
    assert outbox.end() == [waiting]
    assert [one.state for one in (live, row, waiting)] == [State.LIVE, State.DONE, State.DONE]
    assert (outbox.held, outbox.octets) == (0, 0)
    assert outbox.drop_in_flight() == [live]
    assert live.state is State.DONE
