"""Filters over the attributes of an event, as the CloudEvents Subscriptions API has them.

The text is a JSON object: ``source`` and ``types`` say which an event must have, and all of
``filters`` must hold, each of one of six kinds:

    {"exact": {"type": "com.example.tide"}}     all of these attributes have these values,
    {"prefix": {"subject": "gauge"}}            begin with them,
    {"suffix": {"type": ".created"}}            or end with them
    {"all": [FILTER, ...]}  {"any": [FILTER, ...]}  {"not": FILTER}

An attribute that an event does not have has no value. CloudEvents SQL is not offered.
"""

import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, TypeAlias

from filters.events import ATTRIBUTES, Event
from filters.filter import Expression
from filters.reasons import FilterError, Reason, quoted

MOST = 64
"""Comparisons, and filters around them, of one expression: each event is tried with each."""
DEEPEST = 16
LONGEST = 8192
"""Characters of an expression."""

_Attributes: TypeAlias = Mapping[str, str]
_Test: TypeAlias = Callable[[_Attributes], bool]
_COMPARISONS: Mapping[str, Callable[[str, str], bool]] = {
    "exact": str.__eq__,
    "prefix": str.startswith,
    "suffix": str.endswith,
}
NAMES = (*_COMPARISONS, "all", "any", "not")
"""The kinds of filters."""


def attribute_condition(expression: Expression) -> Callable[[Event], bool]:
    """Compile an expression of the dialect.

    Raises:
        FilterError: ``FILTER_INVALID``, ``FILTER_DIALECT`` with the kinds as names,
            ``FILTER_COSTLY``.
    """
    if len(expression.text) > LONGEST:
        raise FilterError(Reason.FILTER_COSTLY, f"the filter has more than {LONGEST} characters")
    try:
        value = json.loads(expression.text)
    except (ValueError, RecursionError):
        raise _invalid("the filter is not JSON") from None
    if not isinstance(value, dict) or not value.keys() <= {"source", "types", "filters"}:
        raise _invalid("the filter is not an object with source, types and filters only")
    left = [MOST]
    tests: list[_Test] = []
    if value.get("source") is not None:
        tests.append(_comparing("exact", {"source": value["source"]}, left))
    if value.get("types") is not None:
        types = value["types"]
        if not isinstance(types, list) or not types or not all(map(_is_text, types)):
            raise _invalid("types is not a list of texts")
        wanted = frozenset(types)
        tests.append(lambda attributes: attributes.get("type") in wanted)
    if value.get("filters") is not None:
        tests += [_compile(one, left, DEEPEST) for one in _list(value["filters"])]
    holds = _all(tests)

    def condition(event: Event) -> bool:
        return holds(_read(event.view(ATTRIBUTES)))

    return condition


@lru_cache(maxsize=16)
def _read(view: bytes) -> _Attributes:
    """The attributes of an event, read once for all expressions that it is tried with."""
    attributes: _Attributes = json.loads(view)
    return attributes


def _compile(value: object, left: list[int], deep: int) -> _Test:
    left[0] -= 1
    if left[0] < 0 or deep < 0:
        raise _costly()
    if not isinstance(value, dict) or len(value) != 1:
        raise _invalid("a filter is an object with one member, its kind")
    [(kind, inner)] = value.items()
    if kind in _COMPARISONS:
        return _comparing(kind, inner, left)
    if kind == "not":
        negated = _compile(inner, left, deep - 1)
        return lambda attributes: not negated(attributes)
    if kind in ("all", "any"):
        tests = [_compile(one, left, deep - 1) for one in _list(inner)]
        if not tests:
            raise _invalid(f"{quoted(kind)} has no filter in it")
        return _all(tests) if kind == "all" else _any(tests)
    raise FilterError(
        Reason.FILTER_DIALECT, f"the filter {quoted(str(kind))} is not offered", names=NAMES
    )


def _comparing(kind: str, wanted: Any, left: list[int]) -> _Test:
    if not isinstance(wanted, dict) or not wanted:
        raise _invalid(f"{quoted(kind)} names no attributes")
    left[0] -= len(wanted)
    if left[0] < 0:
        raise _costly()
    if not all(map(_is_text, (*wanted, *wanted.values()))):
        raise _invalid(f"{quoted(kind)} has a name or a value that is empty, or no text")
    compare, pairs = _COMPARISONS[kind], tuple(wanted.items())
    return lambda attributes: all(
        name in attributes and compare(attributes[name], value) for name, value in pairs
    )


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def _costly() -> FilterError:
    return FilterError(Reason.FILTER_COSTLY, f"there are more than {MOST} filters, or too deep")


def _list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise _invalid("filters are a list")
    return value


def _all(tests: list[_Test]) -> _Test:
    return lambda attributes: all(test(attributes) for test in tests)


def _any(tests: list[_Test]) -> _Test:
    return lambda attributes: any(test(attributes) for test in tests)


def _invalid(text: str) -> FilterError:
    return FilterError(Reason.FILTER_INVALID, text)
