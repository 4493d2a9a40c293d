"""A database of Django: messages join its transactions, functions run in ``atomic`` blocks."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

from django.db import InterfaceError, OperationalError, connections, transaction
from sqlalchemy import Dialect, Executable, Table
from sqlalchemy.dialects import mysql, postgresql, sqlite
from sqlalchemy.schema import CreateIndex, CreateTable

from gateway.client.outbox import tables
from gateway.client.outbox.databases import THREADS, check_dialect, run_in
from gateway.client.outbox.transactions import Row, Transaction, Values, insert_new

T = TypeVar("T")

_DIALECTS: dict[str, Callable[..., Dialect]] = {
    "sqlite": sqlite.dialect,
    "postgresql": postgresql.dialect,
    "mysql": mysql.dialect,
}


class DjangoTransaction:
    """The transaction of a connection of Django."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self._vendor = str(connection.vendor)
        self._dialect = _DIALECTS[self._vendor](paramstyle="format")

    def rows(self, statement: Executable) -> list[Row]:
        """Run a query; its rows."""
        with self.connection.cursor() as cursor:
            cursor.execute(*self._compiled(statement))
            return [tuple(row) for row in cursor.fetchall()]

    def change(self, statement: Executable) -> int:
        """Run a statement that changes rows; how many it changed."""
        with self.connection.cursor() as cursor:
            cursor.execute(*self._compiled(statement))
            return int(cursor.rowcount)

    def insert_new(self, table: Table, rows: Sequence[Values]) -> int:
        """Add *rows*, but for those whose unique columns are there; how many were added."""
        statement = insert_new(table, self._vendor)
        return sum(self.change(statement.values(dict(row))) for row in rows)

    def create_all(self) -> None:
        """Make the tables and indexes that are missing."""
        there = set(self.connection.introspection.table_names())
        with self.connection.cursor() as cursor:
            for table in tables.metadata.sorted_tables:
                if table.name in there:
                    continue
                cursor.execute(self._text(CreateTable(table)))
                for index in table.indexes:
                    cursor.execute(self._text(CreateIndex(index)))

    def _text(self, statement: Any) -> str:
        return str(statement.compile(dialect=self._dialect))

    def _compiled(self, statement: Any) -> tuple[str, list[Any]]:
        compiled = statement.compile(
            dialect=self._dialect, compile_kwargs={"render_postcompile": True}
        )
        values = compiled.params
        return str(compiled), [values[name] for name in compiled.positiontup or ()]


class DjangoDatabase:
    """A database of Django's settings.

    ``outbox.publish("orders", payload)`` then stores in the ``transaction.atomic()`` block around
    it.

    Args:
        using: Its alias.
    """

    is_async = False

    def __init__(self, using: str = "default") -> None:
        self._using = using
        self._pool: ThreadPoolExecutor | None = None

    @property
    def is_sqlite(self) -> bool:
        """One transaction at a time writes."""
        return str(connections[self._using].vendor) == "sqlite"

    def create_tables(self) -> str:
        """Make the tables where they are missing; the name of the database as a source."""
        check_dialect(connections[self._using].vendor)
        with transaction.atomic(using=self._using):
            joined = DjangoTransaction(connections[self._using])
            joined.create_all()
            return tables.fill(joined)

    def join(self, store: Callable[[Transaction], object], committed: Callable[[], None]) -> None:
        """Store something in the transaction of now."""
        store(DjangoTransaction(connections[self._using]))
        transaction.on_commit(committed, using=self._using)

    @contextmanager
    def begin(self) -> Iterator[DjangoTransaction]:
        """A transaction; committed where the block ends, rolled back where it raises."""
        connection = connections[self._using]
        connection.close_if_unusable_or_obsolete()
        with transaction.atomic(using=self._using):
            if connection.vendor == "sqlite":  # Its lock is waited for here, and not half-way.
                connection.cursor().execute("DELETE FROM dragoman_inbox_lanes WHERE 0")
            yield DjangoTransaction(connection)

    def is_outage(self, error: Exception) -> bool:
        """Return whether the database does not answer, whatever was asked."""
        return isinstance(error, InterfaceError) or (
            isinstance(error, OperationalError) and not connections[self._using].is_usable()
        )

    @contextmanager
    def part(self, joined: DjangoTransaction) -> Iterator[tuple[None, Any]]:
        """A savepoint: undone where the block raises."""
        with transaction.atomic(using=self._using):
            yield None, joined.connection

    async def run(self, work: Callable[[Transaction], T]) -> T:
        """Run *work* in a transaction of its own, on a thread."""
        return await self.on_thread(partial(run_in, self.begin, work))

    async def on_thread(self, work: Callable[[], T]) -> T:
        """Run *work*, which begins its transactions itself, on a thread."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(THREADS, "dragoman-outbox")
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    def close(self) -> None:
        """End the threads; what they do ends first."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None
