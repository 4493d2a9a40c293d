"""The set of interests of an adapter, which says whether a topic is covered."""

from collections import Counter
from collections.abc import Collection

from adapters.protocol import Interest
from filters import DEFAULT_TOPIC, Topic, TopicPattern, parse_expression

MAX_VERDICTS = 10_000
"""Topics whose verdict is remembered."""


class Interests:
    """A set of interests that says whether it covers a topic."""

    def __init__(self) -> None:
        self._patterns: dict[Interest, TopicPattern | None] = {}
        self._everything = False
        self._named: Counter[Topic] = Counter()
        self._open: list[TopicPattern] = []
        self._verdicts: dict[Topic, bool] = {}

    def replace(self, interests: Collection[Interest]) -> None:
        """Hold *interests* and no others.

        Raises:
            FilterError: One of them is not a topic expression of a known dialect; nothing changed.
        """
        fresh = Interests()
        for interest in interests:
            fresh.add(interest)
        self.__dict__.update(fresh.__dict__)

    def add(self, interest: Interest) -> None:
        """Hold *interest* too; a second time does nothing.

        Raises:
            FilterError: It is not a topic expression of a known dialect; nothing changed.
        """
        if interest in self._patterns:
            return
        pattern = None if interest.expression is None else parse_expression(interest.expression)
        self._patterns[interest] = pattern
        if pattern is None:
            self._everything = True
        elif pattern.topics is not None:
            self._named.update(pattern.topics)
        else:
            self._open.append(pattern)
        self._verdicts.clear()

    def discard(self, interest: Interest) -> None:
        """Hold *interest* no longer, if it was held."""
        if interest not in self._patterns:
            return
        pattern = self._patterns.pop(interest)
        if pattern is None:
            self._everything = False
        elif pattern.topics is not None:
            self._named -= Counter(pattern.topics)
        else:
            self._open.remove(pattern)
        self._verdicts.clear()

    def cover(self, topic: Topic | None) -> bool:
        """Return True if one of the interests covers messages on *topic*."""
        if self._everything:
            return True
        topic = topic or DEFAULT_TOPIC
        verdict = self._verdicts.get(topic)
        if verdict is None:
            verdict = topic in self._named or any(pattern.matches(topic) for pattern in self._open)
            if len(self._verdicts) >= MAX_VERDICTS:
                self._verdicts.clear()
            self._verdicts[topic] = verdict
        return verdict
