"""Message selectors: their grammar, three-valued logic, exact values; and against SQLite."""

import sqlite3
from collections.abc import Mapping
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from filters import FilterError, Reason
from filters.queries.selectors import (
    MAX_NESTING,
    MAX_OPERATORS,
    Value,
    parse_selector,
)
from tests.rigs.cases import for_each


def holds(text: str, **properties: Value) -> bool | None:
    return parse_selector(text).holds(properties)


STATION: Mapping[str, Value] = {"station": 16622, "unit": "m/s", "height": 12.5, "public": True}


@for_each(
    ("text", "verdict"),
    [
        ("station = 16622 AND unit LIKE 'm/%'", True),
        ("station <> 16622", False),
        ("16622 = station", True),
        ("13 > height", True),
        ("12.5 < height", False),
        ("height BETWEEN 12 AND 12.5", True),
        ("height NOT BETWEEN 12 AND 12.4", True),
        ("height BETWEEN 13 AND 12", False),
        ("unit IN ('km/h', 'm/s')", True),
        ("unit NOT IN ('km/h', 'm/s')", False),
        ("station IN (1, -2, 16622)", True),
        ("unit IN (1)", False),
        ("unit IS NULL", False),
        ("unit is not null", True),
        ("speed IS NULL", True),
        ("public", True),
        ("NOT public", False),
        ("NOT NOT public", True),
        ("public = TRUE", True),
        ("public <> false", True),
        ("TRUE", True),
        ("FALSE OR public", True),
        ("station = 0x40EE", True),
        ("station = 16622L and height = 12.5d", True),
        ("station = +16622 and -station = -16622", True),
        ("station = 16622.", True),
        ("height = .125E2", True),
        ('"station" = 16622', True),
        ("station/2*2+1 = 16623", True),
        ("station - 22 * 100 = 14422", True),
        ("(station - 22) * 100 = 1660000", True),
        ("7 / 2 = 3 AND -7 / 2 = -3 AND 7 / 2.0 = 3.5", True),
        ("station = 'x'", False),
        ("NOT station = 'x'", True),
        ("station <> 'x'", False),
        ("public = 1", False),
        ("unit > height", False),
        ("unit BETWEEN 1 AND 2", False),
        ("station LIKE '16%'", False),
        ("station", False),
        ("station = 16622\tAND\r\nunit='m/s'", True),
        ("speed = 1", None),
        ("speed <> 1", None),
        ("NOT speed = 1", None),
        ("speed = other", None),
        ("speed + 1 > 0", None),
        ("speed LIKE '%'", None),
        ("speed IN ('a')", None),
        ("speed NOT IN ('a')", None),
        ("speed BETWEEN 1 AND 2", None),
        ("speed", None),
        ("station / 0 = 1", None),
        ("height / 0 = 1", None),
        ("1e308 * 10 > 1", None),
        ("unit + 1 = 2", None),
        ("unit = 'it''s'", False),
    ],
)
def test_verdicts(text: str, verdict: bool | None) -> None:
    assert parse_selector(text).holds(STATION) is verdict


_TRUTHS: Mapping[str, bool | None] = {"t": True, "f": False, "u": None}
_PROPERTIES: Mapping[str, Value] = {"t": True, "f": False}


@pytest.mark.parametrize(("left", "right"), [*product(_TRUTHS, repeat=2)])
def test_logic_is_three_valued(left: str, right: str) -> None:
    one, other = _TRUTHS[left], _TRUTHS[right]
    both = False if False in (one, other) else None if None in (one, other) else True
    either = True if True in (one, other) else None if None in (one, other) else False
    assert parse_selector(f"{left} AND {right}").holds(_PROPERTIES) is both
    assert parse_selector(f"{left} OR {right}").holds(_PROPERTIES) is either
    negated = None if one is None else not one
    assert parse_selector(f"NOT {left}").holds(_PROPERTIES) is negated
    assert parse_selector(f"NOT ({left} AND {right})").holds(_PROPERTIES) is (
        None if both is None else not both
    )


def test_and_binds_more_tightly_than_or_and_not_than_both() -> None:
    assert holds("t OR t AND f", t=True, f=False) is True
    assert holds("(t OR t) AND f", t=True, f=False) is False
    assert holds("NOT f OR t", t=True, f=False) is True
    assert holds("NOT (f OR t)", t=True, f=False) is False


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("'m/%'", ["m/", "m/s"], ["m", "km/h", "M/s"]),
        ("'_'", ["a", "%", "\n", "\U0001f300"], ["", "ab"]),
        ("'a%b%c'", ["abc", "aXbYc", "abbcc", "a\nbc"], ["ab", "acb", "abcd"]),
        ("'%ab%ab%'", ["abab", "xabyabz"], ["ab", "aab", "abba"]),
        ("'a%a'", ["aa", "aba"], ["a"]),
        ("'%_b'", ["ab", "xxb"], ["b", "ba"]),
        ("'%'", ["", "x"], []),
        ("''", [""], ["x"]),
        ("'50!%' ESCAPE '!'", ["50%"], ["50", "50x", "50!x"]),
        ("'!_!!!%%' ESCAPE '!'", ["_!%", "_!%x"], ["a!%", "_!x"]),
        (r"'\%' ESCAPE '\'", ["%"], ["\\x", "x"]),
        ("'it''s%'", ["it's", "it's so"], ["its"]),
        ("'a.c'", ["a.c"], ["abc"]),
        ("'%%%a'", ["a", "ba"], ["ab"]),
    ],
)
def test_like(pattern: str, matching: list[str], others: list[str]) -> None:
    selector = parse_selector(f"unit LIKE {pattern}")
    assert [text for text in matching if selector.holds({"unit": text}) is not True] == []
    assert [text for text in others if selector.holds({"unit": text}) is not False] == []


def test_a_pattern_does_not_go_back() -> None:
    # With backtracking, this takes longer than the universe has been there.
    selector = parse_selector(f"a LIKE '{'%a_' * 60}%b'")
    assert selector.holds({"a": "a" * 16_000}) is False


def test_integers_and_doubles_are_compared_by_what_they_are() -> None:
    large = 2**53 + 1
    assert holds("a = 9007199254740993", a=large) is True
    assert holds("a = 9007199254740992.0", a=large) is False
    assert holds("a > 9007199254740992.0", a=large) is True
    assert holds("a = b", a=large, b=float(large)) is False
    assert holds("a = 1", a=1.0) is True
    assert holds("a IN (9007199254740992)", a=large) is False
    assert holds("a * 3 = 27021597764222979", a=large) is True
    assert holds("a = -9223372036854775808", a=-(2**63)) is True
    assert holds("a + 1 > 9223372036854775807", a=2**63 - 1) is True
    assert holds("a = 0.1", a=0.1) is True


def test_what_is_not_a_number_equals_nothing() -> None:
    nan = float("nan")
    assert [holds(f"a {sign} 1", a=nan) for sign in ("=", "<", ">", "<>")] == [
        False, False, False, True,
    ]  # fmt: skip


@for_each(
    ("text", "said"),
    [
        ("", "empty"),
        ("  ", "empty"),
        ("a =", "ends too early"),
        ("a = 1 b", '"b" does not belong there, at character 7'),
        ("a = 1;", '";" does not belong there'),
        ("a = 1 /* all */", "does not belong"),
        ("a == 1", "does not belong"),
        ("a != 1", "does not belong"),
        ("1", "a value where a comparison belongs"),
        ("'x'", "a value where a comparison belongs"),
        ("a + 1", "a value where a comparison belongs"),
        ("a AND 1", "a value where a comparison belongs"),
        ("NOT 'x'", "a value where a comparison belongs"),
        ("(a = 1) = 1", "a comparison where a value belongs"),
        ("a < 'x'", "by = and <> alone"),
        ("a >= TRUE", "by = and <> alone"),
        ("1 = 'x'", "compares a number with a text"),
        ("'x' + 1 = 2", "calculates with a value that is not a number"),
        ("-'x' = a", "calculates with a value that is not a number"),
        ("a LIKE b", "does not belong"),
        ("1 LIKE 'x'", "the name of a property belongs before"),
        ("a LIKE 'x' ESCAPE 'xy'", "ESCAPE takes one character"),
        ("a LIKE 'x!y' ESCAPE '!'", "escapes another character"),
        ("a LIKE 'x!' ESCAPE '!'", "escapes another character"),
        ("a IN ()", "does not belong"),
        ("a IN ('x'", "ends too early"),
        ("a IN (b)", "does not belong"),
        ("a IN (-'x')", "does not belong"),
        ("a IS 1", "does not belong"),
        ("a NOT = 1", "does not belong"),
        ("a = 017", "no 0 stands before others"),
        ("a = 9223372036854775809", "too large an integer"),
        ("a = 1e999", "too large a number"),
        ("a = 12ab", "does not belong"),
        ("a = 'open", "does not belong"),
        ("((a = 1)", "ends too early"),
        ("a = 1)", '")" does not belong'),
        ("a = NULL", "does not belong"),
        ("AND = 1", "does not belong"),
        ("a = lower('x')", "does not belong"),
        ("a = \x00", "does not belong"),
    ],
)
def test_what_is_not_a_selector_is_refused(text: str, said: str) -> None:
    with pytest.raises(FilterError) as caught:
        parse_selector(text)
    assert caught.value.reason is Reason.FILTER_INVALID
    assert said in caught.value.text


@pytest.mark.parametrize(
    "text",
    [
        "(" * (MAX_NESTING + 1) + "a" + ")" * (MAX_NESTING + 1),
        "a = " + "1 + " * (MAX_OPERATORS + 1) + "1",
        " OR ".join(["a"] * 500),
        "a = '" + "x" * 5000 + "'",
        f"a LIKE '{'x' * 300}'",
        "NOT " * 5000 + "a",
    ],
)
def test_limits(text: str) -> None:
    with pytest.raises(FilterError) as caught:
        parse_selector(text)
    assert caught.value.reason is Reason.FILTER_COSTLY


def test_the_deepest_selector_is_evaluated() -> None:
    inner = "(" * MAX_NESTING + "a = 1" + ")" * MAX_NESTING
    assert holds(inner, a=1) is True
    assert holds("NOT " * 401 + "a = 1", a=1) is False
    assert holds("- " * 401 + "a = 1", a=-1) is True
    assert holds("a = " + "1 + " * (MAX_OPERATORS - 1) + "1", a=MAX_OPERATORS) is True


# ---- against SQLite -----------------------------------------------------------------------------

_NUMBERS = st.integers(-5, 5) | st.sampled_from([0.5, 2.0, -1.25, 1e3])
_TEXTS = st.text("ab%_x!'", max_size=5)


def _quote(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


_PLAIN = _NUMBERS.map(str) | st.sampled_from(["a", "b"])
_NUMERIC = st.recursive(
    _PLAIN,
    lambda some: st.one_of(
        st.tuples(some, st.sampled_from("+-*/"), some).map(lambda parts: f"({' '.join(parts)})"),
        some.map(lambda one: f"(- {one})"),
    ),
    max_leaves=4,
)
_LIKES = _TEXTS.map(lambda text: text.replace("!", "")).map(lambda text: f"LIKE {_quote(text)}")
_ESCAPED = st.lists(st.sampled_from(["a", "b", "%", "_", "!%", "!_", "!!", "'"]), max_size=5).map(
    lambda parts: f"LIKE {_quote(''.join(parts))} ESCAPE '!'"
)
_NOT = st.sampled_from(["", "NOT "])
_ATOMS = st.one_of(
    st.tuples(_NUMERIC, st.sampled_from(["=", "<>", "<", "<=", ">", ">="]), _NUMERIC).map(" ".join),
    st.tuples(st.sampled_from("st"), st.sampled_from(["=", "<>"]), _TEXTS.map(_quote)).map(
        " ".join
    ),
    st.sampled_from(["s = t", "s <> t", "f", "f = TRUE", "f <> FALSE", "TRUE", "FALSE"]),
    st.tuples(st.sampled_from("st"), _NOT, _LIKES | _ESCAPED).map(lambda p: f"{p[0]} {p[1]}{p[2]}"),
    st.tuples(
        st.sampled_from("st"), _NOT, st.lists(_TEXTS.map(_quote), min_size=1, max_size=3)
    ).map(lambda p: f"{p[0]} {p[1]}IN ({', '.join(p[2])})"),
    st.tuples(st.sampled_from("ab"), _NOT, st.lists(_NUMBERS.map(str), min_size=1, max_size=3)).map(
        lambda p: f"{p[0]} {p[1]}IN ({', '.join(p[2])})"
    ),
    st.tuples(_NUMERIC, _NOT, _NUMERIC, _NUMERIC).map(
        lambda p: f"{p[0]} {p[1]}BETWEEN {p[2]} AND {p[3]}"
    ),
    st.tuples(st.sampled_from("abstf"), _NOT).map(lambda p: f"{p[0]} IS {p[1]}NULL"),
)
CONDITIONS = st.recursive(
    _ATOMS,
    lambda some: st.one_of(
        st.tuples(some, st.sampled_from(["AND", "OR"]), some).map(" ".join),
        some.map(lambda one: f"({one})"),
        some.map(lambda one: f"NOT ({one})"),
    ),
    max_leaves=6,
)
PROPERTIES = st.fixed_dictionaries(
    {},
    optional={"a": _NUMBERS, "b": _NUMBERS, "s": _TEXTS, "t": _TEXTS, "f": st.booleans()},
)


@given(CONDITIONS, PROPERTIES)
def test_sqlite_says_the_same(condition: str, properties: dict[str, Value]) -> None:
    database = sqlite3.connect(":memory:")
    try:
        database.execute("PRAGMA case_sensitive_like = ON")
        values = [properties.get(name) for name in "abstf"]
        names = "SELECT ? AS a, ? AS b, ? AS s, ? AS t, ? AS f"
        # The condition is ours, and what is tried.
        query = f"SELECT ({condition}) FROM ({names})"  # noqa: S608
        (expected,) = database.execute(query, values).fetchone()
    finally:
        database.close()
    verdict = parse_selector(condition).holds(properties)
    assert verdict is (None if expected is None else bool(expected))


_WORDS = [
    "a",
    " ",
    "=",
    "<>",
    "(",
    ")",
    "'",
    '"',
    "AND ",
    "NOT ",
    " LIKE ",
    "1",
    ".5e",
    "-",
    "é",
    "\x00",
]


@given(st.lists(st.sampled_from(_WORDS), max_size=12).map("".join))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    try:
        selector = parse_selector(text)
    except FilterError:
        return
    assert selector.holds({"a": 1}) in (True, False, None)
