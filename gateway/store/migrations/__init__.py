"""Schema migrations: forward only, run under a lock at every start."""

import functools
from pathlib import Path

from sqlalchemy import Connection, Engine, text

from filters import Reason, Refused

_FOLDER = Path(__file__).parent
LAST_FROM_EARLIER = "a2f1684c"
"""The last commit that upgrades what is older than the first of `revisions`."""


def upgrade(engine: Engine, revision: str = "head") -> None:
    """Bring the schema up to *revision*, which is the newest.

    Raises:
        Refused: A newer program wrote it, or one that is too old.
    """
    with engine.connect() as connection:
        if engine.dialect.name == "sqlite":  # Within a transaction it cannot be said any more.
            _set_foreign_keys(connection, "OFF")
        try:
            _upgrade(connection, revision)
        finally:
            if engine.dialect.name == "sqlite":
                _set_foreign_keys(connection, "ON")


def _set_foreign_keys(connection: Connection, on: str) -> None:
    """A table that others refer to can be made anew only while nobody minds."""
    driver = connection.connection.driver_connection
    if driver is not None:
        driver.execute(f"PRAGMA foreign_keys={on}")


def _upgrade(connection: Connection, revision: str) -> None:
    with connection.begin():
        if connection.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(4283110571)"))
        current = None
        if connection.dialect.has_table(connection, "alembic_version"):
            current = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
        why = None if current is None else why_unusable(current)
        if why is not None:
            raise Refused(Reason.UNAVAILABLE, f"The store {why}.")
        if current != (revisions()[-1] if revision == "head" else revision):
            _migrate(connection, revision)


def why_unusable(revision: str) -> str | None:
    """The reason why a database of *revision* cannot be brought up to date; None where it can."""
    known = revisions()
    if revision in known:
        return None
    if len(revision) == len(known[0]) and revision < known[0]:
        return (
            f"has the schema {revision}, and this version of Dragoman upgrades from {known[0]} on;"
            f" open it once with Dragoman of commit {LAST_FROM_EARLIER}, or use another store"
        )
    return (
        f"has the schema {revision}, which a newer Dragoman wrote; install that version, or use"
        " another store"
    )


def _migrate(connection: Connection, revision: str) -> None:
    # Imported when there is something to migrate: it takes a tenth of a start.
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(_FOLDER).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, revision)


@functools.cache
def revisions() -> tuple[str, ...]:
    """All revisions, the newest last: a file's name begins with its revision."""
    return tuple(sorted(path.name[:4] for path in (_FOLDER / "versions").glob("[0-9]*_*.py")))
