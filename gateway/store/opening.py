"""Opening the store's database: how it is spoken to, and its schema."""

from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event

from filters import Refused
from gateway.databases import (
    connection_options,
    driver_url,
    sqlite_file,
    why_not_opened,
    why_unusable,
)
from gateway.store.migrations import upgrade
from gateway.store.outages import StoreUnavailable

BUSY = 0.4
"""Seconds that a commit waits for another program that has the SQLite file, before it fails."""
HANGS = 5.0
"""Seconds that a transaction on PostgreSQL may do nothing before the server ends it."""
LOCKED = HANGS + 1.0
"""Seconds that it waits there for a lock that another has: longer than one that hangs has it."""
STATEMENT = 15.0
"""Seconds of one statement on PostgreSQL."""
MIGRATION = 600.0
"""Seconds of one that changes the schema, before the gateway starts."""
CACHE = 32 * 2**20
"""Bytes of an SQLite database that are kept in memory."""


def open_database(url: str, *, power_safe: bool) -> Engine:
    """Open the database of *url* and bring its schema up to date.

    Raises:
        StoreUnavailable: It cannot be opened; the text says why.
        Refused: A newer program wrote it, or one that is too old.
    """
    try:
        url = driver_url(url)
        engine = create_engine(
            url, pool_size=2, max_overflow=2, connect_args=connection_options(url)
        )
    except Exception as error:
        raise _not_opened(error) from error
    try:
        if engine.dialect.name == "sqlite":
            _prepare_sqlite(engine, power_safe)
            upgrade(engine)
        elif engine.dialect.name == "postgresql":
            _open_postgresql(engine, power_safe)
        else:
            raise StoreUnavailable(
                f"The store cannot be opened: it is no database of {engine.dialect.name}; write "
                "postgresql://user@host:5432/database, or leave it to SQLite."
            )
    except Exception as error:
        engine.dispose()
        if isinstance(error, Refused):
            raise
        raise _not_opened(error) from error
    return engine


def _not_opened(error: Exception) -> StoreUnavailable:
    return StoreUnavailable(f"The store cannot be opened: {why_not_opened(error)}")


def _prepare_sqlite(engine: Engine, power_safe: bool) -> None:
    synchronous = "FULL" if power_safe else "NORMAL"

    @event.listens_for(engine, "connect")
    def _connected(connection: Any, _record: Any) -> None:
        connection.isolation_level = None
        for pragma in (
            "journal_mode=WAL",
            f"synchronous={synchronous}",
            "foreign_keys=ON",
            f"busy_timeout={int(BUSY * 1000)}",
            "journal_size_limit=67108864",
            f"cache_size=-{CACHE >> 10}",
        ):
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def _begun(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    path = sqlite_file(engine)
    unclean = path is not None and _was_left_open(path)
    if path is not None:
        path.touch(mode=0o600)  # It holds keys; SQLite gives its log the same mode.
    if unclean:
        with engine.connect() as connection:
            verdict = connection.exec_driver_sql("PRAGMA quick_check(1)").scalar()
        if verdict != "ok":
            raise StoreUnavailable(
                f"The store is damaged ({str(verdict)[:200]}): put back a copy of it, or move "
                "it away to begin with an empty one."
            )


def _open_postgresql(engine: Engine, power_safe: bool) -> None:
    """A process that hangs within a transaction must not hold others up for long: its connection is
    ended by the server. What is committed is flushed, whatever the database's own setting."""
    synchronous = (
        "SELECT set_config('synchronous_commit', 'on', false)"
        " WHERE current_setting('synchronous_commit') IN ('off', 'local')"
        if power_safe
        else "SET synchronous_commit = off"
    )
    why = why_unusable(engine)
    if why is not None:
        raise StoreUnavailable(f"The store cannot be opened: {why}.")
    statement = [MIGRATION]

    @event.listens_for(engine, "connect")
    def _connected(connection: Any, _record: Any) -> None:
        for setting in (
            f"SET idle_in_transaction_session_timeout = {int(HANGS * 1000)}",
            f"SET lock_timeout = {int(LOCKED * 1000)}",
            f"SET statement_timeout = {int(statement[0] * 1000)}",
            synchronous,
        ):
            connection.execute(setting)
        connection.commit()

    engine.dispose()  # The connections from before have no settings.
    upgrade(engine)
    statement[0] = STATEMENT
    engine.dispose()


def _was_left_open(path: Path) -> bool:
    """Return whether an SQLite database has a log that no clean end emptied."""
    log = Path(f"{path}-wal")
    return log.exists() and log.stat().st_size > 0
