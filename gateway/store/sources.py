"""Sources as rows: subscriptions that the gateway holds at producers of others."""

import json
from collections.abc import Collection, Mapping
from dataclasses import asdict
from typing import Any

from sqlalchemy import Connection, Row, func, select

from gateway.model.sources import (
    PASSWORD,
    Credential,
    EndTold,
    Source,
    SourceRow,
    Standing,
    State,
    Wanted,
)
from gateway.store.references import (
    read_reference,
    read_spec,
    spec_values,
    write_reference,
)
from gateway.store.schema import sources
from mediation.model.delivery_modes import Mode


def insert(connection: Connection, row: SourceRow, *, of_owner: int | None, in_all: int) -> bool:
    """Insert a source, unless its owner or all have too many. Returns whether it was inserted."""
    count = select(func.count()).select_from(sources)
    if of_owner is not None:
        own = count.where(sources.c.owner == row.source.owner)
        if connection.execute(own).scalar_one() >= of_owner:
            return False
    if connection.execute(count).scalar_one() >= in_all:
        return False
    connection.execute(
        sources.insert().values(
            id=row.source.id,
            registration=row.source.registration,
            owner=row.source.owner,
            definition=_write_source(row.source),
            wanted=row.wanted.value,
            events=0,
            revision=1,
            **_standing_values(row.standing),
        )
    )
    return True


def load(connection: Connection, ids: Collection[str] | None = None) -> list[SourceRow]:
    """All sources, or those with *ids*, in the order of their ids."""
    query = select(sources).order_by(sources.c.id)
    if ids is not None:
        query = query.where(sources.c.id.in_(list(ids)))
    return [_row(row) for row in connection.execute(query)]


def find(connection: Connection, key: str) -> SourceRow | None:
    """The source whose producer was given *key*."""
    query = select(sources).where((sources.c.key == key) | (sources.c.pending == key))
    row = connection.execute(query).first()
    return None if row is None else _row(row)


def glance(connection: Connection) -> dict[str, tuple[int, int, float | None]]:
    """The revision, the number of events and the time of the last one of every source, by id."""
    query = select(sources.c.id, sources.c.revision, sources.c.events, sources.c.last_event)
    return {row.id: (row.revision, row.events, row.last_event) for row in connection.execute(query)}


def keep(connection: Connection, id_: str, standing: Standing) -> int | None:
    """Keep how a source stands. Returns its revision; None where there is no such source."""
    changed = (
        sources.update()
        .where(sources.c.id == id_)
        .values(revision=sources.c.revision + 1, **_standing_values(standing))
        .returning(sources.c.revision)
    )
    found = connection.execute(changed).scalar_one_or_none()
    return None if found is None else int(found)


def want(connection: Connection, id_: str, wanted: Wanted) -> int | None:
    """Keep the wanted subscription of a source; one that is to be removed stays so. Returns its
    revision; None where there is no such source."""
    changed = (
        sources.update()
        .where(sources.c.id == id_, sources.c.wanted != Wanted.REMOVED.value)
        .values(wanted=wanted.value, revision=sources.c.revision + 1)
        .returning(sources.c.revision)
    )
    found = connection.execute(changed).scalar_one_or_none()
    if found is None:
        query = select(sources.c.revision).where(sources.c.id == id_)
        found = connection.execute(query).scalar_one_or_none()
    return None if found is None else int(found)


def remove_of(connection: Connection, registrations: Collection[str]) -> list[str]:
    """Keep that the sources of *registrations* are to be removed. Returns their ids."""
    table = sources.c
    changed = (
        sources.update()
        .where(table.registration.in_(list(registrations)), table.wanted != Wanted.REMOVED.value)
        .values(wanted=Wanted.REMOVED.value, revision=table.revision + 1)
        .returning(table.id)
    )
    return list(connection.execute(changed).scalars())


def end(connection: Connection, id_: str, told: EndTold) -> None:
    """Note that a producer said that its subscription has ended, which may be one that it has yet
    to answer for; a source that has other keys now is left as it is. While there is a pending key,
    the end of the subscription before it does not hide its own."""
    table = sources.c
    row = connection.execute(select(table.pending, table.ended).where(table.id == id_)).first()
    if row is None:
        return
    noted = _read_end(row.ended).key if row.ended else None
    if row.pending is not None and noted == row.pending and told.key != noted:
        return
    connection.execute(
        sources.update()
        .where(table.id == id_, (table.key == told.key) | (table.pending == told.key))
        .values(ended=json.dumps([told.key, told.why]), revision=table.revision + 1)
    )


def forget(connection: Connection, id_: str) -> None:
    """Delete a source."""
    connection.execute(sources.delete().where(sources.c.id == id_))


def count(connection: Connection, came: Mapping[str, tuple[int, float]]) -> None:
    """Add events that came: how many, and when the last one, by id."""
    for id_, (number, at) in sorted(came.items()):
        connection.execute(
            sources.update()
            .where(sources.c.id == id_)
            .values(events=sources.c.events + number, last_event=at)
        )


def _standing_values(standing: Standing) -> dict[str, Any]:
    values = asdict(standing)
    values["state"] = standing.state.value
    for name in ("manager", "former"):
        reference = getattr(standing, name)
        values[name] = None if reference is None else write_reference(reference)
    key, pending = values.pop("key"), values.pop("pending")
    return {"key": key, "pending": pending, "standing": json.dumps(values)}


def _row(row: Row[Any]) -> SourceRow:
    values = json.loads(row.standing)
    values["state"] = State(values["state"])
    for name in ("manager", "former"):
        values[name] = read_reference(values[name]) if values[name] else None
    return SourceRow(
        _read_source(row.definition, row.id, row.registration),
        Wanted(row.wanted),
        Standing(key=row.key, pending=row.pending, **values),
        int(row.events),
        row.last_event,
        int(row.revision),
        _read_end(row.ended) if row.ended else None,
    )


def _read_end(text: str) -> EndTold:
    return EndTold(*json.loads(text))


def _write_source(source: Source) -> str:
    return json.dumps(
        {
            "owner": source.owner,
            "url": source.url,
            **spec_values(source.spec),
            "topic": source.topic,
            "xpath": source.xpath,
            "namespaces": source.namespaces,
            "lease": source.lease,
            "publish_on": source.publish_on,
            "silence": source.silence,
            "profile": source.profile,
            "created": source.created,
            "reference": write_reference(source.reference) if source.reference else None,
            "actions": source.actions,
            "resource": source.resource,
            "mode": source.mode.value,
            "channel": source.channel,
            "example": source.example,
            "made_by": source.made_by,
            "existing": source.existing,
            "credential": _credential(source.credential) if source.credential else None,
        }
    )


def _read_source(text: str, id_: str, registration: str | None) -> Source:
    value = json.loads(text)
    spec = read_spec(value)
    for name in spec_values(spec):
        del value[name]
    namespaces = tuple((prefix, uri) for prefix, uri in value.pop("namespaces"))
    reference = value.pop("reference")
    value["reference"] = read_reference(reference) if reference else None
    value["actions"] = tuple(value.get("actions", ()))  # Older rows have none of these.
    value["example"] = tuple((name, text) for name, text in value.get("example", ()))
    credential = value.get("credential")
    value["credential"] = Credential(**credential) if credential else None
    value["mode"] = Mode(value.get("mode", Mode.PUSH.value))
    return Source(id_, spec=spec, namespaces=namespaces, registration=registration, **value)


def _credential(credential: Credential) -> dict[str, object]:
    """What is kept of *credential*; programs before Negotiate, and before kinds, read all of those
    without them."""
    kept = asdict(credential)
    if not credential.negotiate:
        del kept["negotiate"]
    if credential.kind == PASSWORD:
        del kept["kind"]
    return kept
