"""What the engine of a run knows, in a file of SQLite that outlives it."""

import pickle
import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from steps import Status

TABLES = """
CREATE TABLE IF NOT EXISTS taken (id TEXT PRIMARY KEY);
CREATE TABLE IF NOT EXISTS states (name TEXT PRIMARY KEY, state TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS results (name TEXT PRIMARY KEY, value BLOB NOT NULL);
"""


class State:
    def __init__(self, file: Path) -> None:
        self._database = sqlite3.connect(file)
        self._database.executescript(TABLES)

    async def once(self, name: str, call: Callable[[], Awaitable[Any]]) -> Any:
        """Call, unless the result is there from before; the result."""
        query = "SELECT value FROM results WHERE name = ?"
        if row := self._database.execute(query, [name]).fetchone():
            return pickle.loads(row[0])  # noqa: S301  # Only this program writes the file.
        result = await call()
        with self._database:
            row = [name, pickle.dumps(result)]
            self._database.execute("INSERT INTO results VALUES (?, ?)", row)
        return result

    def take(self, statuses: list[Status]) -> None:
        """Take statuses in one transaction, each once by its id."""
        with self._database:
            for status in statuses:
                taken = "INSERT OR IGNORE INTO taken VALUES (?)"
                new = self._database.execute(taken, [status.id]).rowcount
                if new and status.state in ("done", "failed", "recorded") and not status.ends_run:
                    self._note(status.step, status.state)

    def invoked(self, step: str) -> None:
        """Note that the factory was asked for a step; it may have been done meanwhile."""
        with self._database:
            self._database.execute("INSERT OR IGNORE INTO states VALUES (?, 'invoked')", [step])

    def named(self, *states: str) -> list[str]:
        """The steps, and consumers, in one of these states."""
        rows = self._database.execute("SELECT name, state FROM states").fetchall()
        return [name for name, state in rows if state in states]

    def _note(self, name: str, state: str) -> None:
        self._database.execute("INSERT OR REPLACE INTO states VALUES (?, ?)", [name, state])
