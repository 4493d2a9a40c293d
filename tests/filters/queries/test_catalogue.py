"""Catalogues: what they find is what a query is true of, one thing after the other."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from filters import FilterError, Reason
from filters.dialects import QUERY_REGEX, QUERY_SQL, QUERY_STRING, XPATH_1_0
from filters.queries import (
    ANYTHING,
    Catalogue,
    Conditions,
    Described,
    Query,
    compile_query,
    query_dialects,
    seconds,
)
from filters.queries.deciding import FIRST, LEAST, MOST, Length
from filters.queries.postings import LONGEST_VALUES, MOST_VALUES
from filters.queries.regular import RegularQuery
from filters.queries.timeline import LARGEST
from tests.filters.queries.test_selectors import CONDITIONS, PROPERTIES
from tests.filters.queries.things import NOON, thing
from tests.rigs.cases import for_each

_MINUTES = st.integers(0, 9)
_WORDS = st.sampled_from(["wind", "Wind speed", "storm at sea", "sea/wind", "a\nb", "", "Ünit"])
_DOCUMENTS = st.sampled_from(
    [b"<a>1</a>", b"<a><b>x</b></a>", b"<a b='1'/>", b"<c><b>1</b><b>2</b></c>", b"<broken>"]
)
_CREATORS = st.sampled_from(["e-1", "e-2"])


@st.composite
def _things(draw: st.DrawFn) -> Described:
    created = NOON + timedelta(minutes=draw(_MINUTES))
    lifetime = draw(st.none() | st.integers(1, 9))
    return Described(
        created=created,
        expires=None if lifetime is None else created + timedelta(minutes=lifetime),
        creator=draw(_CREATORS),
        paths=tuple(draw(st.lists(_WORDS, max_size=2))),
        texts=tuple(draw(st.lists(_WORDS, max_size=2))),
        properties=draw(PROPERTIES),
        documents=tuple(draw(st.lists(_DOCUMENTS, max_size=2))),
        synopsis_path=draw(st.none() | st.just("A/u-1")),
    )


_QUERIES = st.one_of(
    st.tuples(
        st.just(QUERY_STRING),
        st.sampled_from(
            ["wind", "SEA", "storm sea", '"at sea"', "ünit wind", '"sea wind"', "none"]
        ),
    ),
    st.tuples(st.just(QUERY_SQL), CONDITIONS),
    st.tuples(
        st.just(XPATH_1_0),
        st.sampled_from(
            ["a", "b", "self::a = 1", "b = 1 or @b = 1", "count(*) > 1", "not(b)", "//b"]
        ),
    ),
    *(
        [
            st.tuples(
                st.just(QUERY_REGEX),
                st.sampled_from(
                    ["^wind", "wind$", "a.*b", "(?s)a.b", "[^x]*sea", "^$", "u-", r"\Asea", "zz"]
                ),
            )
        ]
        if QUERY_REGEX in query_dialects()
        else []
    ),
)
_TIMES = st.none() | _MINUTES.map(lambda minutes: NOON + timedelta(minutes=minutes))
_SPANS = st.none() | _MINUTES.map(lambda minutes: timedelta(minutes=minutes))
_CONDITIONS = st.just(ANYTHING) | st.builds(
    Conditions, _TIMES, _TIMES, _TIMES, _TIMES, _SPANS, _SPANS, _TIMES, st.none() | _CREATORS
)
_CHANGES = st.lists(st.tuples(st.integers(0, 12), st.none() | _things()), min_size=1, max_size=24)


def _newest(
    things: Sequence[tuple[int, int, Described]], query: Query, conditions: Conditions
) -> list[int]:
    """What a catalogue finds, by trying one thing after the other."""
    ordered = sorted(things, key=lambda one: (one[2].created, one[1]), reverse=True)
    return [key for key, _, one in ordered if conditions.hold(one) and query.matches(one)]


@given(_CHANGES, _QUERIES, _CONDITIONS, st.integers(0, 5))
def test_find_is_what_the_query_is_true_of(
    changes: list[tuple[int, Described | None]],
    text: tuple[str, str],
    conditions: Conditions,
    limit: int,
) -> None:
    catalogue: Catalogue[int] = Catalogue()
    things: dict[int, tuple[int, int, Described]] = {}
    for number, (key, one) in zip(count(), changes, strict=False):
        if one is not None:
            catalogue.add(key, one)
            things[key] = (key, number, one)
        elif key in things:
            catalogue.remove(key)
            del things[key]
    assert len(catalogue) == len(things)
    query = compile_query(*text)
    wanted = _newest(list(things.values()), query, conditions)
    found = catalogue.find(query, conditions=conditions)
    assert (list(found.keys), found.more, found.complete) == (wanted, False, True)
    few = catalogue.find(query, limit=limit, conditions=conditions)
    assert (list(few.keys), few.more) == (wanted[:limit], len(wanted) > limit)
    for key in list(things):
        catalogue.remove(key)
    assert _is_empty(catalogue)


def _is_empty(catalogue: Catalogue[int]) -> bool:
    """Whether nothing is left of what was there."""
    return (
        len(catalogue) == len(catalogue._words) == len(catalogue._creators) == 0
        and len(catalogue._properties) == 0
        and catalogue.weight == 0
        and not list(catalogue._timeline.newest_first())
    )


def test_many_things_in_any_order_are_found_the_newest_first() -> None:
    catalogue: Catalogue[int] = Catalogue()
    order = [number * 7919 % (3 * LARGEST) for number in range(3 * LARGEST)]
    for number in order:
        catalogue.add(number, thing(number, keywords=("wind",), properties={"n": number % 2}))
    for number in order[::5]:
        catalogue.remove(number)
    left = sorted(set(range(3 * LARGEST)) - set(order[::5]), reverse=True)
    everything = catalogue.find(compile_query(QUERY_STRING, "wind"), limit=10_000)
    assert list(everything.keys) == left
    odd = catalogue.find(compile_query(QUERY_SQL, "n = 1"), limit=10_000)
    assert list(odd.keys) == [number for number in left if number % 2]


def test_things_of_much_text_are_searched_in_parts() -> None:
    pytest.importorskip("re2", reason="no engine for regular expressions (the extra discovery)")
    catalogue: Catalogue[int] = Catalogue()
    for number in range(20):
        catalogue.add(number, thing(number, texts=("x" * (MOST // 3), f"the {number}")))
    catalogue.add(20, thing(20, texts=("y" * (2 * MOST), "the 20")))
    query = compile_query(QUERY_REGEX, "^the (1|7|20|13)$")
    assert catalogue.find(query).keys == (20, 13, 7, 1)
    looks = count()
    cut = catalogue.find(query, seconds_left=lambda: 3.5 - next(looks))
    assert (cut.keys, cut.complete) == ((20,), False)


@for_each(
    ("condition", "holds"),
    [
        (Conditions(created_after=NOON), False),
        (Conditions(created_after=NOON - timedelta(1)), True),
        (Conditions(created_before=NOON), False),
        (Conditions(created_before=NOON + timedelta(1)), True),
        (Conditions(expires_after=NOON + timedelta(hours=1)), False),
        (Conditions(expires_after=NOON), True),
        (Conditions(expires_before=NOON + timedelta(hours=1)), False),
        (Conditions(expires_before=NOON + timedelta(hours=2)), True),
        (Conditions(valid_until=NOON + timedelta(hours=1)), True),
        (Conditions(valid_until=NOON + timedelta(hours=2)), False),
        (Conditions(validity_at_least=timedelta(hours=1)), True),
        (Conditions(validity_at_least=timedelta(hours=2)), False),
        (Conditions(validity_at_most=timedelta(hours=1)), True),
        (Conditions(validity_at_most=timedelta(minutes=59)), False),
        (Conditions(creator="e-1"), True),
        (Conditions(creator="e-2"), False),
        (Conditions(creator="e-1", created_after=NOON), False),
    ],
)
def test_conditions(condition: Conditions, holds: bool) -> None:
    one = thing(creator="e-1", expires=NOON + timedelta(hours=1))
    assert condition.hold(one) is holds
    assert condition.among([one, one]) == [holds, holds]
    assert ANYTHING.hold(one)


def test_what_never_expires_is_valid_for_ever() -> None:
    far = NOON + timedelta(36500)
    one = thing()
    assert Conditions(expires_after=far, valid_until=far).hold(one)
    assert Conditions(expires_after=far).among([one]) == [True]
    assert Conditions(validity_at_least=timedelta(36500)).hold(one)
    assert not Conditions(expires_before=far).hold(one)
    assert not Conditions(validity_at_most=timedelta(36500)).hold(one)


@pytest.mark.parametrize(
    ("length", "number"), [(10, MOST_VALUES + 10), (LONGEST_VALUES // 50, 60)], ids=["many", "long"]
)
def test_patterns_of_many_or_long_texts_are_tried_with_each_thing(length: int, number: int) -> None:
    query = compile_query(QUERY_SQL, "place LIKE '%x_1%' AND n < 3000")
    catalogue: Catalogue[int] = Catalogue()
    for each in range(number):
        place = f"{'a' * length}x{each % 10}1{each}"
        catalogue.add(each, thing(each, properties={"place": place, "n": each}))
    found = catalogue.find(query, limit=10_000)
    assert list(found.keys) == [*reversed(range(number))]
    looks = count()
    cut = catalogue.find(query, limit=10_000, seconds_left=lambda: 5.5 - next(looks))
    assert 0 < len(cut.keys) <= 6 and not cut.complete


def test_a_full_catalogue_takes_no_more() -> None:
    catalogue: Catalogue[int] = Catalogue(max_things=2)
    catalogue.add(1, thing())
    catalogue.add(2, thing())
    with pytest.raises(FilterError) as caught:
        catalogue.add(3, thing())
    assert caught.value.reason is Reason.QUOTA
    catalogue.add(2, thing(texts=("instead",)))
    catalogue.remove(1)
    catalogue.add(3, thing())
    assert 1 not in catalogue and 3 in catalogue and catalogue[2].texts == ("instead",)


def test_memory_is_bounded() -> None:
    large = thing(texts=("x" * 10_000,))
    catalogue: Catalogue[int] = Catalogue(max_bytes=2 * (large.weight() + 100))
    catalogue.add(1, large)
    catalogue.add(2, large)
    with pytest.raises(FilterError):
        catalogue.add(3, thing())
    with pytest.raises(FilterError):
        catalogue.add(2, replace(large, texts=("x" * 11_000,)))
    assert catalogue[2] is large
    catalogue.add(2, thing())
    catalogue.add(3, thing())


@pytest.mark.parametrize(
    ("dialect", "text"), [(QUERY_SQL, "NOT n = 1"), (XPATH_1_0, "a"), (QUERY_STRING, '"a b"')]
)
def test_what_was_found_when_the_time_is_over_is_the_answer(dialect: str, text: str) -> None:
    catalogue: Catalogue[int] = Catalogue()
    for number in range(100):
        catalogue.add(
            number,
            thing(number, texts=("a b",), properties={"n": 2}, documents=(b"<r><a/></r>",)),
        )
    looks = count()
    found = catalogue.find(
        compile_query(dialect, text), limit=200, seconds_left=lambda: 1.5 - next(looks)
    )
    assert found.keys == tuple(range(99, 99 - len(found.keys), -1))
    assert len(found.keys) < 100
    assert (found.more, found.complete) == (False, False)


def test_a_budget_ends() -> None:
    left = seconds(1000)
    assert 0 < left() <= 1000
    assert seconds(-1)() < 0


def test_other_dialects_are_refused_with_those_there_are() -> None:
    with pytest.raises(FilterError) as caught:
        compile_query("urn:example:prolog", "topic(X).")
    assert caught.value.reason is Reason.QUERY_DIALECT
    assert caught.value.names == query_dialects()
    assert {QUERY_STRING, QUERY_SQL, XPATH_1_0} <= set(query_dialects())


def test_what_is_dear_is_searched_in_short_pieces() -> None:
    length = Length()
    assert length.octets == FIRST
    for took, octets in ((1.0, FIRST // 2), (1.0, LEAST), (1.0, LEAST), (0.0, 2 * LEAST)):
        length.searched(took)
        assert length.octets == octets
    for _ in range(20):
        length.searched(0.0)
    assert length.octets == MOST


def test_others_have_their_turn_after_each_piece_and_change_things_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No piece is longer than it may be, and nothing is locked while it is searched."""
    pytest.importorskip("re2", reason="no engine for regular expressions (the extra discovery)")
    catalogue: Catalogue[int] = Catalogue()
    for number in range(50):
        catalogue.add(number, thing(number, texts=("x" * 1000, f"the {number}")))
    pieces: list[int] = []
    next_line = RegularQuery.next_line

    def look(self: RegularQuery, lines: bytes, start: int) -> int:
        assert not catalogue._lock.locked()
        pieces.append(len(lines))
        return next_line(self, lines, start)

    monkeypatch.setattr(RegularQuery, "next_line", look)
    monkeypatch.setattr(Length, "searched", lambda self, seconds: None)
    search = catalogue.search(compile_query(QUERY_REGEX, "nothing here"))
    turns = 0
    while not search.go_on(lambda: 0.0):
        turns += 1
        catalogue.add(1000 + turns, thing(1000 + turns))
    assert max(pieces) <= FIRST + 1100
    assert turns >= len(pieces) >= 10
