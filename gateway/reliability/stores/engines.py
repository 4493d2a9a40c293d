"""Engines as the stores need them: what a transaction begins with, what keeps it durable, and what
an error of a database means."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from gateway import databases
from gateway.databases import connection_options, driver_url, why_not_opened, why_unusable
from gateway.reliability.storage import Conflict, InDoubt, StorageUnavailable
from gateway.reliability.stores.driver_statements import run_alone

LOCK_WAIT = 10.0
"""Seconds that a transaction waits for an object that another one has."""
IDLE = 60.0
"""Seconds that a transaction may do nothing before PostgreSQL ends it: its process may hang, and it
has locks. An application does its work in it, so they are many."""
STATEMENT = 60.0
"""Seconds of one statement on PostgreSQL."""

_CONFLICTS = frozenset({"40001", "40P01"})
"""serialization_failure, deadlock_detected."""
_LOCKED = "55P03"
"""lock_not_available."""
_BROKEN = ("08", "57", "58", "XX")
"""Classes of errors that say nothing of what became of a COMMIT: connection exceptions, operator
intervention, system errors, internal errors."""
_COMMITS = "dragoman_rm_commits"
_DURABLE = "dragoman_rm_durable"
_AUTOCOMMITS = "dragoman_rm_autocommits"
FLUSH = "dragoman_rm_flush"
"""The function to call before a savepoint, which undoes no change that was written before it."""


def own_engine(url: str) -> Engine:
    """Make the engine of a database that no application gave us.

    Raises:
        StorageUnavailable: The URL names no database that stores are made for, or its library is
            missing.
    """
    # A connection that is in no transaction stays as it is: to change it for each takes time.
    level = {"isolation_level": "AUTOCOMMIT"}
    try:
        url = driver_url(url)
        engine = create_engine(url, connect_args=connection_options(url), **level)
        check_engine(engine)
        pooled = why_unusable(engine)
    except StorageUnavailable:
        raise
    except Exception as error:  # Drivers raise errors of their own for a URL that they cannot read.
        raise StorageUnavailable(why_not_opened(error)) from error
    if pooled is not None:
        engine.dispose()
        raise StorageUnavailable(pooled)
    engine.update_execution_options(**{_AUTOCOMMITS: True})
    if engine.dialect.name == "sqlite":
        _own_sqlite(engine)
    else:
        engine.dispose()  # The connections from before have no settings.
        event.listen(engine, "connect", _connected_to_postgresql)
    return engine


def check_engine(engine: Engine) -> None:
    """Check that a store can be on the database of *engine*.

    Raises:
        StorageUnavailable: It is of another kind, or ends with the process.
    """
    if engine.dialect.is_async:
        raise StorageUnavailable("the engine is asynchronous: give the store one that is not")
    if engine.dialect.name not in ("sqlite", "postgresql"):
        raise StorageUnavailable(f"no store is made for {engine.dialect.name}")
    if engine.dialect.name == "sqlite" and engine.url.database in (None, "", ":memory:"):
        raise StorageUnavailable("sqlite:// in memory cannot be a store; use memory:")


def let_readers_read(engine: Engine) -> None:
    """Switch the file of an SQLite database whose engine a program made to WAL, unless it has
    another journal than a new file has. In that one every reader would hold up the writer. What
    the file has now is kept while another program is in it."""
    if engine.dialect.name != "sqlite":
        return
    with suppress(SQLAlchemyError), reading(engine).connect() as connection:
        if connection.exec_driver_sql("PRAGMA journal_mode").scalar_one() == "delete":
            connection.exec_driver_sql("PRAGMA journal_mode=WAL")


def _own_sqlite(engine: Engine) -> None:
    @event.listens_for(engine, "connect")
    def _connected(connection: Any, _record: Any) -> None:
        for pragma in (
            "journal_mode=WAL",
            "synchronous=FULL",
            f"busy_timeout={int(LOCK_WAIT * 1000)}",
            "journal_size_limit=67108864",
        ):
            connection.execute(f"PRAGMA {pragma}")

    path = Path(str(engine.url.database))
    try:
        path.touch(mode=0o600)  # It holds messages; SQLite gives its log the same mode.
    except OSError as error:
        raise StorageUnavailable(f"{path}: {error.strerror or error}") from error


def _connected_to_postgresql(connection: Any, _record: Any) -> None:
    for statement in (
        f"SET idle_in_transaction_session_timeout = {int(IDLE * 1000)}",
        f"SET statement_timeout = {int(STATEMENT * 1000)}",
    ):
        connection.execute(statement)
    connection.commit()


def _begins_itself(engine: Engine) -> bool:
    """Return whether a transaction that somebody else began is committed by the driver of
    *engine*."""
    return engine.dialect.name == "sqlite" or engine.dialect.driver == "psycopg"


def writing(engine: Engine) -> Engine:
    """*engine* for transactions that write: they begin with a lock on an SQLite database, are read
    committed on PostgreSQL, are durable once committed, and committed by nobody but `commit`.

    It shares the connections of *engine*, whose other users notice nothing.
    """
    sqlite = engine.dialect.name == "sqlite"
    level = "AUTOCOMMIT" if _begins_itself(engine) else "READ COMMITTED"
    if engine.get_execution_options().get(_AUTOCOMMITS):
        ours = engine.execution_options()
    else:
        ours = engine.execution_options(isolation_level=level)
    event.listen(ours, "begin", _begin_sqlite if sqlite else _begin_postgresql)
    event.listen(ours, "commit", check_commit)
    event.listen(ours, "savepoint", _write_before)
    return ours


def reading(engine: Engine) -> Engine:
    """*engine* for looks: each statement by itself."""
    if engine.get_execution_options().get(_AUTOCOMMITS):
        return engine
    return engine.execution_options(isolation_level="AUTOCOMMIT")


def _begin_sqlite(connection: Connection) -> None:
    # Of the isolation level AUTOCOMMIT only this is left: the driver begins no transaction itself.
    if not connection.info.get(_DURABLE):
        if int(connection.exec_driver_sql("PRAGMA synchronous").scalar_one()) < 2:
            connection.exec_driver_sql("PRAGMA synchronous=FULL")
        connection.info[_DURABLE] = True
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def _begin_postgresql(connection: Connection) -> None:
    """Whatever the settings of a database or of its user: a commit is flushed, and no lock is
    waited for for ever."""
    if not connection.info.get(_DURABLE):
        flushes = connection.exec_driver_sql("SHOW synchronous_commit").scalar_one()
        connection.info[_DURABLE] = "set" if flushes in ("off", "local") else "on"
    settings = f"SET LOCAL lock_timeout = {int(LOCK_WAIT * 1000)}"
    if connection.info[_DURABLE] == "set":
        settings += "; SET LOCAL synchronous_commit = on"
    begin = "BEGIN ISOLATION LEVEL READ COMMITTED"
    if not _begins_itself(connection.engine):
        connection.exec_driver_sql(settings)
    elif connection.dialect.is_async:  # Its cursor prepares several at once, which fails.
        for statement in (begin, *settings.split("; ")):
            connection.exec_driver_sql(statement)
    else:  # In one go.
        run_alone(connection, f"{begin}; {settings}")


def _write_before(connection: Connection, _name: str | None) -> None:
    flush = connection.info.get(FLUSH)
    if flush is not None:
        flush()


def check_commit(connection: Connection) -> None:
    """Refuse a commit that is not ours."""
    if not connection.info.get(_COMMITS):
        raise RuntimeError(
            "the end of its block commits the transaction: use session() or begin_nested() in it"
        )


@contextmanager
def committing(connection: Connection) -> Iterator[None]:
    """Let the transaction of *connection* be committed."""
    connection.info[_COMMITS] = True
    try:
        yield
    finally:
        if not connection.closed and not connection.invalidated:
            connection.info.pop(_COMMITS, None)


def check_alive(connection: Connection) -> None:
    """Check that no statement of the transaction failed. PostgreSQL rolls back such a one at its
    COMMIT, or PREPARE, and says so to nobody.

    Raises:
        RuntimeError: One did, and whoever made it went on.
    """
    if connection.dialect.name != "postgresql" or connection.closed or connection.invalidated:
        return
    driver: Any = connection.connection.dbapi_connection
    if driver_failed(driver):
        raise RuntimeError(FAILED)
    if not hasattr(getattr(driver, "info", None), "transaction_status"):
        connection.exec_driver_sql("SELECT 1")  # Refused after a failure.


def driver_failed(driver: Any) -> bool:
    """Return whether the transaction of a connection of psycopg has failed."""
    status = getattr(getattr(driver, "info", None), "transaction_status", None)
    return getattr(status, "name", None) == "INERROR"


FAILED = "a statement of the transaction failed: it cannot be committed; use savepoints"


class Turns:
    """Lets the threads of one process write to an SQLite file in turn: its own lock is asked for
    again and again, with pauses."""

    def __init__(self, engine: Engine) -> None:
        self._lock = threading.Lock() if engine.dialect.name == "sqlite" else None

    def wait(self) -> Callable[[], None]:
        """Wait for the turn.

        Returns:
            What ends it; the second call does nothing.

        Raises:
            StorageUnavailable: It takes too long.
        """
        if self._lock is not None and not self._lock.acquire(timeout=LOCK_WAIT):
            raise StorageUnavailable(f"another transaction has the file for {LOCK_WAIT:g} s")
        held = [self._lock]

        def end() -> None:
            lock = held.pop() if held else None
            if lock is not None:
                lock.release()

        return end


def translated(error: SQLAlchemyError) -> Exception:
    """Translate an error of one of our statements."""
    if isinstance(error, IntegrityError):
        return Conflict(f"another transaction added the same: {first_line(error)}")
    if isinstance(error, DataError):
        return ValueError(f"no database keeps it: {first_line(error)}")
    return outage(error) or StorageUnavailable(first_line(error))


def outage(error: SQLAlchemyError) -> StorageUnavailable | None:
    """Translate an error of the database itself, whoever made the statement; None for other
    errors."""
    if isinstance(error, PoolTimeout):
        return StorageUnavailable("no connection to the database is free")
    if not isinstance(error, DBAPIError):
        return None
    state = str(getattr(error.orig, "sqlstate", None) or "")
    if state in _CONFLICTS:
        return Conflict(first_line(error))
    if state == _LOCKED:
        return StorageUnavailable(f"another transaction has it for {LOCK_WAIT:g} s")
    if error.connection_invalidated or state[:2] in _BROKEN:
        return StorageUnavailable(first_line(error))
    if "database is locked" in str(error.orig):
        return StorageUnavailable(f"another program has the file for {LOCK_WAIT:g} s")
    return None


def failed_commit(error: DBAPIError) -> StorageUnavailable | None:
    """Translate an error of COMMIT; None for one of the application, such as a constraint that is
    checked at the end."""
    state = str(getattr(error.orig, "sqlstate", None) or "")
    if state in _CONFLICTS:
        return Conflict(first_line(error))
    if state and state[:2] not in _BROKEN:
        return None
    if changed_nothing(error.orig):
        return StorageUnavailable(first_line(error))
    return InDoubt(f"nobody knows whether it was committed: {first_line(error)}")


def changed_nothing(error: object) -> bool:
    """Return whether a COMMIT at which a driver raised *error* is known to have changed nothing."""
    state = str(getattr(error, "sqlstate", None) or "")
    if state:
        return state[:2] not in _BROKEN
    # An SQLite file that is locked or full was not changed; after other errors of writing, parts of
    # the change may be in it.
    name = str(getattr(error, "sqlite_errorname", ""))
    return name.startswith(("SQLITE_BUSY", "SQLITE_FULL"))


def first_line(error: BaseException) -> str:
    """The part of what the driver says that fits into a line."""
    return databases.first_line(getattr(error, "orig", None) or error)
