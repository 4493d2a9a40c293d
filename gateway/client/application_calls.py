"""Calls of functions of a program, from threads of ours: plain ones, and coroutine functions in the
program's event loop."""

import asyncio
import inspect
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

FUNCTION = 30.0
"""Seconds that a coroutine of an application has: it holds locks of the store."""


class FunctionExited(Exception):
    """A function of a program raised what ends a thread or a task, and not just a call."""


@contextmanager
def contained() -> Iterator[None]:
    """Call a function of a program: if it exits, or what it awaits was cancelled, only this fails.

    Else it would end the work of all: nothing more would be given to any function, without a word.

    Raises:
        FunctionExited
    """
    try:
        yield
    except (asyncio.CancelledError, SystemExit) as error:
        if isinstance(error, asyncio.CancelledError) and _is_being_cancelled():
            raise
        raise FunctionExited(f"it raised {error!r}") from error


def _is_being_cancelled() -> bool:
    """Whether the caller's own task is to end."""
    try:
        task = asyncio.current_task()
    except RuntimeError:  # No event loop runs in this thread.
        return False
    return task is not None and task.cancelling() > 0


@dataclass(slots=True)
class Calls:
    """Calls functions of a program: plain ones here, coroutines in the program's event loop.

    Attributes:
        seconds: The time limit of a coroutine.
        grace: Seconds beyond that for an event loop that hangs, or stops meanwhile.
    """

    loop: asyncio.AbstractEventLoop | None = None
    fallback: Callable[[], asyncio.AbstractEventLoop | None] = field(default=lambda: None)
    seconds: float = FUNCTION
    grace: float = 5.0

    def call(self, function: Callable[[Any], Any], argument: object) -> Any:
        """Call it, and wait for what it returns.

        Raises:
            TimeoutError: It is a coroutine, and has not ended in time; it does not begin later.
            FunctionExited: It raised SystemExit, or what it awaited was cancelled.
        """
        with contained():
            found = function(argument)
        if not inspect.isawaitable(found):
            return found
        loop = self.loop if self.loop is not None and self.loop.is_running() else self.fallback()
        if loop is None:
            raise RuntimeError("there is no event loop for a coroutine")

        late = threading.Event()

        async def within() -> Any:
            if late.is_set():  # Cancelling alone would let it run as far as it first waits.
                return found.close() if inspect.iscoroutine(found) else None
            async with asyncio.timeout(self.seconds):
                with contained():
                    return await found

        future = asyncio.run_coroutine_threadsafe(within(), loop)
        try:
            return future.result(self.seconds + self.grace)
        except TimeoutError:
            late.set()
            future.cancel()
            raise
