"""Statements of SQLAlchemy in a transaction that somebody began: on a connection of SQLAlchemy, or
on a cursor of another library."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from sqlalchemy import Connection, Executable, Table
from sqlalchemy.dialects import mysql, postgresql, sqlite

Values = Mapping[str, Any]
Row = tuple[Any, ...]


class Work(Protocol):
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


class ConnectionWork:
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
        name = self.connection.dialect.name
        added = 0
        for start in range(0, len(rows), MOST_ROWS):
            some = [dict(row) for row in rows[start : start + MOST_ROWS]]
            statement = insert_new(table, some, name)
            added += self.connection.execute(statement, execution_options=_COUNTED).rowcount
        return max(added, 0)


_COUNTED: dict[str, Any] = {"preserve_rowcount": True}
MOST_ROWS = 64
"""Rows of one statement: SQLite took 999 values before 3.32."""


def insert_new(table: Table, rows: list[dict[str, Any]], dialect: str) -> Executable:
    """The statement that adds *rows*, but for those whose unique columns are there."""
    if dialect == "sqlite":
        return sqlite.insert(table).values(rows).on_conflict_do_nothing()
    if dialect == "postgresql":
        return postgresql.insert(table).values(rows).on_conflict_do_nothing()
    # INSERT IGNORE would cut values that are too long.
    key = next(iter(table.primary_key)).name
    return mysql.insert(table).values(rows).on_duplicate_key_update({key: table.c[key]})
