"""Topics as elements (WS-Topics 1.3): read from messages, written into them, and as a TopicSet."""

import re
from collections.abc import Collection, Mapping
from functools import lru_cache
from types import MappingProxyType

from lxml import etree

from filters import (
    NCNAME,
    FilterError,
    Reason,
    Refused,
    Step,
    Topic,
    dialects,
    parse_expression,
    parse_topics,
    topic_text,
)
from mediation import names
from mediation.filtering import read_topic_expression, topic_dialect_in
from mediation.model.errors import MediationError
from mediation.profiles import TOPIC_SIGNS, Sign
from mediation.soap.envelopes import (
    attributes_of,
    elements,
    namespace_of,
    sorted_namespaces,
    text_of,
    xml_attribute,
    xml_text,
)

_ONE_LEVEL = frozenset({dialects.TOPIC_SIMPLE, dialects.TOPIC_IBM_SIMPLE})
_CARRIED = _ONE_LEVEL | {
    dialects.TOPIC_CONCRETE,
    dialects.TOPIC_FULL,
    dialects.TOPIC_CONCRETE_SET,
}

_NCNAME = re.compile(NCNAME)
_LONG = 4096
"""Characters of a topic, its element's attributes and the namespaces in scope from which on it is
read anew each time."""


def read_topics(
    element: etree._Element | None, prefixes: tuple[tuple[str, str], ...] = ()
) -> tuple[Topic | None, ...]:
    """Read the topics of a notification's ``Topic`` element or header; without any, (None,).
    *prefixes* are what those stand for that are not declared.

    Bad senders write ``|`` unions: an event on each alternative. A dialect that nobody
    knows is not a reason to lose an event: its text is read as a concrete path.
    """
    if element is None or not (text := text_of(element)):
        return (None,)
    namespace, attributes = namespace_of(element), attributes_of(element)
    # Only a prefix asks for what is in scope.
    scope: tuple[tuple[str | None, str], ...] = ()
    if ":" in text:
        scope = tuple(element.nsmap.items())
        if prefixes:
            scope = tuple({**dict[str | None, str](prefixes), **element.nsmap}.items())
    said = (*attributes, *scope)
    if len(text) + sum([len(name or "") + len(value) for name, value in said]) > _LONG:
        return _topics_of(text, namespace, attributes, scope)
    return _kept_topics(text, namespace, attributes, scope)


def _topics_of(
    text: str,
    namespace: str,
    attributes: tuple[tuple[str, str], ...],
    scope: tuple[tuple[str | None, str], ...],
) -> tuple[Topic | None, ...]:
    """The topics of an element of *namespace*, with the namespaces in *scope*."""
    dialect, namespaces = topic_dialect_in(namespace, attributes), sorted_namespaces(scope)
    try:
        return parse_topics(text, dialect, namespaces) or (None,)
    except FilterError as error:
        if error.reason is not Reason.TOPIC_DIALECT:
            raise
        return parse_topics(text, dialects.TOPIC_CONCRETE, namespaces) or (None,)


_kept_topics = lru_cache(256)(_topics_of)  # The same few topics come with every event.


def unsaid_topics(content: etree._Element) -> tuple[Topic | None, ...]:
    """The topics of the content in a ``Message`` whose publisher says none; (None,) where it does
    not tell them either."""
    roots = elements(content)
    signs = TOPIC_SIGNS.get(roots[0].tag, ()) if len(roots) == 1 else ()
    return tuple(sign.topic for sign in signs if _has(roots[0], sign)) or (None,)


def _has(root: etree._Element, sign: Sign) -> bool:
    for element in root.iter(sign.element):
        if sign.attribute is None or element.get(sign.attribute[0]) == sign.attribute[1]:
            return True
    return False


def received_topic(element: etree._Element) -> Topic | None:
    """Read a topic as a consumer; one that cannot be read is None, and no reason to lose an
    event."""
    try:
        return read_topics(element)[0]
    except Refused:
        return None


def written_topic(topic: Topic) -> tuple[str, str]:
    """A topic as a concrete path, escaped, and the declarations of the prefixes in it."""
    prefixes: dict[str, str] = {}
    for step in topic.steps:
        if step.namespace and step.namespace not in prefixes:
            preferred = names.PREFERRED_PREFIXES.get(step.namespace)
            prefixes[step.namespace] = preferred or f"t{len(prefixes)}"
    scope = "".join(f" xmlns:{prefix}={xml_attribute(uri)}" for uri, prefix in prefixes.items())
    return xml_text(topic_text(topic, prefixes)), scope


def is_path(topic: Topic) -> bool:
    """Return whether *topic* has an expression in the dialects of paths: each step is an NCName
    (WS-Topics 1.3, "Topic Expressions"). A broker or WS-Messenger may have others, such as ``a
    b``."""
    return all(_NCNAME.fullmatch(step.name) is not None for step in topic.steps)


def read_one_topic(element: etree._Element) -> Topic:
    """Read the topic whose current message is asked for.

    Raises:
        Refused: ``TOPIC_INVALID``, ``TOPIC_DIALECT``; ``TOPICS_SEVERAL``: it may be several.
    """
    expression = read_topic_expression(element)
    parse_expression(expression)
    text, dialect, scope = expression.text, expression.dialect, expression.namespaces
    several = "*" in text or "//" in text
    topics = () if several else parse_topics(text, dialect, scope)
    if len(topics) != 1:
        raise MediationError(Reason.TOPICS_SEVERAL, "The expression names more than one topic.")
    return topics[0]


def topic_element(
    name: str,
    topic: Topic,
    dialect: str | None,
    declarations: str = "",
    spelled: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """An element that holds *topic*, in *dialect* where the topic can be expressed in it, else in
    Simple for one level and in Concrete for more; *spelled* are the URIs of dialects that differ
    from those of 1.3."""
    text, scope = written_topic(topic)
    dialect = carrying_dialect(topic, dialect)
    said = xml_attribute(spelled.get(dialect, dialect))
    return f"<{name}{declarations}{scope} Dialect={said}>{text}</{name}>"


def messenger_topic_element(name: str, topic: Topic, declarations: str = "") -> str:
    """An element in which consumers of WS-Messenger find *topic*. They take what follows the first
    colon of its text for it, so there is a prefix always (its broker binds this one)."""
    text, scope = written_topic(topic)
    if not topic.steps[0].namespace:
        text, scope = f"ns2:{text}", f'{scope} xmlns:ns2="{names.MESSENGER_TOPICS}"'
    own = xml_attribute(dialects.TOPIC_IBM_SIMPLE)
    return f"<{name}{declarations}{scope} Dialect={own}>{text}</{name}>"


def carrying_dialect(topic: Topic, dialect: str | None) -> str:
    """The dialect in which *topic* is written for a subscriber that used *dialect*."""
    if dialect in _CARRIED and not (dialect in _ONE_LEVEL and len(topic.steps) > 1):
        return dialect
    return dialects.TOPIC_SIMPLE if len(topic.steps) == 1 else dialects.TOPIC_CONCRETE


def topic_set(topics: Collection[Topic]) -> bytes:
    """Write a TopicSet (WS-Topics 1.3): nested elements named after the topics, with
    ``wstop:topic`` on each that is a topic. A topic whose name is not an NCName is left out, for no
    element can have it. A root of the ad hoc namespace has no namespace here either, which only the
    schema does not allow."""
    root = etree.Element(f"{{{names.WSTOP_1_3}}}TopicSet", nsmap={"wstop": names.WSTOP_1_3})
    nodes: dict[tuple[Step, ...], etree._Element] = {(): root}
    for topic in filter(is_path, topics):
        try:
            for depth, step in enumerate(topic.steps, 1):
                if topic.steps[:depth] not in nodes:
                    parent = nodes[topic.steps[: depth - 1]]
                    nodes[topic.steps[:depth]] = etree.SubElement(parent, str(step))
        except ValueError:
            continue
        nodes[topic.steps].set(f"{{{names.WSTOP_1_3}}}topic", "true")
    # In ASCII a name with other letters would be written with references, which no name can have.
    return etree.tostring(root, encoding="utf-8")
