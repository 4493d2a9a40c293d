"""The journal of ``embedded:``: one SQLite file that holds messages until they are settled.

    message      seq, properties (JSON), body        what is not settled, in the order of seq
    generation   ┐
    used         ┘ see `repeats`                     ids that publishers used lately

Everything here blocks, and belongs to one thread. A commit is on the disk when it returns
(``synchronous=FULL``; the write-ahead log is flushed), so an error leaves the state before it.
"""

import json
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from adapters.protocol import AdapterError, AdapterUnavailable
from adapters.repeats import SCHEMA as REPEATS_SCHEMA
from adapters.repeats import Repeats, hash_id
from filters import Reason

SCHEMA_VERSION = 1
SCHEMA = (
    "CREATE TABLE message (seq INTEGER PRIMARY KEY, properties TEXT NOT NULL, body BLOB NOT NULL)",
    *REPEATS_SCHEMA,
)

RETRY_AFTER = 5.0
"""Seconds that a publisher is told to wait when the disk does not take more."""

MOST_RESERVE = 16 * 2**20
PAGE = 4096

# One statement for several rows: each statement gives up the interpreter lock and must get it
# back from a busy event loop. Powers of two, so that few statements serve any number of rows.
_INSERT = {
    rows: "INSERT INTO message VALUES " + ", ".join(["(?, ?, ?)"] * rows)  # noqa: S608 - constants
    for rows in (64, 32, 16, 8, 4, 2, 1)
}


@dataclass(frozen=True, slots=True)
class Entry:
    """A message to be kept: who published it under which id, and what is read back."""

    source: str
    id: str
    properties: str
    body: bytes


@dataclass(frozen=True, slots=True)
class Stored:
    """A message that was read back."""

    seq: int
    properties: str
    body: bytes


class Journal:
    """The file. ``commits`` counts transactions; ``last`` is the newest message's number.

    Args:
        survive_power_loss: False leaves flushing to the system: a commit then survives the end of
            the process, not that of the machine.
        reserve: Octets of the disk that publications leave free, so that settling, which makes
            room, always finds some. None takes an eighth of the file system, at most 16 MiB.
    """

    def __init__(
        self, path: Path, *, survive_power_loss: bool = True, reserve: int | None = None
    ) -> None:
        self.path = path
        self.commits = 0
        self.last = 0
        self._synchronous = "FULL" if survive_power_loss else "NORMAL"
        self._wanted_reserve = reserve
        self._reserve = 0
        self._repeats = Repeats()
        self._sound = False
        self._connection: sqlite3.Connection

    def open(self) -> None:
        """Open the file, or make it. After an unclean end it is checked first.

        Raises:
            AdapterError: It is of a newer version, or damaged.
            AdapterUnavailable: It cannot be opened now.
        """
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.touch(mode=0o600)
            self._reserve = self._choose_reserve()
            unclean = _has_content(self.path.with_name(self.path.name + "-wal"))
            self._connection = sqlite3.connect(self.path, isolation_level=None, timeout=1.0)
            try:
                self._prepare(check=unclean)
                self._recover()
            except BaseException:
                self._connection.close()
                raise
        except sqlite3.OperationalError as exc:
            raise AdapterUnavailable(f"{self.path} cannot be opened: {exc}") from exc
        except sqlite3.DatabaseError as exc:
            raise _damaged(self.path, str(exc)) from exc
        except OSError as exc:
            raise AdapterUnavailable(f"{self.path} cannot be opened: {exc.strerror}") from exc

    def commit(
        self, entries: Sequence[Entry], settled: Sequence[int], *, now: float
    ) -> list[int | None]:
        """Keep *entries* and delete the *settled*, all or nothing, on the disk on return.

        Returns:
            The number of each entry, rising; None where its publisher repeated an id.

        Raises:
            AdapterUnavailable: The disk does not take it. Nothing changed; try again later.
        """
        if entries:
            self._check_room(entries)
        try:
            self._recover()
            self._connection.execute("BEGIN IMMEDIATE")
            numbers = self._insert(entries, now) if entries else []
            if settled:
                self._connection.execute(
                    "DELETE FROM message WHERE seq IN (SELECT value FROM json_each(?))",
                    (json.dumps(settled),),
                )
            self._connection.execute("COMMIT")
        except sqlite3.Error as exc:
            self._sound = False
            self._roll_back()
            raise AdapterUnavailable(
                f"the journal cannot be written: {exc}", retry_after=RETRY_AFTER
            ) from exc
        self.commits += 1
        return numbers

    def read(self, after: int, *, messages: int, octets: int) -> tuple[list[Stored], int]:
        """The oldest messages behind number *after*: at most *messages*, and no more once they
        have *octets*.

        Returns:
            Them, and the number up to which there are no others.
        """
        found: list[Stored] = []
        try:
            cursor = self._connection.execute(
                "SELECT seq, properties, body FROM message WHERE seq > ? ORDER BY seq LIMIT ?",
                (after, messages),
            )
            for row in cursor:
                found.append(Stored(*row))
                octets -= len(found[-1].body)
                if octets <= 0:
                    break
            cursor.close()
        except sqlite3.Error as exc:
            raise AdapterUnavailable(f"the journal cannot be read: {exc}") from exc
        complete = octets > 0 and len(found) < messages
        return found, self.last if complete else found[-1].seq

    def close(self) -> None:
        """Write the log back into the file, and close it."""
        with suppress(sqlite3.Error):  # what is in the log is read at the next start
            self._roll_back()
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._connection.close()

    def _prepare(self, *, check: bool) -> None:
        execute = self._connection.execute
        (version,) = execute("PRAGMA user_version").fetchone()
        if version > SCHEMA_VERSION:
            raise AdapterError(
                Reason.INTERNAL,
                f"{self.path} was written by a newer Dragoman (journal version {version}, this"
                f" one reads {SCHEMA_VERSION}): install that one",
            )
        if check:
            (verdict,) = execute("PRAGMA quick_check(1)").fetchone()
            if verdict != "ok":
                raise _damaged(self.path, verdict)
        execute("PRAGMA journal_mode = WAL")
        execute(f"PRAGMA synchronous = {self._synchronous}")
        execute("PRAGMA secure_delete = OFF")
        execute(f"PRAGMA wal_autocheckpoint = {min(1000, max(64, self._reserve // 4 // PAGE))}")
        if version == 0:
            execute("BEGIN IMMEDIATE")
            for statement in SCHEMA:
                execute(statement)
            execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
            execute("COMMIT")

    def _recover(self) -> None:
        """Make what is in memory equal to the file, at the start and after an error."""
        if self._sound:
            return
        self._roll_back()
        self._repeats.load(self._connection)
        (newest,) = self._connection.execute("SELECT max(seq) FROM message").fetchone()
        self.last = max(self.last, newest or 0)
        self._sound = True

    def _roll_back(self) -> None:
        if self._connection.in_transaction:
            with suppress(sqlite3.Error):  # SQLite has rolled back by itself
                self._connection.execute("ROLLBACK")

    def _insert(self, entries: Sequence[Entry], now: float) -> list[int | None]:
        numbers: list[int | None] = []
        values: list[int | str | bytes] = []
        used: dict[str, list[int]] = {}
        fresh: set[tuple[str, int]] = set()
        for entry in entries:
            id = hash_id(entry.source, entry.id)
            if (entry.source, id) in fresh or self._repeats.know(entry.source, id):
                numbers.append(None)
                continue
            fresh.add((entry.source, id))
            used.setdefault(entry.source, []).append(id)
            self.last += 1
            numbers.append(self.last)
            values += (self.last, entry.properties, entry.body)
        for statement, chunk in _chunks(values):
            self._connection.execute(statement, chunk)
        self._repeats.add(self._connection, used, now)
        return numbers

    def _choose_reserve(self) -> int:
        if self._wanted_reserve is not None:
            return self._wanted_reserve
        disk = os.statvfs(self.path.parent)
        return min(MOST_RESERVE, disk.f_blocks * disk.f_frsize // 8)

    def _check_room(self, entries: Sequence[Entry]) -> None:
        try:
            disk = os.statvfs(self.path.parent)
        except OSError as exc:
            raise AdapterUnavailable(
                f"the journal cannot be written: {exc.strerror}", retry_after=RETRY_AFTER
            ) from exc
        octets = sum([len(entry.body) + len(entry.properties) for entry in entries])
        if disk.f_bavail * disk.f_frsize < octets + self._reserve:
            raise AdapterUnavailable("the journal's disk is full", retry_after=RETRY_AFTER)


def _chunks(
    values: list[int | str | bytes],
) -> Iterator[tuple[str, list[int | str | bytes]]]:
    """Statements that insert the rows of *values*, and the values of each."""
    start = 0
    for rows, statement in _INSERT.items():
        while len(values) - start >= rows * 3:
            yield statement, values[start : start + rows * 3]
            start += rows * 3


def _has_content(path: Path) -> bool:
    return path.exists() and path.stat().st_size > 0


def _damaged(path: Path, what: str) -> AdapterError:
    return AdapterError(
        Reason.INTERNAL,
        f"{path} is damaged ({what}): put back a copy of it, or move it away to begin with an"
        " empty journal",
    )
