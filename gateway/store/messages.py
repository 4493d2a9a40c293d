"""Messages that deliveries and dead letters are of, each stored once, as operations on a
connection."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Select, func, select, text, true

from gateway.store.schema import dead_letters, held, messages
from gateway.store.statements import write_many
from mediation.model.messages import Notification
from mediation.packaging.records import decode, encode
from mediation.rendering import delivery_id_of
from mediation.tenants import SOURCES, source_in


def put_message(connection: Connection, notification: Notification) -> tuple[int, bool]:
    """Store a notification once; the number of its row, and whether it is new."""
    source, id_ = storable(notification.source), storable(notification.id)
    record = encode(notification)
    values = {
        "source": source,
        "id": id_,
        "topic": storable(str(notification.topic)) if notification.topic else None,
        "octets": len(record.body),
        "properties": json.dumps(record.properties, separators=(",", ":")),
        "body": record.body,
    }
    query = (
        select(messages.c.number)
        .where(messages.c.source == source, messages.c.id == id_)
        .with_for_update(read=True, key_share=True)
    )
    for _ in range(_RACES):
        found = connection.execute(query).scalar_one_or_none()
        if found is not None:
            return int(found), False
        made = connection.execute(_PUT, values).scalar_one_or_none()
        if made is not None:
            return int(made), True
    raise RuntimeError("a message comes and goes")  # pragma: no cover


_RACES = 5
"""Another replica may store the same message, or remove it, between two statements."""
_PUT = text(
    "INSERT INTO messages (source, id, topic, octets, properties, body) "
    "VALUES (:source, :id, :topic, :octets, :properties, :body) "
    "ON CONFLICT (source, id) DO NOTHING RETURNING number"
)


def storable(value: str) -> str:
    """Replace NUL, which a broker or a consumer may send, but PostgreSQL's text cannot have."""
    return value.replace("\0", "\N{REPLACEMENT CHARACTER}")


_SWEEP = (
    "DELETE FROM messages WHERE number = ? "
    "AND NOT EXISTS (SELECT 1 FROM held WHERE held.message = messages.number) "
    "AND NOT EXISTS (SELECT 1 FROM dead_letters WHERE dead_letters.message = messages.number)"
)


_LOCK = text("SELECT 1 FROM messages WHERE number = ANY(:numbers) ORDER BY number FOR UPDATE")


def sweep(connection: Connection, numbers: Iterable[int]) -> None:
    """Remove those of the messages with these *numbers* that nothing refers to."""
    rows = [(number,) for number in sorted(set(numbers))]
    if rows:
        if connection.dialect.name == "postgresql":
            # FOR UPDATE: a transaction that is about to refer to one of them commits before its
            # references are counted.
            connection.execute(_LOCK, {"numbers": [number for (number,) in rows]})
        write_many(connection, _SWEEP, rows)


LOOKED_THROUGH = 20_000
"""Deliveries that wait, and dead letters, that are looked through for the id of a delivery."""


def of_tenant(tenant: str | None) -> ColumnElement[bool]:
    """The condition for messages of *tenant*; None: of all."""
    if tenant is None:
        return true()
    prefix = source_in(tenant) if tenant else SOURCES
    # Not LIKE, to which all cases of a letter are one in SQLite.
    begins = func.substr(messages.c.source, 1, len(prefix)) == prefix
    return begins if tenant else ~begins


def waiting_of(
    connection: Connection, ids: Sequence[str], limit: int, tenant: str | None = None
) -> Sequence[Row[Any]]:
    """Deliveries that wait of the messages with these ids, of one *tenant* or of all, with what
    names their messages."""
    query: Select[Any] = (
        select(
            messages.c.id,
            messages.c.source,
            messages.c.topic,
            held.c.subscription,
            held.c.since,
            held.c.attempts,
            held.c.due,
        )
        .join(held, held.c.message == messages.c.number)
        .where(messages.c.id.in_(ids), of_tenant(tenant))
        .order_by(messages.c.number, held.c.subscription)
        .limit(limit)
    )
    return connection.execute(query).all()


def with_id(connection: Connection, id: str, tenant: str | None = None) -> Notification | None:
    """The first message with this *id*, of one *tenant* or of all, that waits or died; None where
    there is none."""
    query = select(messages.c.body, messages.c.properties).where(
        messages.c.id == storable(id), of_tenant(tenant)
    )
    found = connection.execute(query.order_by(messages.c.number).limit(1)).first()
    return None if found is None else decode(bytes(found.body), json.loads(found.properties))


def of_subscription(connection: Connection, id: str, subscription: str) -> Notification | None:
    """The message with this *id* that waits for *subscription*, or died; None where there is
    none."""
    for table in (held, dead_letters):
        query = (
            select(messages.c.body, messages.c.properties)
            .join(table, table.c.message == messages.c.number)
            .where(messages.c.id == storable(id), table.c.subscription == subscription)
            .limit(1)
        )
        found = connection.execute(query).first()
        if found is not None:
            return decode(bytes(found.body), json.loads(found.properties))
    return None


def ids_delivered_as(connection: Connection, delivery: str, tenant: str | None = None) -> list[str]:
    """The ids of messages in the store, of one *tenant* or of all, of which a delivery with the id
    *delivery* waits or died, among the last `LOOKED_THROUGH` of each."""
    found: dict[str, None] = {}
    for table in (held, dead_letters):
        query = (
            select(messages.c.source, messages.c.id, table.c.subscription)
            .join(table, table.c.message == messages.c.number)
            .where(of_tenant(tenant))
            .order_by(messages.c.number.desc())
            .limit(LOOKED_THROUGH)
        )
        for source, id_, subscription in connection.execute(query):
            if delivery_id_of(source, id_, subscription) == delivery:
                found[id_] = None
    return list(found)
