"""Sequences in the gateway's own store: transactions that are parts of one of its operations.

So all publishers share the commits of the store's one writer, and what one operation changes is
committed together.
"""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn, TypeVar

from sqlalchemy import Connection, update
from sqlalchemy.exc import SQLAlchemyError

from gateway.reliability.storage import (
    IncomingSequences,
    InvokerBuffers,
    OutgoingSequences,
    StorageManager,
    StorageUnavailable,
)
from gateway.reliability.stores.looks import DatabaseLook
from gateway.reliability.stores.managers import (
    DatabaseIncoming,
    DatabaseInvoker,
    DatabaseOutgoing,
    Work,
)
from gateway.reliability.stores.tables import incoming, invoker
from gateway.store import Store

T = TypeVar("T")


class JoinedTransaction:
    """A part of an operation of the store."""

    def __init__(self, connection: Connection) -> None:
        self.connection: Any = connection
        self.work = Work(connection)
        self.incoming: IncomingSequences = DatabaseIncoming(self.work)
        self.invoker: InvokerBuffers = DatabaseInvoker(self.work)
        self.outgoing: OutgoingSequences = DatabaseOutgoing(self.work)

    def enlist(self, participant: Any) -> NoReturn:
        """Refuse: the store is one database."""
        raise TypeError("no other database takes part in the gateway's transactions")


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
        """Do nothing: the store is closed by whoever opened it."""


def run_in(store: Store, work: Callable[[StorageManager], T], *identifiers: str) -> Awaitable[T]:
    """Run *work* as an operation of *store*, which may run it twice.

    Args:
        identifiers: Of the sequences that it looks at: no other gateway does meanwhile.

    Raises:
        StoreUnavailable: The database cannot take it; nothing was changed.
    """

    def operation(connection: Connection) -> T:
        try:
            return work(JoinedStorage(connection))
        except StorageUnavailable as error:
            if isinstance(error.__cause__, SQLAlchemyError):
                raise error.__cause__ from None  # The store knows what to make of it.
            raise

    locks = [f"sequence {identifier}" for identifier in identifiers]
    return store.submit(operation, locks=locks)


def free_leases(connection: Connection, now: float) -> None:
    """Give up what a process that is no more had leased."""
    leased = update(invoker).where(invoker.c.leased_until.is_not(None))
    connection.execute(leased.values(leased_until=None, due_at=now))


def postpone(connection: Connection, identifier: str, due_at: float) -> None:
    """Have nobody look at a sequence before *due_at*."""
    for table in (incoming, invoker):
        mine = update(table).where(table.c.identifier == identifier)
        connection.execute(mine.where(table.c.due_at.is_not(None)).values(due_at=due_at))
