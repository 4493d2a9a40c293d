"""Older replicas: those that run now, and could not go on after a migration.

Each replica says in its row which schema its program was written for. A migration that one of them
could not bear is refused; who registers while one is under way waits for it, and is refused then.
"""

from typing import NamedTuple

from sqlalchemy import Connection, text

from gateway.store.statements import now

REGISTERING = text("SELECT pg_advisory_xact_lock(4283110572)")
"""Waits for replicas that register on PostgreSQL, and has others wait."""
ALIVE = 6.5
"""Seconds for which a replica counts as running after its last sign of life: a little more than its
leases last."""
SAYS_SCHEMA = "0029"
"""The revision from which on a replica says its schema."""
OLDEST = "oldest_schema"
"""The name of the row of `versions` with the oldest schema whose programs can use the store."""


class Replica(NamedTuple):
    """A replica at one moment."""

    id: str
    schema: str | None
    heartbeat: float


def older_replicas(
    connection: Connection, current: str | None, needed: str | None
) -> list[Replica]:
    """The replicas that run now with programs for schemas before *needed*, in a store of *current*.

    Nobody else registers until the transaction is over.
    """
    if needed is None or current is None or connection.dialect.name != "postgresql":
        return []
    connection.execute(REGISTERING)
    schema = "schema" if current >= SAYS_SCHEMA else "NULL"
    rows = connection.execute(
        text(
            f"SELECT id, {schema} AS schema, heartbeat FROM replicas"  # noqa: S608
            f" WHERE heartbeat >= {now(connection)} - :alive ORDER BY id"
        ),
        {"alive": ALIVE},
    )
    found = [Replica(*row) for row in rows]
    return [one for one in found if one.schema is None or one.schema < needed]


def oldest_schema(connection: Connection) -> str | None:
    """The oldest schema whose programs can use the store; None where it does not say."""
    if not connection.dialect.has_table(connection, "versions"):
        return None
    statement = text("SELECT version FROM versions WHERE name = :name")
    found = connection.execute(statement, {"name": OLDEST}).scalar()
    return None if found is None else f"{found:04d}"


def write_oldest_schema(connection: Connection, oldest: str) -> None:
    """Say that programs for schemas from *oldest* on can use the store."""
    statement = text(
        "INSERT INTO versions (name, version) VALUES (:name, :version)"
        " ON CONFLICT (name) DO UPDATE SET version = excluded.version"
    )
    connection.execute(statement, {"name": OLDEST, "version": int(oldest)})
