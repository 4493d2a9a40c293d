"""`Pool`: threads for short transactions. A thread takes several that wait, and reports all results
at once: to hand each over by itself would take longer than many of them do."""

import asyncio
import queue
import threading
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from gateway.client.application_calls import as_exception
from gateway.reliability.storage import StorageUnavailable

T = TypeVar("T")

TOGETHER = 16
"""The most that a thread takes at a time."""
MAX_COMMIT = 64
"""The most messages, or acknowledgements, that share a commit."""

STOPPED = "the workers have stopped"

_Work = tuple[asyncio.AbstractEventLoop, "asyncio.Future[Any]", Callable[[], Any]]
_Done = tuple["asyncio.Future[Any]", Any, Exception | None]


class Pool:
    """*count* threads; they do not outlive the program."""

    def __init__(self, count: int, name: str) -> None:
        self._queue: queue.SimpleQueue[_Work | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._closed = False
        self._threads = [
            threading.Thread(target=self._run, name=f"{name}-{number}", daemon=True)
            for number in range(count)
        ]
        for thread in self._threads:
            thread.start()

    async def run(self, work: Callable[[], T]) -> T:
        """Run *work* on a thread.

        Raises:
            StorageUnavailable: The pool is closed.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        with self._lock:  # Nothing is queued behind the end of the threads.
            if self._closed:
                raise StorageUnavailable(STOPPED)
            self._queue.put((loop, future, work))
        return await future

    def close(self, seconds: float) -> None:
        """Do the waiting work, and end. Work that no thread has begun within *seconds* fails."""
        with self._lock:
            if not self._closed:
                self._closed = True
                for _ in self._threads:
                    self._queue.put(None)
        for thread in self._threads:
            thread.join(seconds)
        self._fail_what_waits()

    def _fail_what_waits(self) -> None:
        hanging = [thread for thread in self._threads if thread.is_alive()]
        with suppress(queue.Empty):
            while True:
                if (one := self._queue.get_nowait()) is not None:
                    loop, future, _ = one
                    _tell(loop, [(future, None, StorageUnavailable(STOPPED))])
        for _ in hanging:
            self._queue.put(None)

    def _run(self) -> None:
        while True:
            batch = self._next()
            done: dict[asyncio.AbstractEventLoop, list[_Done]] = defaultdict(list)
            for one in batch:
                if one is None:
                    continue
                loop, future, work = one
                if future.cancelled():
                    continue
                done[loop].append((future, *_outcome(work)))
            for loop, results in done.items():
                _tell(loop, results)
            if None in batch:
                return

    def _next(self) -> list[_Work | None]:
        """Take the next pieces of work; None at the end of the list says that the thread is to end
        then."""
        batch = [self._queue.get()]
        share = min(TOGETHER, 1 + self._queue.qsize() // len(self._threads))
        while batch[-1] is not None and len(batch) < share:
            try:
                batch.append(self._queue.get_nowait())
            except queue.Empty:
                break
        return batch


def _outcome(work: Callable[[], Any]) -> tuple[Any, Exception | None]:
    """Run *work*; return its result and the exception that it raised. One that is no `Exception`
    would end the event loop of who waits, or look as if that one had been cancelled."""
    try:
        return work(), None
    except BaseException as raised:
        return None, as_exception(raised)


def _tell(loop: asyncio.AbstractEventLoop, results: list[_Done]) -> None:
    with suppress(RuntimeError):  # The loop is closed: nothing waits.
        loop.call_soon_threadsafe(_settle, results)


def _settle(results: list[_Done]) -> None:
    for future, value, error in results:
        if future.done():
            continue
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(value)
