"""Schema migrations: forward only, run under a lock at every start.

In one transaction: the schema is read, and what cannot be used is refused; so is a migration while
older replicas run that could not go on. Then an SQLite file is copied, the tables are changed, and
the database is told the oldest schema whose programs can use it now.
"""

import time

import structlog
from sqlalchemy import Connection, Engine, text

from filters import Reason, Refused
from gateway.databases import sqlite_file
from gateway.store.migrations.older_replicas import (
    ALIVE,
    OLDEST,
    Replica,
    older_replicas,
    oldest_schema,
    write_oldest_schema,
)
from gateway.store.migrations.revisions import (
    FOLDER,
    last_incompatible,
    newest,
    revisions,
    steps,
    why_unusable,
)
from gateway.store.sqlite_copy import copy_beside

__all__ = [
    "OLDEST",
    "OlderReplicas",
    "current_schema",
    "newest",
    "older_replicas",
    "revisions",
    "upgrade",
    "why_not_used",
    "why_unusable",
]

LOOKS = 0.5
"""Seconds from one look at whether a killed replica still counts as running to the next."""
_log = structlog.get_logger("dragoman.store")


class OlderReplicas(Refused):
    """Older gateways use the store now, and could not go on after the migration."""

    def __init__(self, replicas: list[Replica], wanted: str) -> None:
        names = ", ".join(one.id for one in replicas)
        super().__init__(
            Reason.UNAVAILABLE,
            f"The store is not migrated to schema {wanted} while gateways of an older version use "
            f"it that could not go on ({names}): stop these first, then start this one.",
        )
        self.heartbeats = {one.id: one.heartbeat for one in replicas}


def upgrade(engine: Engine, revision: str = "head") -> None:
    """Bring the schema up to *revision*, which is the newest.

    A replica that was killed counts as running for some seconds: so long is waited, unless it gives
    a sign of life.

    Raises:
        OlderReplicas: Some run that could not go on.
        Refused: A newer program wrote it, or one that is too old; an SQLite file could not be
            copied before.
    """
    wanted = newest() if revision == "head" else revision
    until = time.monotonic() + ALIVE + LOOKS
    seen: dict[str, float] = {}
    while True:
        try:
            return _try_to_upgrade(engine, wanted)
        except OlderReplicas as older:
            lives = any(seen.get(name, at) != at for name, at in older.heartbeats.items())
            if lives or time.monotonic() > until:
                raise
            seen = older.heartbeats
        time.sleep(LOOKS)


def _try_to_upgrade(engine: Engine, wanted: str) -> None:
    with engine.connect() as connection:
        if engine.dialect.name == "sqlite":  # Within a transaction it cannot be said any more.
            _set_foreign_keys(connection, "OFF")
        try:
            _upgrade(connection, wanted)
        finally:
            if engine.dialect.name == "sqlite":
                _set_foreign_keys(connection, "ON")


def _set_foreign_keys(connection: Connection, on: str) -> None:
    """A table that others refer to can be made anew only while nobody minds."""
    driver = connection.connection.driver_connection
    if driver is not None:
        driver.execute(f"PRAGMA foreign_keys={on}")


def _upgrade(connection: Connection, wanted: str) -> None:
    began = time.monotonic()
    with connection.begin():
        if connection.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(4283110571)"))
        current = current_schema(connection)
        why = None if current is None else why_not_used(connection, current)
        if why is not None:
            raise Refused(Reason.UNAVAILABLE, f"The store {why}.")
        if current is not None and current not in revisions():
            _log.info("store.schema-newer", schema=current, known=newest())
            return
        ahead = steps(current, wanted)
        if not ahead:
            return
        _prepare(connection, current, ahead)
        _migrate(connection, wanted)
        oldest = last_incompatible(ahead)
        if oldest is not None:
            write_oldest_schema(connection, oldest)
    if current is not None:
        seconds = round(time.monotonic() - began, 3)
        _log.info("store.migrated", **{"from": current}, to=wanted, seconds=seconds)


def current_schema(connection: Connection) -> str | None:
    """The revision of the schema of a database; None where there is none yet."""
    if not connection.dialect.has_table(connection, "alembic_version"):
        return None
    found = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    return None if found is None else str(found)


def why_not_used(connection: Connection, current: str) -> str | None:
    """The reason why this program cannot use a database of schema *current*; None where it can."""
    why = why_unusable(current)
    if why is None or current < newest():
        return why
    return why_unusable(current, oldest_schema(connection))


def _prepare(connection: Connection, current: str | None, ahead: tuple[str, ...]) -> None:
    """See that nobody is in the way of the revisions *ahead*, and copy an SQLite file."""
    older = older_replicas(connection, current, last_incompatible(ahead))
    if older:
        raise OlderReplicas(older, ahead[-1])
    path = sqlite_file(connection.engine)
    if current is not None and path is not None:
        copy = copy_beside(path, current)
        _log.info(
            "store.copied",
            copy=str(copy),
            schema=current,
            back=f"to go back, stop Dragoman, remove {path.name}, {path.name}-wal and "
            f"{path.name}-shm, and move {copy.name} to {path.name}",
        )


def _migrate(connection: Connection, revision: str) -> None:
    # Imported when there is something to migrate: it takes a tenth of a start.
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(FOLDER).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, revision)
