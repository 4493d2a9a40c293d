from gateway.reliability.rates import MOST_PEERS, Rates


def test_a_second_has_its_allowance() -> None:
    rates = Rates(10.0)
    assert [rates.allows("peer", 100.0) for _ in range(11)] == [True] * 10 + [False]
    assert rates.allows("other", 100.0)
    assert [rates.allows("peer", 100.15) for _ in range(2)] == [True, False]


def test_once_in_ten_seconds() -> None:
    rates = Rates(0.1)
    assert [rates.allows("peer", time) for time in (0.0, 9.0, 11.0, 12.0)] == [
        True,
        False,
        True,
        False,
    ]


def test_a_clock_that_goes_back_gives_nothing() -> None:
    rates = Rates(1.0)
    assert rates.allows("peer", 100.0)
    assert not rates.allows("peer", 50.0)


def test_strangers_fill_nothing() -> None:
    rates = Rates(1.0)
    for number in range(MOST_PEERS + 100):
        rates.allows(str(number), 0.0)
    assert len(rates._used) == MOST_PEERS
