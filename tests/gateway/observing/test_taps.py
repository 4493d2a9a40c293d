"""Taps: who watches, what is kept for them, and what is dropped."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from filters import parse_clark
from gateway.observing.attempts import Fields
from gateway.observing.taps import ATTEMPTS, SETTLES, Taps, TooManyWatch, Watcher
from mediation.model.messages import Notification
from tests.rigs.dispatching import notification

LATER = 1000.0 + SETTLES


def everything(_: object) -> bool:
    return True


def attempt(at: float = 1000.0) -> Fields:
    return (at, 0.1, "delivered", 202, None, "", "urn:m", 1, False)


def names(watcher: Watcher, now: float = LATER) -> list[str]:
    return [one.notification.id for one in watcher.take(now)]


def test_a_message_is_told_with_its_attempts_a_little_later() -> None:
    taps, watcher = Taps(), Watcher(everything)
    one, other = notification("1"), notification("2")
    with taps.watching(watcher):
        taps.accepted(one, "me", 1000.0)
        taps.attempted(one, "a", attempt())
        assert watcher.take(1000.1) == []
        taps.accepted(other, "me", 1000.4)
        [passing] = watcher.take(LATER)
        assert (passing.by, passing.attempts, passing.more) == ("me", [("a", attempt())], 0)
        taps.attempted(one, "a", attempt())  # A retry brings nothing back.
        assert names(watcher, 1001.0) == [other.id]
    assert taps.watchers == []
    taps.accepted(notification("3"), "me", 1000.0)
    assert names(watcher) == []


def test_what_was_not_accepted_here_is_seen_when_it_is_delivered() -> None:
    watcher = Watcher(everything)
    one = notification("1")
    watcher.attempted(one, "a", attempt())
    watcher.offer(one, "me", 1000.0)  # Or its publisher had its answer later.
    for _ in range(ATTEMPTS + 3):
        watcher.attempted(one, "b", attempt())
    [passing] = watcher.take(LATER)
    assert (passing.by, len(passing.attempts), passing.more) == ("me", ATTEMPTS, 4)


def test_topics_and_shares() -> None:
    def wants(topic: object) -> bool:
        return str(topic) == "a"

    watcher = Watcher(wants, sample=0.25)
    for number in range(8):
        for topic in ("a", "b"):
            one = replace(notification(f"{topic}{number}"), topic=parse_clark(topic))
            watcher.offer(one, "me", 1000.0)
    assert names(watcher) == ["urn:test:a0", "urn:test:a4"]
    assert (watcher.passed_over, watcher.dropped) == (6, 0)


@given(st.lists(st.integers(1, 400), max_size=40), st.integers(1, 10), st.integers(1, 1000))
def test_what_waits_is_bounded_and_all_is_counted(
    sizes: list[int], messages: int, octets: int
) -> None:
    watcher = Watcher(everything, messages=messages, octets=octets)
    for number, size in enumerate(sizes):
        one: Notification = replace(notification(str(number)), payload=b"x" * size)
        watcher.offer(one, "me", 1000.0)
        watcher.offer(one, "me", 1000.0)  # The same is one.
    taken = watcher.take(LATER)
    assert len(taken) <= messages
    assert sum(one.notification.octets for one in taken) <= octets
    assert len(taken) + watcher.dropped == len(sizes)
    watcher.offer(replace(notification("next"), payload=b"x"), "me", 1000.0)
    assert names(watcher) == ["urn:test:next"]  # There is room again.


def test_so_many_may_watch() -> None:
    taps = Taps(most=1)
    with (
        taps.watching(Watcher(everything)),
        pytest.raises(TooManyWatch),
        taps.watching(Watcher(everything)),
    ):
        pass
    with taps.watching(Watcher(everything)):
        assert len(taps.watchers) == 1
