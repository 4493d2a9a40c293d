"""Subscriptions that were made by a right to a protected topic."""

from collections.abc import Callable

from filters import Topic, parse_clark
from gateway.delivery import Entry
from gateway.subscriptions.table import SubscriptionTable


class TopicSubscribers:
    """Keeps the subscriptions of *table* by right, and ends those to a topic that is closed.

    Args:
        end: Ends a subscription, soon, for a reason that its subscriber is told.
        id_of: The id of the advertisement that protects a topic.
    """

    def __init__(
        self,
        table: SubscriptionTable,
        end: Callable[[Entry, str], None],
        id_of: Callable[[Topic], str | None],
    ) -> None:
        self._end = end
        self._id_of = id_of
        self._entries: dict[Entry, Topic] = {}
        table.observe(self._note)

    def _note(self, entry: Entry, change: int) -> None:
        rights = entry.subscription.policy.rights
        if change < 0:
            self._entries.pop(entry, None)
        elif rights is not None:
            self._entries[entry] = parse_clark(rights.topic)

    def end(self, topic_id: str, reason: str) -> None:
        """End the subscriptions to the topic of an advertisement."""
        for entry in self._of(topic_id):
            self._end(entry, reason)

    def end_delegated(self, revoked: Callable[[str], frozenset[str]], reason: str) -> None:
        """End those that rest on one of the delegations that are *revoked* of a topic, by the id of
        its advertisement."""
        for entry, topic in list(self._entries.items()):
            rights = entry.subscription.policy.rights
            if rights is None or rights.delegation is None:
                continue
            if rights.delegation in revoked(self._id_of(topic) or ""):
                self._end(entry, reason)

    def listen(self, topic_id: str) -> bool:
        """True if a subscription by right is to the topic of an advertisement."""
        return bool(self._of(topic_id))

    def _of(self, topic_id: str) -> list[Entry]:
        return [
            entry for entry, topic in list(self._entries.items()) if self._id_of(topic) == topic_id
        ]
