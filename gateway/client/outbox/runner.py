"""Work that goes on beside a program: in its event loop, or in one on a thread."""

import asyncio
import logging
import threading
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, Self

from gateway.client.application_calls import Calls
from gateway.client.outbox.databases import AsyncEngineDatabase, Database

log = logging.getLogger("dragoman.outbox")

STOP = 10.0
"""Seconds that work under way has when it is told to stop."""


class Runner:
    """Base of `Outbox` and `Inbox`: started and stopped by ``with`` or ``async with``.

    With an asynchronous engine it works in the event loop of ``async with``, else in one on a
    thread of its own.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._calls = Calls(fallback=lambda: self._loop)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._task: asyncio.Task[None] | None = None
        self._stop = self._woken = asyncio.Event()
        self._failure: BaseException | None = None
        self.has_failed = False
        """Its work ended by an error, and does not go on."""
        self._source = ""
        self._lock = threading.Lock()

    def wake(self) -> None:
        """Look for work now, from any thread."""
        loop = self._loop
        if loop is not None:
            with suppress(RuntimeError):  # The loop is closed.
                loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        self._woken.set()

    def start(self) -> None:
        """Make the tables where they are missing, and start the work on a thread, unless it runs.

        Raises:
            TypeError: The engine is asynchronous.
            StorageUnavailable, SQLAlchemyError: The database does not answer.
        """
        self.create_tables()
        ready = threading.Event()
        with self._lock:
            if self._thread is not None:
                return
            self._failure = None
            self._thread = threading.Thread(target=self._run, args=(ready,), daemon=True)
            self._thread.start()
        ready.wait()
        self._check_began()

    def _check_began(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            self._thread = None
            try:
                raise failure
            finally:
                del failure

    def create_tables(self) -> None:
        """Make the tables where they are missing.

        Raises:
            TypeError: The engine is asynchronous.
        """
        if not self._source:
            self._source = self._database.create_tables()

    async def create_tables_async(self) -> None:
        """As `create_tables`, also with an asynchronous engine."""
        if self._source:
            return
        if isinstance(self._database, AsyncEngineDatabase):
            self._source = await self._database.create_tables_async()
        else:
            await asyncio.to_thread(self.create_tables)

    def close(self) -> None:
        """Stop; what is under way ends first."""
        loop, thread = self._loop, self._thread
        if thread is not None:
            if loop is not None:
                with suppress(RuntimeError):
                    loop.call_soon_threadsafe(self._end)
            thread.join(2 * STOP)
            self._thread = None
        self._database.close()

    def _end(self) -> None:
        self._stop.set()
        self._woken.set()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        self._calls.loop = asyncio.get_running_loop()
        await self.create_tables_async()
        if not self._database.is_async:
            await asyncio.to_thread(self.start)
            return self
        begun = asyncio.Event()
        self._task = asyncio.create_task(self._live(begun))
        waiting = asyncio.create_task(begun.wait())
        await asyncio.wait([self._task, waiting], return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if self._task.done():
            await self._task
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._task is None:
            await asyncio.to_thread(self.close)
            return
        self._end()
        await asyncio.wait([self._task], timeout=2 * STOP)
        self._task = None
        self._database.close()

    def _run(self, ready: threading.Event) -> None:
        try:
            asyncio.run(self._live(ready))
        except BaseException as error:
            self._failure = error.with_traceback(None)
        finally:
            self._loop = None
            ready.set()

    async def _live(self, ready: threading.Event | asyncio.Event) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop, self._woken = asyncio.Event(), asyncio.Event()
        self.has_failed = False
        try:
            async with asyncio.TaskGroup() as tasks:
                running = [tasks.create_task(each) for each in await self._begin()]
                ready.set()
                await self._stop.wait()
                if running:
                    await asyncio.wait(running, timeout=STOP)
                for task in running:
                    task.cancel()
        except Exception:
            if ready.is_set():
                self.has_failed = True
                log.exception("it has stopped")
            raise
        await self._finish()

    async def _begin(self) -> list[Coroutine[Any, Any, None]]:
        """Begin; the work that goes on until `stopping`."""
        raise NotImplementedError

    async def _finish(self) -> None:
        """End what `_begin` began."""

    @property
    def stopping(self) -> bool:
        """Whether the work is to end."""
        return self._stop.is_set()

    def clear(self) -> None:
        """Begin a look for work: what comes from now on ends the next `rest`."""
        self._woken.clear()

    async def rest(self, seconds: float) -> None:
        """Wait until there may be work, *seconds* at most."""
        if self.stopping:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._woken.wait()

    async def pause(self, seconds: float) -> None:
        """Wait, unless it is to end."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stop.wait()
