"""Limits of a node: how much it does, and for whom."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from time import monotonic

from gateway.token_bucket import TokenBucket


@dataclass(frozen=True, slots=True)
class NodeLimits:
    """The most that a node does; a second, where nothing else is said.

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


class RequestRates:
    """Rates of a node's work, for each publisher and in all."""

    def __init__(self, limits: NodeLimits, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._messages = TokenBucket(limits.messages, limits.messages_at_once)
        self._queries = TokenBucket(limits.queries, limits.queries)
        self._unsigned = TokenBucket(limits.strangers, limits.strangers)
        self._unsigned_of_one = TokenBucket(limits.of_stranger, limits.of_stranger_at_once)

    def allow_message(self, publisher: str) -> bool:
        """Return True if a message of *publisher* may be read; it is counted."""
        return self._messages.allows(publisher, self._clock())

    def allow_query(self) -> bool:
        """Return True if one more query may be evaluated; it is counted."""
        return self._queries.allows("", self._clock())

    def allow_unsigned(self, publisher: str) -> bool:
        """Return True if a request of *publisher* without a signature may be answered. One who asks
        for too much takes nothing from the others: its own rate comes first."""
        now = self._clock()
        return self._unsigned_of_one.allows(publisher, now) and self._unsigned.allows("", now)
