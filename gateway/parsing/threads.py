"""Threads that parse, one at a time, and are replaced before they have learnt too much."""

import asyncio
import contextlib
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from gateway.parsing.fair_queue import FairQueue

T = TypeVar("T")

DOCUMENTS = 100
OCTETS = 16 * 2**20
"""Documents, and octets of them, that a thread parses before it is replaced."""


class ParsingThreads:
    """Runs what parses in one thread, in the turns of a line.

    Args:
        name: That of its threads.
        wait: As `FairQueue`.
    """

    def __init__(self, name: str, *, wait: float) -> None:
        self.queue = FairQueue(wait=wait)
        self._name = name
        self._threads = ThreadPoolExecutor(1, name)
        self._documents = 0
        self._octets = 0

    async def run(self, octets: int, work: Callable[[set[str] | None], T], owner: str) -> T:
        """Run *work*, which parses *octets* of *owner*, when it is its turn.

        Raises:
            Busy: As `FairQueue.take_turn`.
        """
        await self.queue.take_turn(owner, octets)
        return await asyncio.wrap_future(self._submit(octets, work))

    def _submit(self, octets: int, work: Callable[[set[str] | None], T]) -> "Future[T]":
        self._documents += 1
        self._octets += octets
        threads = self._threads
        last = self._documents > DOCUMENTS or self._octets > OCTETS
        if last:
            self._threads = ThreadPoolExecutor(1, self._name)
            self._documents, self._octets = 0, 0
        loop = asyncio.get_running_loop()

        def ended(_: "Future[Any]") -> None:
            # Not when whoever waits gives up: the thread is at work as long as it is.
            with contextlib.suppress(RuntimeError):  # The loop is closed.
                loop.call_soon_threadsafe(self.queue.leave)

        try:
            future = threads.submit(work, None)
        except RuntimeError:  # It is closed: the gateway has stopped.
            self.queue.leave()
            raise
        future.add_done_callback(ended)
        if last:
            threads.shutdown(wait=False)
        return future

    def close(self) -> None:
        """Refuse what waits, and end the thread after what it is at."""
        self.queue.close()
        self._threads.shutdown(wait=False, cancel_futures=True)


class RenewedThread:
    """Runs what parses, among other things, in one thread, one piece of work after the other. Here
    is no line: whoever uses it bounds what waits.

    Another thread takes its place now and then: libxml2 keeps the names in all documents that a
    thread has parsed as long as that lives.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._threads = ThreadPoolExecutor(1, name)
        self._documents = 0

    async def run(self, work: Callable[[], T], *, documents: int = 1) -> T:
        """Run *work*, which parses about so many *documents*, after all that was given before."""
        self._documents += documents
        threads = self._threads
        if self._documents > DOCUMENTS:
            self._documents = 0
            self._threads = ThreadPoolExecutor(1, self._name)
        future = threads.submit(work)
        if threads is not self._threads:
            threads.shutdown(wait=False)
            self._threads.submit(threads.shutdown)  # It waits: there is one thread at work.
        return await asyncio.wrap_future(future)

    def close(self) -> None:
        """End the thread after what it is at."""
        self._threads.shutdown(wait=False, cancel_futures=True)
