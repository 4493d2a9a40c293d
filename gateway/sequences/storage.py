"""Sequences in the gateway's own store: transactions that are parts of one of its operations.

So all publishers share the commits of the store's one writer, and what one operation changes is
committed together.
"""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from sqlalchemy import Connection, func, select, update

from gateway.reliability.storage import StorageManager
from gateway.reliability.stores.joined_store import run_joined
from gateway.reliability.stores.tables import incoming, invoker
from gateway.store import Store

T = TypeVar("T")


def run_in(store: Store, work: Callable[[StorageManager], T], *identifiers: str) -> Awaitable[T]:
    """Run *work* as an operation of *store*, which may run it twice.

    Args:
        identifiers: Of the sequences that it looks at: no other gateway does meanwhile.

    Raises:
        StoreUnavailable: The database cannot take it; nothing was changed.
    """
    locks = [f"sequence {identifier}" for identifier in identifiers]
    return store.submit(lambda connection: run_joined(connection, work), locks=locks)


def free_leases(connection: Connection, now: float) -> None:
    """Give up what a process that is no more had leased."""
    leased = update(invoker).where(invoker.c.leased_until.is_not(None))
    connection.execute(leased.values(leased_until=None, due_at=now))


def postpone(connection: Connection, identifier: str, due_at: float) -> None:
    """Have nobody look at a sequence before *due_at*."""
    for table in (incoming, invoker):
        mine = update(table).where(table.c.identifier == identifier)
        connection.execute(mine.where(table.c.due_at.is_not(None)).values(due_at=due_at))


def next_due(connection: Connection) -> float | None:
    """When work is due for sequences that publishers made; None: never."""
    firsts = [select(func.min(table.c.due_at)) for table in (incoming, invoker)]
    found = [connection.execute(first).scalar() for first in firsts]
    return min((float(at) for at in found if at is not None), default=None)
