"""Topic namespaces: the documents that say which topics there are, and whether others may be added
(WS-Topics 1.3, "Topic Namespaces")."""

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from lxml import etree

from filters import (
    EVERYTHING,
    Filter,
    FilterError,
    Reason,
    Refused,
    Step,
    Topic,
    parse_document,
    parse_expression,
    parse_topics,
    quoted,
)
from filters.dialects import TOPIC_CONCRETE
from mediation import names
from mediation.model.errors import MediationError
from mediation.soap.envelopes import namespaces_of

WSTOP = names.WSTOP_1_3
MAX_TOPICS = 10_000
"""Topics of one document."""
_NCNAME = re.compile(r"[^\W\d][\w.\-\u00b7]*")
_BOOLEANS = {"true": True, "1": True, "false": False, "0": False, "": False}


@dataclass(frozen=True, slots=True)
class TopicNamespace:
    """One topic namespace: its topics, each with whether it is ``final``. To a final topic no
    others than those of the document are added, nor any root topic to a final namespace."""

    uri: str
    topics: dict[Topic, bool]
    final: bool = False


def read_topic_namespace(octets: bytes) -> TopicNamespace:
    """Read a ``wstop:TopicNamespace`` document.

    Raises:
        Refused: It is not a topic namespace; the text says what is wrong, and in which line.
    """
    root = parse_document(octets)
    if root.tag != f"{{{WSTOP}}}TopicNamespace":
        raise _wrong(root, f"its root element is not TopicNamespace of {WSTOP}")
    uri = (root.get("targetNamespace") or "").strip()
    if not uri:
        raise _wrong(root, "the TopicNamespace has no targetNamespace")
    topics: dict[Topic, bool] = {}
    for element in root.iterchildren(f"{{{WSTOP}}}Topic"):
        base = _parent(element)
        _read_topic(element, (*base, Step(uri, _name(element))), topics)
    return TopicNamespace(uri, topics, _final(root))


def _read_topic(
    element: etree._Element, steps: tuple[Step, ...], topics: dict[Topic, bool]
) -> None:
    topic = Topic(steps)
    if topic in topics:
        raise _wrong(element, f"the topic {topic} is there twice")
    topics[topic] = _final(element)
    if len(topics) > MAX_TOPICS:
        raise _wrong(element, f"there are more than {MAX_TOPICS} topics")
    for child in element.iterchildren(f"{{{WSTOP}}}Topic"):
        if child.get("parent") is not None:
            raise _wrong(child, "only a topic directly below TopicNamespace has a parent")
        _read_topic(child, (*steps, Step(None, _name(child))), topics)


def _parent(element: etree._Element) -> tuple[Step, ...]:
    """The topic of another namespace that a topic is attached to; nothing where it is a root."""
    text = element.get("parent")
    if text is None:
        return ()
    try:
        [topic] = parse_topics(text, TOPIC_CONCRETE, namespaces_of(element))
    except (FilterError, ValueError) as error:
        raise _wrong(element, f"the parent {quoted(text)} is not a topic") from error
    return topic.steps


def _name(element: etree._Element) -> str:
    name = (element.get("name") or "").strip()
    if not _NCNAME.fullmatch(name):
        raise _wrong(element, f"{quoted(name)} is not the name of a topic (an NCName)")
    return name


def _final(element: etree._Element) -> bool:
    text = (element.get("final") or "").strip()
    if text not in _BOOLEANS:
        raise _wrong(element, f"final is {quoted(text)}, neither true nor false")
    return _BOOLEANS[text]


def _wrong(element: etree._Element, text: str) -> MediationError:
    return MediationError(Reason.MESSAGE_INVALID, f"line {element.sourceline}: {text}")


class TopicNamespaces:
    """The topic namespaces of a gateway.

    Args:
        fixed: There are no topics but theirs.
    """

    def __init__(self, namespaces: Iterable[TopicNamespace] = (), *, fixed: bool = False) -> None:
        self.fixed = fixed
        self._topics: dict[Topic, bool] = {}
        self._final_roots: dict[str, bool] = {}
        for namespace in namespaces:
            if namespace.uri in self._final_roots:
                raise MediationError(
                    Reason.MESSAGE_INVALID, f"the topic namespace {namespace.uri} is there twice"
                )
            self._final_roots[namespace.uri] = namespace.final
            self._topics.update(namespace.topics)

    @property
    def topics(self) -> Collection[Topic]:
        """All topics of the documents, in their order."""
        return self._topics.keys()

    def allows(self, topic: Topic) -> bool:
        """Return whether *topic* is one, or may be added.

        A topic is added below the longest path that is one: not where that is final, nor at the
        root of a final namespace, nor where another namespace that is final would be attached.
        """
        if topic in self._topics:
            return True
        if self.fixed:
            return False
        known = next(self._above(topic), None)
        if known is not None and self._topics[known]:
            return False
        depth = len(known.steps) if known is not None else 0
        added = topic.steps[depth:]
        return not any(self._final_roots.get(step.namespace or "") for step in added)

    def _above(self, topic: Topic) -> Iterator[Topic]:
        for depth in range(len(topic.steps) - 1, 0, -1):
            shorter = Topic(topic.steps[:depth])
            if shorter in self._topics:
                yield shorter

    def check(self, topics: Iterable[Topic]) -> None:
        """Refuse topics that cannot be.

        Raises:
            MediationError: ``TOPIC_UNSUPPORTED``.
        """
        if not self._topics and not self.fixed:
            return
        for topic in topics:
            if not self.allows(topic):
                raise MediationError(
                    Reason.TOPIC_UNSUPPORTED,
                    f"The topic {quoted(str(topic))} is not known, and none can be added there.",
                )

    def check_filter(self, filter: Filter) -> None:
        """Refuse a filter that names topics, none of which can be.

        Raises:
            Refused: ``TOPIC_UNSUPPORTED``; or an expression is none.
        """
        if filter == EVERYTHING:
            return
        for expression in filter.topics:
            named = parse_expression(expression).topics
            if named and not any(map(self.allows, named)):
                self.check(named)


def read_topic_namespaces(
    documents: Iterable[tuple[str, bytes]], *, fixed: bool = False
) -> TopicNamespaces:
    """Read *documents*, each with the name that a message calls it by.

    Raises:
        MediationError: One cannot be read, or two are of one namespace.
    """
    namespaces = []
    for name, octets in documents:
        try:
            namespaces.append(read_topic_namespace(octets))
        except Refused as refused:
            raise MediationError(refused.reason, f"{name}: {refused.text}") from refused
    return TopicNamespaces(namespaces, fixed=fixed)
