"""The last messages, whole."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from gateway.observing.recent_messages import Arrival, RecentMessages
from tests.rigs.dispatching import notification


def test_a_message_and_how_it_came() -> None:
    recent = RecentMessages(2)
    one, other = notification("1"), notification("2")
    recent.accepted(one, "me", 1.0)
    recent.accepted(other, "me", 2.0)
    arrival = Arrival("/soap", [(b"a", b"b")], b"<e/>")
    recent.came([one, notification("unknown")], arrival)
    found = recent.find(one.id)
    assert found is not None and (found.arrival, found.by) == (arrival, "me")
    assert [each.notification for each in recent.newest()] == [other, one]
    recent.accepted(notification("3"), "me", 3.0)
    assert recent.find(one.id) is None


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 300), st.integers(0, 300)), max_size=30),
    st.integers(1, 5),
    st.integers(1, 800),
)
def test_what_is_kept_is_bounded(
    came: list[tuple[int, int, int]], messages: int, octets: int
) -> None:
    recent = RecentMessages(messages, octets)
    for name, payload, body in came:
        one = replace(notification(str(name)), payload=b"x" * payload)
        recent.accepted(one, "me", 1.0)
        recent.came([one], Arrival("", (), b"y" * body))
        kept = recent.newest()
        assert len(kept) <= messages
        assert recent._octets == sum(each.octets for each in kept) <= octets
