"""Read-only queries on a database: due sequences, sequences by address, counts."""

from collections.abc import Sequence
from functools import cache
from typing import Any

from sqlalchemy import (
    Connection,
    CursorResult,
    Executable,
    Integer,
    Row,
    Select,
    Table,
    bindparam,
    func,
    literal_column,
    select,
    union_all,
)
from sqlalchemy.exc import SQLAlchemyError

from gateway.reliability.records import IncomingSequence, OutgoingSequence
from gateway.reliability.stores import tables
from gateway.reliability.stores.driver_statements import run
from gateway.reliability.stores.engines import translated
from gateway.reliability.stores.statements import MOST, is_, records
from gateway.reliability.stores.tables import digest


@cache
def _due(table: Table, key: str) -> Executable:
    found = select(table.c[key]).where(table.c.due_at <= bindparam("now"))
    return found.order_by(table.c.due_at, table.c[key]).limit(MOST)


@cache
def _sending_to(table: Table, key: str) -> Executable:
    found = select(table.c[key]).where(is_(table.c.address), table.c.ended_at.is_(None))
    return found.order_by(table.c[key]).limit(MOST)


@cache
def _paged(table: Table, record: type, key: str) -> Executable:
    after = bindparam("after", type_=table.c[key].type)
    found = records(table, record).where(table.c[key] > after)
    return found.order_by(table.c[key]).limit(MOST)


def _first_due(table: Table, key: str, kind: int) -> Select[Any]:
    found = select(table.c.due_at, table.c[key].label("key"))
    found = found.where(table.c.due_at <= bindparam("now"))
    # A database takes the order of a part of a union only within parentheses.
    part = found.order_by(table.c.due_at, table.c[key]).limit(MOST).subquery()
    return select(literal_column(str(kind), Integer()).label("kind"), part.c.due_at, part.c.key)


_ALL_DUE = union_all(
    _first_due(tables.invoker, "identifier", 0),
    _first_due(tables.outgoing, "key", 1),
    _first_due(tables.incoming, "identifier", 2),
)

_firsts = union_all(
    *(
        select(func.min(table.c.due_at).label("first")).where(table.c.due_at.is_not(None))
        for table in (tables.incoming, tables.invoker, tables.outgoing)
    )
).subquery()
_NEXT_DUE = select(func.min(_firsts.c.first))
_out = tables.outgoing.c
_WAITING = select(func.coalesce(func.sum(_out["count"]), 0)).where(
    _out.ended_at.is_(None), _out.create_id.is_not(None), _out["count"] > 0
)


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

    def all_due(self, now: float, limit: int) -> tuple[list[str], list[str], list[str]]:
        """Find the due keys of all three kinds with one statement: buffers, outgoing, incoming
        sequences."""
        try:
            rows = run(self._connection, _ALL_DUE, {"now": now, "most": limit})
        except SQLAlchemyError as error:
            raise translated(error) from error
        found: tuple[list[str], list[str], list[str]] = ([], [], [])
        for kind, _, key in sorted(rows):
            found[kind].append(key)
        return found

    def next_due(self) -> float | None:
        found = self._execute(_NEXT_DUE).scalar()
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

    def waiting(self) -> int:
        return int(self._execute(_WAITING).scalar_one())

    def _due(self, table: Table, key: str, now: float, limit: int) -> list[str]:
        values = {"now": now, "most": limit}
        return list(self._execute(_due(table, key), values).scalars())

    def _to(self, table: Table, key: str, address: str, limit: int) -> list[str]:
        values = {"own_address": digest(address), "most": limit}
        return list(self._execute(_sending_to(table, key), values).scalars())

    def _page(
        self, table: Table, record: type, key: str, after: str, limit: int
    ) -> Sequence[Row[Any]]:
        values = {"after": after, "most": limit}
        return self._execute(_paged(table, record, key), values).all()

    def _execute(
        self, statement: Executable, values: dict[str, Any] | None = None
    ) -> CursorResult[Any]:
        try:
            return self._connection.execute(statement, values)
        except SQLAlchemyError as error:
            raise translated(error) from error
