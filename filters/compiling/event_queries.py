"""Event queries of Windows (Windows Event Log, "Consuming Events"; MS-EVEN6) as expressions of
XPath 1.0 over an event that is a document of its own.

    <QueryList><Query Path="Security">
      <Select>*[System[EventID=4624]]</Select><Suppress>*[EventData[Data='x']]</Suppress>
    </Query></QueryList>

An event matches when a Query selects it, by one of its Selects and none of its Suppresses, each in
its channel. Names without a prefix are of the namespace of Windows events, and a path begins above
the event. What Windows has and XPath 1.0 has not, `timediff` and `band` and an order of texts and
times, is refused: without it another set of events would match.
"""

import re
from collections.abc import Iterator
from functools import lru_cache

from lxml import etree

from filters.dialects import XPATH_1_0
from filters.documents import parse_document, text_of
from filters.filter import Expression
from filters.reasons import FilterError, Reason
from filters.xpath import check, parse
from filters.xpath.syntax import (
    Literal,
    NameTest,
    Node,
    Operation,
    Path,
    Step,
    walk,
)

WINDOWS_EVENTS = "http://schemas.microsoft.com/win/2004/08/events/event"
MAX_TEXT = 8192
"""Characters of a query list."""
MAX_SELECTS = 64
"""Selects and Suppresses of a query list; the expression made of them has limits of its own."""

_SCOPE = (("e", WINDOWS_EVENTS),)
_ORDERING = frozenset({"<", "<=", ">", ">="})
_BEYOND = re.compile(r"\b(timediff|band)\s*\(")
_AXIS = re.compile(r"\s*(?:[a-z-]+\s*::\s*)?")


def translate_event_query(expression: Expression) -> Expression:
    """Translate a ``QueryList``, or a path alone.

    Raises:
        FilterError: ``FILTER_INVALID`` it is not an event query, or one that XPath 1.0 cannot
            express; ``FILTER_COSTLY``.
    """
    if len(expression.text) > MAX_TEXT:
        raise FilterError(
            Reason.FILTER_COSTLY, f"the event query has more than {MAX_TEXT} characters"
        )
    return Expression(_translate(expression.text), XPATH_1_0, _SCOPE, expression.view)


@lru_cache(maxsize=256)
def _translate(text: str) -> str:
    if not text.lstrip().startswith("<"):
        return _select(text, None)
    root = parse_document(text.strip().encode(errors="replace"))
    if etree.QName(root).localname != "QueryList":
        raise _invalid("the event query is not a QueryList")
    queries = [_query(query) for query in _children(root, "Query")]
    if not queries:
        raise _invalid("the event query has no Query")
    whole = " or ".join(queries)
    check(whole, _SCOPE)
    return whole


def _query(query: etree._Element) -> str:
    """The condition of one Query."""
    path = query.get("Path")
    selects = [_part(each, path) for each in _children(query, "Select")]
    suppresses = [_part(each, path) for each in _children(query, "Suppress")]
    if not selects:
        raise _invalid("a Query of the event query has no Select")
    if len(selects) + len(suppresses) > MAX_SELECTS:
        raise FilterError(Reason.FILTER_COSTLY, "the event query has too many Selects")
    condition = _any_of(selects)
    if suppresses:
        condition = f"({condition} and not({_any_of(suppresses)}))"
    return condition


def _any_of(conditions: list[str]) -> str:
    return conditions[0] if len(conditions) == 1 else f"({' or '.join(conditions)})"


def _part(element: etree._Element, path: str | None) -> str:
    return _select(text_of(element), element.get("Path", path))


def _select(text: str, path: str | None) -> str:
    """The condition of the path expression *text* over the events of a channel."""
    conditions = []
    if path is not None and path.strip():
        conditions.append(f"/e:Event/e:System/e:Channel={_literal(path.strip())}")
    if text != "*" or not conditions:
        conditions.append(_relocated(text))
    return f"({' and '.join(conditions)})"


def _literal(path: str) -> str:
    if path.lower().startswith("file:") or "'" in path:
        raise _invalid("a Path of the event query is not the name of a channel")
    return f"'{path}'"


def _relocated(text: str) -> str:
    """*text* with the names of Windows events, from the document on.

    Raises:
        FilterError: As `translate_event_query`.
    """
    beyond = _BEYOND.search(text)
    if beyond is not None:
        raise _invalid(f"the event query calls {beyond[1]}(), which XPath 1.0 does not have")
    tree = parse(Expression(text))
    for node in walk(tree):
        if (
            isinstance(node, Operation)
            and node.operator in _ORDERING
            and (isinstance(node.left, Literal) or isinstance(node.right, Literal))
        ):
            raise _invalid(
                f"the event query compares a text by {node.operator}, which XPath 1.0 does for "
                "numbers alone"
            )
    marks = [(place, 1, "e:") for place in _names(tree, text)]
    marks += [(place, 0, "/") for place in _beginnings(tree)]
    for place, _, mark in sorted(marks, reverse=True):
        text = text[:place] + mark + text[place:]
    return text


def _names(tree: Node, text: str) -> Iterator[int]:
    """The places in *text* of names of elements without a prefix."""
    for node in walk(tree):
        for step in node.steps if isinstance(node, Path) else ():
            named = isinstance(step.test, NameTest) and step.test.local is not None
            if named and step.axis not in ("attribute", "namespace"):
                yield _place_of_name(step, text)


def _place_of_name(step: Step, text: str) -> int:
    found = _AXIS.match(text, step.span[0])
    assert found is not None, "it matches nothing, too"
    return found.end()


def _beginnings(tree: Node) -> Iterator[int]:
    """The places of paths that begin at the context node of the whole expression."""
    for node in walk(tree, predicates=False):
        if isinstance(node, Path) and not node.absolute and node.start is None:
            yield node.span[0]


def _children(element: etree._Element, name: str) -> list[etree._Element]:
    """The children with that name: the query list has no namespace, or that of what is around."""
    return [
        child
        for child in element.iterchildren(etree.Element)
        if etree.QName(child).localname == name
    ]


def _invalid(text: str) -> FilterError:
    return FilterError(Reason.FILTER_INVALID, text)
