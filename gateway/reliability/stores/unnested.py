"""Statements of PostgreSQL that have many rows, each column as one array: the driver sends one row
after the other where it is given many, which takes several times as long. Only names of tables and
columns of ours are put into their text."""

# ruff: noqa: S608

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from sqlalchemy import Connection, Dialect, Table
from sqlalchemy.dialects import postgresql

from gateway.reliability.stores.prepared import run_text

_DIALECT: Dialect = postgresql.dialect()  # type: ignore[no-untyped-call]  # Of SQLAlchemy.


def insert_many(
    connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]], *, put: bool
) -> None:
    """Add *rows*; *put*: or change those whose key is there.

    Raises:
        DBAPIError: As SQLAlchemy raises it.
    """
    names = tuple(rows[0])
    _run(connection, _insert(table, names, put), table, names, rows)


def update_many(
    connection: Connection,
    table: Table,
    keys: tuple[str, ...],
    names: tuple[str, ...],
    rows: Sequence[Mapping[str, Any]],
) -> None:
    """Change the columns *names* of the rows that have these *keys*: as `insert_many`."""
    _run(connection, _update(table, keys, names), table, (*keys, *names), rows)


def delete_many(
    connection: Connection,
    table: Table,
    keys: tuple[str, ...],
    rows: Sequence[Mapping[str, Any]],
) -> None:
    """Remove the rows that have these *keys*: as `insert_many`."""
    _run(connection, _delete(table, keys), table, keys, rows)


def _run(
    connection: Connection,
    statement: str,
    table: Table,
    names: tuple[str, ...],
    rows: Sequence[Mapping[str, Any]],
) -> None:
    arrays: dict[str, list[Any]] = {}
    for name in names:
        of_type = table.c[name].type.dialect_impl(connection.dialect)
        process = of_type.bind_processor(connection.dialect)
        values = [row[name] for row in rows]
        arrays[name] = values if process is None else [process(value) for value in values]
    run_text(connection, statement, arrays)


def _arrays(table: Table, names: tuple[str, ...]) -> str:
    types = ((name, table.c[name].type.dialect_impl(_DIALECT).compile(_DIALECT)) for name in names)
    # A collation is of the column, not of the array.
    return ", ".join(f"%({name})s::{of_type.split(' COLLATE ')[0]}[]" for name, of_type in types)


def _quoted(names: tuple[str, ...]) -> str:
    return ", ".join(f'"{name}"' for name in names)


@lru_cache(64)
def _insert(table: Table, names: tuple[str, ...], put: bool) -> str:
    text = (
        f"INSERT INTO {table.name} ({_quoted(names)}) SELECT * FROM unnest({_arrays(table, names)})"
    )
    if not put:
        return text
    keys = tuple(column.name for column in table.primary_key)
    new = ", ".join(f'"{name}" = excluded."{name}"' for name in names)
    return f"{text} ON CONFLICT ({_quoted(keys)}) DO UPDATE SET {new}"


@lru_cache(256)
def _update(table: Table, keys: tuple[str, ...], names: tuple[str, ...]) -> str:
    new = ", ".join(f'"{name}" = new."{name}"' for name in names)
    return (
        f"UPDATE {table.name} AS old SET {new} "
        f"FROM unnest({_arrays(table, (*keys, *names))}) AS new ({_quoted((*keys, *names))}) "
        f"WHERE {_same(keys)}"
    )


@lru_cache(64)
def _delete(table: Table, keys: tuple[str, ...]) -> str:
    return (
        f"DELETE FROM {table.name} AS old "
        f"USING unnest({_arrays(table, keys)}) AS new ({_quoted(keys)}) WHERE {_same(keys)}"
    )


def _same(keys: tuple[str, ...]) -> str:
    return " AND ".join(f'old."{key}" = new."{key}"' for key in keys)
