"""Call the application's function for each message, on worker threads: `ApplicationThreads`."""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from gateway.client.application_calls import as_exception
from gateway.client.reliable.transaction_threads import MAX_COMMIT
from gateway.reliability.batch_delivery import deliver_some
from gateway.reliability.party import Party

DELIVERED = 256
"""Messages that applications are given in one transaction."""
SHARED = 0.02
"""Seconds of applications after which what they did is committed."""


class Pace:
    """Measures how long functions of a program take that share a transaction.

    Args:
        clock: Seconds since whenever.

    Attributes:
        longest: Seconds of the one that took the longest.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.longest = 0.0
        self._last = self._end = 0.0

    def goes_on(self) -> bool:
        """Return whether there is time for another function; called before each."""
        now = self._clock()
        if not self._end:  # The transaction has begun, which may have taken long.
            self._end = now + SHARED
        else:
            self.longest = max(self.longest, now - self._last)
        self._last = now
        return now < self._end

    def at_once(self, before: int) -> int:
        """How many sequences are locked at once the next time, after *before*: all of them wait for
        a function that takes long."""
        return max(before // 8, 1) if self.longest > SHARED else min(2 * before, MAX_COMMIT)


class ApplicationThreads:
    """Delivers the messages that wait in buffers, of several on one thread, and on more threads
    where that is slow. To be used in one event loop.

    Args:
        most: The number of threads.
        spawn: Starts a task.
        given: Is told what became of buffers: what kept their messages, or None.
        rests: Is called when a thread has nothing more to do.
    """

    def __init__(
        self,
        party: Party,
        most: int,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
        given: Callable[[Mapping[str, Exception | None]], None],
        rests: Callable[[], None],
    ) -> None:
        self._party = party
        self._most = most
        self._spawn = spawn
        self._given = given
        self._rests = rests
        self._threads = ThreadPoolExecutor(most, "reliable-application")
        self._waiting: deque[str] = deque()
        self._busy = 0
        self._at_once = 1

    def add(self, identifier: str) -> None:
        """Have the messages of a buffer given, at the next `begin`."""
        self._waiting.append(identifier)

    def begin(self) -> None:
        """Begin to deliver, unless a thread is at it."""
        if not self._busy:
            self._give_on_thread()

    def close(self) -> None:
        """End the threads; what they do ends first."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _give_on_thread(self) -> None:
        if self._waiting and self._busy < self._most:
            self._busy += 1
            self._spawn(self._give())

    async def _give(self) -> None:
        """Give applications their messages, on one thread, as long as there are any."""
        loop = asyncio.get_running_loop()
        try:
            while self._waiting:
                work = loop.run_in_executor(self._threads, self._give_some)
                while not work.done():
                    await asyncio.wait([work], timeout=SHARED)
                    if not work.done():  # Others need not wait for a function that takes long.
                        self._give_on_thread()
                self._given(await work)
        finally:
            self._busy -= 1
            self._rests()

    def _give_some(self) -> dict[str, Exception | None]:
        pace = Pace()
        looked_at: dict[str, Exception | None] = {}
        try:
            deliver_some(
                self._party,
                self._waiting,
                time.time(),
                limit=DELIVERED,
                at_once=self._at_once,
                goes_on=pace.goes_on,
                looked_at=looked_at,
            )
        except BaseException as raised:
            # Of `on_notice`, say. Who gave us these buffers gives them again once it is told of
            # them; and whatever it is, it is not for the event loop that waits for this thread.
            if not looked_at:
                raise as_exception(raised) from raised
            return dict.fromkeys(looked_at, as_exception(raised))
        self._at_once = pace.at_once(self._at_once)
        return looked_at
