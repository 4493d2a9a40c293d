"""URLs of databases, and connections to them, alike for whatever keeps something there."""

from pathlib import Path
from typing import Any

from sqlalchemy import URL, make_url

_LIVELINESS = {
    "application_name": "dragoman",
    "connect_timeout": 3,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}


def driver_url(url: str) -> str:
    """*url* with the driver that it means: plain ``postgresql://`` means psycopg 3."""
    if url.startswith("postgresql://"):
        return "postgresql+psycopg://" + url.removeprefix("postgresql://")
    return url


def sqlite_url(path: Path) -> str:
    """The URL of the SQLite database in a file, whatever characters its name has."""
    return URL.create("sqlite", database=str(path)).render_as_string()


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


def first_line(error: object) -> str:
    """The part of an error that fits into a line."""
    return str(error).partition("\n")[0][:200]
