"""Regular expressions: what they are tried with, and what they may cost."""

import pytest

from filters import FilterError, Reason
from filters.dialects import QUERY_REGEX
from filters.queries import Catalogue, compile_query, seconds
from filters.queries.regular import MAX_CHARACTERS, RegularQuery
from tests.filters.queries.things import HARBOUR, thing
from tests.rigs.cases import for_each

pytest.importorskip("re2", reason="no engine for regular expressions (the extra discovery)")

QUERIES = [
    ("wind", True),
    ("^wind$", True),
    ("^Wind", True),
    ("^speed", False),
    ("(?i)^WEATHER/.*/WIND$", True),
    (r"\bharbour\b", True),
    (r"u-[0-9a-f]{8}$", True),
    ("^m/s$", True),
    ("Aussichts?punkt", True),
    ("Stra.e", True),
    ("16622", True),
    ("true", False),
    ("station", False),
    ("wind.*Straße", False),
    ("wind\\s+Straße", False),
    ("wind[^x]Straße", False),
    (r"\Awind\z", True),
    (r"\Aspeed", False),
    ("(?-m:^wind$)", True),
    ("(?s)wind.Stra", False),
    (r"\Qm/s", True),
    ("$", True),
    ("x*", True),
    ("^$", False),
    (r"\B", True),
]


@for_each(("text", "verdict"), QUERIES)
def test_each_text_by_itself(text: str, verdict: bool) -> None:
    query = compile_query(QUERY_REGEX, text)
    assert query.matches(HARBOUR) is verdict
    catalogue: Catalogue[str] = Catalogue()
    catalogue.add("before", thing(-1, texts=("x",), synopsis_path=""))
    catalogue.add("harbour", HARBOUR)
    catalogue.add("after", thing(1, keywords=("z",)))
    assert ("harbour" in catalogue.find(query).keys) is verdict


@pytest.mark.parametrize(
    "text",
    [
        "",
        "(",
        r"(a)\1",
        "(?=a)",
        "a{2000}",
        "x" * (MAX_CHARACTERS + 1),
        "((a{100}){100}){100}",
        "\ud800",
    ],
)
def test_what_is_refused(text: str) -> None:
    with pytest.raises(FilterError) as caught:
        compile_query(QUERY_REGEX, text)
    assert caught.value.reason is Reason.QUERY_INVALID
    assert len(caught.value.text) < 260 and caught.value.text.isprintable()


@pytest.mark.parametrize("text", ["(a+)+$", "(a|a)*b", "(a|aa)+$", "(.*)*x", "a*a*a*a*a*a*b"])
def test_there_is_no_going_back(text: str) -> None:
    query = compile_query(QUERY_REGEX, text)
    assert query.matches(thing(texts=("a" * 10_000 + "!",))) is False


def test_a_regular_expression_takes_memory_within_a_bound() -> None:
    # Its states would be 2**100, of which only so many are kept as there is memory for.
    query = compile_query(QUERY_REGEX, "(a|b)*a(a|b){100}c")
    assert query.matches(thing(texts=("ab" * 8_000,))) is False


def test_the_engine_keeps_nothing_of_strangers() -> None:
    import re2

    RegularQuery("first")
    assert re2._Regexp._make.cache_info().currsize == 0


def test_several_lines_of_one_text_are_one_text() -> None:
    one = thing(texts=("first\nsecond",))
    catalogue: Catalogue[str] = Catalogue()
    catalogue.add("one", one)
    for text, verdict in (("^second", False), ("first$", False), ("(?m)^second", True)):
        query = compile_query(QUERY_REGEX, text)
        assert query.matches(one) is verdict
        assert bool(catalogue.find(query).keys) is verdict


def test_a_search_is_cut_short() -> None:
    catalogue: Catalogue[int] = Catalogue()
    for number in range(2000):
        catalogue.add(number, thing(number, texts=("a" * 50,)))
    found = catalogue.find(compile_query(QUERY_REGEX, "a[^x]*b"), seconds_left=seconds(0))
    assert (found.keys, found.complete) == ((), False)
