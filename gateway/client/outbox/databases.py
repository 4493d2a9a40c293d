"""Transactions in the database of an application: of an engine of SQLAlchemy, also an asynchronous
one, or of Django (`gateway.client.outbox.django_database`)."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar, cast

from sqlalchemy import Connection, Engine, create_engine
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from gateway.client.outbox import tables
from gateway.client.outbox.transactions import ConnectionTransaction, Transaction
from gateway.databases import connection_options, driver_url
from gateway.reliability.storage import StorageUnavailable
from gateway.reliability.stores.engines import (
    Turns,
    committing,
    let_readers_read,
    outage,
    writing,
)

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, AsyncSession

T = TypeVar("T")

THREADS = 6
"""Transactions that run at the same time for one outbox or inbox."""


_UNDONE = (1205, 1213, 1305)
"""Errors of MySQL: a lock was not had in time, a deadlock, a savepoint that is gone with it."""


class Database(Protocol):
    """A database in which an outbox or an inbox is."""

    is_sqlite: bool
    """One transaction at a time writes."""
    is_async: bool
    """Its transactions run in an event loop, that of the program."""

    def create_tables(self) -> str:
        """Make the tables where they are missing; the name of the database as a source."""
        ...

    def begin(self) -> Any:
        """A context manager of a transaction, whose value is a `Transaction`."""
        ...

    async def run(self, work: Callable[[Transaction], T]) -> T:
        """Run *work* in a transaction of its own."""
        ...

    def is_outage(self, error: Exception) -> bool:
        """Return whether the database does not answer, whatever was asked."""
        ...

    def close(self) -> None:
        """End the threads; what they do ends first."""
        ...


class EngineDatabase:
    """The database of an engine of SQLAlchemy; what it does runs on threads."""

    is_async = False

    def __init__(self, engine: Engine, *, owned: bool = False) -> None:
        self.engine = engine
        self.is_sqlite = engine.dialect.name == "sqlite"
        check_dialect(engine.dialect.name)
        self._owned = owned
        self._writing = writing_engine(engine)
        self._turns = Turns(engine)
        self._pool: ThreadPoolExecutor | None = None

    def create_tables(self) -> str:
        """Make the tables where they are missing; the name of the database as a source."""
        let_readers_read(self.engine)
        with self.begin() as transaction:
            tables.metadata.create_all(transaction.connection)
            return tables.fill(transaction)

    @contextmanager
    def begin(self) -> Iterator[ConnectionTransaction]:
        """A transaction; committed where the block ends, rolled back where it raises."""
        end_turn = self._turns.wait()
        try:
            with self._writing.connect() as connection, connection.begin() as transaction:
                yield ConnectionTransaction(connection)
                with committing(connection):
                    transaction.commit()
        finally:
            end_turn()

    async def run(self, work: Callable[[Transaction], T]) -> T:
        """Run *work* in a transaction of its own, on a thread."""
        return await self.on_thread(partial(run_in, self.begin, work))

    async def on_thread(self, work: Callable[[], T]) -> T:
        """Run *work*, which begins its transactions itself, on a thread."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(THREADS, "dragoman-outbox")
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    @contextmanager
    def part(self, transaction: Transaction) -> Iterator[tuple[Session, Connection]]:
        """A savepoint, with a session of its own: undone where the block raises."""
        connection: Connection = transaction.connection
        with connection.begin_nested(), _session(connection) as session:
            yield session, connection
            session.commit()

    def is_outage(self, error: Exception) -> bool:
        """Return whether the database does not answer, whatever was asked."""
        return _is_outage(error)

    def close(self) -> None:
        """End the threads; what they do ends first."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None
        if self._owned:
            self.engine.dispose()


class AsyncEngineDatabase:
    """The database of an asynchronous engine of SQLAlchemy, whose connections belong to the event
    loop of the program."""

    is_async = True

    def __init__(self, engine: "AsyncEngine") -> None:
        from sqlalchemy.ext.asyncio import AsyncEngine

        self.engine = engine
        self.is_sqlite = engine.dialect.name == "sqlite"
        check_dialect(engine.dialect.name)
        self._writing = AsyncEngine(writing_engine(engine.sync_engine))
        self._turn = asyncio.Lock() if self.is_sqlite else None

    def create_tables(self) -> str:
        """Refuse: there is no event loop here."""
        raise TypeError("an asynchronous engine makes its tables in `async with`")

    async def create_tables_async(self) -> str:
        """Make the tables where they are missing; the name of the database as a source."""

        def create(transaction: Transaction) -> str:
            tables.metadata.create_all(transaction.connection)
            return tables.fill(transaction)

        return await self.run(create)

    def begin(self) -> "_AsyncTransaction":
        """A transaction, for ``async with``, whose value is an ``AsyncConnection``."""
        return _AsyncTransaction(self._writing, self._turn)

    @asynccontextmanager
    async def part(self, connection: "AsyncConnection") -> "AsyncIterator[AsyncSession]":
        """A savepoint, with a session of its own: undone where the block raises."""
        from sqlalchemy.ext.asyncio import AsyncSession

        async with connection.begin_nested(), AsyncSession(connection, **_JOINS) as session:
            yield session
            await session.commit()

    async def run(self, work: Callable[[Transaction], T]) -> T:
        """Run *work* in a transaction of its own."""
        async with self.begin() as connection:
            return await connection.run_sync(lambda each: work(ConnectionTransaction(each)))

    def is_outage(self, error: Exception) -> bool:
        """Return whether the database does not answer, whatever was asked."""
        return _is_outage(error)

    def close(self) -> None:
        """Do nothing: its connections are the program's."""


class _AsyncTransaction:
    """A transaction of an asynchronous engine; one after the other in a file of SQLite."""

    def __init__(self, engine: "AsyncEngine", turn: asyncio.Lock | None) -> None:
        self._engine = engine
        self._turn = turn

    async def __aenter__(self) -> "AsyncConnection":
        if self._turn is not None:
            await self._turn.acquire()
        try:
            self._connection = await self._engine.connect()
            self._transaction = await self._connection.begin()
        except BaseException:
            self._release()
            raise
        return self._connection

    async def __aexit__(self, *raised: Any) -> None:
        try:
            if raised[0] is None:
                with committing(self._connection.sync_connection or _gone()):
                    await self._transaction.commit()
            else:
                await self._transaction.rollback()
        finally:
            try:
                await self._connection.close()
            finally:
                self._release()

    def _release(self) -> None:
        if self._turn is not None:
            self._turn.release()


_JOINS: dict[str, Any] = {"join_transaction_mode": "rollback_only", "expire_on_commit": False}
"""Options of a session within a savepoint, which ends it."""


def _session(connection: Connection) -> Session:
    return Session(connection, **_JOINS)


def _is_outage(error: Exception) -> bool:
    return isinstance(error, StorageUnavailable) or (
        isinstance(error, SQLAlchemyError) and outage(error) is not None
    )


def _gone() -> Connection:
    raise StorageUnavailable("the connection is closed")


def run_in(begin: Callable[[], Any], work: Callable[[Transaction], T]) -> T:
    """Run *work* in a transaction that *begin* makes."""
    with begin() as its:
        return work(its)


def writing_engine(engine: Engine) -> Engine:
    """*engine* for transactions that write: durable once committed, and on MySQL read committed, as
    on PostgreSQL."""
    if engine.dialect.name in ("sqlite", "postgresql"):
        return writing(engine)
    return engine.execution_options(isolation_level="READ COMMITTED")


def check_dialect(name: str) -> None:
    """Check that an outbox can be in a database of this kind.

    Raises:
        StorageUnavailable: It cannot.
    """
    if name not in ("sqlite", "postgresql", "mysql", "mariadb"):
        raise StorageUnavailable(
            f"no outbox is made for {name}: use SQLite, PostgreSQL, MySQL or MariaDB"
        )


AnyDatabase: TypeAlias = "Database | Engine | AsyncEngine | str"


def database_of(given: AnyDatabase) -> Database:
    """The database of an engine, or of a URL of SQLAlchemy.

    Raises:
        StorageUnavailable: No outbox can be there.
    """
    if isinstance(given, str):
        url = driver_url(given)
        try:
            engine = create_engine(url, connect_args=connection_options(url))
        except (SQLAlchemyError, ModuleNotFoundError) as error:
            raise StorageUnavailable(f"the database cannot be opened: {error}") from error
        return EngineDatabase(engine, owned=True)
    if isinstance(given, Engine):
        return EngineDatabase(given)
    if hasattr(given, "sync_engine"):
        return AsyncEngineDatabase(cast("AsyncEngine", given))
    return given


def has_undone_all(error: Exception) -> bool:
    """Return whether the database may have rolled back the whole transaction, and not just the
    savepoint, as MySQL does at a deadlock: what was done before it is not to be noted as done."""
    told = getattr(error, "orig", None) or error
    return bool(told.args) and told.args[0] in _UNDONE
