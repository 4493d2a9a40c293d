"""Registrations of publishers as rows."""

import json
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, func, select

from filters import Expression, View
from gateway.model.moments import moment_of
from gateway.model.registrations import Registration
from gateway.store import sources
from gateway.store.references import (
    read_reference,
    read_spec,
    spec_values,
    write_reference,
)
from gateway.store.schema import registrations
from mediation.model.requests import RegisterPublisher


def insert(
    connection: Connection, registration: Registration, *, of_owner: int | None, in_all: int
) -> bool:
    """Insert a registration, unless its owner or all have too many. Returns whether it was
    inserted."""
    publisher = registration.request.publisher
    count = select(func.count()).select_from(registrations)
    if of_owner is not None:
        own = count.where(registrations.c.owner == registration.owner)
        if connection.execute(own).scalar_one() >= of_owner:
            return False
    if connection.execute(count).scalar_one() >= in_all:
        return False
    connection.execute(
        registrations.insert().values(
            id=registration.id,
            key=registration.key,
            owner=registration.owner,
            definition=_write(registration),
            created=registration.created.timestamp(),
            expires=registration.expires.timestamp() if registration.expires else None,
            publisher=publisher.address if publisher else None,
        )
    )
    return True


def of_publisher(connection: Connection, owner: str, publisher: str) -> list[Registration]:
    """The registrations by *owner* of publishers at the address *publisher*."""
    table = registrations.c
    query = select(registrations).where(table.owner == owner, table.publisher == publisher)
    return [_read(row) for row in connection.execute(query)]


def load(connection: Connection) -> list[Registration]:
    """All registrations."""
    return [_read(row) for row in connection.execute(select(registrations))]


def find(connection: Connection, key: str) -> Registration | None:
    """The registration with this key."""
    row = connection.execute(select(registrations).where(registrations.c.key == key)).first()
    return None if row is None else _read(row)


def state(connection: Connection) -> tuple[int, float, float]:
    """Numbers that are others when registrations are."""
    table = registrations.c
    query = select(
        func.count(),
        func.coalesce(func.max(table.created), 0.0),
        func.coalesce(func.sum(table.expires), 0.0),
    )
    count, newest, ends = connection.execute(query.select_from(registrations)).one()
    return int(count), float(newest), float(ends)


def move(connection: Connection, id_: str, expires: datetime | None) -> bool:
    """Move the end of a registration. Returns whether it is there."""
    changed = (
        registrations.update()
        .where(registrations.c.id == id_)
        .values(expires=expires.timestamp() if expires else None)
    )
    return bool(connection.execute(changed).rowcount)


def delete(connection: Connection, id_: str) -> list[str] | None:
    """Delete a registration, and keep that its sources are to be removed. Returns their ids; None
    where there is no such registration."""
    gone = connection.execute(registrations.delete().where(registrations.c.id == id_))
    return sources.remove_of(connection, [id_]) if gone.rowcount else None


def _write(registration: Registration) -> str:
    request = registration.request
    return json.dumps(
        {
            **spec_values(registration.spec),
            "publisher": write_reference(request.publisher) if request.publisher else None,
            "topics": [[one.text, one.dialect, one.namespaces, one.view] for one in request.topics],
            "demand": request.demand,
        }
    )


def _read(row: Row[Any]) -> Registration:
    value = json.loads(row.definition)
    topics = tuple(
        Expression(text, dialect, tuple((prefix, uri) for prefix, uri in scope), View(view))
        for text, dialect, scope, view in value["topics"]
    )
    publisher = read_reference(value["publisher"]) if value["publisher"] else None
    return Registration(
        row.key,
        row.id,
        row.owner,
        read_spec(value),
        RegisterPublisher(publisher, topics, value["demand"]),
        moment_of(row.created),
        None if row.expires is None else moment_of(row.expires),
    )
