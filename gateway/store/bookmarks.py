"""Bookmarks of WS-Management on both sides, as operations on a connection: up to where sinks have
acknowledged deliveries, and what sources said of where they are.

The position of a sink stands in the row of its subscription, and goes with it.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import Connection, func, or_, select, text

from gateway.store.schema import source_bookmarks, subscriptions


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


@dataclass(frozen=True, slots=True)
class Machine:
    """A source that subscribes itself: whom it belongs to, and its own name."""

    owner: str
    name: str


_PUT = text(
    "INSERT INTO source_bookmarks (owner, machine, subscription, bookmark, noted) "
    "VALUES (:owner, :machine, :subscription, :bookmark, :noted) "
    "ON CONFLICT (owner, machine, subscription) "
    "DO UPDATE SET bookmark = excluded.bookmark, noted = excluded.noted"
)


def note(
    connection: Connection,
    machine: Machine,
    subscription: str,
    bookmark: bytes,
    *,
    now: float,
    of_owner: int | None,
    in_all: int,
    age: float,
) -> bool:
    """Keep the last *bookmark* of a machine for its *subscription*, unless its owner or all have
    too many; those not noted for *age* seconds then make room. Returns whether it is kept."""
    table = source_bookmarks.c
    known = select(table.noted).where(
        table.owner == machine.owner,
        table.machine == machine.name,
        table.subscription == subscription,
    )
    if connection.execute(known).first() is None:
        count = select(func.count()).select_from(source_bookmarks)
        if of_owner is not None:
            own = count.where(table.owner == machine.owner)
            if connection.execute(own).scalar_one() >= of_owner:
                return False
        if connection.execute(count).scalar_one() >= in_all:
            connection.execute(source_bookmarks.delete().where(table.noted < now - age))
            if connection.execute(count).scalar_one() >= in_all:
                return False
    row = {"owner": machine.owner, "machine": machine.name, "subscription": subscription}
    connection.execute(_PUT, {**row, "bookmark": bookmark, "noted": now})
    return True


def noted(connection: Connection, machine: Machine) -> Mapping[str, bytes]:
    """The last bookmarks of a machine, by the names of their subscriptions."""
    table = source_bookmarks.c
    query = select(table.subscription, table.bookmark).where(
        table.owner == machine.owner, table.machine == machine.name
    )
    return {row.subscription: bytes(row.bookmark) for row in connection.execute(query)}


def forget(connection: Connection, machine: Machine) -> None:
    """Forget the bookmarks of a machine."""
    table = source_bookmarks.c
    connection.execute(
        source_bookmarks.delete().where(table.owner == machine.owner, table.machine == machine.name)
    )
