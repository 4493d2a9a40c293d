"""Compiles filters: turns a filter as written into one that decides, or says what is wrong with it.

Dialects of content filters are open. A package adds some with an entry point of the group
``dragoman.filters`` that names a mapping of dialect URI to `Compiler`::

    [project.entry-points."dragoman.filters"]
    wql = "my_package:DIALECTS"
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import entry_points

from lxml import etree

from filters.compiling.attributes import attribute_condition
from filters.compiling.ebrim import translate_query
from filters.compiling.event_queries import translate_event_query
from filters.compiling.topic_expressions import TOPIC_DIALECTS, parse_expression
from filters.dialects import (
    ACTION_DPWS_1_0,
    ACTION_DPWS_1_1,
    ATTRIBUTE_FILTERS,
    EBRIM_QUERY,
    EVENT_QUERY,
    XPATH_1_0,
    XPATH_LEXICAL,
)
from filters.documents import parse_own
from filters.events import Event
from filters.filter import Expression, Filter
from filters.reasons import FilterError, Reason, Refused, quoted
from filters.topics.patterns import TopicPattern
from filters.topics.topics import Topic
from filters.xpath import compile_xpath, translate_lexical

ENTRY_POINT_GROUP = "dragoman.filters"
MAX_EXPRESSIONS = 16

Condition = Callable[[Event], bool]
"""A compiled expression. One that raises counts as false."""

Compiler = Callable[[Expression], Condition]
"""Compiles the expressions of one dialect; raises `FilterError` to refuse one."""

_log = logging.getLogger(__name__)


class Content:
    """A compiled XPath expression over one view; its context node is the root element."""

    __slots__ = ("_xpath", "view")

    def __init__(self, expression: Expression) -> None:
        self._xpath = compile_xpath(expression.text, expression.namespaces)
        self.view = expression.view

    def holds(self, event: Event) -> bool:
        """Return True if it is true of *event*. False if the event lacks the view, or the
        evaluation fails."""
        try:
            return bool(self._xpath(parse_own(event.view(self.view))))
        except (LookupError, Refused, etree.XMLSyntaxError, etree.XPathError, ValueError):
            return False


@dataclass(frozen=True, slots=True, eq=False)
class CompiledFilter:
    """A filter that decides. All of its parts must hold."""

    patterns: tuple[TopicPattern, ...]
    contents: tuple[Content, ...]
    conditions: tuple[Condition, ...]

    def matches(self, event: Event) -> bool:
        """Return True if *event* passes. A `FilterSet` answers that for many filters at once."""
        return (
            self.selects(event.topic)
            and all(holds(condition, event) for condition in self.conditions)
            and all(content.holds(event) for content in self.contents)
        )

    def selects(self, topic: Topic) -> bool:
        """Return True if all topic expressions select *topic*."""
        return all(pattern.matches(topic) for pattern in self.patterns)


def compile(filter: Filter, *, compilers: Mapping[str, Compiler] | None = None) -> CompiledFilter:
    """Compile *filter*.

    Args:
        compilers: The dialects beside topics and XPath; None means ours and all that are
            installed.

    Raises:
        FilterError: ``TOPIC_DIALECT`` and ``FILTER_DIALECT`` with the supported dialects as
            names, ``TOPIC_INVALID``, ``FILTER_INVALID``, ``FILTER_COSTLY``.
    """
    patterns = tuple(map(parse_expression, filter.topics))
    contents, others = contents_of(filter)
    return CompiledFilter(patterns, tuple(map(Content, contents)), conditions_of(others, compilers))


def contents_of(filter: Filter) -> tuple[tuple[Expression, ...], tuple[Expression, ...]]:
    """Split the expressions of *filter* into XPath expressions, also those that others are
    translated into, and those of other dialects.

    Raises:
        FilterError: ``FILTER_COSTLY``: it has too many; as translators raise it.
    """
    if len(filter.expressions) > MAX_EXPRESSIONS:
        raise FilterError(Reason.FILTER_COSTLY, "the filter has too many expressions")
    contents: list[Expression] = []
    others: list[Expression] = []
    for written in filter.contents + filter.others:
        expression = translated(written)
        xpath = (expression.dialect.strip() or XPATH_1_0) == XPATH_1_0
        (contents if xpath else others).append(expression)
    return tuple(contents), tuple(others)


def translated(expression: Expression) -> Expression:
    """The expression of XPath that means what *expression* says in its dialect; *expression*
    itself where its dialect has no translator.

    Raises:
        FilterError: As the translator.
    """
    translator = TRANSLATORS.get(expression.dialect.strip())
    return expression if translator is None else translator(expression)


def conditions_of(
    others: tuple[Expression, ...], compilers: Mapping[str, Compiler] | None = None
) -> tuple[Condition, ...]:
    """Compile expressions of other dialects than XPath and those of topics.

    Raises:
        FilterError: As `compile`.
    """
    if not others:
        return ()
    compilers = installed_compilers() if compilers is None else compilers
    return tuple(
        _condition(expression.dialect.strip(), expression, compilers) for expression in others
    )


def holds(condition: Condition, event: Event) -> bool:
    """Return True if *condition*, which may be a third party's code, is true of *event*."""
    try:
        return bool(condition(event))
    except Exception:
        # Their mistake must not cost other subscribers their message.
        _log.debug("filters.failed", exc_info=True)
        return False


def topic_dialects() -> tuple[str, ...]:
    """Return the URIs of the supported topic expression dialects."""
    return TOPIC_DIALECTS


def content_dialects(compilers: Mapping[str, Compiler] | None = None) -> tuple[str, ...]:
    """Return the URIs of all other supported dialects, the default one first."""
    written = (dialect for dialect in TRANSLATORS if dialect != XPATH_LEXICAL)
    return (XPATH_1_0, *written, *(installed_compilers() if compilers is None else compilers))


@lru_cache(maxsize=1)
def installed_compilers() -> Mapping[str, Compiler]:
    """Load our dialects and those of installed packages, once.

    A package that cannot be loaded is left out and logged; none can replace a dialect of ours.
    """
    found: dict[str, Compiler] = {}
    for entry_point in entry_points(group=ENTRY_POINT_GROUP):
        try:
            found.update(entry_point.load())
        except Exception:
            _log.warning(
                "filters.dialects_not_loaded", extra={"plugin": entry_point.name}, exc_info=True
            )
    for ours in (XPATH_1_0, *TRANSLATORS):
        found.pop(ours, None)
    return found | BUILT_IN


def _condition(
    dialect: str, expression: Expression, compilers: Mapping[str, Compiler]
) -> Condition:
    compiler = compilers.get(dialect)
    if compiler is None:
        raise FilterError(
            Reason.FILTER_DIALECT,
            f"the filter dialect {quoted(dialect)} is not offered",
            value=expression.dialect,
            names=content_dialects(compilers),
        )
    try:
        return compiler(expression)
    except FilterError:
        raise
    except Exception as exc:
        raise FilterError(Reason.FILTER_INVALID, "the filter is not valid in its dialect") from exc


def _actions(expression: Expression) -> Condition:
    """The Action dialects of DPWS: a list of action URIs, of which one must match.

    Devices compare in three ways; ours is equality, else a prefix that ends at a slash (DPWS 1.1,
    "Filtering", by the matching rule of WS-Discovery for URIs).
    """
    exact = frozenset(expression.text.split())
    if not exact:
        raise FilterError(Reason.FILTER_INVALID, "the filter lists no action")
    prefixes = tuple(f"{action.rstrip('/')}/" for action in exact)

    def matches(event: Event) -> bool:
        action = event.action
        return action is not None and (action in exact or action.startswith(prefixes))

    return matches


TRANSLATORS: Mapping[str, Callable[[Expression], Expression]] = {
    EBRIM_QUERY: translate_query,
    EVENT_QUERY: translate_event_query,
    XPATH_LEXICAL: translate_lexical,
}
"""Dialects whose expressions are written in XPath instead, so that they are indexed with it."""
BUILT_IN: dict[str, Compiler] = {
    ACTION_DPWS_1_0: _actions,
    ACTION_DPWS_1_1: _actions,
    ATTRIBUTE_FILTERS: attribute_condition,
}
