"""How much is done at a time, of each of many things: `Limits`."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class Limits(Generic[K]):
    """At most *count* at a time of each key. What nobody has, or waits for, is forgotten.

    To be used in one event loop at a time.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._turns: dict[K, asyncio.Semaphore] = {}
        self._users: Counter[K] = Counter()

    def __len__(self) -> int:
        """How many keys are in use."""
        return len(self._turns)

    @asynccontextmanager
    async def turn(self, key: K) -> AsyncIterator[None]:
        """Wait until fewer than *count* others have *key*, and have it."""
        turns = self._turns.setdefault(key, asyncio.Semaphore(self._count))
        self._users[key] += 1
        try:
            async with turns:
                yield
        finally:
            self._users[key] -= 1
            if not self._users[key]:
                del self._users[key], self._turns[key]
