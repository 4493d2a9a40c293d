"""Queries: a text in a dialect, compiled, and what it is true of."""

from dataclasses import dataclass
from math import inf
from typing import TypeAlias

from filters.dialects import QUERY_REGEX, QUERY_SQL, QUERY_STRING, QUERY_XQUERY, XPATH_1_0
from filters.queries.descriptions import Described
from filters.queries.regular import RegularQuery, is_installed
from filters.queries.selectors import Selector, parse_selector
from filters.queries.trees import TreeQuery
from filters.queries.words import WordQuery, parse_words
from filters.queries.xquery import XQuery, XQueryWorker
from filters.reasons import FilterError, Reason, quoted

Compiled: TypeAlias = WordQuery | RegularQuery | Selector | TreeQuery | XQuery


@dataclass(frozen=True, slots=True, eq=False)
class Query:
    """A query. A `Catalogue` says of many things at once which ones it is true of."""

    dialect: str
    text: str
    compiled: Compiled

    def matches(self, one: Described) -> bool:
        """Return True if the query is true of *one*; False also where that costs too much to find
        out."""
        return self.decide(one) is True

    def decide(self, one: Described) -> bool | None:
        """Return whether the query is true of *one*; None where that costs too much to find out."""
        match self.compiled:
            case Selector() as selector:
                return selector.holds(one.properties) is True
            case TreeQuery() as tree:
                return tree.holds(one.documents)
            case XQuery() as xquery:
                return xquery.decide([one.documents])[0]
            case words_or_regular:
                return words_or_regular.holds(one)


def query_dialects(xquery: XQueryWorker | None = None) -> tuple[str, ...]:
    """Return the dialects that `compile_query` takes here."""
    return (
        QUERY_STRING,
        *((QUERY_REGEX,) if is_installed() else ()),
        QUERY_SQL,
        XPATH_1_0,
        *((QUERY_XQUERY,) if xquery is not None else ()),
    )


def compile_query(
    dialect: str, text: str, *, xquery: XQueryWorker | None = None, seconds: float = inf
) -> Query:
    """Compile *text*.

    Args:
        seconds: The time for that; only XQuery takes any.
        xquery: What evaluates XQuery, and goes on doing so for the query; None is nothing.

    Raises:
        FilterError: ``QUERY_DIALECT`` with the supported dialects as names; ``QUERY_INVALID``: it
            is not valid in its dialect, or is over a limit.
    """
    dialect = dialect.strip()
    offered = query_dialects(xquery)
    if dialect not in offered:
        raise FilterError(
            Reason.QUERY_DIALECT,
            f"the query dialect {quoted(dialect)} is not offered",
            value=dialect,
            names=offered,
        )
    try:
        return Query(dialect, text, _compile(dialect, text, xquery, seconds))
    except FilterError as exc:
        if exc.reason in (Reason.FILTER_INVALID, Reason.FILTER_COSTLY):
            raise FilterError(Reason.QUERY_INVALID, exc.text, value=text) from exc
        raise


def _compile(dialect: str, text: str, xquery: XQueryWorker | None, seconds: float) -> Compiled:
    if dialect == QUERY_STRING:
        return parse_words(text)
    if dialect == QUERY_REGEX:
        return RegularQuery(text)
    if dialect == QUERY_SQL:
        return parse_selector(text)
    if dialect == XPATH_1_0:
        return TreeQuery(text)
    assert xquery is not None
    return XQuery(text, xquery, seconds)
