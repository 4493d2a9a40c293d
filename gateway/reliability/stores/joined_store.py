"""A store within another's transaction: its changes are a part of one operation of that, and are
committed with the rest of it, or not at all."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn, TypeVar

from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from gateway.reliability.storage import (
    IncomingSequences,
    InvokerBuffers,
    OutgoingSequences,
    StorageManager,
    StorageUnavailable,
)
from gateway.reliability.stores.database_transaction import Work
from gateway.reliability.stores.managers import (
    DatabaseIncoming,
    DatabaseInvoker,
    DatabaseOutgoing,
)
from gateway.reliability.stores.queries import DatabaseLook

T = TypeVar("T")


class JoinedTransaction:
    """A part of an operation."""

    def __init__(self, connection: Connection) -> None:
        self.connection: Any = connection
        self.work = Work(connection)
        self.incoming: IncomingSequences = DatabaseIncoming(self.work)
        self.invoker: InvokerBuffers = DatabaseInvoker(self.work)
        self.outgoing: OutgoingSequences = DatabaseOutgoing(self.work)

    def enlist(self, participant: Any) -> NoReturn:
        """Refuse: the store is one database."""
        raise TypeError("no other database takes part in the gateway's transactions")


def run_joined(connection: Connection, work: Callable[[StorageManager], T]) -> T:
    """Run *work* within the transaction of *connection*. Errors of the database are raised as they
    are: the owner of the transaction judges them."""
    try:
        return work(JoinedStorage(connection))
    except StorageUnavailable as error:
        if isinstance(error.__cause__, SQLAlchemyError):
            raise error.__cause__ from None
        raise


class JoinedStorage:
    """The `StorageManager` of one operation."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._transaction: JoinedTransaction | None = None

    @contextmanager
    def transaction(self) -> Iterator[JoinedTransaction]:
        """A part of the operation; where it raises, nothing of it is left. What one part has locked
        is known to the next."""
        transaction = self._transaction or JoinedTransaction(self._connection)
        self._transaction = None
        with self._connection.begin_nested():
            yield transaction
            transaction.work.flush()
        self._transaction = transaction

    @contextmanager
    def look(self) -> Iterator[DatabaseLook]:
        yield DatabaseLook(self._connection)

    def recover(self) -> int:
        return 0

    def close(self) -> None:
        """Do nothing: the store's owner closes it."""
