"""One transaction of a database: its statements, its locks, and how to undo its changes."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from sqlalchemy import Connection, CursorResult, Executable, Table, text
from sqlalchemy.exc import SQLAlchemyError

from gateway.reliability.storage import Ended
from gateway.reliability.stores import array_statements
from gateway.reliability.stores.driver_statements import Row, changed, run, run_many, usable
from gateway.reliability.stores.engines import translated
from gateway.reliability.stores.locks import Kind, LockOrder
from gateway.reliability.stores.statements import (
    PUT,
    delete_by,
    insert_into,
    update_some,
)
from gateway.reliability.stores.tables import digest

T = TypeVar("T")
Values = dict[str, Any]

_ADVISORY = text("SELECT pg_advisory_xact_lock(:number)")
_TRY_ADVISORY = text("SELECT pg_try_advisory_xact_lock(:number)")
_NOTHING = text("SELECT 1")
_ABSENT = object()


class Work:
    """One transaction's statements, and what it has locked."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.order = LockOrder()
        self.ended = False
        self.sqlite = connection.dialect.name == "sqlite"
        self.flushes: list[Callable[[], None]] = []
        self._undo: list[tuple[dict[Any, Any], Any, Any]] | None = None
        self._before_write: Callable[[], None] | None = None
        self._changes: list[array_statements.Change] | None = None
        """The changes that a flush gathers."""

    def execute(
        self, statement: Executable, values: Values | Sequence[Values] | None = None
    ) -> CursorResult[Any]:
        """Run a statement of the store.

        Raises:
            Ended: The transaction has ended.
            StorageUnavailable: The database cannot do it.
        """
        self.check_open()
        self.will_write()
        try:
            return self.connection.execute(statement, values)
        except SQLAlchemyError as error:
            raise translated(error) from error

    def read(self, statement: Executable, values: Values) -> list[Row]:
        """Run one of the queries that are made once, and have few rows.

        Raises:
            Ended: The transaction has ended.
            StorageUnavailable: The database cannot do it.
        """
        return self._run(statement, values)

    def write(self, statement: Executable, values: Values) -> list[Row]:
        """Run one of the statements that are made once, and change something: as `read`."""
        self.will_write()
        return self._run(statement, values)

    def count(self, statement: Executable, values: Values) -> int:
        """As `write`; how many rows it changed."""
        self.will_write()
        self._check_usable(statement, values)
        try:
            return changed(self.connection, statement, values)
        except SQLAlchemyError as error:
            raise translated(error) from error

    def write_each(self, statement: Executable, rows: Sequence[Values]) -> None:
        """As `write`, for each of *rows*, which have the same names."""
        self._each(statement, rows)

    def insert_many(self, table: Table, rows: Sequence[Values], *, put: bool = False) -> None:
        """Add rows, which have the same names; *put*: or change those whose key is there."""
        if self.sqlite:
            self._each(PUT[True] if put else insert_into(table), rows)
        else:
            self._change(array_statements.insert_many(table, rows, put=put))

    def update_many(
        self, table: Table, keys: tuple[str, ...], names: tuple[str, ...], rows: Sequence[Values]
    ) -> None:
        """Change the columns *names* of the rows that have these *keys*."""
        if self.sqlite:
            self._each(
                update_some(table, keys, names),
                [
                    {f"own_{key}": row[key] for key in keys}
                    | {f"new_{name}": row[name] for name in names}
                    for row in rows
                ],
            )
        else:
            self._change(array_statements.update_many(table, keys, names, rows))

    def delete_many(self, table: Table, keys: tuple[str, ...], rows: Sequence[Values]) -> None:
        """Remove the rows that have these *keys*."""
        if self.sqlite:
            statement = delete_by(table, *keys)
            self._each(statement, [{f"own_{key}": row[key] for key in keys} for row in rows])
        else:
            self._change(array_statements.delete_many(table, keys, rows))

    def _change(self, change: array_statements.Change) -> None:
        if self._changes is not None:
            self._changes.append(change)
        else:
            self._run_changes([change])

    def _run_changes(self, changes: Sequence[array_statements.Change]) -> None:
        self.at_once(partial(array_statements.run_all, changes=changes), writes=True)

    def _each(self, statement: Executable, rows: Sequence[Values]) -> None:
        self.will_write()
        self._check_usable(statement, rows[0])
        if len(rows) == 1:
            self._run(statement, rows[0])
        else:
            self._many(partial(run_many, self.connection, statement, rows))

    def at_once(self, work: Callable[[Connection], T], *, writes: bool = False) -> T:
        """Run a statement for many sequences.

        Raises:
            Ended: The transaction has ended.
            StorageUnavailable: The database cannot do it.
        """
        if writes:
            self.will_write()
        self.check_open()
        if not usable(self.connection):
            self.execute(_NOTHING)  # It raises.
        return self._many(partial(work, self.connection))

    def _many(self, work: Callable[[], T]) -> T:
        try:
            return work()
        except SQLAlchemyError as error:
            raise translated(error) from error

    def _run(self, statement: Executable, values: Values) -> list[Row]:
        self._check_usable(statement, values)
        try:
            return run(self.connection, statement, values)
        except SQLAlchemyError as error:
            raise translated(error) from error

    def _check_usable(self, statement: Executable, values: Values) -> None:
        self.check_open()
        if not usable(self.connection):
            self.execute(statement, values)  # It raises.

    def flush(self) -> None:
        """Write what the managers have not written yet: on PostgreSQL with one statement, since
        each changes other rows."""
        gathers = not self.sqlite and self._changes is None
        if gathers:
            self._changes = []
        try:
            for flush in self.flushes:
                flush()
        finally:
            if gathers:
                changes, self._changes = self._changes, None
        if gathers and changes:
            self._run_changes(changes)

    def set(self, known: dict[Any, Any], key: Any, value: Any) -> None:
        """Set an item of a dictionary, so that a rollback restores it."""
        if self._undo is not None:
            self._undo.append((known, key, known.get(key, _ABSENT)))
        known[key] = value

    def drop(self, known: dict[Any, Any], key: Any) -> None:
        """Remove an item of a dictionary, if it is there, so that a rollback restores it."""
        if key in known:
            if self._undo is not None:
                self._undo.append((known, key, known[key]))
            del known[key]

    def part(self, before_write: Callable[[], None]) -> Callable[[], Callable[[], None]]:
        """Begin a part of the transaction.

        Args:
            before_write: Is called once, before the first statement of the part that changes
                something, or that an application runs.

        Returns:
            What ends it, and returns what forgets it then: all that became known in it.
        """
        kept = self._undo, self._before_write
        undo: list[tuple[dict[Any, Any], Any, Any]] = []
        held = self.order.mark()
        self._undo, self._before_write = undo, before_write

        def forget() -> None:
            for known, key, value in reversed(undo):
                if value is _ABSENT:
                    known.pop(key, None)
                else:
                    known[key] = value
            self.order.back_to(held)

        def end() -> Callable[[], None]:
            self._undo, self._before_write = kept
            return forget

        return end

    def will_write(self) -> None:
        """Say that a statement comes that may change something."""
        begin, self._before_write = self._before_write, None
        if begin is not None:
            begin()

    def check_open(self) -> None:
        if self.ended:
            raise Ended("the transaction has ended")

    def lock_absent(self, kind: Kind, key: str, *, wait: bool = True) -> bool:
        """Lock a place without a row; False where another transaction has it, and it is not waited
        for."""
        if self.sqlite:
            return True
        number = int.from_bytes(digest(kind.name, key)[:8], "big", signed=True)
        if wait:
            self.execute(_ADVISORY, {"number": number})
            return True
        return bool(self.execute(_TRY_ADVISORY, {"number": number}).scalar())
