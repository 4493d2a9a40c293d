"""Which topics of the messaging system are somebody's, by what was advertised.

| the synopsis           | what is protected                                                   |
|------------------------|---------------------------------------------------------------------|
| a path, an integer     | the topic that it names                                             |
| tags, properties, xml  | every topic with a level ``u-UUID``, and ``Integer/i-NUMBER``       |
| encrypted              | the same: it may name one of them, and nobody can read which        |

A node puts the UUID into each synopsis, and its advertisement has it in the clear; so what an
encrypted one may name is known, but for the levels beside the UUID.
"""

from dataclasses import dataclass, field
from uuid import UUID

from filters import Topic
from mediation.discovery import integer_topic, level_of


@dataclass
class ProtectedTopics:
    """The ids of advertisements, by the topics that they protect."""

    _ids: dict[str, str] = field(default_factory=dict)
    """By the whole topic, in Clark's notation."""
    _levels: dict[str, str] = field(default_factory=dict)
    """By the level of the UUID, where no more of the topic is known."""
    _places: dict[str, tuple[str, str | None]] = field(default_factory=dict)
    """The topic and the level of each id."""

    def add(self, topic_id: str, topic: str | None) -> None:
        """Protect the topics of an advertisement.

        Args:
            topic: What its synopsis names, in Clark's notation; None: nothing, or nobody can read
                it.
        """
        level = None
        if topic is None:
            uuid = UUID(topic_id)
            topic, level = str(integer_topic(uuid)), level_of(uuid)
            self._levels[level] = topic_id
        self._ids[topic] = topic_id
        self._places[topic_id] = topic, level

    def remove(self, topic_id: str) -> None:
        """Protect the topics of an advertisement no more. One that is not known is no error."""
        topic, level = self._places.pop(topic_id, (None, None))
        if topic is not None:
            self._ids.pop(topic, None)
        if level is not None:
            self._levels.pop(level, None)

    def id_of(self, topic: Topic) -> str | None:
        """The id of the advertisement that protects *topic*; None: none does. Of several UUIDs in
        it the last counts: who makes a topic may put a level before its own, but not behind."""
        found = self._ids.get(str(topic))
        if found is None and self._levels:
            for step in reversed(topic.steps):
                found = self._levels.get(step.name)
                if found is not None:
                    break
        return found

    def hides(self, topic: Topic) -> bool:
        """Whether *topic* is protected, and no advertisement says so in the clear: its levels are
        its creator's to tell."""
        return bool(self._levels) and str(topic) not in self._ids and topic in self

    def __contains__(self, topic: object) -> bool:
        return isinstance(topic, Topic) and self.id_of(topic) is not None

    def __len__(self) -> int:
        return len(self._places)
