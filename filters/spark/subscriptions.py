"""Reads the filters of a gateway's subscriptions: rows of its table, and answers of its API.

A row of the table ``subscriptions`` (`spark.read.jdbc`) has the filter as JSON in its column
``filter``; a subscription of ``GET /api/v1/subscriptions``, or of ``dragoman subscriptions list
--output json``, as an object of that name. Either way it is exact: dialects and namespaces are
what the subscriber meant.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from filters.compiling.compiled import compile
from filters.dialects import XPATH_1_0
from filters.events import PAYLOAD, View
from filters.filter import Expression, Filter
from filters.reasons import FilterError

PARTS = ("topics", "contents", "others")


class OtherView(ValueError):
    """A filter asks about more than a payload with its topic, action and properties."""


def filter_of(value: str | Mapping[str, Any]) -> Filter:
    """The filter that a gateway wrote as *value*, checked.

    Args:
        value: JSON, or what it says: an object with ``topics``, ``contents`` and ``others``, each a
            list of expressions with ``text``, ``dialect``, ``namespaces`` and ``view``, as objects
            or in this order.

    Raises:
        OtherView: An expression is over another document than the payload.
        ValueError: It is no filter, or one that cannot be compiled.
    """
    try:
        parts = json.loads(value) if isinstance(value, str) else value
    except ValueError:
        parts = None
    if not isinstance(parts, Mapping) or not any(parts.get(name) is not None for name in PARTS):
        shown = f" and not {value:.40}" if isinstance(value, str) else ""
        raise ValueError(f"filter has to be an object with {', '.join(PARTS)}{shown}")
    made = Filter(*(tuple(map(_expression, parts.get(name) or ())) for name in PARTS))
    for one in made.expressions:
        if one.view != PAYLOAD:
            raise OtherView(f"{one.text!r} is over the view {one.view!r}, not over the payload")
    try:
        compile(made)
    except FilterError as error:
        raise ValueError(error.text) from error
    return made


def subscriptions_in(document: Any) -> list[Mapping[str, Any]]:
    """The subscriptions in an answer of the API, or in a list of them.

    Raises:
        ValueError: It is neither.
    """
    found = document.get("subscriptions") if isinstance(document, dict) else document
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise ValueError("neither a list of subscriptions nor an object with one")
    if isinstance(document, dict) and document.get("next"):
        raise ValueError("one page of several: dragoman subscriptions list --output json has all")
    return found


def _expression(value: Any) -> Expression:
    if isinstance(value, Mapping):
        value = [value.get(name) for name in ("text", "dialect", "namespaces", "view")]
    if not isinstance(value, Iterable) or isinstance(value, str):
        raise ValueError("an expression is an object or a list")
    text, dialect, namespaces, view = (*value, None, None, None, None)[:4]
    if not isinstance(text, str) or not isinstance(dialect, str | None):
        raise ValueError("an expression has a text and a dialect")
    pairs = dict(namespaces or ()).items()
    scope = tuple(sorted((prefix, uri) for prefix, uri in pairs if uri is not None))
    return Expression(text, dialect or XPATH_1_0, scope, View(view or PAYLOAD))
