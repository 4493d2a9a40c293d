"""Up to where sinks with bookmarks have acknowledged deliveries, as operations on a connection.

The position stands in the row of the subscription, and goes with it.
"""

from sqlalchemy import Connection, or_, select

from gateway.store.schema import subscriptions


def acknowledge(connection: Connection, subscription: str, position: int) -> None:
    """Keep that all deliveries of *subscription* up to *position* are acknowledged."""
    table = subscriptions.c
    connection.execute(
        subscriptions.update()
        .where(
            table.id == subscription,
            or_(table.acknowledged.is_(None), table.acknowledged < position),
        )
        .values(acknowledged=position)
    )


def acknowledged(connection: Connection, subscription: str) -> int | None:
    """The position up to which all deliveries of *subscription* are acknowledged, 0 where none is;
    None where an earlier version did not keep it, or there is no such subscription."""
    query = select(subscriptions.c.acknowledged).where(subscriptions.c.id == subscription)
    found = connection.execute(query).scalar_one_or_none()
    return None if found is None else int(found)
