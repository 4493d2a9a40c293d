"""The functions of an inbox, by topic, with their policies."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from gateway.client.outbox.backoff import Backoff
from gateway.client.outbox.message import Message

Function = Callable[[Message], Any]
"""Plain, or a coroutine function. What it returns, unless that is None, answers a request."""


@dataclass(frozen=True, slots=True)
class Handler:
    """A function, and what happens when it fails.

    Attributes:
        retries: How often it is called again before the message is a dead letter.
    """

    function: Function
    retries: int
    backoff: Backoff
    faults: tuple[type[Exception], ...]


class Handlers:
    """Functions by the names of their topics."""

    def __init__(self) -> None:
        self._by_topic: dict[str, Handler] = {}

    def add(self, topic: str, handler: Handler) -> None:
        """Register a function.

        Raises:
            ValueError: The topic has one.
        """
        if topic in self._by_topic:
            raise ValueError(f"the topic {topic!r} has a function")
        self._by_topic[topic] = handler

    def __getitem__(self, topic: str) -> Handler:
        return self._by_topic[topic]

    def __contains__(self, topic: object) -> bool:
        return topic in self._by_topic

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_topic)

    def __len__(self) -> int:
        return len(self._by_topic)
