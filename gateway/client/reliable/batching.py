"""What comes while others are worked on is worked on together, when they are done (group commit):
no timer, and alone what comes alone."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Generic, TypeVar

from gateway.client.reliable.transaction_threads import Pool

T = TypeVar("T")
R = TypeVar("R")

TOGETHER = 64
"""Messages, or acknowledgements, that share a commit."""


class Gathering(Generic[T, R]):
    """Works on what comes in one event loop, on a thread of *pool*.

    Args:
        work: Gives an outcome for each item, in their order; an exception is raised to whoever
            waits for it.
        most: The most items at a time.
    """

    def __init__(
        self, pool: Pool, work: Callable[[Sequence[T]], Sequence[R | Exception]], most: int
    ) -> None:
        self._pool = pool
        self._work = work
        self._most = most
        self._waiting: list[tuple[T, asyncio.Future[R]]] = []
        self._task: asyncio.Task[None] | None = None

    async def run(self, item: T) -> R:
        """Have *item* worked on.

        Raises:
            StorageUnavailable: The pool is closed.
        """
        future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        if self._task is None:
            self._task = asyncio.create_task(self._work_off())
        return await future

    async def _work_off(self) -> None:
        batch: list[tuple[T, asyncio.Future[R]]] = []
        try:
            while self._waiting:
                batch, self._waiting = self._waiting[: self._most], self._waiting[self._most :]
                items = [item for item, future in batch if not future.done()]
                left = [future for _, future in batch if not future.done()]
                for future, outcome in zip(left, await self._outcomes(items), strict=True):
                    if future.done():
                        continue
                    if isinstance(outcome, Exception):
                        future.set_exception(outcome)
                    else:
                        future.set_result(outcome)
        finally:
            self._task = None
            for _, future in [*batch, *self._waiting]:
                future.cancel()  # Only where this task was cancelled.
            self._waiting.clear()

    async def _outcomes(self, items: list[T]) -> Sequence[R | Exception]:
        if not items:
            return ()
        try:
            return await self._pool.run(partial(self._work, items))
        except Exception as error:
            return [error] * len(items)
