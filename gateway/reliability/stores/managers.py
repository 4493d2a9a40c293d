"""The three managers of a database, in SQLAlchemy Core: SQLite and PostgreSQL.

An object that is there is locked by its row (``SELECT ... FOR UPDATE``), one that is not by an
advisory lock of PostgreSQL. A transaction on SQLite has the whole database.
"""

from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import cache
from operator import attrgetter
from typing import Any, Generic, TypeVar

from sqlalchemy import Connection, CursorResult, Executable, Table, or_, select, text
from sqlalchemy.exc import SQLAlchemyError

from gateway.reliability.records import (
    IncomingSequence,
    InvokerBuffer,
    InvokerMessage,
    OutgoingMessage,
    OutgoingSequence,
)
from gateway.reliability.storage import Ended, Taken
from gateway.reliability.stores import tables
from gateway.reliability.stores.engines import translated
from gateway.reliability.stores.locks import (
    Kind,
    LockOrder,
    can_be_key,
    check_key,
    check_sequence,
)
from gateway.reliability.stores.prepared import run, usable
from gateway.reliability.stores.statements import (
    ACKNOWLEDGE,
    ACKNOWLEDGE_ALL,
    ADD,
    DUE,
    ENDS,
    FIRST,
    PUT,
    SENDING,
    WAITING,
    delete_by,
    how_many,
    insert_into,
    key_by,
    locking,
    locking_all,
    update_all,
)
from gateway.reliability.stores.tables import digest
from mediation.reliable_messaging import Ranges

R = TypeVar("R", IncomingSequence, InvokerBuffer, OutgoingSequence)
Values = dict[str, Any]

_ADVISORY = text("SELECT pg_advisory_xact_lock(:number)")
_TRY_ADVISORY = text("SELECT pg_try_advisory_xact_lock(:number)")
_MANY_RANGES = 8
"""From as many on, those are left out that no message is in."""


class Work:
    """One transaction's statements, and what it has locked."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.order = LockOrder()
        self.ended = False
        self.sqlite = connection.dialect.name == "sqlite"
        self.flushes: list[Callable[[], None]] = []
        self.keeps: list[Callable[[], Callable[[], None]]] = []

    def execute(
        self, statement: Executable, values: Values | Sequence[Values] | None = None
    ) -> CursorResult[Any]:
        """Run a statement of the store.

        Raises:
            Ended: The transaction has ended.
            StorageUnavailable: The database cannot do it.
        """
        self.check_open()
        try:
            return self.connection.execute(statement, values)
        except SQLAlchemyError as error:
            raise translated(error) from error

    def run(self, statement: Executable, values: Values) -> list[tuple[Any, ...]]:
        """Run one of the statements that are made once, and have few rows.

        Raises:
            Ended: The transaction has ended.
            StorageUnavailable: The database cannot do it.
        """
        if not usable(self.connection):
            self.execute(statement, values)  # It raises.
        self.check_open()
        try:
            return run(self.connection, statement, values)
        except SQLAlchemyError as error:
            raise translated(error) from error

    def flush(self) -> None:
        """Write what the managers have not written yet."""
        for flush in self.flushes:
            flush()

    def keep(self) -> Callable[[], None]:
        """Note what is known, and what is not written yet, for a savepoint.

        Returns:
            What brings it back, after a rollback to the savepoint.
        """
        order, restores = self.order.copy(), [keep() for keep in self.keeps]

        def restore() -> None:
            self.order = order
            for each in restores:
                each()

        return restore

    def check_open(self) -> None:
        if self.ended:
            raise Ended("the transaction has ended")

    def lock_absent(self, kind: Kind, key: str, *, wait: bool = True) -> bool:
        """Lock what has no row; False where another has it, and nobody waits for it."""
        if self.sqlite:
            return True
        number = int.from_bytes(digest(kind.name, key)[:8], "big", signed=True)
        if wait:
            self.execute(_ADVISORY, {"number": number})
            return True
        return bool(self.execute(_TRY_ADVISORY, {"number": number}).scalar())


class _Manager(Generic[R]):
    """What the managers of all kinds do alike."""

    _kind: Kind
    _table: Table
    _key: str
    _record: type[R]
    _kept: tuple[str, ...] = ("_there", "_records", "_changed")
    """What a rollback to a savepoint undoes."""

    def __init__(self, work: Work) -> None:
        self._work = work
        work.flushes.append(self.flush)
        work.keeps.append(self.keep)
        self._there: dict[str, bool] = {}
        """Of what is locked, whether it has a row."""
        self._records: dict[str, R | None] = {}
        """Of what is locked, what it is: nobody else changes it."""
        self._changed: dict[str, Values] = {}
        """The columns of rows that are not written yet."""

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
        self._work.check_open()
        wanted = [key for key in keys if can_be_key(key)]
        held = [key for key in wanted if self._work.order.holds((self._kind, key))]
        others = [key for key in wanted if key not in held]
        if others:
            self._work.order.check((self._kind, others[0]))
            record: type = self._record
            statement = locking_all(self._table, record, self._key)
            at = [field.name for field in fields(record)].index(self._key)
            for row in self._work.execute(statement, {"own_keys": others}).all():
                self._locked(row[at], row)
        return [key for key in wanted if self._there.get(key)]

    def _row(self, key: str, *, wait: bool) -> Sequence[Any] | None:
        record: type = self._record
        statement = locking(self._table, record, self._key, wait)
        rows = self._work.run(statement, {f"own_{self._key}": key})
        return rows[0] if rows else None

    def _locked(self, key: str, row: Sequence[Any] | None) -> R | None:
        if not self._work.order.holds((self._kind, key)):
            self._work.order.add((self._kind, key))
        self._there[key] = row is not None
        record = self._records[key] = None if row is None else self._read(row)
        return record

    def _read(self, row: Sequence[Any]) -> R:
        return self._record(*tuple(row))

    def _hold(self, key: str) -> None:
        """Lock it; for those who need not see it."""
        self._work.check_open()
        if key not in self._there:
            check_key(key)
            self._find(key)

    def _write(self, key: str, values: Values, record: R) -> None:
        """Add it now; change it at the next `flush`, since it may change again until then."""
        self._hold(key)
        if self._there[key]:
            self._changed[key] = values
        else:
            self._work.execute(insert_into(self._table), values)
            self._there[key] = True
        self._records[key] = record

    def flush(self) -> None:
        """Write what was changed, all of it together."""
        changed, self._changed = self._changed, {}
        if changed:
            rows = [
                {f"own_{self._key}": key} | {f"new_{name}": value for name, value in values.items()}
                for key, values in changed.items()
            ]
            self._work.execute(update_all(self._table, self._key), rows)

    def keep(self) -> Callable[[], None]:
        """As of `Work`."""
        kept = {name: dict(getattr(self, name)) for name in self._kept}

        def restore() -> None:
            for name, known in kept.items():
                setattr(self, name, known)

        return restore

    def _delete(self, key: str) -> None:
        self._hold(key)
        self._changed.pop(key, None)
        self._work.execute(delete_by(self._table, self._key), {f"own_{self._key}": key})
        self._there[key] = False
        self._records[key] = None


@cache
def _fields(record: type) -> tuple[tuple[str, ...], Callable[[Any], tuple[Any, ...]]]:
    names = tuple(field.name for field in fields(record))
    return names, attrgetter(*names)


def _values(record: Any) -> Values:
    kind: type = type(record)
    names, values = _fields(kind)
    return dict(zip(names, values(record), strict=True))


class DatabaseIncoming(_Manager[IncomingSequence]):
    """`gateway.reliability.storage.IncomingSequences`."""

    _kind, _table, _key = Kind.INCOMING, tables.incoming, "identifier"
    _record = IncomingSequence

    def find(self, identifier: str) -> IncomingSequence | None:
        return self._find(identifier)

    def take(self, identifier: str) -> IncomingSequence | None:
        return self._find(identifier, wait=False)

    def find_created(self, create_id: str, owner: str | None) -> IncomingSequence | None:
        self._work.check_open()
        name = digest(create_id, owner)
        place = Kind.CREATED, name.hex()
        if not self._work.order.holds(place):
            self._work.order.check(place)
            self._work.lock_absent(*place)
            self._work.order.add(place)
        self.flush()
        statement = key_by(self._table, "identifier", "created_by")
        found = self._work.execute(statement, {"own_created_by": name}).scalar()
        record = self._find(found) if found is not None else None
        matches = record and (record.create_id, record.owner) == (create_id, owner)
        return record if matches else None

    def put(self, sequence: IncomingSequence) -> None:
        check_sequence(sequence)
        values = _values(sequence)
        created = sequence.create_id is not None
        values["created_by"] = digest(sequence.create_id, sequence.owner) if created else None
        values["owned_by"] = None if sequence.owner is None else digest(sequence.owner)
        values["address"] = digest(sequence.acks_to.address)
        self._write(sequence.identifier, values, sequence)

    def remove(self, identifier: str) -> None:
        self._delete(identifier)

    def count(self, owner: str | None = None) -> int:
        self.flush()
        if owner is None:
            return int(self._work.execute(how_many(self._table, live=True)).scalar_one())
        own = {"own_owned_by": digest(owner)}
        statement = how_many(self._table, "owned_by", live=True)
        return int(self._work.execute(statement, own).scalar_one())


class DatabaseInvoker(_Manager[InvokerBuffer]):
    """`gateway.reliability.storage.InvokerBuffers`."""

    _kind, _table, _key = Kind.INVOKER, tables.invoker, "identifier"
    _kept = ("_there", "_records", "_changed", "_removed")
    _record = InvokerBuffer
    _messages = tables.invoker_messages

    def __init__(self, work: Work) -> None:
        super().__init__(work)
        self._removed: dict[tuple[str, int], None] = {}
        """Messages whose rows are still there."""

    def find(self, identifier: str) -> InvokerBuffer | None:
        return self._find(identifier)

    def take(self, identifier: str) -> InvokerBuffer | None:
        return self._find(identifier, wait=False)

    def put(self, buffer: InvokerBuffer) -> None:
        check_key(buffer.identifier)
        self._write(buffer.identifier, _values(buffer), buffer)

    def remove(self, identifier: str) -> None:
        self._delete(identifier)
        self._work.execute(delete_by(self._messages, "sequence"), {"own_sequence": identifier})

    def add_message(self, identifier: str, message: InvokerMessage) -> bool:
        self._hold(identifier)
        if (identifier, message.number) in self._removed:
            self.flush()
        values = {**_values(message), "sequence": identifier}
        return bool(self._work.run(ADD[self._work.sqlite], values))

    def messages(self, identifier: str, first: int, limit: int) -> list[InvokerMessage]:
        self._hold(identifier)
        if any(key == identifier and number >= first for key, number in self._removed):
            self.flush()
        values = {"own_sequence": identifier, "first": first, "most": limit}
        return [InvokerMessage(*tuple(row)) for row in self._work.run(WAITING, values)]

    def remove_message(self, identifier: str, number: int) -> None:
        self._hold(identifier)
        self._removed[identifier, number] = None

    def flush(self) -> None:
        super().flush()
        removed, self._removed = self._removed, {}
        if removed:
            rows = [{"own_sequence": key, "own_number": number} for key, number in removed]
            self._work.execute(delete_by(self._messages, "sequence", "number"), rows)


class DatabaseOutgoing(_Manager[OutgoingSequence]):
    """`gateway.reliability.storage.OutgoingSequences`."""

    _kind, _table, _key = Kind.OUTGOING, tables.outgoing, "key"
    _kept = ("_there", "_records", "_changed", "_names", "_put")
    _record = OutgoingSequence
    _messages = tables.outgoing_messages

    def __init__(self, work: Work) -> None:
        super().__init__(work)
        self._names: dict[str, Values] = {}
        """Of what is locked, the names as its row has them."""
        self._put: dict[str, tuple[Values, ...]] = {}
        """Messages that are not written yet, by sequence."""

    def _locked(self, key: str, row: Sequence[Any] | None) -> OutgoingSequence | None:
        record = super()._locked(key, row)
        self._names[key] = _names_of(record)
        return record

    def find(self, key: str) -> OutgoingSequence | None:
        return self._find(key)

    def take(self, key: str) -> OutgoingSequence | None:
        return self._find(key, wait=False)

    def find_identified(self, identifier: str) -> OutgoingSequence | None:
        return self._find_by("identifier", identifier)

    def find_creating(self, create_id: str) -> OutgoingSequence | None:
        return self._find_by("create_id", create_id)

    def put(self, sequence: OutgoingSequence) -> None:
        check_sequence(sequence)
        self._hold(sequence.key)
        names = _names_of(sequence)
        changed = {
            name: value
            for name, value in names.items()
            if value is not None and value != self._names[sequence.key][name]
        }
        if changed:
            self.flush()
            others = select(self._table.c.key).where(
                self._table.c.key != sequence.key,
                or_(*(self._table.c[name] == value for name, value in changed.items())),
            )
            if self._work.execute(others.limit(1)).first() is not None:
                raise Taken(f"another sequence has one of the names {changed}")
        address = digest(sequence.target.address)
        self._write(sequence.key, {**_values(sequence), "address": address}, sequence)
        self._names[sequence.key] = names

    def remove(self, key: str) -> None:
        self._delete(key)
        self._put.pop(key, None)
        self._names[key] = _names_of(None)
        self._work.execute(delete_by(self._messages, "sequence"), {"own_sequence": key})

    def put_message(self, key: str, message: OutgoingMessage) -> None:
        self._hold(key)
        relates = message.relates_to
        values = {
            **_values(message),
            "sequence": key,
            "named": digest(message.message_id),
            "answers": None if relates is None else digest(relates),
        }
        self._put[key] = (*self._put.get(key, ()), values)

    def flush(self) -> None:
        super().flush()
        self._write_messages()

    def _write_messages(self) -> None:
        put, self._put = self._put, {}
        if put:
            rows = [values for some in put.values() for values in some]
            self._work.execute(PUT[self._work.sqlite], rows)

    def _write_messages_of(self, key: str) -> None:
        if key in self._put:
            self._write_messages()

    def message(self, key: str, number: int) -> OutgoingMessage | None:
        return self._first(key, "number", number)

    def message_identified(self, key: str, message_id: str) -> OutgoingMessage | None:
        return self._first(key, "named", digest(message_id))

    def message_relating(self, key: str, message_id: str) -> OutgoingMessage | None:
        return self._first(key, "answers", digest(message_id))

    def messages(self, key: str, limit: int, due: float | None = None) -> list[OutgoingMessage]:
        self._hold(key)
        self._write_messages_of(key)
        values = {"own_sequence": key, "most": limit}
        if due is not None:
            values["due"] = due
        rows = self._work.run(SENDING if due is None else DUE, values)
        return [OutgoingMessage(*tuple(row)) for row in rows]

    def acknowledge(self, key: str, ranges: Ranges, *, replied: bool = False) -> int:
        self._hold(key)
        self._write_messages_of(key)
        own = {"own_sequence": key}
        pairs = ranges.pairs
        if len(pairs) > _MANY_RANGES:
            found: Sequence[Any] = self._work.execute(ENDS, own).one()
            low, high = found
            pairs = tuple(
                pair for pair in pairs if low is not None and pair[1] >= low and pair[0] <= high
            )
        if pairs:
            statement = ACKNOWLEDGE_ALL if replied else ACKNOWLEDGE
            for low, high in pairs:
                self._work.run(statement, {**own, "low": low, "high": high})
        [[left]] = self._work.run(how_many(self._messages, "sequence"), own)
        return int(left)

    def _find_by(self, name: str, value: str) -> OutgoingSequence | None:
        self._work.check_open()
        if not can_be_key(value):
            return None
        for held in self._records.values():
            if held is not None and getattr(held, name) == value:
                return held
        self.flush()
        statement = key_by(self._table, "key", name)
        found = self._work.execute(statement, {f"own_{name}": value}).scalar()
        record = self._find(found) if found is not None else None
        # Another transaction may have changed it before it was locked.
        return record if record is not None and getattr(record, name) == value else None

    def _first(self, key: str, by: str, value: object) -> OutgoingMessage | None:
        self._hold(key)
        self._write_messages_of(key)
        rows = self._work.run(FIRST[by], {"own_sequence": key, f"own_{by}": value})
        return OutgoingMessage(*rows[0]) if rows else None


def _names_of(record: OutgoingSequence | None) -> Values:
    names = ("identifier", "offered", "create_id")
    return {name: getattr(record, name, None) for name in names}
