"""Filters over attributes: which are true of which, and which are refused."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from filters import ATTRIBUTES, Event, Expression, Filter, FilterError, Reason, View, compile
from filters.dialects import ATTRIBUTE_FILTERS
from tests.rigs.cases import for_each

NAMES = st.sampled_from(["type", "subject", "ext"])
VALUES = st.text("ab", min_size=1, max_size=3)
COMPARISONS = st.builds(
    lambda kind, pairs: {kind: pairs},
    st.sampled_from(["exact", "prefix", "suffix"]),
    st.dictionaries(NAMES, VALUES, min_size=1, max_size=2),
)
FILTERS = st.recursive(
    COMPARISONS,
    lambda inner: (
        st.builds(lambda one: {"not": one}, inner)
        | st.builds(
            lambda kind, several: {kind: several},
            st.sampled_from(["all", "any"]),
            st.lists(inner, min_size=1, max_size=3),
        )
    ),
    max_leaves=6,
)


def holds(attributes: dict[str, str], **wanted: Any) -> bool:
    compiled = compile(Filter(others=(Expression(json.dumps(wanted), ATTRIBUTE_FILTERS),)))

    def views(view: View) -> bytes:
        assert view == ATTRIBUTES
        return json.dumps(attributes).encode()

    return compiled.matches(Event(b"<a/>", views=views))


def reason_of(text: str) -> Reason:
    with pytest.raises(FilterError) as refused:
        compile(Filter(others=(Expression(text, ATTRIBUTE_FILTERS),)))
    return refused.value.reason


def expected(value: dict[str, Any], attributes: dict[str, str]) -> bool:
    """What the specification's prose says."""
    [(kind, inner)] = value.items()
    match kind:
        case "not":
            return not expected(inner, attributes)
        case "all":
            return all(expected(one, attributes) for one in inner)
        case "any":
            return any(expected(one, attributes) for one in inner)
    for name, text in inner.items():
        if name not in attributes:
            return False
        has = attributes[name]
        parts = {"exact": has, "prefix": has[: len(text)], "suffix": has[-len(text) :]}
        if parts[kind] != text:
            return False
    return True


@given(st.lists(FILTERS, max_size=3), st.dictionaries(NAMES, VALUES))
def test_filters(filters: list[dict[str, Any]], attributes: dict[str, str]) -> None:
    wanted = all(expected(one, attributes) for one in filters)
    assert holds(attributes, filters=filters) is wanted


def test_source_and_types() -> None:
    event = {"source": "/a", "type": "x"}
    assert holds(event, source="/a", types=["y", "x"])
    assert not holds(event, source="/b", types=["x"])
    assert not holds(event, source="/a", types=["y"])
    assert holds(event)


@for_each(
    "text",
    ["", "{", "[]", "5", '{"other": 1}', '{"filters": {}}', '{"filters": [5]}', '{"filters": [{}]}',
     '{"filters": [{"exact": {"a": "b"}, "prefix": {"a": "b"}}]}', '{"filters": [{"exact": []}]}',
     '{"filters": [{"exact": {"a": 5}}]}', '{"filters": [{"exact": {"": "b"}}]}',
     '{"filters": [{"all": {}}]}', '{"types": "x"}', '{"types": [5]}', '{"source": ""}', "[" * 5000],
)  # fmt: skip
def test_what_is_no_filter(text: str) -> None:
    assert reason_of(text) is Reason.FILTER_INVALID


def test_a_kind_that_is_not_offered() -> None:
    assert reason_of('{"filters": [{"sql": "type = 1"}]}') is Reason.FILTER_DIALECT


def test_filters_are_bounded() -> None:
    one = {"exact": {"a": "b"}}
    deep: dict[str, Any] = one
    for _ in range(20):
        deep = {"not": deep}
    for filters in (
        [one] * 33,
        [deep],
        [{"exact": {"a": "b" * 9000}}],
        [{"exact": dict.fromkeys("abcdefghij", "b")}] * 7,
    ):
        assert reason_of(json.dumps({"filters": filters})) is Reason.FILTER_COSTLY
