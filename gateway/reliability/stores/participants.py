"""The databases that take part in a two-phase commit beside the store's own.

A participant is a `ConnectionManager`: ours are `PsycopgConnections` (PEP 249's tpc_*),
`EngineConnections` (SQLAlchemy's), and `LastResource` for what cannot prepare.
"""

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

from sqlalchemy import Connection, Engine, event, text
from sqlalchemy.exc import SQLAlchemyError

from filters.extras import how_to_install
from gateway.reliability.storage import StorageUnavailable
from gateway.reliability.stores.engines import (
    FAILED,
    check_alive,
    check_commit,
    committing,
    driver_failed,
    first_line,
    translated,
)

FORMAT = 0x44524D
"""The format id of our global transactions (PEP 249), by which they are told from others'."""
IDLE_CONNECTIONS = 5
"""Connections that a participant keeps open for the next transactions."""
_PREFIX = f"dragoman_rm:{FORMAT}:"


class CannotPrepare(StorageUnavailable):
    """A database does not take part in two-phase commits as it is set up."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A transaction that a participant has prepared, and not ended.

    Attributes:
        gtrid: The name that it has at all participants.
        age: Seconds since it was prepared, by the database's clock; None where that is not told.
    """

    gtrid: str
    age: float | None


class Branch(Protocol):
    """One participant's part of one transaction.

    Attributes:
        connection: The connection on which the application changes its tables.
    """

    connection: Any

    def prepare(self) -> None:
        """Promise that it can be committed, whatever happens.

        Raises:
            StorageUnavailable: It is rolled back, or will be.
        """
        ...

    def commit(self) -> None:
        """Commit the prepared part; of a participant that cannot prepare, its changes."""
        ...

    def rollback(self) -> None:
        """Undo it, prepared or not."""
        ...

    def lost(self) -> bool:
        """Return whether the connection broke, so that an error of it is the database's."""
        ...

    def close(self) -> None:
        """Leave it as it is: if it is prepared, it stays so until somebody ends it."""
        ...


class ConnectionManager(Protocol):
    """A participant.

    Attributes:
        name: Letters, digits, ``.``, ``_`` and ``-``, at most 30; it stays the same for good, since
            the log of decisions and the names of prepared transactions have it.
        prepares: False for a last resource, of which a transaction has one at most.
    """

    name: str
    prepares: bool

    def begin(self, gtrid: str) -> Branch: ...

    def check(self) -> None:
        """See whether it can prepare.

        Raises:
            CannotPrepare: It says itself that it cannot.
            StorageUnavailable: It does not answer.
        """
        ...

    def recover(self) -> list[Prepared]:
        """The transactions that are prepared in this name, by whatever node."""
        ...

    def commit(self, gtrid: str) -> None:
        """Commit a transaction that was prepared on another connection; do nothing if it has
        ended."""
        ...

    def rollback(self, gtrid: str) -> None:
        """Undo a transaction that was prepared on another connection; do nothing if it has
        ended."""
        ...

    def close(self) -> None: ...


class PsycopgConnections:
    """PostgreSQL, by psycopg alone: ``tpc_begin`` and what follows.

    Args:
        connect: How to connect, as ``psycopg.connect`` takes it, or a function that does.
    """

    prepares = True

    def __init__(self, name: str, connect: str | Callable[[], Any]) -> None:
        self.name = name
        self._how = connect
        self._idle: list[Any] = []
        self._lock = threading.Lock()

    def begin(self, gtrid: str) -> Branch:
        connection = self._connection()
        try:
            connection.tpc_begin(connection.xid(FORMAT, gtrid, self.name))
        except Exception:
            connection.close()
            self.close()  # Idle connections broke, too: the server was restarted, say.
            connection = self._connection()
            try:
                connection.tpc_begin(connection.xid(FORMAT, gtrid, self.name))
            except Exception as error:
                connection.close()
                raise _unavailable(self.name, error) from error
        return _PsycopgBranch(self, connection)

    def check(self) -> None:
        self._with_connection(self._check)

    def _check(self, connection: Any) -> None:
        setting = connection.execute("SHOW max_prepared_transactions").fetchone()
        _check_setting(self.name, setting[0])

    def recover(self) -> list[Prepared]:
        found: list[Prepared] = self._with_connection(self._recover)
        return found

    def _recover(self, connection: Any) -> list[Prepared]:
        found = connection.tpc_recover()
        here, now = connection.execute("SELECT current_database(), clock_timestamp()").fetchone()
        return [
            Prepared(xid.gtrid, (now - xid.prepared).total_seconds())
            for xid in found
            if (xid.format_id, xid.bqual, xid.database) == (FORMAT, self.name, here)
        ]

    def commit(self, gtrid: str) -> None:
        self._with_connection(
            lambda connection: connection.tpc_commit(connection.xid(FORMAT, gtrid, self.name))
        )

    def rollback(self, gtrid: str) -> None:
        self._with_connection(
            lambda connection: connection.tpc_rollback(connection.xid(FORMAT, gtrid, self.name))
        )

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _with_connection(self, work: Callable[[Any], Any]) -> Any:
        connection = self._connection()
        try:
            found = work(connection)
            connection.rollback()
        except Exception as error:
            connection.close()
            if _is_unknown(error):
                return None
            self.close()
            if isinstance(error, StorageUnavailable):
                raise
            raise _unavailable(self.name, error) from error
        self.give_back(connection)
        return found

    def _connection(self) -> Any:
        with self._lock:
            while self._idle:
                connection = self._idle.pop()
                if not connection.closed:
                    return connection
        try:
            if callable(self._how):
                return self._how()
            import psycopg

            return psycopg.connect(self._how, connect_timeout=10)
        except ImportError as error:
            raise StorageUnavailable(
                f"{self.name}: psycopg is not installed: {how_to_install('postgresql')}"
            ) from error
        except Exception as error:
            raise _unavailable(self.name, error) from error

    def give_back(self, connection: Any) -> None:
        """Keep a connection that is idle, or close it."""
        with self._lock:
            if len(self._idle) < IDLE_CONNECTIONS and not connection.closed:
                self._idle.append(connection)
                return
        connection.close()


class _PsycopgBranch:
    def __init__(self, manager: PsycopgConnections, connection: Any) -> None:
        self._manager = manager
        self.connection = connection

    def prepare(self) -> None:
        if driver_failed(self.connection):
            raise RuntimeError(f"{self._manager.name}: {FAILED}")
        try:
            self.connection.tpc_prepare()
        except Exception as error:
            raise _not_prepared(self._manager.name, error) from error

    def commit(self) -> None:
        self._end(self.connection.tpc_commit)

    def rollback(self) -> None:
        self._end(self.connection.tpc_rollback)

    def _end(self, end: Callable[[], None]) -> None:
        try:
            end()
        except Exception as error:
            self.close()
            if not _is_unknown(error):  # Else recovery has ended it.
                raise _unavailable(self._manager.name, error) from error
        else:
            self._manager.give_back(self.connection)

    def lost(self) -> bool:
        return bool(self.connection.closed)

    def close(self) -> None:
        if self.lost():
            self._manager.close()  # Idle connections broke with it.
        self.connection.close()


class EngineConnections:
    """A database by an SQLAlchemy engine, whose dialect has two-phase commits. Its connections
    are SQLAlchemy's, and may have sessions.

    Proved with PostgreSQL; ``dragoman doctor two-phase`` says whether another one recovers.
    """

    prepares = True

    def __init__(self, name: str, engine: Engine) -> None:
        self.name = name
        self._engine = engine.execution_options()
        event.listen(self._engine, "commit_twophase", _check_commit)

    def begin(self, gtrid: str) -> Branch:
        connection = None
        try:
            connection = self._engine.connect()
            return _EngineBranch(self.name, connection, self._gid(gtrid))
        except (SQLAlchemyError, NotImplementedError) as error:
            if connection is not None:
                connection.close()
            raise _unavailable(self.name, error) from error

    def check(self) -> None:
        if self._engine.dialect.name == "sqlite":
            raise CannotPrepare(f"{self.name}: SQLite cannot prepare: make it the LastResource")
        if self._engine.dialect.name == "postgresql":
            with self._connected() as connection:
                setting = connection.execute(text("SHOW max_prepared_transactions")).scalar()
            _check_setting(self.name, str(setting))

    def recover(self) -> list[Prepared]:
        with self._connected() as connection:
            if self._engine.dialect.name == "postgresql":
                found = [(str(gid), float(age)) for gid, age in connection.execute(_PREPARED)]
            else:
                found = [(str(gid), None) for gid in connection.recover_twophase()]  # type: ignore[misc]
        made: list[Prepared] = []
        for gid, age in found:
            gtrid, _, name = gid.removeprefix(_PREFIX).rpartition(":")
            if gid.startswith(_PREFIX) and name == self.name:
                made.append(Prepared(gtrid, age))
        return made

    def commit(self, gtrid: str) -> None:
        with suppress(_Unknown), self._connected() as connection:
            connection.commit_prepared(self._gid(gtrid), recover=True)

    def rollback(self, gtrid: str) -> None:
        with suppress(_Unknown), self._connected() as connection:
            connection.rollback_prepared(self._gid(gtrid), recover=True)

    def close(self) -> None:
        """Do nothing: the engine is the application's."""

    def _gid(self, gtrid: str) -> str:
        return f"{_PREFIX}{gtrid}:{self.name}"

    def _connected(self) -> "_Connected":
        return _Connected(self.name, self._engine)


class _Unknown(Exception):
    """Somebody has ended it."""


class _Connected:
    """A connection of an engine for one act of recovery."""

    def __init__(self, name: str, engine: Engine) -> None:
        self._name = name
        self._engine = engine

    def __enter__(self) -> Connection:
        try:
            self._connection = self._engine.connect()
        except SQLAlchemyError as error:
            raise _unavailable(self._name, error) from error
        return self._connection

    def __exit__(self, _type: object, error: BaseException | None, _trace: object) -> None:
        with suppress(SQLAlchemyError):
            if error is not None:
                self._connection.invalidate()
            self._connection.close()
        if isinstance(error, Exception):  # SQLAlchemy leaves some of the driver's as they are.
            if _is_unknown(error):
                raise _Unknown from error
            raise _unavailable(self._name, error) from error


class _EngineBranch:
    def __init__(self, name: str, connection: Connection, gid: str) -> None:
        self._name = name
        self._transaction = connection.begin_twophase(gid)
        self.connection = connection

    def prepare(self) -> None:
        check_alive(self.connection)
        try:
            self._transaction.prepare()
        except Exception as error:
            raise _not_prepared(self._name, error) from error

    def commit(self) -> None:
        with committing(self.connection):
            self._end(self._transaction.commit)
        self.connection.close()

    def rollback(self) -> None:
        self._end(self._transaction.rollback)
        self.connection.close()

    def _end(self, end: Callable[[], None]) -> None:
        try:
            end()
        except Exception as error:  # SQLAlchemy leaves some of the driver's as they are.
            self.close()
            if not _is_unknown(error):  # Else recovery has ended it.
                raise _unavailable(self._name, error) from error

    def lost(self) -> bool:
        return self.connection.invalidated

    def close(self) -> None:
        with suppress(SQLAlchemyError):
            if not self.connection.closed:
                self.connection.invalidate()
                self.connection.close()


class LastResource:
    """A database, or anything else with ``commit`` and ``rollback``, that cannot prepare.

    It is committed when all others have prepared, just before the decision. If the process dies
    between the two, what was done here stays, and everything else is undone: a message is taken
    again then. Where that must not be, look at a mark of the application's own first (the
    sequence and the number of the message), and do nothing if it is there.

    Args:
        connect: Makes a connection of PEP 249 in a transaction, or that begins one by itself.
    """

    prepares = False

    def __init__(self, name: str, connect: Callable[[], Any]) -> None:
        self.name = name
        self._connect = connect

    def begin(self, gtrid: str) -> Branch:
        try:
            return _LastBranch(self.name, self._connect())
        except Exception as error:
            raise _unavailable(self.name, error) from error

    def check(self) -> None:
        """Do nothing: it does not prepare."""

    def recover(self) -> list[Prepared]:
        return []

    def commit(self, gtrid: str) -> None:
        raise TypeError(f"{self.name} prepares nothing")

    def rollback(self, gtrid: str) -> None:
        raise TypeError(f"{self.name} prepares nothing")

    def close(self) -> None:
        """Do nothing: each transaction has its own connection."""


class _LastBranch:
    def __init__(self, name: str, connection: Any) -> None:
        self._name = name
        self.connection = connection

    def prepare(self) -> None:
        raise CannotPrepare(f"{self._name} cannot prepare")

    def commit(self) -> None:
        try:
            self.connection.commit()
        except Exception as error:
            raise _unavailable(self._name, error) from error
        finally:
            self.close()

    def rollback(self) -> None:
        with suppress(Exception):
            self.connection.rollback()
        self.close()

    def lost(self) -> bool:
        return False

    def close(self) -> None:
        with suppress(Exception):
            self.connection.close()


_PREPARED = text(
    "SELECT gid, extract(epoch FROM clock_timestamp() - prepared) FROM pg_prepared_xacts"
    " WHERE database = current_database()"
)


def _check_commit(connection: Connection, _xid: object, _is_prepared: bool) -> None:
    check_commit(connection)


def _check_setting(name: str, setting: str) -> None:
    if setting == "0":
        raise CannotPrepare(_SETTING.format(name=name))


def _is_unknown(error: object) -> bool:
    """Return whether PostgreSQL knows no prepared transaction of that name."""
    return _state(error) == "42704"


def _state(error: object) -> object:
    return getattr(getattr(error, "orig", None) or error, "sqlstate", None)


def _not_prepared(name: str, error: Exception) -> StorageUnavailable:
    """Translate an error of PREPARE."""
    # psycopg has a class of its own for the second.
    if _state(error) == "55000" or type(error).__name__ == "NotSupportedError":
        return CannotPrepare(_SETTING.format(name=name))
    return _unavailable(name, error)


def _unavailable(name: str, error: Exception) -> StorageUnavailable:
    """Translate an error of a participant."""
    if isinstance(error, SQLAlchemyError):
        found = translated(error)
        if isinstance(found, StorageUnavailable):
            return type(found)(f"{name}: {found}")
    return StorageUnavailable(f"{name}: {first_line(error) or type(error).__name__}")


_SETTING = (
    "{name}: PostgreSQL prepares nothing while max_prepared_transactions is 0: set it in "
    "postgresql.conf to at least the connections that do, and restart the server"
)
