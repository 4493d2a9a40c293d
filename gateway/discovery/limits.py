"""How much a node does, and for whom."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from time import monotonic

from gateway.security.quotas import TokenBucket


@dataclass(frozen=True, slots=True)
class NodeLimits:
    """What a node is asked for at most, a second where nothing else is said.

    Attributes:
        messages: From one publisher, before a signature is looked at; ``messages_at_once`` is how
            many may come at once.
        creations: By one entity in a minute.
        queries: By all together.
        strangers: Requests without a signature, by all together; ``of_stranger`` are those of one
            publisher, and ``of_stranger_at_once`` how many of it may come at once.
        stranger_results: In an answer to one of those.
        query_time: Seconds that a query may take.
        longest_life: Of a topic.
    """

    messages: float = 2000.0
    messages_at_once: float = 2_000.0
    creations: int = 10
    queries: float = 100.0
    strangers: float = 20.0
    of_stranger: float = 4.0
    of_stranger_at_once: float = 10.0
    stranger_results: int = 10
    query_time: float = 0.9
    longest_life: timedelta = timedelta(days=365)


class Rates:
    """Counts what is asked for."""

    def __init__(self, limits: NodeLimits, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._messages = TokenBucket(limits.messages, limits.messages_at_once)
        self._queries = TokenBucket(limits.queries, limits.queries)
        self._strangers = TokenBucket(limits.strangers, limits.strangers)
        self._each_stranger = TokenBucket(limits.of_stranger, limits.of_stranger_at_once)

    def message(self, publisher: str) -> bool:
        """Whether a message of *publisher* is looked at."""
        return not self._messages.take(publisher, self._clock())

    def query(self) -> bool:
        return not self._queries.take("", self._clock())

    def stranger(self, publisher: str) -> bool:
        """Whether a request of *publisher* without a signature is looked at: one that asks for too
        much takes nothing from the others."""
        now = self._clock()
        return not self._each_stranger.take(publisher, now) and not self._strangers.take("", now)
