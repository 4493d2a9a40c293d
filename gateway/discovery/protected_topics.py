"""Topics of the messaging system that belong to somebody, by their advertisements.

| the synopsis           | what is protected                                                   |
|------------------------|---------------------------------------------------------------------|
| a path, an integer     | the topic that it names                                             |
| tags, properties, xml  | every topic with a level ``u-UUID``, and ``Integer/i-NUMBER``       |
| encrypted              | the same: it may name one of them, and nobody can read which        |

A node puts the UUID into each synopsis, and its advertisement has it in the clear; so what an
encrypted one may name is known, but for the levels beside the UUID.

A topic that was withdrawn, or has expired, is *closed*: nobody may use it, not even its creator, as
long as somebody may still take it for what it was. A setting closes every topic with a UUID, too,
whose advertisement is not known.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from uuid import UUID

from filters import Topic
from mediation.discovery import Denial, EventSigners, integer_topic, level_of
from mediation.names import TDN

_LEVEL = re.compile(r"u-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass(frozen=True, slots=True)
class Closed:
    """Why a topic is closed, and until when at least (POSIX seconds)."""

    why: Denial
    until: float


@dataclass(frozen=True, slots=True)
class SignatureDemand:
    """Who has to sign the events of a topic, by the word of its creator."""

    signers: EventSigners
    creator: str


@dataclass
class ProtectedTopics:
    """The ids of advertisements, by the topics that they protect.

    Attributes:
        closes_unknown: Topics with a UUID of which no advertisement is known are closed.
    """

    closes_unknown: bool = False
    _ids: dict[str, str] = field(default_factory=dict)
    """By the whole topic, in Clark's notation."""
    _levels: dict[str, str] = field(default_factory=dict)
    """By the level of the UUID, where no more of the topic is known."""
    _places: dict[str, tuple[str, str | None]] = field(default_factory=dict)
    """The topic and the level of each id."""
    _closed: dict[str, Closed] = field(default_factory=dict)
    """Closed topics, by id."""
    _demands: dict[str, SignatureDemand] = field(default_factory=dict)
    """Of topics whose events have to be signed, by id."""

    def add(self, topic_id: str, topic: str | None, demand: SignatureDemand | None = None) -> None:
        """Protect the topics of an advertisement.

        Args:
            topic: What its synopsis names, in Clark's notation; None: nothing, or nobody can read
                it.
            demand: Who has to sign its events; None: nobody has to.
        """
        if demand is not None:
            self._demands[topic_id] = demand
        self._closed.pop(topic_id, None)
        self._place(topic_id, topic)

    def close(self, topic_id: str, topic: str | None, why: Denial, until: float) -> None:
        """Close the topics of an advertisement. Where *topic* is None, and the advertisement was
        not added before, its id alone tells which they are."""
        if topic_id not in self._places:
            self._place(topic_id, topic)
        self._closed[topic_id] = Closed(why, until)

    def _place(self, topic_id: str, topic: str | None) -> None:
        level = None
        if topic is None:
            uuid = UUID(topic_id)
            topic, level = str(integer_topic(uuid)), level_of(uuid)
            self._levels[level] = topic_id
        self._ids[topic] = topic_id
        self._places[topic_id] = topic, level

    def remove(self, topic_id: str) -> None:
        """Stop protecting the topics of an advertisement, which need not be known."""
        self._closed.pop(topic_id, None)
        self._demands.pop(topic_id, None)
        topic, level = self._places.pop(topic_id, (None, None))
        if topic is not None:
            self._ids.pop(topic, None)
        if level is not None:
            self._levels.pop(level, None)

    def id_of(self, topic: Topic) -> str | None:
        """Return the id of the advertisement that protects *topic*, if any. Of several UUIDs in
        it the last counts: who makes a topic may put a level before its own, but not behind."""
        found = self._ids.get(str(topic))
        if found is None and self._levels:
            for step in reversed(topic.steps):
                found = self._levels.get(step.name)
                if found is not None:
                    break
        return found

    def demand_of(self, topic: Topic) -> SignatureDemand | None:
        """Return who has to sign events on *topic*; None: nobody has to."""
        if not self._demands:
            return None
        topic_id = self.id_of(topic)
        return None if topic_id is None else self._demands.get(topic_id)

    def why_closed(self, topic: Topic) -> Denial | None:
        """Return why nobody may use *topic*; None if it is not closed."""
        topic_id = self.id_of(topic)
        if topic_id is None:
            return Denial.UNKNOWN if self.closes_unknown and _has_uuid(topic) else None
        closed = self._closed.get(topic_id)
        return None if closed is None else closed.why

    def closed(self) -> Iterator[tuple[str, Closed]]:
        """Return the ids of closed topics, and why each is closed."""
        yield from list(self._closed.items())

    def hides(self, topic: Topic) -> bool:
        """Return True if *topic* is protected by an encrypted advertisement alone: then it is for
        its creator to tell its name."""
        return bool(self._levels) and str(topic) not in self._ids and topic in self

    def __contains__(self, topic: object) -> bool:
        if not isinstance(topic, Topic):
            return False
        return self.id_of(topic) is not None or self.why_closed(topic) is not None

    def __len__(self) -> int:
        return len(self._places)


def _has_uuid(topic: Topic) -> bool:
    """Return True if *topic* may have been made by a node: it has a UUID."""
    steps = topic.steps
    if steps[0].namespace == TDN:
        return steps[0].name == "Integer"
    return any(_LEVEL.fullmatch(step.name) for step in steps)
