"""Calls of functions of a program, from threads of ours: plain ones, and coroutine functions in the
program's event loop."""

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

FUNCTION = 30.0
"""Seconds that a coroutine of an application has: it holds locks of the store."""


class FunctionExit(Exception):
    """A function of the program raised what is no `Exception`, and would end a thread or a task:
    the SystemExit of a library that means to end a script, the CancelledError of an event loop of
    its own, the panic of a module in Rust."""

    def __init__(self, raised: BaseException) -> None:
        super().__init__(f"the function raised {raised!r}")


def as_exception(raised: BaseException) -> Exception:
    """Return *raised*, or the `FunctionExit` that it is the cause of. The one is a failure of what
    a thread or task of ours was at; the other would end it, with all that it would do for others.
    """
    if isinstance(raised, Exception):
        return raised
    failure = FunctionExit(raised)
    failure.__cause__ = raised
    return failure


def raising_exceptions(function: Callable[P, T]) -> Callable[P, T]:
    """Return a function of the program as one that raises exceptions alone: see `as_exception`. But
    Ctrl-C, which may be meant for the thread that is in it, stays what it is."""

    @wraps(function)
    def call(*args: P.args, **named: P.kwargs) -> T:
        try:
            return function(*args, **named)
        except (Exception, KeyboardInterrupt):
            raise
        except BaseException as raised:
            raise as_exception(raised) from raised

    return call


@contextmanager
def contained() -> Iterator[None]:
    """Await a function of the program in a task of ours: that something was cancelled which it
    awaited is a failure of the function alone. Where our task itself is to end, it ends.

    Raises:
        FunctionExit
    """
    try:
        yield
    except asyncio.CancelledError as raised:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise as_exception(raised) from raised


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
            FunctionExit: It was cancelled, or raised what is no `Exception`, but for Ctrl-C.
        """
        return raising_exceptions(self._called)(function, argument)

    def _called(self, function: Callable[[Any], Any], argument: object) -> Any:
        found = function(argument)
        return self._awaited(found) if inspect.isawaitable(found) else found

    def _awaited(self, found: Awaitable[Any]) -> Any:
        loop = self.loop if self.loop is not None and self.loop.is_running() else self.fallback()
        if loop is None:
            _give_up(found)
            raise RuntimeError("there is no event loop for a coroutine")
        late = threading.Event()
        ours = loop is not self.loop

        async def within() -> Any:
            if late.is_set():  # Cancelling alone would let it run as far as it first waits.
                return _give_up(found)
            async with asyncio.timeout(self.seconds):
                try:
                    return await found
                except (SystemExit, KeyboardInterrupt) as raised:
                    if not ours:  # The program ends itself, as from any of its tasks.
                        raise
                    raise as_exception(raised) from raised

        work = within()
        try:
            future = asyncio.run_coroutine_threadsafe(work, loop)
        except RuntimeError:  # The loop is closed.
            work.close()
            _give_up(found)
            raise
        try:
            return future.result(self.seconds + self.grace)
        except TimeoutError:
            late.set()
            future.cancel()
            raise
        except CancelledError as raised:  # Without words, and to asyncio its own.
            raise FunctionExit(raised) from raised


def _give_up(found: Awaitable[Any]) -> None:
    """Have asyncio miss no coroutine that is never begun."""
    if inspect.iscoroutine(found):
        found.close()
