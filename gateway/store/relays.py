"""Relays as rows: the hashes of their tokens, and where they lead to."""

from sqlalchemy import Connection, func, select

from gateway.model.channels import RelayRow
from gateway.store.schema import relays


def load(connection: Connection) -> list[RelayRow]:
    """All relays, in the order of their ids."""
    query = select(relays).order_by(relays.c.id)
    return [
        RelayRow(row.id, bytes.fromhex(row.digest), row.location)
        for row in connection.execute(query)
    ]


def insert(connection: Connection, relay: RelayRow, *, most: int) -> bool | None:
    """Insert a relay, unless there are so many. Returns whether that was done; None where
    there is one with this id, which is left as it is."""
    if connection.execute(select(relays.c.id).where(relays.c.id == relay.id)).first() is not None:
        return None
    if connection.execute(select(func.count()).select_from(relays)).scalar_one() >= most:
        return False
    values = {"id": relay.id, "digest": relay.digest.hex(), "location": relay.location}
    connection.execute(relays.insert().values(values))
    return True


def delete(connection: Connection, id_: str) -> None:
    """Delete a relay."""
    connection.execute(relays.delete().where(relays.c.id == id_))
