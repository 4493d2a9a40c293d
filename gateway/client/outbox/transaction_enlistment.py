"""Puts the messages of a program into the transaction that it has begun: of a session, of a
connection, of Django, or of the package ``transaction``.

What is published in a session is inserted when that is committed, after whatever the transaction
waits for: of two transactions that change the same row, the messages have the same order.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

from sqlalchemy import Connection, event
from sqlalchemy.orm import Session

from gateway.client.outbox.databases import Database
from gateway.client.outbox.transactions import ConnectionTransaction, Transaction

Store = Callable[[Transaction], object]
"""Stores something in a transaction."""


def store_in(database: Database, session: Any, store: Store, committed: Callable[[], None]) -> None:
    """Store something in the transaction of *session*.

    Args:
        session: A `Session` or an ``AsyncSession``, a `Connection`, a transaction manager of the
            package ``transaction``, a `Transaction`; None: the transaction of Django.
        committed: Is called when it is committed, or soon before.

    Raises:
        TypeError: *session* is none of these.
    """
    session = getattr(session, "sync_session", session)
    join = getattr(database, "join", None)
    if isinstance(session, Session):
        pending = _pending.get(session)
        if pending is None:
            pending = _pending[session] = _Pending(session)
        pending.add(session, store, committed)
    elif isinstance(session, Connection):
        store(ConnectionTransaction(session))
        committed()
    elif session is None and join is not None:
        join(store, committed)
    elif hasattr(session, "insert_new"):
        store(session)
        committed()
    elif hasattr(session, "get") and hasattr(session, "savepoint"):
        store(_joined(database, session))
        committed()
    else:
        raise TypeError(
            "publish within a transaction: give its Session, AsyncSession or Connection as session"
        )


class _Pending:
    """What is stored when a session's transaction is committed, each with the savepoint in which it
    was published: rolled back with that, it is never stored."""

    def __init__(self, session: Session) -> None:
        self._waiting: list[tuple[Any, Store]] = []
        self._committed: dict[Callable[[], None], None] = {}
        event.listen(session, "before_commit", self._store)
        event.listen(session, "after_commit", self._tell)
        event.listen(session, "after_rollback", self._drop)
        event.listen(session, "after_transaction_end", self._hand_on)

    def add(self, session: Session, store: Store, committed: Callable[[], None]) -> None:
        """Store something when all transactions around are committed, innermost first."""
        if session.get_transaction() is None:
            session.connection()
        self._waiting.append((_innermost(session), store))
        self._committed[committed] = None

    def _store(self, session: Session) -> None:
        """Store all, unless this is the commit of a savepoint: it may yet be rolled back with what
        is around it."""
        if session.get_nested_transaction() is None:
            self._insert(session.connection())
        elif self._waiting:
            # This may also be the commit of the whole transaction, with a savepoint left open:
            # only the commit of its connection tells the two apart.
            event.listen(session.connection(), "commit", self._insert)

    def _insert(self, connection: Connection) -> None:
        waiting, self._waiting = self._waiting, []
        transaction = ConnectionTransaction(connection)
        for _, store in waiting:
            store(transaction)

    def _tell(self, session: Session) -> None:
        if session.get_nested_transaction() is None:
            committed, self._committed = self._committed, {}
            for tell in committed:
                tell()

    def _drop(self, session: Session) -> None:
        ended = _innermost(session)
        self._waiting = [each for each in self._waiting if each[0] is not ended]

    def _hand_on(self, _: Session, ended: Any) -> None:
        """Give what was published in a savepoint that has ended to the transaction around it."""
        self._waiting = [
            (ended.parent if within is ended else within, store)
            for within, store in self._waiting
            if within is not ended or ended.parent is not None
        ]


def _innermost(session: Session) -> Any:
    return session.get_nested_transaction() or session.get_transaction()


_pending: WeakKeyDictionary[Session, _Pending] = WeakKeyDictionary()


class _Joinable:
    """A database as `gateway.reliability.zope_transactions` joins stores."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """A transaction of the database."""
        with self._database.begin() as transaction:
            yield transaction


_joinable: WeakKeyDictionary[Any, _Joinable] = WeakKeyDictionary()


def _joined(database: Database, manager: Any) -> Transaction:
    """The part that *database* has in the current transaction of *manager*."""
    from gateway.reliability.zope_transactions import join

    store = _joinable.setdefault(database, _Joinable(database))
    part: Any = join(store, manager)  # type: ignore[arg-type]  # It asks for transaction() alone.
    found: Transaction = part
    return found
