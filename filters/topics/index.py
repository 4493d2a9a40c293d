"""The index of topic expressions by the names in them, so that a topic finds those that select it.

topic -> found (a bounded cache)  <-  those that name the topic
those that begin with the names with which it begins
those that name one of its steps, at whatever level
those of the namespace of its root
those of wildcards alone, and those without expressions
"""

from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

from filters.topics.patterns import TopicPath, TopicPattern
from filters.topics.topics import Step, Topic

T = TypeVar("T")

CACHED_TOPICS = 1024

_Place = Topic | str | None
"""The place where a value is filed: under a topic; under a text that each topic has which the value
matches (the name of a step; ``/`` and the steps with which it begins; the namespace of its root in
braces); or under None. Two such texts may be the same: what is filed there is matched anyway."""


class TopicIndex(Generic[T]):
    """Values (hashable), each with topic patterns that must all match."""

    def __init__(self) -> None:
        self._patterns: dict[T, tuple[TopicPattern, ...]] = {}
        self._filed: dict[T, tuple[_Place, ...]] = {}
        self._places: dict[_Place, dict[T, None]] = {}
        self._cache: dict[Topic, tuple[T, ...]] = {}

    def __len__(self) -> int:
        return len(self._patterns)

    def add(self, value: T, patterns: tuple[TopicPattern, ...]) -> None:
        """Add *value*, which is not there yet. Without *patterns* every topic finds it."""
        places = tuple(self._places_for(patterns))
        self._patterns[value] = patterns
        self._filed[value] = places
        for place in places:
            self._places.setdefault(place, {})[value] = None
        self._forget(patterns)

    def remove(self, value: T) -> None:
        """Take *value* out.

        Raises:
            KeyError: It is not there.
        """
        patterns = self._patterns.pop(value)
        for place in self._filed.pop(value):
            del self._places[place][value]
            if not self._places[place]:
                del self._places[place]
        self._forget(patterns)

    def find(self, topic: Topic) -> tuple[T, ...]:
        """Return all values whose patterns match *topic*, each once."""
        found = self._cache.get(topic)
        if found is None:
            found = self.search(topic)
            if len(self._cache) >= CACHED_TOPICS:
                # The oldest goes: topics come in bursts, and a look-up is cheap.
                del self._cache[next(iter(self._cache))]
            self._cache[topic] = found
        return found

    def search(self, topic: Topic) -> tuple[T, ...]:
        """Return what `find` does without remembering it: for several threads at a time, while
        nothing is added or removed."""
        found: dict[T, None] = {}
        for place in _places_of(topic):
            for value in self._places.get(place, ()):
                if value not in found:  # It may be filed under several.
                    for pattern in self._patterns[value]:
                        if not pattern.matches(topic):
                            break
                    else:
                        found[value] = None
        return tuple(found)

    def _places_for(self, patterns: tuple[TopicPattern, ...]) -> Iterable[_Place]:
        """Choose where to file: any of the patterns will do, because all must match."""
        for pattern in patterns:
            if pattern.topics is not None:
                return pattern.topics
        for pattern in patterns:
            texts = [_texts_of(path) for path in pattern.paths]
            if all(texts):
                return {min(choices, key=self._population) for choices in texts}
        return (None,)

    def _population(self, text: str) -> tuple[int, str]:
        return len(self._places.get(text, ())), text

    def _forget(self, patterns: tuple[TopicPattern, ...]) -> None:
        """Drop what the cache says of the topics that *patterns* select."""
        named = next((pattern.topics for pattern in patterns if pattern.topics is not None), None)
        for topic in self._cache.keys() & named if named is not None else tuple(self._cache):
            if all(pattern.matches(topic) for pattern in patterns):
                del self._cache[topic]


def _places_of(topic: Topic) -> Iterator[_Place]:
    """All places where a value may be filed that matches *topic*."""
    yield topic
    yield None
    yield f"{{{topic.steps[0].namespace}}}"
    beginning = ""
    for step in topic.steps:
        yield step.name
        beginning = f"{beginning}/{step}"
        yield beginning


def _texts_of(path: TopicPath) -> set[str]:
    """The texts that each topic has which *path* matches: of 10,000 paths few have all in common,
    so that the one which fewest others have finds few."""
    texts = {step.name for step in path.steps if step.name is not None}
    beginning = ""
    for step in path.steps:
        if step.name is None or step.any_namespace or step.descendant:
            break
        beginning = f"{beginning}/{Step(step.namespace, step.name)}"
        texts.add(beginning)
    root = path.steps[0]
    if root.namespace is not None and not root.any_namespace:
        texts.add(f"{{{root.namespace}}}")
    return texts
