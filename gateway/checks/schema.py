"""Checks the schema of the store: what a start would migrate, and whether there is a way back."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from sqlalchemy import Connection, create_engine
from sqlalchemy.exc import DBAPIError

from gateway.checks.findings import Finding, warn
from gateway.store.migrations import current_schema, newest, older_replicas, revisions
from gateway.store.migrations.revisions import last_incompatible, steps
from gateway.store.sqlite_copy import copy_of


def check_migration(connection: Connection) -> Iterator[Finding]:
    """The migration that a start would make in the database of a server."""
    current = current_schema(connection)
    if current is None or not _ahead(current):
        return
    oldest = last_incompatible(_ahead(current))
    back = "a copy of the database: make one before"
    yield warn("schema", _described(current, oldest, back))
    older = older_replicas(connection, current, oldest)
    if older:
        names = ", ".join(one.id for one in older)
        yield warn("schema", f"a start is refused while older gateways run: {names}; stop them")


def check_migration_of_file(path: Path) -> Iterator[Finding]:
    """The migration that a start would make in the SQLite database in *path*."""
    if not path.exists():
        return
    uri = f"file:{quote(str(path.absolute()))}?mode=ro"
    engine = create_engine("sqlite://", creator=lambda: sqlite3.connect(uri, uri=True))
    try:
        with engine.connect() as connection:
            current = current_schema(connection)
    except DBAPIError:  # What is wrong with it is told of the file.
        return
    finally:
        engine.dispose()
    if current is None or not _ahead(current):
        return
    back = f"the copy that it puts beside it, {copy_of(path, current).name}"
    yield warn("schema", _described(current, last_incompatible(_ahead(current)), back))


def _ahead(current: str) -> tuple[str, ...]:
    """The revisions that a start would make; none where *current* is unknown to this program."""
    return steps(current, newest()) if current in revisions() else ()


def _described(current: str, oldest: str | None, back: str) -> str:
    begins = f"a start migrates the store from schema {current} to {newest()}"
    if oldest is None:
        return f"{begins}; an older Dragoman goes on with it"
    return f"{begins}, and an older Dragoman cannot use it afterwards: the only way back is {back}"
