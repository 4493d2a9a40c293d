"""Statements of SQLAlchemy in a transaction that somebody began: on a connection of SQLAlchemy, or
on a cursor of another library."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Protocol

from sqlalchemy import Connection, Executable, Insert, Table
from sqlalchemy.dialects import mysql, postgresql, sqlite

Values = Mapping[str, Any]
Row = tuple[Any, ...]


class Transaction(Protocol):
    """A transaction that somebody began, and ends."""

    @property
    def connection(self) -> Any:
        """The connection, for the application."""
        ...

    def rows(self, statement: Executable) -> list[Row]:
        """Run a query; its rows."""
        ...

    def change(self, statement: Executable) -> int:
        """Run a statement that changes rows; how many it changed."""
        ...

    def insert_new(self, table: Table, rows: Sequence[Values]) -> int:
        """Add *rows*, which have the same names, but for those whose unique columns are there.

        Returns:
            How many were added.
        """
        ...


class ConnectionTransaction:
    """A transaction of a `Connection` of SQLAlchemy."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def rows(self, statement: Executable) -> list[Row]:
        """Run a query; its rows."""
        return [tuple(row) for row in self.connection.execute(statement).all()]

    def change(self, statement: Executable) -> int:
        """Run a statement that changes rows; how many it changed."""
        return self.connection.execute(statement).rowcount

    def insert_new(self, table: Table, rows: Sequence[Values]) -> int:
        """Add *rows*, but for those whose unique columns are there; how many were added."""
        if not rows:
            return 0
        statement = insert_new(table, self.connection.dialect.name)
        added = self.connection.execute(
            statement, [dict(row) for row in rows], execution_options=_COUNTED
        )
        return max(added.rowcount, 0)


_COUNTED: dict[str, Any] = {"preserve_rowcount": True}


@cache
def insert_new(table: Table, dialect: str) -> Insert:
    """The statement that adds rows, but for those whose unique columns are there; made once, since
    to make one takes longer than to run it."""
    if dialect == "sqlite":
        return sqlite.insert(table).on_conflict_do_nothing()
    if dialect == "postgresql":
        return postgresql.insert(table).on_conflict_do_nothing()
    # INSERT IGNORE would cut values that are too long.
    key = next(iter(table.primary_key)).name
    return mysql.insert(table).on_duplicate_key_update({key: table.c[key]})
