"""The statements of the managers: made once, since to make one takes longer than to run it."""

from dataclasses import fields
from functools import cache, lru_cache
from typing import Any

from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Executable,
    Integer,
    Select,
    Table,
    Text,
    bindparam,
    cast,
    delete,
    func,
    insert,
    or_,
    select,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite

from gateway.reliability.records import InvokerMessage, OutgoingMessage
from gateway.reliability.stores import tables


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


ADD = {on_sqlite: _add(on_sqlite) for on_sqlite in (True, False)}
PUT = {on_sqlite: _put(on_sqlite) for on_sqlite in (True, False)}

MOST = bindparam("most", type_=Integer())


def is_(column: ColumnElement[Any], name: str = "") -> ColumnElement[bool]:
    """The condition that *column* has the value that the statement is given as *name*."""
    return column == bindparam(name or f"own_{column.name}", type_=column.type)


@cache
def records(table: Table, record: type, *by: str) -> Select[Any]:
    """Select the columns of *record*, of the rows whose columns *by* have the values given."""
    found = select(*(table.c[field.name] for field in fields(record)))
    return found.where(*(is_(table.c[name]) for name in by))


@cache
def locking(table: Table, record: type, key: str, wait: bool) -> Executable:
    return records(table, record, key).with_for_update(skip_locked=not wait)


@cache
def locking_all(table: Table, record: type, key: str, wait: bool, sqlite_: bool) -> Executable:
    """Select and lock the rows with several keys (a text of JSON on SQLite, of an array on
    PostgreSQL), in the order of the keys. Rows that another transaction has are waited for, or left
    out."""
    among: ColumnElement[bool]
    if sqlite_:
        given = func.json_each(bindparam("own_keys", type_=Text())).table_valued("value")
        among = table.c[key].in_(select(given.c.value))
    else:
        own_keys = cast(bindparam("own_keys", type_=Text()), postgresql.ARRAY(Text()))
        among = table.c[key] == func.any(own_keys)
    found = records(table, record).where(among).order_by(table.c[key])
    return found.with_for_update(skip_locked=not wait)


@cache
def key_by(table: Table, key: str, by: str) -> Executable:
    return select(table.c[key]).where(is_(table.c[by]))


@cache
def how_many(table: Table, by: str = "", *, live: bool = False) -> Executable:
    found = select(func.count()).select_from(table)
    if by:
        found = found.where(is_(table.c[by]))
    return found.where(table.c.ended_at.is_(None)) if live else found


@cache
def delete_by(table: Table, *by: str) -> Executable:
    return delete(table).where(*(is_(table.c[name]) for name in by))


@cache
def insert_into(table: Table) -> Executable:
    return insert(table)


@lru_cache(256)
def update_some(table: Table, keys: tuple[str, ...], names: tuple[str, ...]) -> Executable:
    """The columns of a row that have these *names*; parameters are called otherwise than columns,
    which name the keys."""
    new: dict[str, BindParameter[Any]] = {
        name: bindparam(f"new_{name}", type_=table.c[name].type) for name in names
    }
    return update(table).where(*(is_(table.c[key]) for key in keys)).values(new)


_number = tables.invoker_messages.c.number
WAITING = (
    records(tables.invoker_messages, InvokerMessage, "sequence")
    .where(_number >= bindparam("first"))
    .order_by(_number)
    .limit(MOST)
)


_own = tables.outgoing_messages.c
_ordered = records(tables.outgoing_messages, OutgoingMessage, "sequence").order_by(_own.number)
SENDING = _ordered.limit(MOST)
DUE = SENDING.where(or_(_own.next_at.is_(None), _own.next_at <= bindparam("due")))
FIRST = {by: _ordered.where(is_(_own[by])).limit(1) for by in ("number", "named", "answers")}
NEXT_DUE = select(func.min(_own.next_at)).where(
    is_(_own.sequence),
    _own.number <= bindparam("highest"),
    _own.next_at > bindparam("after"),
)
ENDS = select(func.min(_own.number), func.max(_own.number)).where(is_(_own.sequence))
ACKNOWLEDGE_ALL = delete(tables.outgoing_messages).where(
    is_(_own.sequence), _own.number.between(bindparam("low"), bindparam("high"))
)
ACKNOWLEDGE = ACKNOWLEDGE_ALL.where(_own.wants_reply.is_(False))
