"""The last attempts of subscriptions, within bounds."""

from hypothesis import given
from hypothesis import strategies as st

from gateway.observing.attempts import Attempt, AttemptLog, _octets


def attempt(number: int, answer: str = "") -> Attempt:
    return Attempt(float(number), 0.1, "retry", 503, "answered 503", answer, f"urn:{number}")


def test_the_last_come_first_and_the_first_go_first() -> None:
    log = AttemptLog(kept=3)
    for number in range(5):
        log.note("a", attempt(number))
    assert [one.ended for one in log.of("a")] == [4.0, 3.0, 2.0]
    assert log.of("b") == []


def test_what_was_tried_the_longest_ago_is_forgotten() -> None:
    log = AttemptLog(subscriptions=2)
    for name in ("a", "b", "a", "c"):
        log.note(name, attempt(1))
    assert [len(log.of(name)) for name in ("a", "b", "c")] == [2, 0, 1]


def test_rates_are_of_a_time() -> None:
    log = AttemptLog(kept=3)
    for number in range(1, 6):
        log.note("busy", attempt(number * 10))
    log.note("calm", attempt(10))
    log.note("calm", attempt(45))
    log.note("idle", attempt(10))
    assert log.rates(20.0, 50.0) == {"busy": 3 / 20, "calm": 1 / 30}
    assert log.rates(50.5, 50.5) == {}


@given(
    st.lists(
        st.tuples(st.sampled_from("abcdef"), st.text(max_size=1024)),
        max_size=60,
    ),
    st.integers(1000, 8000),
)
def test_bytes_are_counted_and_bounded(noted: list[tuple[str, str]], most: int) -> None:
    log = AttemptLog(kept=4, subscriptions=4, octets=most)
    for number, (name, answer) in enumerate(noted):
        log.note(name, attempt(number, answer))
        kept = {one: log.of(one) for one in "abcdef"}
        assert log.octets == sum(_octets(each) for ring in kept.values() for each in ring)
        assert log.octets <= most or sum(map(bool, kept.values())) == 1
        assert sum(map(bool, kept.values())) <= 4
        assert kept[name][0].ended == number
