"""The databases that the store is proved on, each fresh."""

import contextlib
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, create_engine, make_url, text

from gateway.reliability.stores import array_statements, database_transaction
from tests.rigs.postgresql import postgresql

on_each_store = pytest.mark.parametrize("store_url", ["sqlite", "postgresql"], indirect=True)
"""Marks a test of what stands on the store to run on both databases."""


def sqlite_url(folder: Path) -> str:
    """The URL of the store that a gateway with its data in *folder* has by default."""
    return f"sqlite:///{folder / 'store.db'}"


def execute(url: str, statement: str) -> list[tuple[object, ...]]:
    """Run *statement* on a connection of its own; its rows."""
    opened = create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    try:
        with opened.begin() as connection:
            result = connection.execute(text(statement))
            return [tuple(row) for row in result] if result.returns_rows else []
    finally:
        opened.dispose()


@contextlib.contextmanager
def outage(url: str) -> Iterator[None]:
    """Meanwhile the database takes nothing: a file is locked, a server ends connections and refuses
    new ones."""
    database = make_url(url).database
    assert database is not None
    if url.startswith("sqlite"):
        other = sqlite3.connect(database, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        try:
            yield
        finally:
            other.execute("ROLLBACK")
            other.close()
        return
    postgresql().admit_to(database, False)
    try:
        yield
    finally:
        postgresql().admit_to(database, True)


def statements_of(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The statements that stores of reliable messaging run straight on the driver, from now on."""
    ran: list[str] = []

    def noted(function: Callable[..., Any]) -> Callable[..., Any]:
        def run(connection: Connection, statement: Any, values: Any) -> Any:
            ran.append(" ".join(str(statement).split()))
            return function(connection, statement, values)

        return run

    for module, name in (
        (database_transaction, "run"),
        (database_transaction, "run_many"),
        (array_statements, "run_text"),
    ):
        monkeypatch.setattr(module, name, noted(getattr(module, name)))
    return ran


def check_store(url: str) -> None:
    """The database is sound, and keeps no message that nobody needs."""
    if url.startswith("sqlite"):
        assert execute(url, "PRAGMA integrity_check") == [("ok",)]
        assert execute(url, "PRAGMA foreign_key_check") == []
    [[needless]] = execute(
        url,
        "SELECT count(*) FROM messages WHERE number NOT IN (SELECT message FROM held) "
        "AND number NOT IN (SELECT message FROM dead_letters)",
    )
    assert needless == 0
