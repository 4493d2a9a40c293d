"""The store's one writer: many operations share one commit (`gateway.group_commit`)."""

import asyncio
import contextlib
import hashlib
import random
import sqlite3
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import structlog
from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import DataError, SQLAlchemyError

from gateway.databases import break_off, first_line, sqlite_file, sqlite_url
from gateway.group_commit import GroupCommit
from gateway.observing.samples import Sample, gauge
from gateway.store.deadline import CALLER, WAITS, Caller, StoreLate
from gateway.store.opening import open_database
from gateway.store.outages import StoreUnavailable, is_locked_out, is_outage, is_passing
from gateway.store.statements import REPLICA

T = TypeVar("T")
Operation = Callable[[Connection], Any]

MAX_WAITING = 4096
"""Operations that may wait for the writer; more are refused."""
MAX_BATCH = 256
LATE = 5.0
"""Seconds of one commit after which the store is not writable."""
LOOKS = 0.5
"""Seconds between two looks at the waiting operations."""
CLOSES = 6.0
"""Seconds that submitted operations get at the end."""
ATTEMPTS = 8
"""Attempts of a batch that fails by no fault of its own, while the database goes on."""
PAUSE, LONGER, LONGEST = 0.02, 4, 1.0
"""The longest pause before the second attempt, in seconds; the factor for each further one; the
longest of all. Each pause is a random part of that, so that replicas that were in each other's way
do not meet again; it grows, for they may be many."""
INSIDE = 1.0
"""Seconds between two looks at the free pages of an SQLite file."""
PROBE = 1.0
"""Seconds between two tries to write, while the database refuses writes."""
_log = structlog.get_logger("dragoman.store")


@dataclass(slots=True, eq=False)
class _Waiting:
    """An operation that was submitted at *since*; *caller* waits for an answer."""

    operation: Operation
    locks: Collection[str]
    caller: Caller | None
    since: float


class Store:
    """Runs operations on the database in one writer thread.

    An operation is a function of a connection. It may run twice (when another of its batch
    failed), so it must do nothing but read and write that connection.

    Args:
        url: A URL as `gateway.databases.driver_url` takes it.
        power_safe: With False, commits to SQLite survive kill -9 but not a power loss.
        probe: Seconds from one try to write to the next, while the database takes nothing.
        waits: Seconds that an operation waits to be begun, and a caller to be answered; nothing is
            tried again after so many, and after twice as many a server's connection is broken off.
        late: Seconds of one commit after which the store is not writable.
    """

    def __init__(
        self,
        url: str,
        *,
        power_safe: bool = True,
        probe: float = PROBE,
        waits: float = WAITS,
        late: float = LATE,
    ) -> None:
        self._url = url
        self._power_safe = power_safe
        self._probe = probe
        self._waits = waits
        self._late = late
        self._commits: GroupCommit[_Waiting, Any] = GroupCommit(
            self._commit, MAX_BATCH, name="store-writer", at_end=self._end
        )
        self._closing = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._watching: asyncio.TimerHandle | None = None
        self._ended = asyncio.Event()
        self._engine: Engine | None = None
        self._driver: Any = None
        """The driver's connection that the commit under way uses."""
        self._driver_lock = threading.Lock()
        self._told_late = False
        self._tried = 0.0
        """When the last commit was tried."""
        self._takes = False
        """Whether the last commit succeeded."""
        self.commits = 0
        self.folder: Path | None = None
        """The folder of an SQLite database that is open; None for one in memory, or on a server."""
        self.free_inside = 0
        """Bytes of an SQLite file that are free within it, as of about a second ago."""
        self._looked_inside = 0.0

    @classmethod
    def at(cls, folder: Path, *, power_safe: bool = True) -> "Store":
        """The SQLite store in *folder*."""
        return cls(sqlite_url(folder / "store.db"), power_safe=power_safe)

    async def start(self) -> None:
        """Open the database and bring its schema up to date.

        Raises:
            StoreUnavailable: It cannot be opened, or a newer program wrote it.
        """
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, self._open)
        self._loop = loop
        self._commits.start()
        self._watch()

    def _open(self) -> None:
        self._engine = open_database(self._url, power_safe=self._power_safe)
        path = sqlite_file(self._engine)
        self.folder = None if path is None else path.absolute().parent
        self._takes = True

    @property
    def writable(self) -> bool:
        """Return whether the last commit succeeded, and none is late."""
        return self._takes and self._age() <= self._late

    def look(self) -> None:
        """Try to write, if there was no commit for a while: `writable` tells of the last one, which
        may be long ago."""
        self._try_to_write(self._late)

    def _try_to_write(self, after: float) -> None:
        """Try whether the database takes writes, if no commit was tried for *after* seconds."""
        idle = self._commits.began is None and not self._commits
        if idle and time.monotonic() - self._tried > after:
            with contextlib.suppress(StoreUnavailable):
                self.submit(_change_nothing).add_done_callback(_forget)

    def _age(self) -> float:
        """Seconds that a commit is under way; 0 while none is."""
        began = self._commits.began
        return 0.0 if began is None else time.monotonic() - began

    def hurry(self, waits: float) -> None:
        """Let callers wait at most so many seconds from now on: the gateway is stopping."""
        self._waits = min(self._waits, waits)

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
        if self._loop is None or self._closing or self._age() > self._waits:
            raise StoreUnavailable
        if len(self._commits) >= MAX_WAITING:
            raise StoreUnavailable
        return self._commits.submit(_Waiting(operation, locks, CALLER.get(), time.monotonic()))

    def _watch(self) -> None:
        """Refuse operations that waited too long to begin; let callers of a late batch go, and
        break its connection off after twice that time; while the database takes nothing, try
        whether it does again."""
        if self._loop is None or self._ended.is_set():
            return
        every = min(LOOKS, self._waits / 4, self._probe)
        self._watching = self._loop.call_later(every, self._watch)
        if not self._takes:
            self._try_to_write(self._probe)
        before = time.monotonic() - self._waits
        self._commits.refuse(lambda one: one.since < before, StoreUnavailable)
        age = self._age()
        if age > 2 * self._waits:
            with self._driver_lock:
                break_off(self._driver)
        for one in self._commits.under_way:
            if one.caller is not None and one.since < before:
                one.caller.give_up()
        if age > self._late and not self._told_late:
            self._told_late = True
            _log.error("store.late", seconds=round(age, 1))

    def metrics(self) -> Iterator[Sample]:
        """Yield whether the store takes writes now."""
        yield gauge("store_writable", "Whether the store takes writes.", self.writable)

    @property
    def closed(self) -> bool:
        """Return whether the store takes no operation more, for ever."""
        return self._closing

    @property
    def may_be_shared(self) -> bool:
        """Return whether several gateways can use the store."""
        return self._engine is not None and self._engine.dialect.name == "postgresql"

    def number(self, replica: int) -> None:
        """Tell operations the number of this replica: see `gateway.store.statements`."""
        if self._engine is not None:
            self._engine = self._engine.execution_options(**{REPLICA: replica})

    async def close(self, seconds: float = CLOSES) -> None:
        """Finish the submitted operations, then close the database. Those that take longer are
        left: the database knows whether they were committed."""
        if self._loop is None:
            return
        self._closing = True
        self._commits.close()
        if not await self._ends_within(seconds):
            with self._driver_lock:
                break_off(self._driver)
            if not await self._ends_within(seconds / 4):
                _log.error("store.not-closed", seconds=seconds)
        self._ended.set()
        if self._watching is not None:
            self._watching.cancel()
        self._commits.refuse(lambda _: True, StoreUnavailable)

    async def _ends_within(self, seconds: float) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._ended.wait()
        return self._ended.is_set()

    def _end(self) -> None:
        """Close the database: the end of the writer's thread."""
        try:
            with contextlib.suppress(SQLAlchemyError, sqlite3.Error):
                self._checkpoint()
        finally:
            with contextlib.suppress(RuntimeError):  # The loop is closed.
                if self._loop is not None:
                    self._loop.call_soon_threadsafe(self._ended.set)

    def _checkpoint(self) -> None:
        if self._engine is None:
            return
        try:
            if self._engine.dialect.name == "sqlite":
                with contextlib.closing(self._engine.raw_connection()) as raw:
                    raw.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        finally:
            self._engine.dispose()

    @contextlib.contextmanager
    def _connected(self, engine: Engine) -> Iterator[Connection]:
        """A connection that `_watch` can break off."""
        with engine.connect() as connection:
            with self._driver_lock:
                self._driver = connection.connection.driver_connection
            try:
                yield connection
            finally:
                with self._driver_lock:
                    self._driver = None

    def _commit(self, batch: Sequence[_Waiting]) -> list[Any]:
        engine = self._engine
        if engine is None:  # pragma: no cover - start() sets it
            raise RuntimeError("the store was not started")
        try:
            return self._commit_or_refuse(engine, batch)
        finally:
            self._tried = time.monotonic()

    def _commit_or_refuse(self, engine: Engine, batch: Sequence[_Waiting]) -> list[Any]:
        until = time.monotonic() + self._waits
        for attempt in range(ATTEMPTS):
            try:
                return self._commit_all(engine, batch)
            except Exception as error:
                over = time.monotonic() > until
                if is_passing(error) and attempt < ATTEMPTS - 1 and not over:
                    time.sleep(random.uniform(0.0, min(LONGEST, PAUSE * LONGER**attempt)))
                    continue
                if len(batch) == 1 or _ends_all(error, over=over):
                    return self._refuse(batch, error)
                break
        # One operation spoiled the batch: each in its own transaction, as long as the database
        # takes any.
        outcomes: list[Any] = []
        for number, one in enumerate(batch):
            try:
                outcomes += self._commit_all(engine, [one])
            except Exception as error:
                if _ends_all(error, over=time.monotonic() > until):
                    return outcomes + self._refuse(batch[number:], error)
                outcomes += self._refuse([one], error)
        return outcomes

    def _commit_all(self, engine: Engine, batch: Sequence[_Waiting]) -> list[Any]:
        with self._connected(engine) as connection:
            transaction = connection.begin()
            _lock(connection, {name for one in batch for name in one.locks})
            outcomes: list[Any] = [one.operation(connection) for one in batch]
            number = _number(connection)
            try:
                transaction.commit()
            except Exception as error:
                if number is None or not is_outage(error):
                    raise
                committed = self._was_committed(engine, number)
                if committed is None:
                    raise StoreLate from error
                if not committed:
                    raise
            self._look_inside(connection)
        self.commits += 1
        if not self._takes or self._told_late:
            _log.info("store.recovered")
        self._takes, self._told_late = True, False
        return outcomes

    def _look_inside(self, connection: Connection) -> None:
        """Read, now and then, how much of the file is free: without a transaction, for it is a
        number in its first page. No failure here may undo, or repeat, the commit before it."""
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

    def _was_committed(self, engine: Engine, number: int) -> bool | None:
        """Ask the server about transaction *number*, whose commit was not answered, until it knows:
        nothing may be done twice. Operations that come meanwhile are refused. None: it does not
        know, and the store is closed."""
        while not self._closing:
            try:
                with self._connected(engine) as connection:
                    status = connection.execute(_STATUS, {"number": number}).scalar()
            except DataError:  # Another server took its place, and has never heard of it.
                return False
            except SQLAlchemyError as error:
                self._note_outage(error)
                self._commits.refuse(lambda _: True, StoreUnavailable)
            else:
                if status != "in progress":
                    return bool(status == "committed")
            time.sleep(self._probe)
        return None

    def _refuse(self, batch: Sequence[_Waiting], error: Exception) -> list[Any]:
        if not is_outage(error):
            return [error] * len(batch)
        self._note_outage(error)
        return [StoreUnavailable() for _ in batch]

    def _note_outage(self, error: Exception) -> None:
        if self._takes:
            _log.error("store.failed", error=first_line(error))
        self._takes = False


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


def _ends_all(error: Exception, *, over: bool) -> bool:
    """Return whether *error* ends a whole batch, so that none of it need be tried by itself;
    *over*: its time is over."""
    return is_locked_out(error) or isinstance(error, StoreLate) or (over and is_outage(error))


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


def _change_nothing(connection: Connection) -> None:
    """An operation that changes nothing, but has to be written."""
    for statement in _PROBES:
        connection.execute(statement)


def _forget(future: "asyncio.Future[Any]") -> None:
    """Take note of how *future* ended, so that asyncio does not log that nobody did."""
    if not future.cancelled():
        future.exception()


_LOCK = text(
    "SELECT pg_advisory_xact_lock(number) FROM unnest(CAST(:numbers AS bigint[])) AS number"
)
_STATUS = text("SELECT txid_status(CAST(:number AS bigint))")
_PROBES = (
    text("INSERT INTO totals VALUES ('-', 0, 0, 0, 0, 0, 0, 0)"),
    text("DELETE FROM totals WHERE subscription = '-'"),
)
