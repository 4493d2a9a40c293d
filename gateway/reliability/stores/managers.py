"""The three managers and the look on a database, in SQLAlchemy Core: SQLite and PostgreSQL.

An object that is there is locked by its row (``SELECT ... FOR UPDATE``), one that is not by an
advisory lock of PostgreSQL. A transaction on SQLite has the whole database.
"""

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, Generic, TypeVar

from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Connection,
    CursorResult,
    Executable,
    Row,
    Select,
    Table,
    bindparam,
    delete,
    func,
    insert,
    or_,
    select,
    text,
    union_all,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite
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
from gateway.reliability.stores.tables import digest
from mediation.reliable_messaging import Ranges


def _add(sqlite_: bool) -> Executable:
    """Add a message to a buffer, unless its number is there."""
    table = tables.invoker_messages
    if sqlite_:
        return sqlite.insert(table).on_conflict_do_nothing().returning(table.c.number)
    return postgresql.insert(table).on_conflict_do_nothing().returning(table.c.number)


def _put(sqlite_: bool) -> Executable:
    """Add a message to an outgoing sequence, or change it."""
    table = tables.outgoing_messages
    statement = sqlite.insert(table) if sqlite_ else postgresql.insert(table)
    changed = {column.name: statement.excluded[column.name] for column in table.c}
    return statement.on_conflict_do_update(
        index_elements=[table.c.sequence, table.c.number], set_=changed
    )


_ADD = {on_sqlite: _add(on_sqlite) for on_sqlite in (True, False)}
_PUT = {on_sqlite: _put(on_sqlite) for on_sqlite in (True, False)}
"""Made once: to make them takes longer than to run them."""

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

    def __init__(self, work: Work) -> None:
        self._work = work
        self._there: dict[str, bool] = {}
        """Of what is locked, whether it has a row."""
        self._records: dict[str, R | None] = {}
        """Of what is locked, what it is: nobody else changes it."""

    def _select(self) -> Select[Any]:
        return select(*(self._table.c[field.name] for field in fields(self._record)))

    def _is(self, name: str) -> ColumnElement[bool]:
        """The condition that the column *name* has the value that the statement is given."""
        column = self._table.c[name]
        return column == bindparam(name, type_=column.type)

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

    def _row(self, key: str, *, wait: bool) -> Row[Any] | None:
        statement = self._select().where(self._is(self._key))
        statement = statement.with_for_update(skip_locked=not wait)
        return self._work.execute(statement, {self._key: key}).one_or_none()

    def _locked(self, key: str, row: Row[Any] | None) -> R | None:
        if not self._work.order.holds((self._kind, key)):
            self._work.order.add((self._kind, key))
        self._there[key] = row is not None
        record = self._records[key] = None if row is None else self._read(row)
        return record

    def _read(self, row: Row[Any]) -> R:
        return self._record(*tuple(row))

    def _hold(self, key: str) -> None:
        """Lock it; for those who need not see it."""
        self._work.check_open()
        if not self._work.order.holds((self._kind, key)):
            check_key(key)
            self._find(key)

    def _write(self, key: str, values: Values, record: R) -> None:
        self._hold(key)
        if self._there[key]:
            changed = {f"new_{name}": value for name, value in values.items()}
            self._work.execute(_update(self._table, self._key), {**changed, "own_key": key})
        else:
            self._work.execute(insert(self._table), values)
            self._there[key] = True
        self._records[key] = record

    def _delete(self, key: str) -> None:
        self._hold(key)
        self._work.execute(delete(self._table).where(self._is(self._key)), {self._key: key})
        self._there[key] = False
        self._records[key] = None


def _update(table: Table, key: str) -> Executable:
    """All columns of a row; parameters are called otherwise than columns, which names the key."""
    found = _UPDATES.get(table.name)
    if found is None:
        new: dict[str, BindParameter[Any]] = {
            column.name: bindparam(f"new_{column.name}", type_=column.type) for column in table.c
        }
        own = table.c[key] == bindparam("own_key", type_=table.c[key].type)
        found = _UPDATES[table.name] = update(table).where(own).values(new)
    return found


_UPDATES: dict[str, Executable] = {}


def _values(record: Any) -> Values:
    return {field.name: getattr(record, field.name) for field in fields(record)}


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
        column = self._table.c.identifier
        statement = select(column).where(self._is("created_by"))
        found = self._work.execute(statement, {"created_by": name}).scalar()
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
        statement = select(func.count()).select_from(self._table)
        statement = statement.where(self._table.c.ended_at.is_(None))
        if owner is None:
            return int(self._work.execute(statement).scalar_one())
        own = {"owned_by": digest(owner)}
        return int(self._work.execute(statement.where(self._is("owned_by")), own).scalar_one())


class DatabaseInvoker(_Manager[InvokerBuffer]):
    """`gateway.reliability.storage.InvokerBuffers`."""

    _kind, _table, _key = Kind.INVOKER, tables.invoker, "identifier"
    _record = InvokerBuffer
    _messages = tables.invoker_messages

    def find(self, identifier: str) -> InvokerBuffer | None:
        return self._find(identifier)

    def take(self, identifier: str) -> InvokerBuffer | None:
        return self._find(identifier, wait=False)

    def put(self, buffer: InvokerBuffer) -> None:
        check_key(buffer.identifier)
        self._write(buffer.identifier, _values(buffer), buffer)

    def remove(self, identifier: str) -> None:
        self._delete(identifier)
        all_of_it = delete(self._messages).where(self._messages.c.sequence == identifier)
        self._work.execute(all_of_it)

    def add_message(self, identifier: str, message: InvokerMessage) -> bool:
        self._hold(identifier)
        values = {**_values(message), "sequence": identifier}
        added = self._work.execute(_ADD[self._work.sqlite], values)
        return added.first() is not None

    def messages(self, identifier: str, first: int, limit: int) -> list[InvokerMessage]:
        self._hold(identifier)
        columns = self._messages.c
        statement = (
            select(*(columns[field.name] for field in fields(InvokerMessage)))
            .where(columns.sequence == identifier, columns.number >= first)
            .order_by(columns.number)
            .limit(limit)
        )
        return [InvokerMessage(*tuple(row)) for row in self._work.execute(statement)]

    def remove_message(self, identifier: str, number: int) -> None:
        self._hold(identifier)
        columns = self._messages.c
        statement = delete(self._messages)
        self._work.execute(
            statement.where(columns.sequence == identifier, columns.number == number)
        )


class DatabaseOutgoing(_Manager[OutgoingSequence]):
    """`gateway.reliability.storage.OutgoingSequences`."""

    _kind, _table, _key = Kind.OUTGOING, tables.outgoing, "key"
    _record = OutgoingSequence
    _messages = tables.outgoing_messages

    def __init__(self, work: Work) -> None:
        super().__init__(work)
        self._names: dict[str, Values] = {}
        """Of what is locked, the names as its row has them."""

    def _locked(self, key: str, row: Row[Any] | None) -> OutgoingSequence | None:
        record = super()._locked(key, row)
        self._names[key] = _names_of(record)
        return record

    def find(self, key: str) -> OutgoingSequence | None:
        return self._find(key)

    def take(self, key: str) -> OutgoingSequence | None:
        return self._find(key, wait=False)

    def find_identified(self, identifier: str) -> OutgoingSequence | None:
        return self._find_by("identifier", identifier)

    def find_offered(self, offered: str) -> OutgoingSequence | None:
        return self._find_by("offered", offered)

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
        self._names[key] = _names_of(None)
        self._work.execute(delete(self._messages).where(self._messages.c.sequence == key))

    def put_message(self, key: str, message: OutgoingMessage) -> None:
        self._hold(key)
        relates = message.relates_to
        values = {
            **_values(message),
            "sequence": key,
            "named": digest(message.message_id),
            "answers": None if relates is None else digest(relates),
        }
        self._work.execute(_PUT[self._work.sqlite], values)

    def message(self, key: str, number: int) -> OutgoingMessage | None:
        return self._first(key, self._messages.c.number == number)

    def message_identified(self, key: str, message_id: str) -> OutgoingMessage | None:
        return self._first(key, self._messages.c.named == digest(message_id))

    def message_relating(self, key: str, message_id: str) -> OutgoingMessage | None:
        return self._first(key, self._messages.c.answers == digest(message_id))

    def messages(self, key: str, limit: int, due: float | None = None) -> list[OutgoingMessage]:
        self._hold(key)
        columns = self._messages.c
        statement = self._select_messages(key).limit(limit)
        if due is not None:
            statement = statement.where(or_(columns.next_at.is_(None), columns.next_at <= due))
        return [OutgoingMessage(*tuple(row)) for row in self._work.execute(statement)]

    def acknowledge(self, key: str, ranges: Ranges, *, replied: bool = False) -> int:
        self._hold(key)
        columns = self._messages.c
        pairs = ranges.pairs
        if len(pairs) > _MANY_RANGES:
            ends = select(func.min(columns.number), func.max(columns.number))
            found: Sequence[Any] = self._work.execute(ends.where(columns.sequence == key)).one()
            low, high = found
            pairs = tuple(
                pair for pair in pairs if low is not None and pair[1] >= low and pair[0] <= high
            )
        if pairs:
            statement = delete(self._messages).where(
                columns.sequence == bindparam("own_key"),
                columns.number.between(bindparam("low"), bindparam("high")),
            )
            if not replied:
                statement = statement.where(columns.wants_reply.is_(False))
            self._work.execute(
                statement, [{"own_key": key, "low": low, "high": high} for low, high in pairs]
            )
        left = select(func.count()).select_from(self._messages).where(columns.sequence == key)
        return int(self._work.execute(left).scalar_one())

    def _find_by(self, name: str, value: str) -> OutgoingSequence | None:
        self._work.check_open()
        if not can_be_key(value):
            return None
        found = self._work.execute(
            select(self._table.c.key).where(self._is(name)), {name: value}
        ).scalar()
        record = self._find(found) if found is not None else None
        # Another transaction may have changed it before it was locked.
        return record if record is not None and getattr(record, name) == value else None

    def _select_messages(self, key: str) -> Select[Any]:
        columns = self._messages.c
        wanted = select(*(columns[field.name] for field in fields(OutgoingMessage)))
        return wanted.where(columns.sequence == key).order_by(columns.number)

    def _first(self, key: str, condition: ColumnElement[bool]) -> OutgoingMessage | None:
        self._hold(key)
        statement = self._select_messages(key).where(condition).limit(1)
        row = self._work.execute(statement).first()
        return None if row is None else OutgoingMessage(*tuple(row))


def _names_of(record: OutgoingSequence | None) -> Values:
    names = ("identifier", "offered", "create_id")
    return {name: getattr(record, name, None) for name in names}


class DatabaseLook:
    """`gateway.reliability.storage.Look`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def incoming_due(self, now: float, limit: int) -> list[str]:
        return self._due(tables.incoming, "identifier", now, limit)

    def invoker_due(self, now: float, limit: int) -> list[str]:
        return self._due(tables.invoker, "identifier", now, limit)

    def outgoing_due(self, now: float, limit: int) -> list[str]:
        return self._due(tables.outgoing, "key", now, limit)

    def next_due(self) -> float | None:
        firsts = union_all(
            *(
                select(func.min(table.c.due_at).label("first")).where(table.c.due_at.is_not(None))
                for table in (tables.incoming, tables.invoker, tables.outgoing)
            )
        ).subquery()
        found = self._execute(select(func.min(firsts.c.first))).scalar()
        return None if found is None else float(found)

    def incoming_to(self, address: str, limit: int) -> list[str]:
        return self._to(tables.incoming, "identifier", address, limit)

    def outgoing_to(self, address: str, limit: int) -> list[str]:
        return self._to(tables.outgoing, "key", address, limit)

    def incoming_page(self, after: str, limit: int) -> list[IncomingSequence]:
        rows = self._page(tables.incoming, IncomingSequence, "identifier", after, limit)
        return [IncomingSequence(*tuple(row)) for row in rows]

    def outgoing_page(self, after: str, limit: int) -> list[OutgoingSequence]:
        rows = self._page(tables.outgoing, OutgoingSequence, "key", after, limit)
        return [OutgoingSequence(*tuple(row)) for row in rows]

    def _due(self, table: Table, key: str, now: float, limit: int) -> list[str]:
        statement = select(table.c[key]).where(table.c.due_at <= now)
        statement = statement.order_by(table.c.due_at, table.c[key]).limit(limit)
        return list(self._execute(statement).scalars())

    def _to(self, table: Table, key: str, address: str, limit: int) -> list[str]:
        statement = select(table.c[key]).where(
            table.c.address == digest(address), table.c.ended_at.is_(None)
        )
        statement = statement.order_by(table.c[key]).limit(limit)
        return list(self._execute(statement).scalars())

    def _page(
        self, table: Table, record: type, key: str, after: str, limit: int
    ) -> Sequence[Row[Any]]:
        statement = select(*(table.c[field.name] for field in fields(record)))
        statement = statement.where(table.c[key] > after).order_by(table.c[key]).limit(limit)
        return self._execute(statement).all()

    def _execute(self, statement: Executable) -> CursorResult[Any]:
        try:
            return self._connection.execute(statement)
        except SQLAlchemyError as error:
            raise translated(error) from error
