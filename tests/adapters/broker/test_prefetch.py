"""Messages that a broker pushes ahead, in turns of tenants."""

from dataclasses import dataclass, field
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.broker.prefetch import Arrival, Prefetch, PrefetchedDelivery, Session
from adapters.tenant_turns import QUANTUM, REMEMBERED
from mediation.model.messages import Notification
from tests.rigs.dispatching import notification

WINDOW = 4
Message = str


@dataclass(slots=True, eq=False)
class Acknowledging(Session[int]):
    keys: list[int] = field(default_factory=list)

    def acknowledge(self, key: int) -> None:
        self.keys.append(key)


def prefetch() -> Prefetch[int, Message]:
    def read(arrival: Arrival[int, Message]) -> Notification | None:
        return None if arrival.message == "unwanted" else notification(arrival.message)

    return Prefetch(WINDOW, read)


def taken(some: Prefetch[int, Message]) -> list[PrefetchedDelivery]:
    found = []
    while (one := some._next()) is not None:
        found.append(one)
    return found


def test_a_tenant_whose_window_is_full_keeps_no_other_waiting() -> None:
    some, session = prefetch(), Acknowledging()
    for number in range(100):
        some.add(Arrival(session, number, "m", 0, False, 0.0, tenant="flood"))
    first = taken(some)
    assert len(first) == WINDOW
    some.add(Arrival(session, 100, "m", 0, False, 0.0, tenant="quiet"))
    assert [one.tenant for one in taken(some)] == ["quiet"]
    first[0].settle()
    assert [one.key for one in taken(some)] == [WINDOW]


def test_tenants_are_remembered_no_longer_than_their_messages() -> None:
    """Who may write to the broker can name any number of them."""
    some, session = prefetch(), Acknowledging()
    for number in range(3000):
        for key in range(2):
            large = "x" * QUANTUM
            some.add(Arrival(session, key, large, 0, False, 0.0, tenant=f"t{number + key}"))
        for one in taken(some):
            one.settle()
    assert not some._lines and not session.unsettled and len(some._turns._away) <= 2 * REMEMBERED
    ended = Acknowledging()
    some.add(Arrival(ended, 0, "m", 0, False, 0.0, tenant="a"))
    some.end(ended)
    assert taken(some) == [] and not some._lines


STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("add"), st.sampled_from(["", "a", "b"]), st.integers(0, 1), st.booleans()
        ),
        st.tuples(st.just("take")),
        st.tuples(st.just("settle"), st.integers(0, 50)),
        st.tuples(st.just("end"), st.integers(0, 1)),
    ),
    max_size=120,
)


@settings(max_examples=60)
@given(STEPS)
def test_each_is_yielded_once_in_its_order_within_its_window(
    steps: list[tuple[Any, ...]],
) -> None:
    """Whatever comes, is settled and ends: nothing that may be yielded stays behind."""
    some, sessions = prefetch(), [Acknowledging(), Acknowledging()]
    waiting: list[Arrival[int, Message]] = []
    unsettled: list[PrefetchedDelivery] = []
    unwanted: list[tuple[Acknowledging, int]] = []
    for number, (what, *of) in enumerate(steps):
        if what == "add":
            tenant, which, wanted = of
            arrival = Arrival(
                sessions[which], number, "m" if wanted else "unwanted", 0, False, 0.0, tenant=tenant
            )
            some.add(arrival)
            waiting.append(arrival)
            if not wanted:
                unwanted.append((sessions[which], number))
        elif what == "take":
            while (one := some._next()) is not None:
                before = [each for each in waiting if each.tenant == one.tenant]
                passed = before[: before.index(one)]
                assert all((each.session, each.key) in unwanted for each in passed)
                waiting = [each for each in waiting if each not in (*passed, one)]
                unsettled.append(one)
            for tenant in ("", "a", "b"):
                left = [each for each in waiting if each.tenant == tenant]
                if left and (left[0].session, left[0].key) not in unwanted:
                    assert left[0].session.unsettled[tenant] == WINDOW
        elif what == "settle" and unsettled:
            one = unsettled.pop(of[0] % len(unsettled))
            one.settle()
            one.settle()
            assert isinstance(one.session, Acknowledging)
            assert one.session.keys.count(one.key) == 1 or not one.session.open
        elif what == "end":
            ended, sessions[of[0]] = sessions[of[0]], Acknowledging()
            some.end(ended)
            waiting = [each for each in waiting if each.session is not ended]
        for session in sessions:
            for tenant, count in session.unsettled.items():
                own = [one for one in unsettled if one.session is session and one.tenant == tenant]
                assert count == len(own) <= WINDOW
