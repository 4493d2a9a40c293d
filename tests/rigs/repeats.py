"""Has a store run every operation twice, and undo the first time, as it does when another operation
of the same transaction fails, or the database is busy: an operation that changes something outside
the database, a count, a list, changes it twice.

    make test ARGS=--repeats
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from sqlalchemy import Engine

from gateway.store import engine as stores


@contextmanager
def repeated() -> Iterator[None]:
    """Run all operations of stores twice."""
    commit_all = stores.Store._commit_all

    def commit_at_second(
        store: stores.Store, engine: Engine, batch: Sequence[stores._Waiting]
    ) -> list[Any]:
        with suppress(Exception), store._connected(engine) as connection:
            transaction = connection.begin()
            stores._lock(connection, {name for one in batch for name in one.locks})
            for one in batch:
                one.operation(connection)
            transaction.rollback()
        return commit_all(store, engine, batch)

    stores.Store._commit_all = commit_at_second  # type: ignore[method-assign, assignment]  # It has no hook.
    try:
        yield
    finally:
        stores.Store._commit_all = commit_all  # type: ignore[method-assign]  # As above.
