"""The last requests that made subscriptions, within bounds."""

from hypothesis import given
from hypothesis import strategies as st

from gateway.observing.subscribe_requests import LARGEST, SubscribeRequests


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 200)), max_size=40))
def test_bounds(noted: list[tuple[str, int]]) -> None:
    requests = SubscribeRequests(kept=4, octets=500)
    for name, size in noted:
        requests.note(name, "/soap", b"x" * size)
        kept = [one for one in map(requests.find, "abcdef") if one is not None]
        assert len(kept) <= 4 and sum(len(one.envelope) for one in kept) <= 500
        found = requests.find(name)
        assert (found is None) == (size == 0) and (found is None or len(found.envelope) == size)


def test_a_large_one_is_not_kept() -> None:
    requests = SubscribeRequests()
    requests.note("a", "/soap", b"x")
    requests.note("a", "/soap", b"x" * (LARGEST + 1))
    assert requests.find("a") is None
