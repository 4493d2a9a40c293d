"""Publications of which a broker refuses some by ending the connection, and does not say which."""

import asyncio
from collections.abc import Callable, Iterable
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters import AdapterUnavailable, PublicationRefused
from adapters.broker import publications
from adapters.broker.publications import Fall, Outgoing, Publications
from adapters.broker.refusals import MOST, REMEMBERED, Lesson, Refusals
from filters import Step, Topic
from mediation.model.messages import Notification

SAID = Fall("never", by_message=True, said=True)
SILENT = Fall("lost", by_message=True)
AWAY = Fall("shutdown")


def outgoing(number: int, octets: int = 1) -> Outgoing:
    notification = Notification(
        id=str(number),
        source="http://publisher.example/",
        payload=b"<a/>",
        time=datetime.now(UTC),
        topic=Topic((Step(None, "storm"),)),
    )
    return Outgoing(notification, ("wide", f"wide/{number}"), octets)


def number_of(message: Outgoing) -> int:
    return int(message.notification.id)


class Broker:
    """One that ends the connection over the messages *bad*, with *fall*, and takes all others; of
    what it took before a fall it has confirmed only the first *confirms*."""

    def __init__(self, bad: Iterable[int], fall: Fall, confirms: int = 10**9) -> None:
        self.bad = set(bad)
        self.fall = fall
        self.confirms = confirms
        self.taken: list[int] = []
        self.falls = 0
        self.sent = 0

    def serve(self, those: Publications[Outgoing]) -> bool:
        """Take all that is sent until nothing waits, or it is given up; whether it was not."""
        while True:
            batch = those.take()
            if not batch:
                return True
            self.sent += len(batch)
            numbers = [number_of(message) for message in batch]
            fatal = next((n for n, number in enumerate(numbers) if number in self.bad), None)
            self.taken += numbers[:fatal]
            for message in batch[: fatal if fatal is None else min(fatal, self.confirms)]:
                those.confirmed(message)
            if fatal is not None:
                self.falls += 1
                if not those.fell(self.fall):
                    return False
                those.recovered()


def made(**settings: float) -> Publications[Outgoing]:
    return Publications("test", retry_after=lambda: 1.0, **settings)  # type: ignore[arg-type]


async def answers(waiting: Iterable["asyncio.Future[None]"]) -> list[object]:
    """What each publisher was told: its refused messages, None where all is well."""
    told: list[object] = []
    for each in await asyncio.gather(*waiting, return_exceptions=True):
        if isinstance(each, PublicationRefused):
            told.append([int(one.notification.id) for one in each.refusals])
        else:
            told.append(None if each is None else type(each))
    return told


@given(
    count=st.integers(1, 300),
    data=st.data(),
    said=st.booleans(),
    confirms=st.sampled_from([0, 1, 10**9]),
)
async def test_whatever_is_bad_all_others_arrive(
    count: int, data: st.DataObject, said: bool, confirms: int
) -> None:
    """Only the culprits are refused; nobody else is told to come again, in few connections."""
    bad = data.draw(st.sets(st.integers(1, count), max_size=3 if said else 1))
    broker = Broker(bad, SAID if said else SILENT, confirms)
    those = made()
    waiting = [those.add([outgoing(number)]) for number in [*range(1, count + 1), count + 1]]
    if not said:
        broker.serve(those)  # With nothing else confirmed since, it may be told to come again.
        assert set(broker.taken) >= set(range(1, count + 2)) - bad
        return
    assert broker.serve(those)
    assert await answers(waiting) == [
        [number] if number in bad else None for number in range(1, count + 2)
    ]
    assert set(broker.taken) == set(range(1, count + 2)) - bad
    assert broker.falls <= 10 * len(bad)
    assert those.take() == [] and not those.flying


async def test_one_of_several_of_a_publisher() -> None:
    those, broker = made(), Broker([2, 5], SAID)
    waiting = [those.add([outgoing(number) for number in range(1, 4)])]
    waiting.append(those.add([outgoing(number) for number in range(4, 7)]))
    assert broker.serve(those)
    assert await answers(waiting) == [[2], [5]]
    assert list(dict.fromkeys(broker.taken)) == [1, 3, 4, 6], "in their order"


async def test_a_broker_that_fails_over_everything_refuses_nothing() -> None:
    """Its words say nothing of a message, and it confirms none: it is not there."""
    those, broker = made(), Broker(range(1, 100), SILENT)
    waiting = [those.add([outgoing(number)]) for number in range(1, 100)]
    assert not broker.serve(those)
    assert set(await answers(waiting)) == {AdapterUnavailable}
    assert broker.falls < 10
    for _ in range(20):  # Their publishers come again, and again.
        waiting = [those.add([outgoing(number)]) for number in range(1, 20)]
        broker.serve(those)
        assert set(await answers(waiting)) == {AdapterUnavailable}


async def test_a_silent_fall_is_held_against_who_comes_again() -> None:
    """Where others were confirmed meanwhile."""
    those, broker = made(), Broker([1], SILENT)
    first = those.add([outgoing(1)])
    broker.serve(those)
    assert await answers([first]) == [AdapterUnavailable]
    others = [those.add([outgoing(number)]) for number in (2, 3)]
    assert broker.serve(those)
    again = those.add([outgoing(1)])
    broker.serve(those)
    assert await answers([*others, again]) == [None, None, [1]]


@pytest.mark.parametrize("count", [1, 10])
async def test_a_broker_that_goes_away_refuses_nothing(count: int) -> None:
    those = made()
    for _ in range(4):
        waiting = [those.add([outgoing(number)]) for number in range(count)]
        those.take()
        assert not those.fell(AWAY)
        assert set(await answers(waiting)) == {AdapterUnavailable}
    sound = [those.add([outgoing(number)]) for number in range(count)]
    assert Broker([], SAID).serve(those)
    assert await answers(sound) == [None] * count


async def test_what_was_sent_long_ago_did_not_end_the_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(publications, "PROMPT", -1.0)
    those = made()
    waiting = [those.add([outgoing(1)])]
    those.take()
    assert not those.fell(SAID)
    assert await answers(waiting) == [AdapterUnavailable]


async def test_publishers_wait_for_another_connection_for_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(publications, "RECOVERY", 0.02)
    those = made()
    waiting = [those.add([outgoing(number)]) for number in range(5)]
    those.take()
    assert those.fell(SAID) and those.recovering
    waiting.append(those.add([outgoing(9)]))
    assert set(await answers(waiting)) == {AdapterUnavailable}
    assert not those.recovering


async def test_what_is_learnt_is_refused_without_being_sent() -> None:
    those: Publications[Outgoing] = Publications(
        "test",
        retry_after=lambda: 1.0,
        teaches=lambda message, _words: Lesson(octets=message.octets),
    )
    broker = Broker([1], SAID)
    waiting = [those.add([outgoing(1, 100)])]
    assert broker.serve(those)
    waiting += [those.add([outgoing(2, 100)]), those.add([outgoing(3, 99)])]
    sent = broker.sent
    assert broker.serve(those)
    assert await answers(waiting) == [[1], [2], None]
    assert (broker.sent - sent, broker.taken) == (1, [3])
    assert those.refusal_of(outgoing(4, 100)) == "never"
    those.forget(outgoing(4, 100))
    assert those.refusal_of(outgoing(4, 100)) is None


async def test_there_is_a_bound() -> None:
    those = made(messages=3)
    those.add([outgoing(1), outgoing(2)])
    with pytest.raises(AdapterUnavailable, match="too many"):
        those.add([outgoing(3), outgoing(4)])
    those.add([outgoing(3)])
    assert len(those.take()) == 3


LEARNT: list[tuple[str, Lesson, Callable[[int], Outgoing]]] = [
    ("size", Lesson(octets=10), lambda number: outgoing(number, 10)),
    ("destination", Lesson(destination="wide"), outgoing),
    ("message", Lesson(), lambda _number: outgoing(1)),
]


@pytest.mark.parametrize(
    ("lesson", "like"), [pytest.param(*rest, id=name) for name, *rest in LEARNT]
)
def test_what_is_known_is_forgotten_in_time(
    lesson: Lesson, like: Callable[[int], Outgoing]
) -> None:
    now = 0.0
    known = Refusals(lambda: now)

    def words(message: Outgoing) -> str:
        return known.words_for(message.identity, message.destinations, message.octets)

    known.learn(lesson, "never", outgoing(1).identity)
    assert known and words(like(2)) == "never"
    now = REMEMBERED - 1
    assert words(like(3)) == "never"
    now = REMEMBERED
    assert words(like(4)) == "" and not known


def test_what_is_known_is_bounded() -> None:
    known = Refusals()
    for number in range(2 * MOST):
        known.learn(Lesson(), "never", ("source", str(number)))
    assert known.words_for(("source", "0"), (), 0) == ""
    assert known.words_for(("source", str(2 * MOST - 1)), (), 0) == "never"
    assert len(known._known) == MOST
