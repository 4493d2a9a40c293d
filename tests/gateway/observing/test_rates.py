"""Rates of the last hour."""

from hypothesis import given
from hypothesis import strategies as st

from gateway.observing.rates import Counters, Rate, Rates, merge, quantile

BOUNDS = (1.0, 2.0, 4.0)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0
        self.counters = Counters(0, 0, 0, 0, (0, 0, 0, 0))

    def rates(self, kept: int = 3) -> Rates:
        return Rates(lambda: self.counters, BOUNDS, clock=lambda: self.now, kept=kept)


def test_what_was_counted_between_two_looks_is_a_rate() -> None:
    clock = Clock()
    rates = clock.rates()
    clock.now, clock.counters = 1010.0, Counters(20, 10, 5, 1, (0, 10, 0, 0))
    rates.look()
    clock.now, clock.counters = 1030.0, Counters(60, 10, 5, 1, (0, 10, 0, 0))  # It came late.
    rates.look()
    assert rates.last_hour() == [
        Rate(1010.0, 2.0, 1.0, 0.5, 0.1, 1.5, 1.99),
        Rate(1030.0, 2.0, 0.0, 0.0, 0.0),
    ]


def test_the_ring_is_bounded_and_a_clock_that_is_set_back_does_no_harm() -> None:
    clock = Clock()
    rates = clock.rates(kept=3)
    for accepted in (10, 20, 30, 40):
        clock.now += 10.0
        clock.counters = Counters(accepted, 0, 0, 0, (0, 0, 0, 0))
        rates.look()
    assert [one.ended for one in rates.last_hour()] == [1020.0, 1030.0, 1040.0]
    clock.now, clock.counters = 500.0, Counters(1000, 0, 0, 0, (0, 0, 0, 0))
    rates.look()
    clock.now, clock.counters = 510.0, Counters(1020, 0, 0, 0, (0, 0, 0, 0))
    rates.look()
    assert [one.accepted for one in rates.last_hour()] == [1.0, 1.0, 2.0]


def test_quantiles_of_buckets() -> None:
    assert quantile(BOUNDS, (0, 0, 0, 0), 0.5) is None
    assert quantile(BOUNDS, (2, 0, 0, 0), 0.5) == 0.5
    assert quantile(BOUNDS, (1, 0, 1, 0), 1.0) == 4.0
    assert quantile(BOUNDS, (1, 0, 0, 9), 0.99) == 4.0  # Beyond all bounds.


@given(st.lists(st.integers(0, 50), min_size=4, max_size=4), st.floats(0.01, 1.0))
def test_a_quantile_is_within_the_bucket_that_has_it(buckets: list[int], share: float) -> None:
    values = [n for n, number in enumerate(buckets) for _ in range(number)]
    found = quantile(BOUNDS, buckets, share)
    if not values:
        assert found is None
        return
    bucket = next(
        n for n in range(4) if sum(buckets[: n + 1]) >= share * len(values) and buckets[n]
    )
    lower, upper = (0.0, *BOUNDS)[bucket], (*BOUNDS, BOUNDS[-1])[bucket]
    assert found is not None and lower <= found <= upper


def test_rates_of_several_gateways_add_up() -> None:
    one = [Rate(1000.0, 1.0, 3.0, 0.0, 0.0, 0.1, 0.5), Rate(1010.0, 1.0, 0.0, 0.0, 0.0)]
    other = [Rate(1004.0, 2.0, 1.0, 1.0, 0.5, 0.5, 0.4), Rate(1020.0, 7.0, 0.0, 0.0, 0.0)]
    first, *others = merge([one, other])
    assert (first.ended, first.accepted, first.delivered) == (1004.0, 3.0, 4.0)
    assert (first.failed, first.refused, first.p99) == (1.0, 0.5, 0.5)
    assert first.p50 is not None and abs(first.p50 - 0.2) < 1e-9
    assert others == [one[1], other[1]]
    assert merge([one]) == one and merge([[], []]) == []
