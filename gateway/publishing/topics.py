"""The topics that were published on, and the last message of each."""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter

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

_topics, _octets, _names = (attrgetter(name) for name in ("topics", "octets", "names"))


@dataclass(slots=True)
class _Kept:
    """The topics of one tenant, the one unused the longest first, or what all have together."""

    current: OrderedDict[Topic, Notification] = field(default_factory=OrderedDict)
    topics: int = 0
    octets: int = 0
    names: int = 0

    def count(self, topic: Topic, notification: Notification, sign: int) -> None:
        self.topics += sign
        self.octets += sign * len(notification.payload)
        self.names += sign * _octets_of(topic)


class TopicsSeen:
    """Bounded; where there is too much, the topic unused the longest goes, of the tenant that has
    the most: no tenant drives out what another has while that has less than an equal part. Those of
    all tenants, each told of its own.

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
        self._most = (topics, octets, names)
        self._all = _Kept()
        self._of: dict[str, _Kept] = {}
        """By tenant; of none that has nothing."""
        self.changes = 0
        """How often a topic came or went."""

    def see(self, notifications: Sequence[Notification]) -> None:
        """Remember each as its topic's current message."""
        for notification in notifications:
            topic = notification.topic or DEFAULT_TOPIC
            tenant = tenant_of_topic(topic)
            self.changes += not self._forget(tenant, topic)
            if notification.attachments:  # Nobody is ever given those of a current message.
                notification = replace(notification, attachments=())
            kept = self._of.setdefault(tenant, _Kept())
            kept.current[topic] = notification
            for count in (kept, self._all):
                count.count(topic, notification, 1)
            while (whose := self._whose_goes(tenant)) is not None:
                self._forget(whose, next(iter(self._of[whose].current)))
                self.changes += 1

    def _forget(self, tenant: str, topic: Topic) -> bool:
        """Forget the current message of *topic*; False where there is none."""
        kept = self._of.get(tenant)
        gone = kept.current.pop(topic, None) if kept is not None else None
        if kept is None or gone is None:
            return False
        for count in (kept, self._all):
            count.count(topic, gone, -1)
        if not kept.current:
            del self._of[tenant]
        return True

    def _whose_goes(self, tenant: str) -> str | None:
        """The tenant that loses a topic, now that one of *tenant* was seen; None where there is not
        too much. One topic is always known."""
        if self._all.topics <= 1:
            return None
        for has, most in zip((_topics, _octets, _names), self._most, strict=True):
            if has(self._all) > most:
                own = self._of.get(tenant)
                # Whoever has an equal part loses its own: no other need be looked at.
                if own is not None and has(own) * len(self._of) >= most:
                    return tenant
                return max(self._of, key=lambda each: has(self._of[each]))
        return None

    def current(self, topic: Topic, tenant: str = "") -> Notification | None:
        """The last message on *topic* of *tenant*. In none is a topic named as the messaging system
        knows those of tenants."""
        if tenant_of_topic(topic):
            return None
        kept = self._of.get(tenant)
        found = kept.current.get(topic_in(tenant, topic) or topic) if kept is not None else None
        return found if found is None or not tenant else as_its_tenant_knows_it(found)

    def latest(self, tenant: str = "") -> Sequence[Notification]:
        """All current messages of *tenant*, the newest first."""
        kept = self._of.get(tenant)
        newest_first = reversed(kept.current.values()) if kept is not None else ()
        return tuple([as_its_tenant_knows_it(one) if tenant else one for one in newest_first])

    def topics(self) -> Sequence[Topic]:
        """The topics that were published on, in all tenants."""
        return tuple(topic for kept in self._of.values() for topic in kept.current)

    def known(self, tenant: str = "") -> Sequence[Topic]:
        """The topics of the topic namespaces, and those of *tenant* that were published on and are
        told."""
        kept = self._of.get(tenant)
        seen = (
            topic_without_tenant(topic) or DEFAULT_TOPIC
            for topic in (kept.current if kept is not None else ())
            if not self._hides(topic)
        )
        return tuple(dict.fromkeys((*self.namespaces.topics, *seen)))


def _octets_of(topic: Topic) -> int:
    """Bytes of a topic's name, with that of its namespace."""
    return len(str(topic).encode())
