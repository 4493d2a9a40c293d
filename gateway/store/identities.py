"""Users, keys and rules that operators keep beside the file of identities, as rows.

Each change goes with a greater version, by which other gateways of the store see that there is
something new. Whoever changes something submits that with `LOCK`.
"""

from typing import Any

from sqlalchemy import Connection, Row, delete, func, select, text

from gateway.model.stored_identities import IdentityKind, StoredIdentity
from gateway.store.schema import identities, versions

LOCK = "identities"
_BUMP = text(
    "INSERT INTO versions (name, version) VALUES ('identities', 1) "
    "ON CONFLICT (name) DO UPDATE SET version = versions.version + 1"
)
_WRITE = text(
    'INSERT INTO identities (kind, id, "user", born, row, kept_by, kept) '
    "VALUES (:kind, :id, :user, :born, :row, :kept_by, :kept) ON CONFLICT (kind, id) DO UPDATE SET "
    '"user" = excluded."user", born = excluded.born, row = excluded.row, '
    "kept_by = excluded.kept_by, kept = excluded.kept"
)


def version(connection: Connection) -> int:
    """The number of the last change; 0: there was none."""
    query = select(versions.c.version).where(versions.c.name == "identities")
    return int(connection.execute(query).scalar() or 0)


def load(connection: Connection) -> tuple[list[StoredIdentity], int]:
    """All that is kept, in the order in which rules were made, and the number of the last
    change."""
    number = version(connection)  # First: what is changed meanwhile is loaded again.
    query = select(identities).order_by(identities.c.kept, identities.c.id)
    return [_identity(row) for row in connection.execute(query)], number


def find(connection: Connection, kind: IdentityKind, id_: str) -> StoredIdentity | None:
    """The one with an id; None where there is none."""
    is_it = (identities.c.kind == kind.value) & (identities.c.id == id_)
    row = connection.execute(select(identities).where(is_it)).first()
    return None if row is None else _identity(row)


def count(connection: Connection, kind: IdentityKind) -> int:
    """How many of a kind there are."""
    query = select(func.count()).where(identities.c.kind == kind.value)
    return int(connection.execute(query).scalar_one())


def write(connection: Connection, one: StoredIdentity) -> None:
    """Keep *one*, in place of another with its id."""
    values = {
        "kind": one.kind.value,
        "id": one.id,
        "user": one.user,
        "born": one.born,
        "row": one.row,
        "kept_by": one.by,
        "kept": one.at,
    }
    connection.execute(_WRITE, values)
    connection.execute(_BUMP)


def remove(connection: Connection, kind: IdentityKind, id_: str) -> bool:
    """Remove one, and with a user its keys. Returns whether there was one."""
    found = find(connection, kind, id_)
    if found is None:
        return False
    is_it = (identities.c.kind == kind.value) & (identities.c.id == id_)
    connection.execute(delete(identities).where(is_it))
    if kind is IdentityKind.USER:
        remove_keys(connection, id_, found.born)
    connection.execute(_BUMP)
    return True


def remove_keys(connection: Connection, user: str, born: str | None = None) -> None:
    """Remove the keys of the user called so who was *born* so, None: of all of them. It goes with
    another change."""
    is_key = (identities.c.kind == IdentityKind.KEY.value) & (identities.c.user == user)
    if born is not None:
        is_key &= identities.c.born == born
    connection.execute(delete(identities).where(is_key))


def _identity(row: Row[Any]) -> StoredIdentity:
    return StoredIdentity(
        IdentityKind(row.kind), row.id, row.user, row.born, row.row, row.kept_by, row.kept
    )
