"""The topics that were published on, and the last message of each."""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import replace

from filters import DEFAULT_TOPIC, Topic
from mediation.model.messages import Notification
from mediation.notification.topic_namespaces import TopicNamespaces
from mediation.tenants import (
    as_its_tenant_knows_it,
    tenant_of_topic,
    topic_in,
    topic_without_tenant,
)

TOPICS = 10_000
OCTETS = 64 * 2**20
NAMES = 2**20
"""Bytes of the names of topics that were published on: documents tell of each of them."""


class TopicsSeen:
    """Bounded; the topic unused the longest goes first. Those of all tenants, each told of its own.

    Args:
        namespaces: The topics that there are besides, and that may be added.
        hides: Whether a topic that was published on is told to nobody.
    """

    def __init__(
        self,
        namespaces: TopicNamespaces | None = None,
        *,
        hides: Callable[[Topic], bool] = lambda _: False,
        topics: int = TOPICS,
        octets: int = OCTETS,
        names: int = NAMES,
    ) -> None:
        self.namespaces = namespaces or TopicNamespaces()
        self._hides = hides
        self._most_topics = topics
        self._most_octets = octets
        self._octets = 0
        self._most_names = names
        self._names = 0
        self._current: OrderedDict[Topic, Notification] = OrderedDict()
        self.changes = 0
        """How often a topic came or went."""

    def see(self, notifications: Sequence[Notification]) -> None:
        """Remember each as its topic's current message."""
        for notification in notifications:
            topic = notification.topic or DEFAULT_TOPIC
            previous = self._current.pop(topic, None)
            if previous is not None:
                self._octets -= len(previous.payload)
            else:
                self.changes += 1
                self._names += _octets_of(topic)
            if notification.attachments:  # Nobody is ever given those of a current message.
                notification = replace(notification, attachments=())
            self._current[topic] = notification
            self._octets += len(notification.payload)
            while (
                len(self._current) > self._most_topics
                or self._octets > self._most_octets
                or (self._names > self._most_names and len(self._current) > 1)
            ):
                former, gone = self._current.popitem(last=False)
                self._octets -= len(gone.payload)
                self._names -= _octets_of(former)
                self.changes += 1

    def current(self, topic: Topic, tenant: str = "") -> Notification | None:
        """The last message on *topic* of *tenant*. In none is a topic named as the messaging system
        knows those of tenants."""
        if tenant_of_topic(topic):
            return None
        found = self._current.get(topic_in(tenant, topic) or topic)
        return found if found is None or not tenant else as_its_tenant_knows_it(found)

    def latest(self, tenant: str = "") -> Sequence[Notification]:
        """All current messages of *tenant*, the newest first."""
        newest_first = reversed(self._current.values())
        return tuple(
            [
                as_its_tenant_knows_it(one) if tenant else one
                for one in newest_first
                if tenant_of_topic(one.topic) == tenant
            ]
        )

    def topics(self) -> Sequence[Topic]:
        """The topics that were published on, in all tenants."""
        return tuple(self._current)

    def known(self, tenant: str = "") -> Sequence[Topic]:
        """The topics of the topic namespaces, and those of *tenant* that were published on and are
        told."""
        seen = (
            topic_without_tenant(topic) or DEFAULT_TOPIC
            for topic in self._current
            if tenant_of_topic(topic) == tenant and not self._hides(topic)
        )
        return tuple(dict.fromkeys((*self.namespaces.topics, *seen)))


def _octets_of(topic: Topic) -> int:
    """Bytes of a topic's name, with that of its namespace."""
    return len(str(topic).encode())
