"""Channels with names as rows."""

import json
from typing import Any

from sqlalchemy import Connection, func, select

from gateway.model.channels import Channel, Selection
from gateway.store.schema import channels


def load(connection: Connection) -> list[Channel]:
    """All channels, in the order of their names."""
    query = select(channels).order_by(channels.c.name)
    return [
        Channel(row.name, read_selection(json.loads(row.definition)))
        for row in connection.execute(query)
    ]


def put(connection: Connection, channel: Channel, *, new: bool, most: int) -> bool:
    """Insert a channel, or change one. Returns whether that was done: not where one is there
    already, or is not, or there would be more than *most*."""
    definition = json.dumps(selection_values(channel.selection))
    named = channels.c.name == channel.name
    there = connection.execute(select(channels.c.name).where(named)).first() is not None
    if there is new:
        return False
    if not new:
        connection.execute(channels.update().where(named).values(definition=definition))
        return True
    if connection.execute(select(func.count()).select_from(channels)).scalar_one() >= most:
        return False
    connection.execute(channels.insert().values(name=channel.name, definition=definition))
    return True


def delete(connection: Connection, name: str) -> bool:
    """Delete a channel. Returns whether it was there."""
    gone = channels.delete().where(channels.c.name == name).returning(channels.c.name)
    return connection.execute(gone).first() is not None


def selection_values(selection: Selection) -> dict[str, Any]:
    """*selection* as JSON has it."""
    return {
        "example": selection.example,
        "xpath": selection.xpath,
        "namespaces": selection.namespaces,
    }


def read_selection(values: Any) -> Selection:
    """The selection of these values."""
    return Selection(_pairs(values["example"]), values["xpath"], _pairs(values["namespaces"]))


def _pairs(values: Any) -> tuple[tuple[str, str], ...]:
    return tuple((name, value) for name, value in values)
