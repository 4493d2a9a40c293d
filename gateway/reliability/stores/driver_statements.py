"""Statements that are run for every message, straight on the driver: what SQLAlchemy does around
each takes several times as long as the database."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

from sqlalchemy import Connection, Dialect, Executable
from sqlalchemy.exc import DBAPIError

Row = tuple[Any, ...]
Process = Callable[[Any], Any] | None


class Prepared:
    """A statement, compiled for one dialect.

    Args:
        names: Of the values that it is given.
    """

    def __init__(self, statement: Any, dialect: Dialect, names: tuple[str, ...]) -> None:
        compiled = statement.compile(dialect=dialect, column_keys=list(names))
        self.sql = str(compiled)
        self._order: list[str] | None = compiled.positiontup
        self._defaults = dict(compiled.params)
        self._binds = [
            (name, process)
            for name, bind in compiled.binds.items()
            if (process := bind.type.dialect_impl(dialect).bind_processor(dialect)) is not None
        ]
        columns = getattr(statement, "exported_columns", ())
        self.has_rows = bool(len(columns))
        """Whether the statement returns rows."""
        self._types = [column.type.dialect_impl(dialect) for column in columns]
        self._dialect = dialect
        self._processes: list[tuple[int, Callable[[Any], Any]]] | None = None

    def parameters(self, values: Mapping[str, Any]) -> Any:
        """Turn *values* into the parameters of the driver."""
        found = {**self._defaults, **values}
        for name, process in self._binds:
            found[name] = process(found[name])
        return found if self._order is None else tuple(found[name] for name in self._order)

    def many(self, rows: Sequence[Mapping[str, Any]]) -> list[Any]:
        """As `parameters`, of many *rows*."""
        return [self.parameters(values) for values in rows]

    def rows(self, cursor: Any) -> list[Row]:
        """Fetch the rows of the driver, as values."""
        if self._processes is None:
            # Once: psycopg makes an object of each column, each time that it describes them.
            made = (
                each.result_processor(self._dialect, column[1])
                for each, column in zip(self._types, cursor.description, strict=True)
            )
            self._processes = [(at, process) for at, process in enumerate(made) if process]
        found = cursor.fetchall()
        if not self._processes:
            return list(map(tuple, found))
        rows: list[Row] = []
        for row in found:
            values = list(row)
            for at, process in self._processes:
                values[at] = process(values[at])
            rows.append(tuple(values))
        return rows


MOST = 512
"""Statements that are kept for a dialect."""

_prepared: WeakKeyDictionary[Dialect, dict[tuple[Executable, tuple[str, ...]], Prepared]]
_prepared = WeakKeyDictionary()


def usable(connection: Connection) -> bool:
    """Return whether the transaction of *connection* goes on; if not, SQLAlchemy says why."""
    if connection.closed or connection.invalidated:
        return False
    transaction, nested = connection.get_transaction(), connection.get_nested_transaction()
    return bool(transaction and transaction.is_active and (nested is None or nested.is_active))


def run(connection: Connection, statement: Executable, values: Mapping[str, Any]) -> list[Row]:
    """Run one of the statements that are made once.

    Returns:
        Its rows.

    Raises:
        DBAPIError: As SQLAlchemy raises it.
    """
    prepared = _prepared_for(connection.dialect, statement, values)
    with _cursor(connection, prepared.sql, parameters := prepared.parameters(values)) as cursor:
        cursor.execute(prepared.sql, parameters)
        return prepared.rows(cursor) if prepared.has_rows else []


def changed(connection: Connection, statement: Executable, values: Mapping[str, Any]) -> int:
    """As `run`; how many rows it changed."""
    prepared = _prepared_for(connection.dialect, statement, values)
    with _cursor(connection, prepared.sql, parameters := prepared.parameters(values)) as cursor:
        cursor.execute(prepared.sql, parameters)
        return int(cursor.rowcount)


def run_many(
    connection: Connection, statement: Executable, rows: Sequence[Mapping[str, Any]]
) -> None:
    """As `run`, for each of *rows*, which have the same names."""
    prepared = _prepared_for(connection.dialect, statement, rows[0])
    with _cursor(connection, prepared.sql, many := prepared.many(rows)) as cursor:
        cursor.executemany(prepared.sql, many)


def run_text(connection: Connection, statement: str, values: Mapping[str, Any]) -> None:
    """As `run`, of a statement in the driver's own words."""
    with _cursor(connection, statement, values) as cursor:
        cursor.execute(statement, values)


def run_alone(connection: Connection, statements: str) -> None:
    """As `run_text`, of statements without values that psycopg is not to prepare."""
    with _cursor(connection, statements, None) as cursor:
        cursor.execute(statements, None, prepare=False)


def rows_of_text(connection: Connection, statement: str, values: Mapping[str, Any]) -> list[Row]:
    """As `run_text`, of one that finds something; what it finds is as the driver has it."""
    # Psycopg 3 gets bytes as they are, which are twice as many as text.
    options = {"binary": True} if connection.dialect.driver == "psycopg" else {}
    with _cursor(connection, statement, values) as cursor:
        cursor.execute(statement, values, **options)
        return list(cursor.fetchall())


def _prepared_for(dialect: Dialect, statement: Executable, values: Mapping[str, Any]) -> Prepared:
    known = _prepared.setdefault(dialect, {})
    key = statement, tuple(values)
    prepared = known.get(key)
    if prepared is None:
        if len(known) >= MOST:  # Nobody has so many.
            known.clear()
        prepared = known[key] = Prepared(statement, dialect, tuple(values))
    return prepared


@contextmanager
def _cursor(connection: Connection, statement: str, parameters: Any) -> Iterator[Any]:
    """A cursor of the driver, whose errors are raised as SQLAlchemy raises them."""
    dialect = connection.dialect
    driver: Any = dialect.loaded_dbapi
    cursor: Any = None
    try:
        cursor = connection.connection.cursor()
        yield cursor
    except driver.Error as error:
        lost = dialect.is_disconnect(error, connection.connection, cursor)
        if lost:
            connection.invalidate(error)
        raise DBAPIError.instance(
            statement,
            parameters,
            error,
            driver.Error,
            connection_invalidated=lost,
            dialect=dialect,
        ) from error
    finally:
        if cursor is not None:
            cursor.close()
