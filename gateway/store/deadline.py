"""The deadline of callers that wait for the store.

What waits in the store's queue for too long is refused, and never carried out. What is under way
cannot be taken back: its transaction may yet be committed. So whoever asked is answered that the
store is unavailable, while the work goes on by itself, and keeps memory as the store is.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from functools import partial
from typing import Any, TypeVar

import structlog

from filters import Refused
from gateway.store.outages import StoreUnavailable

T = TypeVar("T")

WAITS = 10.0
"""Seconds that anybody waits for the store."""
_log = structlog.get_logger("dragoman.store")


class StoreLate(StoreUnavailable):
    """The store did not answer in time; the operation may yet be committed."""

    def __init__(self) -> None:
        super().__init__(
            "The store does not answer in time: it is not known whether the change was made."
        )


class Caller:
    """A caller that waits for an answer that needs the store."""

    __slots__ = ("_answer",)

    def __init__(self, answer: "asyncio.Future[Any]") -> None:
        self._answer: asyncio.Future[Any] | None = answer

    def give_up(self) -> None:
        """Answer that the store is unavailable, if there is no answer yet."""
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(StoreLate())

    def answered(self) -> None:
        """Keep nothing: tasks that the work began may live long, and have this."""
        self._answer = None


CALLER: ContextVar[Caller | None] = ContextVar("dragoman_store_caller", default=None)
"""For whom the current task asks the store."""


async def answered_in_time(
    work: Awaitable[T], *, too_late: Callable[[T], Awaitable[None]] | None = None
) -> T:
    """Return what *work* returns, which goes on by itself where it waits for the store too long.

    Args:
        too_late: Is awaited with what it returns when nobody waits for that any more.

    Raises:
        StoreLate: It waits for the store too long.
        Exception: Whatever *work* raises.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[T] = loop.create_future()
    caller = Caller(answer)
    before = CALLER.set(caller)
    try:
        task = loop.create_task(_finish(work, answer, too_late))
    finally:
        CALLER.reset(before)
    task.add_done_callback(partial(_hand_over, answer))
    try:
        return await answer
    except asyncio.CancelledError:
        task.cancel()
        raise
    finally:
        caller.answered()
        del answer, task, work  # Else the exception and this frame would keep one another.


async def _finish(
    work: Awaitable[T],
    answer: "asyncio.Future[T]",
    too_late: Callable[[T], Awaitable[None]] | None,
) -> T:
    try:
        result = await work
        if answer.done() and not answer.cancelled() and too_late is not None:
            await too_late(result)
        return result
    finally:
        del work, answer, too_late


def _hand_over(answer: "asyncio.Future[T]", task: "asyncio.Task[T]") -> None:
    error = None if task.cancelled() else task.exception()
    if answer.done():
        if error is not None and not isinstance(error, Refused):
            _log.error("store.answered-late", exc_info=error)
    elif task.cancelled():
        answer.cancel()
    elif error is not None:
        answer.set_exception(error)
    else:
        answer.set_result(task.result())
