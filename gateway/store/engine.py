"""The store's one writer: many operations share one commit, without a timer.

A commit starts when the previous one ends and takes what has come meanwhile.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import structlog
from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.exc import SQLAlchemyError

from filters import Reason, Refused
from gateway.store.migrations import upgrade

T = TypeVar("T")
Operation = Callable[[Connection], Any]

MAX_WAITING = 4096
"""Operations that may wait for the writer; more are refused."""
MAX_BATCH = 256
_log = structlog.get_logger("dragoman.store")


class StoreUnavailable(Refused):
    """The store cannot take it now; nothing was changed."""

    def __init__(self, text: str = "The store cannot take it now.") -> None:
        super().__init__(Reason.UNAVAILABLE, text)


class Store:
    """Runs operations on the database in one writer thread.

    An operation is a function of a connection. It may run twice (when another of its batch
    failed), so it must do nothing but read and write that connection.

    Args:
        url: An SQLAlchemy URL; plain ``postgresql://`` means psycopg 3.
        power_safe: With False, commits to SQLite survive kill -9 but not a power loss.
    """

    def __init__(self, url: str, *, power_safe: bool = True) -> None:
        if url.startswith("postgresql://"):
            url = "postgresql+psycopg://" + url.removeprefix("postgresql://")
        self._url = url
        self._power_safe = power_safe
        self._waiting: deque[tuple[Operation, asyncio.Future[Any]]] = deque()
        self._condition = threading.Condition()
        self._closing = False
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._engine: Engine | None = None
        self.commits = 0
        self.writable = False

    @classmethod
    def at(cls, folder: Path, *, power_safe: bool = True) -> "Store":
        """The SQLite store in *folder*."""
        return cls(f"sqlite:///{folder / 'store.db'}", power_safe=power_safe)

    async def start(self) -> None:
        """Open the database and bring its schema up to date.

        Raises:
            StoreUnavailable: It cannot be opened, or a newer program wrote it.
        """
        self._loop = asyncio.get_running_loop()
        await self._loop.run_in_executor(None, self._open)
        self._thread = threading.Thread(target=self._write, name="store-writer", daemon=True)
        self._thread.start()

    def _open(self) -> None:
        try:
            engine = create_engine(self._url, pool_size=2, max_overflow=2)
            if engine.dialect.name == "sqlite":
                self._prepare_sqlite(engine)
            upgrade(engine)
        except (SQLAlchemyError, ImportError) as error:  # The latter: its driver is missing.
            raise StoreUnavailable(f"The store cannot be opened: {_first_line(error)}") from error
        self._engine = engine
        self.writable = True

    def _prepare_sqlite(self, engine: Engine) -> None:
        synchronous = "FULL" if self._power_safe else "NORMAL"

        @event.listens_for(engine, "connect")
        def _connected(connection: Any, _record: Any) -> None:
            connection.isolation_level = None
            for pragma in (
                "journal_mode=WAL",
                f"synchronous={synchronous}",
                "foreign_keys=ON",
                "busy_timeout=5000",
                "journal_size_limit=67108864",
            ):
                connection.execute(f"PRAGMA {pragma}")

        @event.listens_for(engine, "begin")
        def _begun(connection: Connection) -> None:
            connection.exec_driver_sql("BEGIN IMMEDIATE")

    def submit(self, operation: Callable[[Connection], T]) -> "asyncio.Future[T]":
        """Run *operation*; the future is done when it is committed.

        Operations are run in the order of submission.

        Raises:
            StoreUnavailable: (also through the future) the database cannot take it.
        """
        if self._loop is None or self._closing:
            raise StoreUnavailable
        future: asyncio.Future[T] = self._loop.create_future()
        with self._condition:
            if len(self._waiting) >= MAX_WAITING:
                raise StoreUnavailable
            self._waiting.append((operation, future))
            self._condition.notify()
        return future

    async def close(self) -> None:
        """Finish what was submitted, then close the database."""
        if self._thread is None:
            return
        with self._condition:
            self._closing = True
            self._condition.notify()
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, self._thread.join)
        if self._engine is not None:
            await loop.run_in_executor(None, self._checkpoint, self._engine)

    def _checkpoint(self, engine: Engine) -> None:
        if engine.dialect.name == "sqlite":
            raw = engine.raw_connection()
            try:
                raw.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            finally:
                raw.close()
        engine.dispose()

    def _write(self) -> None:
        engine, loop = self._engine, self._loop
        if engine is None or loop is None:  # pragma: no cover - start() sets both
            raise RuntimeError("the store was not started")
        while True:
            with self._condition:
                while not self._waiting and not self._closing:
                    self._condition.wait()
                if not self._waiting:
                    return
                batch = [self._waiting.popleft() for _ in range(min(len(self._waiting), MAX_BATCH))]
            outcomes = self._commit(engine, batch)
            try:
                loop.call_soon_threadsafe(_resolve, outcomes)
            except RuntimeError:  # The loop is closed: nobody waits any more.
                return

    def _commit(
        self, engine: Engine, batch: list[tuple[Operation, asyncio.Future[Any]]]
    ) -> list[tuple[asyncio.Future[Any], Any, BaseException | None]]:
        try:
            with engine.begin() as connection:
                results = [(future, operation(connection), None) for operation, future in batch]
            self.commits += 1
            self.writable = True
            return list(results)
        except Exception as error:
            if len(batch) > 1:  # One of them spoils the others: each by itself.
                return [self._commit(engine, [one])[0] for one in batch]
            if isinstance(error, SQLAlchemyError):
                self.writable = False
                _log.error("store.failed", error=_first_line(error))
                unavailable = StoreUnavailable()
                unavailable.__cause__ = error
                return [(batch[0][1], None, unavailable)]
            return [(batch[0][1], None, error)]


def _resolve(outcomes: list[tuple[asyncio.Future[Any], Any, BaseException | None]]) -> None:
    for future, result, error in outcomes:
        if future.done():
            continue
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0][:200]
