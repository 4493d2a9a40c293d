import math

from hypothesis import given
from hypothesis import strategies as st

from gateway.token_bucket import MOST_PEERS, TokenBucket


def test_a_second_has_its_allowance() -> None:
    rates = TokenBucket(10.0)
    assert [rates.allows("peer", 100.0) for _ in range(11)] == [True] * 10 + [False]
    assert rates.allows("other", 100.0)
    assert [rates.allows("peer", 100.15) for _ in range(2)] == [True, False]


def test_once_in_ten_seconds() -> None:
    rates = TokenBucket(0.1)
    assert [rates.allows("peer", time) for time in (0.0, 9.0, 11.0, 12.0)] == [
        True,
        False,
        True,
        False,
    ]


def test_a_clock_that_goes_back_gives_nothing() -> None:
    rates = TokenBucket(1.0)
    assert rates.allows("peer", 100.0)
    assert not rates.allows("peer", 50.0)


def test_strangers_fill_nothing() -> None:
    rates = TokenBucket(1.0)
    for number in range(MOST_PEERS + 100):
        rates.allows(str(number), 0.0)
    assert len(rates) == MOST_PEERS


@given(st.lists(st.floats(0, 10), max_size=60))
def test_never_more_than_burst_and_rate(gaps: list[float]) -> None:
    """Never more than the burst and the rate allow; what it says to wait for is enough."""
    bucket = TokenBucket(2.0, 5.0)
    now = granted = 0.0
    for gap in gaps:
        now += gap
        wait = bucket.take("somebody", now)
        granted += not wait
        assert granted <= 5.0 + 2.0 * now + 1e-6
        if wait:
            now = math.nextafter(now + wait, math.inf) + 1e-9
            assert bucket.take("somebody", now) < 1e-6
            granted += 1
    assert bucket.take("somebody else", now) == 0


def test_who_is_unseen_the_longest_is_forgotten() -> None:
    bucket = TokenBucket(1.0, 1.0)
    for number in range(20_000):
        bucket.take(str(number), 0.0)
    assert bucket.take("0", 0.0) == 0.0
    assert bucket.take("19999", 0.0) > 0.0


def test_what_one_asks_for_takes_nothing_from_others() -> None:
    bucket = TokenBucket(1.0, 2.0)
    while bucket.allows("greedy", 0.0):
        pass
    assert bucket.wait_of("greedy", 0.0, number=2.0) == 2.0
    assert bucket.wait_of("modest", 0.0, number=2.0) == 0.0
    assert bucket.take("modest", 0.0, number=2.0) == 0.0
