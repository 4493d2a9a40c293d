"""Schema migrations: forward only, run under a lock at every start."""

import functools
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, text

from filters import Reason, Refused


def upgrade(engine: Engine, revision: str = "head") -> None:
    """Bring the schema up to *revision*, which is the newest.

    Raises:
        Refused: A newer program wrote it.
    """
    with engine.connect() as connection:
        if engine.dialect.name == "sqlite":  # Within a transaction it cannot be said any more.
            _set_foreign_keys(connection, "OFF")
        try:
            _upgrade(connection, revision)
        finally:
            if engine.dialect.name == "sqlite":
                _set_foreign_keys(connection, "ON")


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    return config


def _set_foreign_keys(connection: Connection, on: str) -> None:
    """A table that others refer to can be made anew only while nobody minds."""
    driver = connection.connection.driver_connection
    if driver is not None:
        driver.execute(f"PRAGMA foreign_keys={on}")


def _upgrade(connection: Connection, revision: str) -> None:
    known, newest = _revisions()
    with connection.begin():
        if connection.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(4283110571)"))
        current = MigrationContext.configure(connection).get_current_revision()
        if current is not None and current not in known:
            raise Refused(
                Reason.UNAVAILABLE,
                f"The store's schema is {current}, which this version of Dragoman does not know: "
                "a newer one wrote it. Install that version or use another store.",
            )
        if current != (newest if revision == "head" else revision):
            config = _config()
            config.attributes["connection"] = connection
            command.upgrade(config, revision)


@functools.cache
def _revisions() -> tuple[frozenset[str], str | None]:
    """All that there are, and the newest: Alembic imports each to know them."""
    scripts = ScriptDirectory.from_config(_config())
    known = frozenset(script.revision for script in scripts.walk_revisions())
    return known, scripts.get_current_head()
