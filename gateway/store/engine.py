"""The store's one writer: many operations share one commit, without a timer.

A commit starts when the previous one ends and takes what has come meanwhile.
"""

import asyncio
import contextlib
import hashlib
import random
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import structlog
from sqlalchemy import Connection, Engine, create_engine, event, make_url, text
from sqlalchemy.exc import (
    DataError,
    DBAPIError,
    IntegrityError,
    NotSupportedError,
    ProgrammingError,
    SQLAlchemyError,
    TimeoutError,
)

from filters import Reason, Refused
from filters.extras import how_to_install
from gateway.databases import connection_options, driver_url, first_line, sqlite_url
from gateway.observing.samples import Sample, gauge
from gateway.store.migrations import upgrade
from gateway.store.statements import REPLICA

T = TypeVar("T")
Operation = Callable[[Connection], Any]
_Waiting: TypeAlias = tuple[Operation, Collection[str], asyncio.Future[Any]]
_Outcome: TypeAlias = tuple[asyncio.Future[Any], Any, Exception | None]

MAX_WAITING = 4096
"""Operations that may wait for the writer; more are refused."""
MAX_BATCH = 256
BUSY = 0.4
"""Seconds that a commit waits for another program that has the SQLite file, before it fails."""
HANGS = 5.0
"""Seconds that a transaction on PostgreSQL may do nothing before the server ends it."""
STATEMENT = 60.0
"""Seconds of one statement on PostgreSQL."""
CACHE = 32 * 2**20
"""Bytes of an SQLite database that are kept in memory."""
ATTEMPTS = 8
"""Attempts of a batch that fails by no fault of its own, while the database goes on."""
PAUSE, LONGER, LONGEST = 0.02, 4, 1.0
"""Seconds before the second of them, at most, how many times as long before each further one, and
the most of them.
Chance says how much of it, so that replicas that were in each other's way do not meet again; it
grows, for they may be many."""
INSIDE = 1.0
"""Seconds from one look at what is free within an SQLite file to the next."""
PROBE = 1.0
"""Seconds from one try to write to the next, while the database does not take what is written."""
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
        probe: Seconds from one try to write to the next, while the database takes nothing.
    """

    def __init__(self, url: str, *, power_safe: bool = True, probe: float = PROBE) -> None:
        self._url = driver_url(url)
        self._power_safe = power_safe
        self._probe = probe
        self._waiting: deque[_Waiting] = deque()
        self._condition = threading.Condition()
        self._closing = False
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._engine: Engine | None = None
        self.commits = 0
        self.folder: Path | None = None
        """The folder of an SQLite database that is open; None for one in memory, or on a server."""
        self.free_inside = 0
        """Bytes of an SQLite file that are free within it, as of about a second ago."""
        self._looked_inside = 0.0
        self.writable = False
        """Whether the last commit succeeded."""

    @classmethod
    def at(cls, folder: Path, *, power_safe: bool = True, probe: float = PROBE) -> "Store":
        """The SQLite store in *folder*."""
        return cls(sqlite_url(folder / "store.db"), power_safe=power_safe, probe=probe)

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
            engine = create_engine(
                self._url, pool_size=2, max_overflow=2, connect_args=connection_options(self._url)
            )
        except SQLAlchemyError as error:
            raise StoreUnavailable(f"The store cannot be opened: {first_line(error)}") from error
        except ImportError as error:
            text = f"The store needs {error.name}, which is not installed"
            mend = f": {how_to_install('postgresql')}" if error.name == "psycopg" else "."
            raise StoreUnavailable(f"{text}{mend}") from error
        try:
            if engine.dialect.name == "sqlite":
                self._prepare_sqlite(engine)
            else:
                self._prepare_postgresql(engine)
            upgrade(engine)
        except (SQLAlchemyError, sqlite3.Error) as error:
            engine.dispose()
            raise StoreUnavailable(f"The store cannot be opened: {first_line(error)}") from error
        except Refused:
            engine.dispose()
            raise
        self._engine = engine
        self.writable = True

    def _prepare_sqlite(self, engine: Engine) -> None:
        synchronous = "FULL" if self._power_safe else "NORMAL"
        unclean = _was_left_open(self._url)

        @event.listens_for(engine, "connect")
        def _connected(connection: Any, _record: Any) -> None:
            connection.isolation_level = None
            for pragma in (
                "journal_mode=WAL",
                f"synchronous={synchronous}",
                "foreign_keys=ON",
                f"busy_timeout={int(BUSY * 1000)}",
                "journal_size_limit=67108864",
                f"cache_size=-{CACHE >> 10}",
            ):
                connection.execute(f"PRAGMA {pragma}")

        @event.listens_for(engine, "begin")
        def _begun(connection: Connection) -> None:
            connection.exec_driver_sql("BEGIN IMMEDIATE")

        database = make_url(self._url).database
        if database and database != ":memory:" and not database.startswith("file:"):
            Path(database).touch(mode=0o600)  # It holds keys; what stands beside it follows it.
            self.folder = Path(database).absolute().parent
        if unclean:
            with engine.connect() as connection:
                verdict = connection.exec_driver_sql("PRAGMA quick_check(1)").scalar()
            if verdict != "ok":
                raise StoreUnavailable(
                    f"The store is damaged ({str(verdict)[:200]}): put back a copy of it, or move "
                    "it away to begin with an empty one."
                )

    def _prepare_postgresql(self, engine: Engine) -> None:
        """A process that hangs within a transaction must not hold others up for long: its
        connection is ended by the server. What is committed is flushed, whatever the database's
        own setting."""
        synchronous = (
            "SELECT set_config('synchronous_commit', 'on', false)"
            " WHERE current_setting('synchronous_commit') IN ('off', 'local')"
            if self._power_safe
            else "SET synchronous_commit = off"
        )

        @event.listens_for(engine, "connect")
        def _connected(connection: Any, _record: Any) -> None:
            for statement in (
                f"SET idle_in_transaction_session_timeout = {int(HANGS * 1000)}",
                f"SET lock_timeout = {int(2 * HANGS * 1000)}",
                f"SET statement_timeout = {int(STATEMENT * 1000)}",
                synchronous,
            ):
                connection.execute(statement)
            connection.commit()

    def submit(
        self, operation: Callable[[Connection], T], *, locks: Collection[str] = ()
    ) -> "asyncio.Future[T]":
        """Run *operation*; the future is done when it is committed.

        Operations are run in the order of submission.

        Args:
            locks: Names for what it changes that other replicas change, too. A batch has all of
                its locks, in one order, before it begins: in whatever order it then changes what
                they stand for, two replicas never wait for one another.

        Raises:
            StoreUnavailable: (also through the future) the database cannot take it.
        """
        if self._loop is None or self._closing:
            raise StoreUnavailable
        future: asyncio.Future[T] = self._loop.create_future()
        with self._condition:
            if len(self._waiting) >= MAX_WAITING:
                raise StoreUnavailable
            self._waiting.append((operation, locks, future))
            self._condition.notify()
        return future

    def metrics(self) -> Iterator[Sample]:
        """Whether the last commit succeeded."""
        yield gauge("store_writable", "Whether the store takes writes.", self.writable)

    @property
    def closed(self) -> bool:
        """Whether it takes nothing more, for ever."""
        return self._closing

    @property
    def may_be_shared(self) -> bool:
        """Whether several gateways can have it."""
        return self._engine is not None and self._engine.dialect.name == "postgresql"

    def number(self, replica: int) -> None:
        """Tell operations the number of this replica: see `gateway.store.statements`."""
        if self._engine is not None:
            self._engine = self._engine.execution_options(**{REPLICA: replica})

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
        loop = self._loop
        if self._engine is None or loop is None:  # pragma: no cover - start() sets both
            raise RuntimeError("the store was not started")
        while True:
            engine = self._engine
            with self._condition:
                while not self._waiting and not self._closing:
                    if not self._condition.wait(None if self.writable else self._probe):
                        break  # It could not be written: try whether it can be again.
                if not self._waiting and self._closing:
                    return
                batch = [self._waiting.popleft() for _ in range(min(len(self._waiting), MAX_BATCH))]
            if not batch:
                self._try_to_write(engine)
                continue
            outcomes = self._commit(engine, batch)
            try:
                loop.call_soon_threadsafe(_resolve, outcomes)
            except RuntimeError:  # The loop is closed: nobody waits any more.
                return

    def _try_to_write(self, engine: Engine) -> None:
        try:
            with engine.begin() as connection:
                for statement in _PROBES:
                    connection.execute(statement)
        except Exception:
            return
        self.writable = True
        _log.info("store.recovered")

    def _commit(self, engine: Engine, batch: Sequence[_Waiting]) -> list[_Outcome]:
        for attempt in range(ATTEMPTS):
            try:
                return self._commit_all(engine, batch)
            except Exception as error:
                if _is_passing(error) and attempt < ATTEMPTS - 1:
                    time.sleep(random.uniform(0.0, min(LONGEST, PAUSE * LONGER**attempt)))
                    continue
                if len(batch) == 1 or _is_locked_out(error):
                    return self._refuse(batch, error)
                break
        # One of them spoils the others: each by itself, while the database takes any.
        outcomes: list[_Outcome] = []
        for number, one in enumerate(batch):
            try:
                outcomes += self._commit_all(engine, [one])
            except Exception as error:
                if _is_locked_out(error):
                    return outcomes + self._refuse(batch[number:], error)
                outcomes += self._refuse([one], error)
        return outcomes

    def _commit_all(self, engine: Engine, batch: Sequence[_Waiting]) -> list[_Outcome]:
        with engine.connect() as connection:
            transaction = connection.begin()
            _lock(connection, {name for _, locks, _ in batch for name in locks})
            outcomes: list[_Outcome] = [
                (future, operation(connection), None) for operation, _, future in batch
            ]
            number = _number(connection)
            try:
                transaction.commit()
            except Exception as error:
                if number is None or not is_outage(error):
                    raise
                if not self._was_committed(engine, number):
                    raise
            self._look_inside(connection)
        self.commits += 1
        self.writable = True
        return outcomes

    def _look_inside(self, connection: Connection) -> None:
        """See, now and then, how much of the file is free: without a transaction, for it is only
        a number in its first page. Whatever happens here, what was committed is not done again."""
        now = time.monotonic()
        if self.folder is None or now - self._looked_inside < INSIDE:
            return
        self._looked_inside = now
        with contextlib.suppress(SQLAlchemyError, sqlite3.Error):
            driver = connection.connection.driver_connection
            if driver is not None:
                (pages,) = driver.execute("PRAGMA freelist_count").fetchone()
                (size,) = driver.execute("PRAGMA page_size").fetchone()
                self.free_inside = int(pages) * int(size)

    def _was_committed(self, engine: Engine, number: int) -> bool:
        """Ask the server about transaction *number*, whose commit was not answered, until it knows:
        nothing may be done twice. Operations that come meanwhile are refused."""
        while not self._closing:
            try:
                with engine.connect() as connection:
                    status = connection.execute(_STATUS, {"number": number}).scalar()
            except DataError:  # Another server took its place, and has never heard of it.
                return False
            except SQLAlchemyError as error:
                with self._condition:
                    waiting = [self._waiting.popleft() for _ in range(len(self._waiting))]
                if self._loop is not None:
                    self._loop.call_soon_threadsafe(_resolve, self._refuse(waiting, error))
            else:
                if status != "in progress":
                    return bool(status == "committed")
            time.sleep(self._probe)
        return False

    def _refuse(self, batch: Sequence[_Waiting], error: Exception) -> list[_Outcome]:
        if not is_outage(error):
            return [(future, None, error) for *_, future in batch]
        if self.writable:
            _log.error("store.failed", error=first_line(error))
        self.writable = False
        return [(future, None, StoreUnavailable()) for *_, future in batch]


def run_apart(operations: Sequence[Operation], connection: Connection) -> list[Any]:
    """Run each of *operations* in a savepoint; one that goes wrong has its error as its result.

    An outage spoils them all.
    """
    return [_run_in_savepoint(operation, connection) for operation in operations]


def _run_in_savepoint(operation: Operation, connection: Connection) -> Any:
    try:
        with connection.begin_nested():
            return operation(connection)
    except Exception as error:
        if is_outage(error):
            raise
        return error


def is_outage(error: Exception) -> bool:
    """Whether the database fails, rather than what was asked of it."""
    if isinstance(error, IntegrityError | DataError | ProgrammingError | NotSupportedError):
        return False
    if str(getattr(getattr(error, "orig", None), "sqlstate", None)).startswith(_LIMIT):
        return False  # An index row that is too long, say.
    return isinstance(error, DBAPIError | TimeoutError | sqlite3.Error)


def _is_passing(error: Exception) -> bool:
    """Whether it may succeed the next time: a connection broke, or two transactions were in each
    other's way."""
    if not isinstance(error, DBAPIError):
        return False
    return error.connection_invalidated or getattr(error.orig, "sqlstate", None) in _CONFLICTS


def _lock(connection: Connection, names: Collection[str]) -> None:
    """Have the locks of *names* until the transaction ends, where others could be in the way."""
    if not names or connection.dialect.name != "postgresql":
        return
    numbers = sorted(
        int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "big", signed=True)
        for name in names
    )
    connection.execute(_LOCK, {"numbers": numbers})


def _number(connection: Connection) -> int | None:
    """The number by which PostgreSQL knows the transaction, if it has changed anything."""
    if connection.dialect.name != "postgresql":
        return None
    found = connection.execute(text("SELECT txid_current_if_assigned()")).scalar()
    return None if found is None else int(found)


def _is_locked_out(error: Exception) -> bool:
    """Whether not even a transaction can begin."""
    return (
        isinstance(error, DBAPIError)
        and is_outage(error)
        and (error.statement is None or error.statement == "BEGIN IMMEDIATE")
    ) or isinstance(error, TimeoutError)


def _was_left_open(url: str) -> bool:
    """Whether an SQLite database has a log that no clean end emptied."""
    database = make_url(url).database
    if not database or database == ":memory:":
        return False
    log = Path(database + "-wal")
    return log.exists() and log.stat().st_size > 0


def _resolve(outcomes: Sequence[_Outcome]) -> None:
    for future, result, error in outcomes:
        if future.done():
            continue
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)


_LIMIT = "54"
"""The class of PostgreSQL's program_limit_exceeded."""
_CONFLICTS = frozenset({"40001", "40P01", "55P03", "23503", "23505"})
"""serialization_failure, deadlock_detected, lock_not_available; and what a row that another
replica just made or removed leads to: foreign_key_violation, unique_violation."""
_LOCK = text(
    "SELECT pg_advisory_xact_lock(number) FROM unnest(CAST(:numbers AS bigint[])) AS number"
)
_STATUS = text("SELECT txid_status(CAST(:number AS bigint))")
_PROBES = (
    text("INSERT INTO totals VALUES ('-', 0, 0, 0, 0, 0, 0, 0)"),
    text("DELETE FROM totals WHERE subscription = '-'"),
)
"""A change that changes nothing, but has to be written."""
