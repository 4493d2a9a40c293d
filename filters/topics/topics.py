"""Topics, as WS-Topics 1.3 defines them.

A topic is a path of names. The first belongs to a topic namespace; a child has no
namespace unless it was added from another one.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from lxml import etree

_ESCAPES = {"%": "%25", "/": "%2F", "{": "%7B"}
_UNESCAPES = {code: character for character, code in _ESCAPES.items()}


@dataclass(frozen=True, slots=True)
class Step:
    """A name of a topic's path. Namespace None is the ad hoc namespace, or a plain child."""

    namespace: str | None
    name: str

    def __str__(self) -> str:
        name = self.name
        # Only a name from a broker, or in WS-Messenger's dialect (`/WsntRoundTripTestTopic`),
        # can hold one of these; escaped, the text of every topic can be read back.
        if "%" in name or "/" in name or "{" in name:
            name = re.sub(r"[%/{]", lambda found: _ESCAPES[found[0]], name)
        return f"{{{self.namespace}}}{name}" if self.namespace else name


@dataclass(frozen=True, slots=True)
class Topic:
    """A concrete topic: ``{http://www.onvif.org/ver10/topics}RuleEngine/Cell/Motion``."""

    steps: tuple[Step, ...]
    _text: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Every message's topic is written, and looked up in several tables; it is made once.
        object.__setattr__(self, "_text", "/".join(map(str, self.steps)))

    def __str__(self) -> str:
        """Clark notation; `parse_clark` is the inverse."""
        return self._text

    def __hash__(self) -> int:
        return hash(self._text)


DEFAULT_TOPIC = Topic((Step(None, "wseTopic"),))
"""The topic of a message without a topic (WS-Messenger's reserved topic, ad hoc namespace)."""


@lru_cache(maxsize=4096)
def parse_clark(text: str) -> Topic:
    """Read a topic in Clark notation.

    Raises:
        ValueError: A name is empty or a brace is not closed.
    """
    steps = []
    rest = text
    while True:
        namespace = None
        if rest.startswith("{"):
            namespace, closed, rest = rest[1:].partition("}")
            if not closed or not namespace:
                raise ValueError("a topic's namespace is not closed")
        name, more, rest = rest.partition("/")
        if not name:
            raise ValueError("a topic's name is empty")
        if "%" in name:
            name = re.sub("%(25|2F|7B)", lambda found: _UNESCAPES[found[0]], name)
        steps.append(Step(namespace, name))
        if not more:
            return Topic(tuple(steps))


@lru_cache(maxsize=1024)
def is_namespace(uri: str) -> bool:
    """Return whether an XML document may declare *uri* as a namespace.

    Parsers refuse what is not a URI (Namespaces in XML 1.0, section 3), and with it every envelope
    that names a topic of it.
    """
    element = etree.Element("a")
    try:
        element.set("n", uri)
        etree.fromstring(etree.tostring(element).replace(b" n=", b" xmlns:n=", 1))
    except (ValueError, etree.XMLSyntaxError):
        return False
    return True


def topic_text(topic: Topic, prefixes: Mapping[str, str]) -> str:
    """Write *topic* as a Concrete topic expression, ``p:a/b``.

    Args:
        prefixes: The prefix of each namespace, by URI.

    Raises:
        KeyError: A namespace of *topic* has no prefix.
    """
    return "/".join(
        f"{prefixes[step.namespace]}:{step.name}" if step.namespace else step.name
        for step in topic.steps
    )
