"""The door for filters: a filter as written becomes one that decides, or we say what is wrong.

Dialects of content filters are open. A package adds some with an entry point of the group
``dragoman.filters`` that names a mapping of dialect URI to `Compiler`::

    [project.entry-points."dragoman.filters"]
    wql = "my_package:DIALECTS"
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.metadata import entry_points
from weakref import WeakValueDictionary

from lxml import etree

from filters.dialects import ACTION_DPWS_1_0, ACTION_DPWS_1_1, XPATH_1_0
from filters.documents import parse_own
from filters.events import Event, View
from filters.filter import Expression, Filter
from filters.patterns import TopicPattern
from filters.reasons import FilterError, Reason, Refused
from filters.topic_expressions import TOPIC_DIALECTS, parse_expression
from filters.topics import Topic
from filters.xpath import compile_xpath

ENTRY_POINT_GROUP = "dragoman.filters"
MAX_EXPRESSIONS = 16

Condition = Callable[[Event], bool]
"""A compiled expression. One that raises counts as false."""

Compiler = Callable[[Expression], Condition]
"""Compiles the expressions of one dialect; raises `FilterError` for what it refuses."""

_log = logging.getLogger(__name__)


class Content:
    """One XPath expression over one view, its context node the root element."""

    __slots__ = ("__weakref__", "_xpath", "view")

    def __init__(self, expression: Expression) -> None:
        self._xpath = compile_xpath(expression.text, expression.namespaces)
        self.view = expression.view

    def holds(self, root: etree._Element) -> bool:
        """Whether it is true of the document of *root*; an error while it runs makes it false."""
        try:
            return bool(self._xpath(root))
        except etree.XPathError:
            return False


class Evaluation:
    """One event under evaluation: each view is parsed, and each expression evaluated, once."""

    __slots__ = ("_event", "_roots", "_verdicts")

    def __init__(self, event: Event) -> None:
        self._event = event
        self._roots: dict[View, etree._Element | None] = {}
        self._verdicts: dict[Content, bool] = {}

    def holds(self, content: Content) -> bool:
        """Whether *content* is true of the event; never, where its view is none."""
        verdict = self._verdicts.get(content)
        if verdict is None:
            root = self._root(content.view)
            verdict = self._verdicts[content] = root is not None and content.holds(root)
        return verdict

    def meets(self, condition: Condition) -> bool:
        """Whether *condition*, maybe the code of others, is true of the event."""
        try:
            return bool(condition(self._event))
        except Exception:
            # Their mistake must not cost other subscribers their message.
            _log.debug("a filter failed", exc_info=True)
            return False

    def _root(self, view: View) -> etree._Element | None:
        if view not in self._roots:
            try:
                self._roots[view] = parse_own(self._event.view(view))
            except (LookupError, Refused, etree.XMLSyntaxError, ValueError):
                self._roots[view] = None
        return self._roots[view]


@dataclass(frozen=True, slots=True)
class Shared:
    """Compiled expressions that several filters have in common, as long as one of them lives."""

    patterns: WeakValueDictionary[Expression, TopicPattern] = field(
        default_factory=WeakValueDictionary
    )
    contents: WeakValueDictionary[Expression, Content] = field(default_factory=WeakValueDictionary)


@dataclass(frozen=True, slots=True, eq=False)
class CompiledFilter:
    """A filter that decides. All of its parts must hold."""

    patterns: tuple[TopicPattern, ...]
    contents: tuple[Content, ...]
    conditions: tuple[Condition, ...]

    def matches(self, event: Event) -> bool:
        """Whether *event* passes; a `FilterSet` answers that for many filters at once."""
        return self.selects(event.topic) and self.passes(Evaluation(event))

    def selects(self, topic: Topic) -> bool:
        """Whether the topic expressions hold."""
        return all(pattern.matches(topic) for pattern in self.patterns)

    def passes(self, evaluation: Evaluation) -> bool:
        """Whether all expressions but those over the topic hold."""
        return all(map(evaluation.meets, self.conditions)) and all(
            map(evaluation.holds, self.contents)
        )


def compile(
    filter: Filter,
    *,
    compilers: Mapping[str, Compiler] | None = None,
    shared: Shared | None = None,
) -> CompiledFilter:
    """Compile *filter*.

    Args:
        compilers: The dialects beside topics and XPath; None means ours and all that are
            installed.
        shared: Where expressions are looked for before they are compiled.

    Raises:
        FilterError: ``TOPIC_DIALECT`` and ``FILTER_DIALECT`` with the supported dialects as
            names, ``TOPIC_INVALID``, ``FILTER_INVALID``, ``FILTER_COSTLY``.
    """
    if len(filter.expressions) > MAX_EXPRESSIONS:
        raise FilterError(Reason.FILTER_COSTLY, "the filter has too many expressions")
    compilers = installed_compilers() if compilers is None else compilers
    shared = shared or Shared()
    patterns = []
    for expression in filter.topics:
        pattern = shared.patterns.get(expression)
        if pattern is None:
            pattern = shared.patterns[expression] = parse_expression(expression)
        patterns.append(pattern)
    contents = []
    conditions = []
    for expression in filter.contents + filter.others:
        dialect = expression.dialect.strip() or XPATH_1_0
        if dialect == XPATH_1_0:
            content = shared.contents.get(expression)
            if content is None:
                content = shared.contents[expression] = Content(expression)
            contents.append(content)
        else:
            conditions.append(_condition(dialect, expression, compilers))
    return CompiledFilter(tuple(patterns), tuple(contents), tuple(conditions))


def topic_dialects() -> tuple[str, ...]:
    """The URIs of the topic expression dialects we support."""
    return TOPIC_DIALECTS


def content_dialects(compilers: Mapping[str, Compiler] | None = None) -> tuple[str, ...]:
    """The URIs of all other dialects we support, the default one first."""
    return (XPATH_1_0, *(installed_compilers() if compilers is None else compilers))


@lru_cache(maxsize=1)
def installed_compilers() -> Mapping[str, Compiler]:
    """Our dialects, and those of the packages installed beside us, looked for once.

    A package that cannot be loaded is left out and logged; none can replace a dialect of ours.
    """
    found: dict[str, Compiler] = {}
    for entry_point in entry_points(group=ENTRY_POINT_GROUP):
        try:
            found.update(entry_point.load())
        except Exception:
            _log.warning("filter dialects %s cannot be loaded", entry_point.name, exc_info=True)
    found.pop(XPATH_1_0, None)
    return found | BUILT_IN


def _condition(
    dialect: str, expression: Expression, compilers: Mapping[str, Compiler]
) -> Condition:
    compiler = compilers.get(dialect)
    if compiler is None:
        raise FilterError(
            Reason.FILTER_DIALECT,
            "the filter dialect is not supported",
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


BUILT_IN: dict[str, Compiler] = {ACTION_DPWS_1_0: _actions, ACTION_DPWS_1_1: _actions}
