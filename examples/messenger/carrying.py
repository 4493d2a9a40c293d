"""Carries what waits: to each recipient by itself, of each sender in order, until it is taken."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from said import Chat
from storage import Store


class Carriers:
    """A task for each recipient; a context manager, at whose end they end.

    Args:
        carry: Hands a message to whoever is next on its way; whether that one has it on disk.
        pause: Seconds after which is tried again what nobody took.
    """

    def __init__(
        self, store: Store, carry: Callable[[Chat], Awaitable[bool]], pause: float
    ) -> None:
        self._store, self._carry, self._pause = store, carry, pause
        self._awake: dict[str, asyncio.Event] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._taken = asyncio.Event()

    async def __aenter__(self) -> "Carriers":
        for recipient in self._store.recipients():
            self.wake(recipient)
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def wake(self, recipient: str) -> None:
        """There is something for *recipient*, or a better chance to hand it over."""
        if recipient not in self._awake:
            self._awake[recipient] = asyncio.Event()
            self._tasks.append(asyncio.create_task(self._work(recipient)))
        self._awake[recipient].set()

    async def finish(self) -> None:
        """Wait until nothing waits any more."""
        while self._store.recipients():
            self._taken.clear()
            await self._taken.wait()

    async def _work(self, recipient: str) -> None:
        awake = self._awake[recipient]
        while True:
            awake.clear()
            taken = False
            waiting = self._store.next_for(recipient)
            for chat in waiting:
                if await self._carry(chat):
                    self._store.done(chat)
                    taken = True
                    self._taken.set()
            if not taken:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._pause if waiting else None):
                        await awake.wait()
