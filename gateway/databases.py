"""URLs of databases, and connections to them, alike for whatever keeps something there."""

import contextlib
import os
import re
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import URL, Engine, make_url, text
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError

from filters.extras import how_to_install

_LIVELINESS = {
    "application_name": "dragoman",
    "client_encoding": "utf8",
    "connect_timeout": 3,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}
_SEVERAL_HOSTS = re.compile(
    r"(?P<before>[^/?]+://(?:[^/?]*@)?)(?P<hosts>[^/?@]*,[^/?@]*)(?P<rest>(?:[/?].*)?)"
)
POOLED = (
    "the URL leads to a pooler that gives a connection for each transaction (PgBouncer: "
    "pool_mode=transaction): Dragoman needs a direct connection to PostgreSQL or pool_mode=session"
)
TOO_FEW = (
    "the URL leads to a pooler that has no second connection to PostgreSQL: Dragoman needs at "
    "least four of its own (PgBouncer: default_pool_size), or a direct one"
)
PROBED = 5.0
"""Seconds that a pooler gets to give a second connection."""


def driver_url(url: str) -> str:
    """*url* as SQLAlchemy has it: plain ``postgresql://``, or ``postgres://``, means psycopg 3; of
    several hosts, as libpq writes them (``h1:5432,h2:5432``), each becomes a ``host``."""
    for scheme in ("postgres://", "postgresql://"):
        if url.startswith(scheme):
            url = "postgresql+psycopg://" + url.removeprefix(scheme)
    several = _SEVERAL_HOSTS.fullmatch(url) if url.startswith("postgresql") else None
    if several is None:
        return url
    path, _, query = several["rest"].partition("?")
    hosts = [f"host={quote(host, safe='[]:')}" for host in several["hosts"].split(",") if host]
    return f"{several['before']}{path or '/'}?{'&'.join([*hosts, *filter(None, [query])])}"


def sqlite_url(path: Path) -> str:
    """The URL of the SQLite database in a file, whatever characters its name has."""
    return URL.create("sqlite", database=str(path)).render_as_string()


def sqlite_file(engine: Engine) -> Path | None:
    """The file of an SQLite database; None for one in memory, or on a server."""
    database = engine.url.database if engine.dialect.name == "sqlite" else None
    if not database or database == ":memory:" or database.startswith("file:"):
        return None
    return Path(database)


def connection_options(url: str | URL) -> dict[str, Any]:
    """Options that make a connection to a server that is gone fail within seconds; *url* may
    override them.

    Raises:
        ArgumentError: It is no URL of a database.
    """
    parts = make_url(url)
    if parts.get_backend_name() != "postgresql":
        return {}
    return {name: value for name, value in _LIVELINESS.items() if name not in parts.query}


def why_not_opened(error: Exception) -> str:
    """What is wrong with a URL, or with its database, that *error* came of. Drivers raise errors
    of any class for options that they cannot read."""
    error = getattr(error, "orig", None) or error
    match error:
        case ImportError():
            mend = how_to_install("postgresql") if error.name == "psycopg" else "install it"
            return f"{error.name} is needed, which is not installed; {mend}"
        case NoSuchModuleError():
            return (
                f"no database has such a URL ({first_line(error)}); it begins with postgresql:// "
                "(PostgreSQL) or sqlite:/// (a file)"
            )
        case ArgumentError() | ValueError() | TypeError() | LookupError():
            return (
                f"its URL cannot be read ({first_line(error)}); write "
                "postgresql://user@host:5432/database"
            )
    return first_line(error) or type(error).__name__


def why_unusable(engine: Engine) -> str | None:
    """Why sessions on the server of *engine* are not its own; None where they are, or where it is a
    file.

    What a session has set, prepared and locked must still be there in its next transaction. A
    pooler shows itself by the number of the backend, which it does not hand through; that it gives
    a connection for each transaction, by giving that of one session to another one.

    Raises:
        SQLAlchemyError: It cannot be reached.
    """
    if engine.dialect.name != "postgresql":
        return None
    with engine.connect() as first:
        driver = first.connection.driver_connection
        told = getattr(getattr(driver, "pgconn", None), "backend_pid", None)
        backend = first.execute(_BACKEND).scalar()
        first.commit()
        if told in (None, backend):
            return None
        try:
            with engine.connect() as second, _ended_after(PROBED, second.connection):
                return POOLED if second.execute(_BACKEND).scalar() == backend else None
        except DBAPIError as error:
            if error.connection_invalidated:
                return TOO_FEW
            raise


def break_off(connection: Any) -> None:
    """Have whatever waits on *connection*, one of a driver, fail at once: in another thread. The
    server, which may be frozen, is not asked."""
    with (
        contextlib.suppress(OSError, AttributeError, ValueError),  # It is closed, or a file.
        socket.socket(fileno=os.dup(connection.fileno())) as same,
    ):
        same.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def _ended_after(seconds: float, connection: Any) -> Iterator[None]:
    timer = threading.Timer(seconds, break_off, (connection.driver_connection,))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def first_line(error: object) -> str:
    """The part of an error that fits into a line."""
    return str(error).partition("\n")[0][:200]


_BACKEND = text("SELECT pg_backend_pid()")
