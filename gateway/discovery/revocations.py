"""Delegations that do not count any more: those of the settings, and those that the creators of
topics have taken back."""


class Revocations:
    """The ids of revoked delegations, by topic; read in any thread, changed in one at a time.

    Args:
        always: Ids that the settings have.
    """

    def __init__(self, always: frozenset[str] = frozenset()) -> None:
        self._always = always
        self._until: dict[str, dict[str, float]] = {}
        """When each delegation would have ended (POSIX seconds), by the id of its topic."""
        self._ids: dict[str, frozenset[str]] = {}
        """The same ids, and those of the settings: replaced as a whole, for other threads."""

    def add(self, topic_id: str, delegation: str, until: float) -> bool:
        """Take back a delegation, until it would have ended. Returns True if it was not before."""
        known = self._until.setdefault(topic_id, {})
        before = known.get(delegation)
        known[delegation] = until if before is None else max(before, until)
        if before is None:
            self._ids[topic_id] = self.of(topic_id) | {delegation}
        return before is None

    def of(self, topic_id: str) -> frozenset[str]:
        """Return the ids of delegations of a topic that do not count."""
        return self._ids.get(topic_id, self._always)

    def forget(self, now: float) -> None:
        """Forget those that would be over by *now* (POSIX seconds)."""
        for topic_id, until in list(self._until.items()):
            left = {id_: ends for id_, ends in until.items() if ends > now}
            if len(left) == len(until):
                continue
            if left:
                self._until[topic_id] = left
                self._ids[topic_id] = self._always | frozenset(left)
            else:
                del self._until[topic_id], self._ids[topic_id]

    def __len__(self) -> int:
        return sum(map(len, self._until.values()))
