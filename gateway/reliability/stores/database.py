"""The store in a database: SQLite, or PostgreSQL, where several processes may share it.

Its tables may live in the database of an application, whose changes are then committed together
with the messages: by the connection of the transaction, or by a session on it.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NoReturn

from sqlalchemy import Connection, CursorResult, Engine, Executable, NestedTransaction
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from gateway.reliability.storage import (
    IncomingSequences,
    InvokerBuffers,
    OutgoingSequences,
    StorageUnavailable,
)
from gateway.reliability.stores.database_transaction import Work
from gateway.reliability.stores.engines import (
    FLUSH,
    Turns,
    check_alive,
    check_engine,
    committing,
    failed_commit,
    let_readers_read,
    outage,
    own_engine,
    reading,
    translated,
    writing,
)
from gateway.reliability.stores.managers import (
    DatabaseIncoming,
    DatabaseInvoker,
    DatabaseOutgoing,
)
from gateway.reliability.stores.queries import DatabaseLook
from gateway.reliability.stores.tables import create_tables

if TYPE_CHECKING:
    from sqlalchemy.orm import Session


class DatabaseStore:
    """Sequences in a database.

    Args:
        database: An SQLAlchemy ``Engine``, of which the store uses connections, or a URL; plain
            ``postgresql://`` means psycopg 3.
        create: Make the tables where they are missing, and switch a file of SQLite that has the
            journal of a new one to WAL.

    Raises:
        StorageUnavailable: It cannot be opened, or a newer program made its tables.
    """

    has_savepoints = True

    def __init__(self, database: Engine | str, *, create: bool = True) -> None:
        self._owns = isinstance(database, str)
        self.engine = own_engine(database) if isinstance(database, str) else database
        check_engine(self.engine)
        self._writing = writing(self.engine)
        self._reading = reading(self.engine)
        self._turns = Turns(self.engine)
        self.commits = 0
        """How many transactions this one committed."""
        if create:
            let_readers_read(self.engine)
            try:
                create_tables(self.engine)
            except SQLAlchemyError as error:
                self.close()
                raise translated(error) from error
            except StorageUnavailable:
                self.close()
                raise

    @contextmanager
    def transaction(self) -> "Iterator[DatabaseTransaction]":
        """Begin a transaction: see `gateway.reliability.storage.StorageManager`."""
        with self.begun() as transaction:
            yield transaction
            transaction.commit()
            self.commits += 1

    @contextmanager
    def begun(self) -> "Iterator[DatabaseTransaction]":
        """A transaction that the block may commit; if it does not, it is rolled back."""
        end_turn = self._turns.wait()
        try:
            try:
                connection = self._writing.connect()
            except SQLAlchemyError as error:
                raise translated(error) from error
            try:
                transaction = DatabaseTransaction(connection, end_turn)
                try:
                    yield transaction
                except SQLAlchemyError as error:  # The application's: ours are translated.
                    found = outage(error)
                    if found is None:
                        raise
                    try:
                        raise found from error
                    finally:
                        del found
                finally:
                    transaction.end()
            finally:
                with suppress(SQLAlchemyError):
                    connection.close()
        finally:
            end_turn()

    @contextmanager
    def look(self) -> Iterator[DatabaseLook]:
        """See what is due."""
        try:
            connection = self._reading.connect()
        except SQLAlchemyError as error:
            raise translated(error) from error
        with connection:
            yield DatabaseLook(connection)

    def recover(self) -> int:
        """Do nothing: one database commits in one phase."""
        return 0

    def close(self) -> None:
        """Close the connections, but for those of an engine that was given."""
        if self._owns:
            self.engine.dispose()


class DatabaseTransaction:
    """One transaction."""

    def __init__(self, connection: Connection, ended: Callable[[], None]) -> None:
        self._ended = ended
        try:
            self._transaction = connection.begin()
        except SQLAlchemyError as error:
            raise translated(error) from error
        self._connection = connection
        self._work = Work(connection)
        connection.info[FLUSH] = self._work.flush
        self._sessions: list[Session] = []
        self.incoming: IncomingSequences = DatabaseIncoming(self._work)
        self.invoker: InvokerBuffers = DatabaseInvoker(self._work)
        self.outgoing: OutgoingSequences = DatabaseOutgoing(self._work)

    @property
    def connection(self) -> Any:
        """The connection on which an application changes its own tables in this transaction. In a
        `savepoint` it has to be asked for anew: one given before knows nothing of that."""
        self._work.will_write()
        return self._connection

    def session(self, **options: Any) -> "Session":
        """A session on the connection, for an application that has mapped classes.

        Its commit and its rollback end a savepoint, and nothing else. What it has not committed by
        the end of the transaction is committed then.

        Args:
            options: As of ``sqlalchemy.orm.Session``.
        """
        from sqlalchemy.orm import Session

        self.check_open()
        bind = options.pop("bind", self.connection)
        session = Session(bind, join_transaction_mode="create_savepoint", **options)
        self._sessions.append(session)
        return session

    def enlist(self, participant: Any) -> NoReturn:
        """Refuse: another database takes part in transactions of a `TwoPhaseStore`."""
        raise TypeError("another database takes part in transactions of a TwoPhaseStore only")

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        """A part of the transaction, which is undone where it raises; changes before it stay.
        Sessions that are made in it end with it.

        The database is told of it when there is something that it would have to undo: the first
        statement that changes something, or the first look of an application at `connection`.

        Raises:
            RuntimeError: A statement failed, and the block went on.
            StorageUnavailable: The database cannot do it.
        """
        self.check_open()
        before, self._sessions = self._sessions, []
        made: list[NestedTransaction] = []
        end = self._work.part(lambda: made.append(self._begin_nested()))
        try:
            yield
            self._end_sessions()
            check_alive(self._connection)
            forget = end()
            for nested in made:
                nested.commit()
        except BaseException:
            for session in self._sessions:
                with suppress(SQLAlchemyError):
                    session.close()
            with suppress(SQLAlchemyError):
                for nested in made:
                    nested.rollback()
            forget = end()
            forget()
            raise
        finally:
            self._sessions = before

    def _begin_nested(self) -> NestedTransaction:
        # Changes that are not written yet may be written within it; a rollback restores them.
        flush = self._connection.info.pop(FLUSH)
        try:
            return self._connection.begin_nested()
        except SQLAlchemyError as error:
            raise translated(error) from error
        finally:
            self._connection.info[FLUSH] = flush

    def commit(self) -> None:
        """Commit it; nothing but `end` is to be called then.

        Raises:
            InDoubt: The connection broke.
            StorageUnavailable: Nothing was changed.
        """
        self.check_open()
        self.flush()
        self._work.ended = True
        try:
            with committing(self._connection):
                self._transaction.commit()
        except DBAPIError as error:
            found = failed_commit(error)
            if found is None:
                raise
            try:
                raise found from error
            finally:
                del found
        self._ended()

    def check_open(self) -> None:
        """Check that it has not ended.

        Raises:
            Ended: It has.
        """
        self._work.check_open()

    def execute(
        self, statement: Executable, values: Mapping[str, Any] | None = None
    ) -> CursorResult[Any]:
        """Run a statement of the store's own.

        Raises:
            StorageUnavailable: The database cannot do it.
        """
        return self._work.execute(statement, None if values is None else dict(values))

    def flush(self) -> None:
        """Commit the changes of sessions to the transaction, and write all changed records.

        Raises:
            RuntimeError: A statement failed, so that the transaction cannot be committed.
        """
        self._end_sessions()
        check_alive(self._connection)
        self._work.flush()

    def _end_sessions(self) -> None:
        sessions, self._sessions = self._sessions, []
        try:
            for session in sessions:
                session.commit()
        finally:
            for session in sessions:
                with suppress(SQLAlchemyError):
                    session.close()

    def end(self) -> None:
        """Roll it back, if it is not committed."""
        self._work.ended = True
        if not self._connection.closed and not self._connection.invalidated:
            self._connection.info.pop(FLUSH, None)
        for session in self._sessions:
            with suppress(SQLAlchemyError):
                session.close()
        with suppress(SQLAlchemyError):
            self._transaction.close()
