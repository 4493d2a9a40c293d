"""Messages that deliveries and dead letters are of, each stored once, as operations on a
connection."""

import json
from collections.abc import Iterable

from sqlalchemy import Connection, select, text

from gateway.store.schema import messages
from gateway.store.statements import write_many
from mediation import Notification
from mediation.packaging.records import encode


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
    """Remove those messages that nobody needs any more."""
    rows = [(number,) for number in sorted(set(numbers))]
    if rows:
        if connection.dialect.name == "postgresql":
            # Whoever is just about to need one of them does so before it is looked at.
            connection.execute(_LOCK, {"numbers": [number for (number,) in rows]})
        write_many(connection, _SWEEP, rows)
