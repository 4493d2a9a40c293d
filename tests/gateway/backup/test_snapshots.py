"""Snapshots of two databases are of one moment, while somebody writes to both."""

import contextlib
import itertools
import sqlite3
import threading
from pathlib import Path

import pytest

from gateway.backup.errors import BackupError
from gateway.backup.snapshots import copy, snapshots

TIMES = 40


class Writer:
    """Does with each number what a gateway does with a message: it is in the journal, then in the
    store, then no longer in the journal. Afterwards it is always in one of the two."""

    def __init__(self, folder: Path) -> None:
        self.journal, self.store = folder / "journal.db", folder / "store.db"
        for path in (self.journal, self.store):
            with contextlib.closing(sqlite3.connect(path)) as made:
                made.execute("PRAGMA journal_mode=WAL")
                made.execute("CREATE TABLE number (n INTEGER PRIMARY KEY)")
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.written = 0

    def __enter__(self) -> "Writer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        with (
            contextlib.closing(sqlite3.connect(self.journal, isolation_level=None)) as journal,
            contextlib.closing(sqlite3.connect(self.store, isolation_level=None)) as store,
        ):
            for connection in (journal, store):
                connection.execute("PRAGMA synchronous=OFF")
            for number in itertools.count(1):
                if self._ended.is_set():
                    return
                journal.execute("INSERT INTO number VALUES (?)", (number,))
                store.execute("INSERT INTO number VALUES (?)", (number,))
                journal.execute("DELETE FROM number WHERE n = ?", (number,))
                self.written = number


def numbers(connection: sqlite3.Connection) -> set[int]:
    return {number for (number,) in connection.execute("SELECT n FROM number")}


def test_nothing_is_between_the_two(tmp_path: Path) -> None:
    with Writer(tmp_path) as writer:
        for _ in range(TIMES):
            before = writer.written
            with snapshots(writer.journal, {"store.db": writer.store}) as opened:
                store, journal = numbers(opened["store.db"]), numbers(opened["journal.db"])
            assert store | journal >= set(range(1, before + 1))
            assert len(store | journal) - len(store) <= 1
            assert len(store) == max(store, default=0), "a number was settled and is nowhere"
            assert max(journal, default=0) <= len(store) + 1


def test_what_is_copied_is_the_moment_of_the_snapshot(tmp_path: Path) -> None:
    with Writer(tmp_path) as writer:
        with snapshots(writer.journal, {"store.db": writer.store}) as opened:
            seen = numbers(opened["store.db"])
            later = writer.written + 50
            while writer.written < later:
                pass
            copy(opened["store.db"], tmp_path / "copy.db")
        with contextlib.closing(sqlite3.connect(tmp_path / "copy.db")) as copied:
            assert numbers(copied) == seen


def test_what_is_no_database_is_named(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    path.write_bytes(b"no database" * 1000)
    with (
        pytest.raises(BackupError, match=r"^The databases cannot be read: file is not a database"),
        snapshots(None, {"store.db": path}),
    ):
        pass
