"""The index of topic expressions by the names in them, so that a topic finds those that select it.

topic -> found (a bounded cache)  <-  those that name the topic
those that name one of its steps, at whatever level
those of wildcards alone, and those without expressions
"""

from collections.abc import Iterable
from typing import Generic, TypeVar

from filters.topics.patterns import TopicPattern
from filters.topics.topics import Topic

T = TypeVar("T")

CACHED_TOPICS = 1024

_Place = Topic | str | None
"""The place where a value is filed: under a topic, under the name of a step, or under None."""


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
            places: dict[_Place, None] = {topic: None, None: None}
            places.update((step.name, None) for step in topic.steps)
            # A value may be filed under several of these.
            candidates = {value: None for place in places for value in self._places.get(place, ())}
            found = tuple(
                value
                for value in candidates
                if all(pattern.matches(topic) for pattern in self._patterns[value])
            )
            if len(self._cache) >= CACHED_TOPICS:
                # The oldest goes: topics come in bursts, and a look-up is cheap.
                del self._cache[next(iter(self._cache))]
            self._cache[topic] = found
        return found

    def _places_for(self, patterns: tuple[TopicPattern, ...]) -> Iterable[_Place]:
        """Choose where to file: any of the patterns will do, because all must match."""
        for pattern in patterns:
            if pattern.topics is not None:
                return pattern.topics
        for pattern in patterns:
            names = [
                {step.name for step in path.steps if step.name is not None}
                for path in pattern.paths
            ]
            if all(names):
                return {min(choices, key=self._population) for choices in names}
        return (None,)

    def _population(self, name: str) -> tuple[int, str]:
        return len(self._places.get(name, ())), name

    def _forget(self, patterns: tuple[TopicPattern, ...]) -> None:
        """Drop what the cache says of the topics that *patterns* select."""
        named = next((pattern.topics for pattern in patterns if pattern.topics is not None), None)
        for topic in self._cache.keys() & named if named is not None else tuple(self._cache):
            if all(pattern.matches(topic) for pattern in patterns):
                del self._cache[topic]
