from hypothesis import given
from hypothesis import strategies as st

from mediation.reliable_messaging import LARGEST_NUMBER, MAX_RANGES, Ranges
from mediation.reliable_messaging.policy import Policy, Verdict

POLICY = Policy()


def test_intervals_double_up_to_two_minutes() -> None:
    intervals = [POLICY.retry_after(tries, 0.5) for tries in range(1, 10)]
    assert intervals == [2, 4, 8, 16, 32, 64, 120, 120, 120]


@given(st.integers(0, 10_000), st.floats(0, 1))
def test_a_fifth_of_an_interval_is_random(tries: int, random: float) -> None:
    base = POLICY.retry_after(tries, 0.5)
    assert abs(POLICY.retry_after(tries, random) - base) <= base / 5 + 1e-9


def test_the_tenth_try_is_the_last() -> None:
    assert [POLICY.gives_up(tries) for tries in (9, 10, 11)] == [False, True, True]


def test_what_is_asked_for_goes_at_once_unless_it_just_went() -> None:
    assert POLICY.hurries(0, None, 100.0)
    assert POLICY.hurries(1, 102.0, 100.0)
    assert not POLICY.hurries(2, 104.0, 100.0)
    assert POLICY.hurries(2, 103.0, 100.0)
    assert not POLICY.hurries(10_000, 191.0, 100.0)
    assert POLICY.hurries(10_000, 190.0, 100.0)


def test_no_sequence_lives_longer_than_a_day() -> None:
    day = 24 * 3600
    assert [POLICY.lifetime(asked) for asked in (None, 0, 60, 10 * day)] == [day, day, 60, day]


def test_acknowledgements_wait_a_moment_or_for_32_messages() -> None:
    assert POLICY.acknowledge_at(1, None, 100.0) == 100.2
    assert POLICY.acknowledge_at(2, 100.2, 100.1) == 100.2
    assert POLICY.acknowledge_at(32, 100.2, 100.1) == 100.1


def test_a_peer_has_64_sequences() -> None:
    assert POLICY.admits(63, 9_999)
    assert not POLICY.admits(64, 64)
    assert not POLICY.admits(0, 10_000)


def test_64_numbers_are_in_flight() -> None:
    assert POLICY.highest_sent(Ranges(), None) == 64
    assert POLICY.highest_sent(Ranges.of([(1, 10), (12, 30)]), None) == 74
    assert POLICY.highest_sent(Ranges.of([(1, 10)]), 5) == 15


def test_a_full_destination_gets_one_message() -> None:
    assert POLICY.highest_sent(Ranges.of([(1, 10)]), 0) == 11


def test_verdicts() -> None:
    received = Ranges.of([(1, 4), (6, 7)])
    assert POLICY.verdict(5, received) is Verdict.TAKE
    assert POLICY.verdict(6, received) is Verdict.DUPLICATE
    assert POLICY.verdict(8, received, last=7) is Verdict.AFTER_LAST
    assert POLICY.verdict(10_007, received) is Verdict.TAKE
    assert POLICY.verdict(10_008, received) is Verdict.TOO_FAR
    assert POLICY.verdict(8, received, waiting=10_000) is Verdict.FULL
    assert POLICY.verdict(5, received, waiting=10_000) is Verdict.TAKE
    assert POLICY.verdict(LARGEST_NUMBER + 1, received) is Verdict.ROLLOVER


def test_no_more_ranges_than_an_acknowledgement_lists() -> None:
    received = Ranges.of((number, number) for number in range(1, 2 * MAX_RANGES, 2))
    assert POLICY.verdict(received.highest + 2, received) is Verdict.TOO_FAR
    assert POLICY.verdict(received.highest + 1, received) is Verdict.TAKE


def test_half_way_to_its_expiry_a_sequence_is_replaced() -> None:
    assert not POLICY.is_half_gone(100, None, 1e9)
    assert not POLICY.is_half_gone(100, 200, 150)
    assert POLICY.is_half_gone(100, 200, 151)
