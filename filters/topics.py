"""Topics and topic expressions, as WS-Topics 1.3 defines them.

A topic is a path of names. The first belongs to a topic namespace; a child has no
namespace unless it was added from another one.
"""

from dataclasses import dataclass
from functools import lru_cache


@dataclass(frozen=True, slots=True)
class Step:
    """One name of a topic's path. Namespace None is the ad hoc namespace, or a plain child."""

    namespace: str | None
    name: str

    def __str__(self) -> str:
        return f"{{{self.namespace}}}{self.name}" if self.namespace else self.name


@dataclass(frozen=True, slots=True)
class Topic:
    """A concrete topic: ``{http://www.onvif.org/ver10/topics}RuleEngine/Cell/Motion``."""

    steps: tuple[Step, ...]

    def __str__(self) -> str:
        """Clark notation; `parse_clark` is the inverse."""
        return "/".join(map(str, self.steps))


DEFAULT_TOPIC = Topic((Step(None, "wseTopic"),))
"""What a message without a topic is on (WS-Messenger's reserved topic, ad hoc namespace)."""


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
        steps.append(Step(namespace, name))
        if not more:
            return Topic(tuple(steps))
