"""Statements of PostgreSQL that have many rows, each column as one array: the driver sends one row
after the other where it is given many, which takes several times as long. Several of them are one
statement, which takes one way to the server and back. Only names of tables and columns of ours are
put into their text."""

# ruff: noqa: S608

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import itemgetter
from types import NoneType
from typing import Any

from sqlalchemy import Connection, Dialect, Table
from sqlalchemy.dialects import postgresql

from gateway.reliability.stores.driver_statements import run_text

_DIALECT: Dialect = postgresql.dialect()  # type: ignore[no-untyped-call]  # Of SQLAlchemy.

_Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Change:
    """A change of many rows of one table.

    Attributes:
        statement: Its text, whose parameters are called as the columns, for `str.format`: each
            has ``{at}`` before its name.
        arrays: The values of each column, as texts of arrays.
    """

    statement: str
    arrays: Mapping[str, str]


def insert_many(table: Table, rows: Sequence[_Row], *, put: bool) -> Change:
    """Add *rows*; *put*: or change those whose key is there."""
    names = tuple(rows[0])
    return _change(_insert(table, names, put), table, names, rows)


def update_many(
    table: Table, keys: tuple[str, ...], names: tuple[str, ...], rows: Sequence[_Row]
) -> Change:
    """Change the columns *names* of the rows that have these *keys*."""
    return _change(_update(table, keys, names), table, (*keys, *names), rows)


def delete_many(table: Table, keys: tuple[str, ...], rows: Sequence[_Row]) -> Change:
    """Remove the rows that have these *keys*."""
    return _change(_delete(table, keys), table, keys, rows)


def run_all(connection: Connection, changes: Sequence[Change]) -> None:
    """Make several changes, each of other rows, with one statement.

    Raises:
        DBAPIError: As SQLAlchemy raises it.
    """
    values = {
        f"p{at}_{name}": array
        for at, change in enumerate(changes)
        for name, array in change.arrays.items()
    }
    run_text(connection, _together(tuple(change.statement for change in changes)), values)


@lru_cache(512)
def _together(statements: tuple[str, ...]) -> str:
    *others, last = (text.format(at=f"p{at}_") for at, text in enumerate(statements))
    before = ", ".join(f"change{at} AS ({text})" for at, text in enumerate(others))
    return f"WITH {before} {last}" if before else last


def _change(statement: str, table: Table, names: tuple[str, ...], rows: Sequence[_Row]) -> Change:
    columns = (
        zip(*map(itemgetter(*names), rows), strict=True)
        if len(names) > 1
        else [[row[names[0]] for row in rows]]
    )
    processed = zip(_of(table, names), columns, strict=True)
    return Change(
        statement, {name: array_of(process, column) for (name, process), column in processed}
    )


_Process = Callable[[Any], Any] | None


@lru_cache(256)
def _of(table: Table, names: tuple[str, ...]) -> tuple[tuple[str, _Process], ...]:
    """Make, for each column, the function that turns its values into values of the driver."""
    types = ((name, table.c[name].type.dialect_impl(_DIALECT)) for name in names)
    return tuple((name, of_type.bind_processor(_DIALECT)) for name, of_type in types)


def array_of(process: _Process, values: Iterable[Any]) -> str:
    """The text of an array: to let the driver write it takes many times as long."""
    found = list(values) if process is None else list(map(process, values))
    kinds = set(map(type, found))
    if kinds == {str}:
        text = '","'.join(found)
        if "\\" not in text and text.count('"') == 2 * len(found) - 2:
            return f'{{"{text}"}}'
    elif kinds == {bytes}:
        text = '","\\\\x'.join([value.hex() for value in found])
        return f'{{"\\\\x{text}"}}'
    elif kinds <= {int, float, bool}:
        return f"{{{','.join(map(str, found))}}}"
    elif kinds == {NoneType}:
        return f"{{{','.join(['NULL'] * len(found))}}}"
    return f"{{{','.join(map(_element, found))}}}"


def _element(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, bytes):
        return f'"\\\\x{value.hex()}"'
    return str(value)  # A number, or a Boolean value.


def _arrays(table: Table, names: tuple[str, ...]) -> str:
    types = ((name, table.c[name].type.dialect_impl(_DIALECT).compile(_DIALECT)) for name in names)
    # A collation is of the column, not of the array.
    return ", ".join(
        f"%({{at}}{name})s::{of_type.split(' COLLATE ')[0]}[]" for name, of_type in types
    )


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
