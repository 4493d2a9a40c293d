"""The grammars of the topic expression dialects (WS-Topics 1.3, "Topic Expressions").

One grammar reads them all, the Full dialect's; the others are subsets of it. Two are strings
rather than paths: WS-Messenger's, and Synapse's topic filter.

An undeclared prefix is an error in the specification, and here, unless everybody knows what it
stands for (`KNOWN_PREFIXES`): half of the parties of IHE DSUB declare theirs, and half do not.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from filters.dialects import (
    SPELLINGS,
    TOPIC_CONCRETE,
    TOPIC_CONCRETE_SET,
    TOPIC_FULL,
    TOPIC_IBM_SIMPLE,
    TOPIC_SIMPLE,
    TOPIC_SYNAPSE,
    TOPIC_WSO2,
)
from filters.filter import Expression, Namespaces
from filters.reasons import FilterError, Reason, quoted
from filters.topics.forms import IHE, are_minimal, with_full_forms
from filters.topics.ncname import FURTHER
from filters.topics.patterns import PathStep, TopicPath, TopicPattern
from filters.topics.topics import Step, Topic

KNOWN_PREFIXES: Mapping[str, str] = {
    "tns1": "http://www.onvif.org/ver10/topics",
    "tnsaxis": "http://www.axis.com/2009/event/topics",
    "ihe": IHE,
}
"""Prefixes that peers write without declaring them, and what they stand for then."""

MAX_OCTETS = 4096
MAX_ALTERNATIVES = 64
MAX_STEPS = 64


@dataclass(frozen=True, slots=True)
class _Grammar:
    """The syntax that a dialect allows beyond a path of names."""

    union: bool = False
    children: bool = True
    wildcards: bool = False
    subtree: bool = False
    """A closing ``//.``, and nothing else of the wildcards."""


_GRAMMARS = {
    TOPIC_SIMPLE: _Grammar(children=False),
    TOPIC_CONCRETE: _Grammar(),
    TOPIC_FULL: _Grammar(union=True, wildcards=True),
    TOPIC_CONCRETE_SET: _Grammar(union=True, subtree=True),
}

_TOPIC_FILTERS = (TOPIC_SYNAPSE, TOPIC_WSO2)

TOPIC_DIALECTS = (*_GRAMMARS, TOPIC_IBM_SIMPLE, *_TOPIC_FILTERS)

# An NCName, save that it may begin with a digit or a hyphen: native destinations
# (`orders.2024.new`) become topics too, and somebody must be able to subscribe to them.
_NAME = re.compile(rf"(?!\.)[{FURTHER}]+")
_NO_NAME = re.compile(rf"[^{FURTHER}]")
_CLOSING = re.compile(r"//?\.\Z")


def parse_expression(
    expression: Expression,
    *,
    max_octets: int = MAX_OCTETS,
    max_alternatives: int = MAX_ALTERNATIVES,
    max_steps: int = MAX_STEPS,
) -> TopicPattern:
    """Compile a topic expression of any supported dialect. A minimal form is selected together with
    the full one (`filters.topics.forms`).

    Raises:
        FilterError: ``TOPIC_DIALECT``, or ``TOPIC_INVALID`` if the text is not valid in its dialect
            or is over a limit.
    """
    paths = _paths(expression, max_octets, max_alternatives, max_steps)
    return TopicPattern(with_full_forms(paths))


def asks_for_minimal(expression: Expression) -> bool:
    """Return whether *expression*, which `parse_expression` takes, names minimal forms alone."""
    # Asked of every subscription at every start, and nearly all are done here.
    if "Minimal" not in expression.text:
        return False
    return are_minimal(_paths(expression, MAX_OCTETS, MAX_ALTERNATIVES, MAX_STEPS))


def _paths(
    expression: Expression, max_octets: int, max_alternatives: int, max_steps: int
) -> tuple[TopicPath, ...]:
    """Read the alternatives of *expression*, each once."""
    dialect = topic_dialect(expression.dialect)
    text = _text(expression.text, max_octets)
    if dialect == TOPIC_IBM_SIMPLE:
        return _ibm_paths(text, max_steps)
    namespaces = dict(expression.namespaces)
    if dialect in _TOPIC_FILTERS:
        path = _path(text.strip("/"), _GRAMMARS[TOPIC_CONCRETE], namespaces, max_steps)
        return (_subtree_of(path),)
    grammar = _GRAMMARS[dialect]
    paths = [
        _path(alternative, grammar, namespaces, max_steps)
        for alternative in _alternatives(text, grammar, max_alternatives)
    ]
    return tuple(dict.fromkeys(paths))


def parse_topics(text: str, dialect: str, namespaces: Namespaces) -> tuple[Topic, ...]:
    """Read the topic of a notification, which bad senders write as an expression.

    ``a|b`` is both topics, a closing ``/.`` or ``//.`` (ONVIF devices) is dropped, and a path is
    taken in every dialect. WS-Messenger's empty topic is not a topic.

    Raises:
        FilterError: ``TOPIC_DIALECT``; ``TOPIC_INVALID`` for wildcards and anything else that
            names no topic.
    """
    dialect = topic_dialect(dialect)
    return _topics(_text(text, MAX_OCTETS), dialect, namespaces)


@lru_cache(maxsize=1024)
def _topics(text: str, dialect: str, namespaces: Namespaces) -> tuple[Topic, ...]:
    if dialect == TOPIC_IBM_SIMPLE:
        name = _after_colon(text)
        if name == ">":
            raise _invalid("a message cannot be on all topics")
        return (Topic((Step(None, name),)),) if name else ()
    if dialect in _TOPIC_FILTERS:
        text = text.strip("/")
    prefixes = dict(namespaces)
    grammar = _GRAMMARS[TOPIC_CONCRETE]
    topics: dict[Topic, None] = {}
    for alternative in _alternatives(text, _GRAMMARS[TOPIC_FULL], MAX_ALTERNATIVES):
        path = _path(_CLOSING.sub("", alternative), grammar, prefixes, MAX_STEPS)
        topics[Topic(tuple(Step(step.namespace, step.name or "") for step in path.steps))] = None
    return tuple(topics)


def topic_dialect(dialect: str) -> str:
    """The dialect that *dialect* means, misspellings and surrounding blanks forgiven.

    None at all means Simple: CXF's own client sends none.

    Raises:
        FilterError: ``TOPIC_DIALECT``, with the supported ones as names.
    """
    trimmed = dialect.strip() or TOPIC_SIMPLE
    known = SPELLINGS.get(trimmed, trimmed)
    if known not in TOPIC_DIALECTS:
        raise FilterError(
            Reason.TOPIC_DIALECT,
            f"the topic expression dialect {quoted(trimmed)} is not offered",
            value=dialect,
            names=TOPIC_DIALECTS,
        )
    return known


def _text(text: str, max_octets: int) -> str:
    if len(text) > max_octets or len(text.encode(errors="surrogatepass")) > max_octets:
        raise _invalid("the topic expression is too long")
    return text.strip()


def _alternatives(text: str, grammar: _Grammar, limit: int) -> Iterator[str]:
    alternatives = text.split("|")
    if len(alternatives) > limit:
        raise _invalid("the topic expression has too many alternatives")
    if len(alternatives) > 1 and not grammar.union:
        raise _invalid("the topic expression dialect does not allow alternatives (|)")
    return map(str.strip, alternatives)


def _path(text: str, grammar: _Grammar, namespaces: Mapping[str, str], max_steps: int) -> TopicPath:
    """Read one alternative.

    Splitting at the slashes makes ``//`` an empty piece, and ``p://b`` the pieces ``p:``, an
    empty one, and ``b``. ``.`` selects the topic it stands behind, so only the slashes before
    it are kept.
    """
    root, *pieces = text.split("/")
    if pieces and not grammar.children:
        raise _invalid("the topic expression dialect allows a root topic only")
    if (not root or root.endswith(":")) and len(pieces) > 1 and not pieces[0]:
        steps = [_anywhere(root, pieces[1], grammar, namespaces)]
        pieces = pieces[2:]
    else:
        steps = [_step(root, grammar, namespaces, root=True)]
    if len(steps) + sum(map(bool, pieces)) > max_steps:
        raise _invalid("the topic expression has too many steps")
    doubled = descendant = False
    for position, piece in enumerate(pieces, 1):
        if piece == ".":
            closing = grammar.subtree and doubled and position == len(pieces)
            if not (grammar.wildcards or closing):
                raise _invalid('the topic expression dialect does not allow the step "." there')
            descendant = descendant or doubled
        elif piece:
            if doubled and not grammar.wildcards:
                raise _no_pattern()
            step = _step(piece, grammar, namespaces)
            steps.append(replace(step, descendant=descendant or doubled))
            descendant = False
        elif doubled:
            raise _invalid("the topic expression has an empty step")
        doubled = not piece
    if doubled:
        raise _invalid("the topic expression has an empty step")
    return TopicPath(tuple(steps), below=descendant)


def _anywhere(root: str, name: str, grammar: _Grammar, namespaces: Mapping[str, str]) -> PathStep:
    """The root step of ``p://b`` or ``//b``: at any depth of one namespace."""
    if not grammar.wildcards:
        raise _no_pattern()
    namespace = _declared(root[:-1], namespaces) if root else None
    if name == "*":
        return PathStep(None, namespace, descendant=True)
    if not _NAME.fullmatch(name):
        raise _no_name(name)
    return PathStep(name, namespace, descendant=True)


def _step(
    text: str, grammar: _Grammar, namespaces: Mapping[str, str], *, root: bool = False
) -> PathStep:
    prefix, colon, name = text.partition(":")
    if text == "*" or (root and colon and name == "*"):
        if not grammar.wildcards:
            raise _no_pattern()
        if not root:
            return PathStep(None, any_namespace=True)
        return PathStep(None, _declared(prefix, namespaces) if colon else None)
    if not all(map(_NAME.fullmatch, text.split(":"))):
        raise _no_name(text)
    if not colon:
        return PathStep(text)
    if ":" in name:
        raise _no_name(text)
    return PathStep(name, _declared(prefix, namespaces))


def _no_pattern() -> FilterError:
    return _invalid("the topic is a pattern, and its dialect takes one topic alone")


def _no_name(text: str) -> FilterError:
    """Say what is wrong with *text*, where a topic's name belongs."""
    if not text:
        return _invalid("the topic expression has an empty name")
    why = "has several colons" if text.count(":") > 1 else ""
    for part in "" if why else text.split(":"):
        if not part:
            why = "has nothing before or behind its colon"
        elif part.startswith("."):
            why = "begins with a dot"
        elif wrong := _NO_NAME.search(part):
            why = "has a space" if wrong[0].isspace() else f"has the character {quoted(wrong[0])}"
    return _invalid(f"{quoted(text)} is not a topic name (it {why or 'cannot be one'})")


def _declared(prefix: str, namespaces: Mapping[str, str]) -> str:
    namespace = (namespaces.get(prefix) or KNOWN_PREFIXES.get(prefix)) if prefix else None
    if not namespace:
        raise _invalid(f"the prefix {quoted(prefix)} of the topic expression is not declared")
    return _namespace(namespace)


def _namespace(namespace: str) -> str:
    if "{" in namespace or "}" in namespace:
        # No URI has braces, and Clark notation cannot be told apart with them.
        raise _invalid("the topic expression's namespace is not a URI")
    return namespace


def _ibm_paths(text: str, max_steps: int) -> tuple[TopicPath, ...]:
    """WS-Messenger's topic: the text after the first colon, in any namespace; ``>`` is all.

    It is compared with whole topics as text, so ``a/b`` is a topic of that name (as another
    WS-Messenger publisher writes it) and the child ``b`` of ``a`` (as all others do).
    """
    name = _after_colon(text)
    if name in ("", ">"):
        return (TopicPath((PathStep(None, any_namespace=True),), below=True),)
    paths = [TopicPath((PathStep(name, any_namespace=True),))]
    pieces = name.split("/")
    if len(pieces) > max_steps:
        raise _invalid("the topic expression has too many steps")
    if len(pieces) > 1 and all(pieces):
        paths.append(TopicPath(tuple(PathStep(piece, any_namespace=True) for piece in pieces)))
    return tuple(paths)


def _after_colon(text: str) -> str:
    _, colon, name = text.partition(":")
    return (name if colon else text).strip()


def _subtree_of(path: TopicPath) -> TopicPath:
    """Synapse's topic filter: the topic and all below it. Without a prefix it names no namespace,
    because Synapse knows none, and so means any."""
    steps = tuple(
        replace(step, any_namespace=True) if step.namespace is None else step for step in path.steps
    )
    return TopicPath(steps, below=True)


def _invalid(text: str) -> FilterError:
    return FilterError(Reason.TOPIC_INVALID, text)
