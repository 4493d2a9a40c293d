"""`Manager`: base of the managers of all kinds of records in a database."""

import json
from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import cache
from operator import attrgetter
from typing import Any, Generic, TypeVar

from sqlalchemy import Table

from gateway.reliability.records import (
    IncomingSequence,
    InvokerBuffer,
    OutgoingSequence,
    made,
)
from gateway.reliability.stores.array_statements import array_of
from gateway.reliability.stores.database_transaction import Values, Work
from gateway.reliability.stores.locks import Kind, can_be_key, check_key
from gateway.reliability.stores.statements import (
    delete_by,
    insert_into,
    locking,
    locking_all,
)

R = TypeVar("R", IncomingSequence, InvokerBuffer, OutgoingSequence)


class Manager(Generic[R]):
    """Rows of one kind, as one transaction sees them."""

    _kind: Kind
    _table: Table
    _key: str
    _record: type[R]
    _derived: frozenset[str]
    """The fields of which other columns are derived: see `_derive`."""

    def __init__(self, work: Work) -> None:
        self._work = work
        work.flushes.append(self.flush)
        self._there: dict[str, bool] = {}
        """Whether a locked object has a row."""
        self._records: dict[str, R | None] = {}
        """The records of locked objects, which no other transaction can change."""
        self._changed: dict[str, R] = {}
        """Records that are not written yet."""

    def _find(self, key: str, *, wait: bool = True) -> R | None:
        self._work.check_open()
        if not can_be_key(key):
            return None
        place = self._kind, key
        held = self._work.order.holds(place)
        if held and key in self._records:
            return self._records[key]
        if not held:
            self._work.order.check(place)
        row = self._row(key, wait=wait)
        if row is None and not held:
            if not self._work.lock_absent(self._kind, key, wait=wait):
                return None
            if not self._work.sqlite:
                row = self._row(key, wait=wait)  # Somebody added it before we had the lock.
        return self._locked(key, row)

    def take_all(self, keys: Sequence[str]) -> list[str]:
        """Lock those of *keys* that are there and that no other transaction has, in their order,
        with one statement.

        Returns:
            Their keys.
        """
        return self._lock_all(keys, wait=False)

    def find_all(self, keys: Sequence[str]) -> list[str]:
        """Lock those of *keys* that are there, in their order, with one statement.

        Returns:
            Their keys.
        """
        return self._lock_all(keys, wait=True)

    def _lock_all(self, keys: Sequence[str], *, wait: bool) -> list[str]:
        self._work.check_open()
        wanted = [key for key in keys if can_be_key(key)]
        others = [key for key in wanted if not self._work.order.holds((self._kind, key))]
        if others:
            self._work.order.check((self._kind, others[0]))
            record: type = self._record
            sqlite = self._work.sqlite
            statement = locking_all(self._table, record, self._key, wait, sqlite)
            at = [field.name for field in fields(record)].index(self._key)
            given = json.dumps(others) if sqlite else array_of(None, others)
            for row in self._work.read(statement, {"own_keys": given}):
                self._locked(row[at], row)
        return [key for key in wanted if self._there.get(key)]

    def _row(self, key: str, *, wait: bool) -> Sequence[Any] | None:
        record: type = self._record
        statement = locking(self._table, record, self._key, wait)
        rows = self._work.read(statement, {f"own_{self._key}": key})
        return rows[0] if rows else None

    def _locked(self, key: str, row: Sequence[Any] | None) -> R | None:
        if not self._work.order.holds((self._kind, key)):
            self._work.order.add((self._kind, key))
        record = None if row is None else made(self._record, row)
        self._work.set(self._there, key, row is not None)
        self._work.set(self._records, key, record)
        return record

    def _hold(self, key: str) -> None:
        """Lock it; for those who need not see it."""
        self._work.check_open()
        if key not in self._there:
            check_key(key)
            self._find(key)

    def _derive(self, record: R) -> Values:
        """The columns that are no fields."""
        return {}

    def _write(self, key: str, record: R) -> None:
        """Add it now; change it at the next `flush`, since it may change again until then."""
        self._hold(key)
        work = self._work
        if not self._there[key]:
            values = {**values_of(record), **self._derive(record)}
            work.execute(insert_into(self._table), values)
            work.set(self._there, key, True)
        elif key not in self._changed:
            before = self._records[key]
            assert before is not None
            work.set(self._changed, key, before)
        work.set(self._records, key, record)

    def flush(self) -> None:
        """Write all changed records together: on SQLite the changed columns of each row, on
        PostgreSQL of all rows the columns that changed in one of them."""
        if not self._changed:
            return
        rows: list[tuple[R, Values]] = []
        for key, before in list(self._changed.items()):
            record = self._records[key]
            self._work.drop(self._changed, key)
            if record is None or record is before:
                continue
            values = _changes(before, record)
            if not self._derived.isdisjoint(values):
                values |= self._derive(record)
            if values:
                rows.append((record, {**values, self._key: key}))
        for names, some in self._alike(rows).items():
            self._work.update_many(self._table, (self._key,), names, some)

    def _alike(self, rows: Sequence[tuple[R, Values]]) -> dict[tuple[str, ...], list[Values]]:
        """The rows that are changed with one statement, by the columns that it changes."""
        alike: dict[tuple[str, ...], list[Values]] = {}
        if self._work.sqlite or len(rows) < 2:
            for _, values in rows:
                names = tuple(name for name in values if name != self._key)
                alike.setdefault(names, []).append(values)
        elif rows:
            changed = dict.fromkeys(name for _, values in rows for name in values)
            derived = not self._derived.isdisjoint(changed)
            full = [
                {**values_of(record), **(self._derive(record) if derived else {})}
                for record, _ in rows
            ]
            names = tuple(name for name in changed if name != self._key)
            alike[names] = [{name: each[name] for name in changed} for each in full]
        return alike

    def _delete(self, key: str) -> None:
        self._hold(key)
        work = self._work
        work.drop(self._changed, key)
        work.execute(delete_by(self._table, self._key), {f"own_{self._key}": key})
        work.set(self._there, key, False)
        work.set(self._records, key, None)


@cache
def _fields(record: type) -> tuple[tuple[str, ...], Callable[[Any], tuple[Any, ...]]]:
    names = tuple(field.name for field in fields(record))
    return names, attrgetter(*names)


def values_of(record: Any) -> Values:
    kind: type = type(record)
    names, values = _fields(kind)
    return dict(zip(names, values(record), strict=True))


def _changes(before: Any, after: Any) -> Values:
    """The fields that are others than before."""
    kind: type = type(after)
    names, values = _fields(kind)
    return {
        name: new
        for name, old, new in zip(names, values(before), values(after), strict=True)
        if new is not old and new != old
    }
