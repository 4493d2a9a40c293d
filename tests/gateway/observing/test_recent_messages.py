"""The last messages, whole."""

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gateway.observing.recent_messages import Arrival, RecentMessages
from gateway.web.api.messages import list_recent_messages
from gateway.web.kept_messages import KeptMessages
from mediation.tenants import topic_in
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


TENANTS = ("", "acme", "umbrella")


@given(
    st.lists(
        st.tuples(st.sampled_from(TENANTS), st.sampled_from(["a", "acme:a", "tenant:acme:a"])),
        max_size=12,
    ),
    st.sampled_from([None, "acme"]),
    st.integers(1, 3),
)
def test_pages_have_each_message_once(
    came: list[tuple[str, str]], tenant: str | None, limit: int
) -> None:
    """Also where tenants chose one id, and where an id looks like another tenant's."""
    recent = RecentMessages(100)
    for of, id_ in came:
        one = replace(notification("x"), id=id_, topic=topic_in(of, None))
        recent.accepted(one, "me", 1.0)
    places = [one.place for one in recent.newest(tenant)]
    parts: Any = SimpleNamespace(kept=KeptMessages(None, recent))  # type: ignore[arg-type]
    found: list[str] = []
    after, pages = "", 0
    while pages <= len(places):
        page = asyncio.run(list_recent_messages(parts, tenant, after=after, limit=limit))
        found += [one.id for one in page.messages]
        pages += 1
        if page.next is None:
            break
        after = page.next
    assert page.next is None
    assert found == [one.notification.id for one in recent.newest(tenant)]
