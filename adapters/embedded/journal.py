"""The journal of ``embedded:``: one SQLite file that holds messages until they are settled.

    message      seq, properties (JSON), body        unsettled messages, in the order of seq
    line         number, tenant                      lines of tenants, made with the first of them
    generation   ┐
    used         ┘ see `adapters.deduplication`      ids that publishers used lately

Each tenant has a *line* of messages, with numbers of its own: those of line 3 begin behind
``3 << LINE_BITS``. So one is read without a look at the others, and the only line of an
installation without tenants, line 0, has the numbers that it always had. A release that knows no
lines reads all of them, one after the other, and goes on behind the last: lines order messages, and
say nothing of whose they are.

All methods block, and belong to one thread. A commit is on the disk when it returns
(``synchronous=FULL``; the write-ahead log is flushed), so an error leaves the state before it.
"""

import json
import os
import sqlite3
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from adapters.deduplication import SCHEMA as REPEATS_SCHEMA
from adapters.deduplication import TRIGGERS as REPEATS_TRIGGERS
from adapters.deduplication import Change, Repeats, hash_id
from adapters.protocol import AdapterError, AdapterUnavailable
from filters import Reason

SCHEMA_VERSION = 1
LINE_BITS = 44
"""A line has room for the messages of 55 years at 10,000 a second; there may be 500,000 lines."""
LINES = "CREATE TABLE IF NOT EXISTS line (number INTEGER PRIMARY KEY, tenant TEXT NOT NULL UNIQUE)"
SCHEMA = (
    "CREATE TABLE message (seq INTEGER PRIMARY KEY, properties TEXT NOT NULL, body BLOB NOT NULL)",
    *REPEATS_SCHEMA,
)

RETRY_AFTER = 5.0
"""Seconds that a publisher is told to wait when the disk does not take more."""

ROOM_SECONDS = 1.0
MOST_RESERVE = 16 * 2**20
PAGE = 4096

MESSAGE = "message"
SETTLED = "settled"
NOTHING: Change = ("nothing", None, None, None)

TRIGGERS = {
    MESSAGE: "INSERT INTO message VALUES (new.a, new.b, new.c);",
    SETTLED: "DELETE FROM message WHERE seq IN (SELECT value FROM json_each(new.a));",
    **REPEATS_TRIGGERS,
}
# A commit is one statement: rows inserted into a view whose triggers do what each row says. Each
# call of SQLite gives up the interpreter lock and has to get it back from a busy event loop, which
# may take milliseconds; BEGIN, four statements and COMMIT would pay that fifteen times.
_PROCEDURES = (
    "CREATE TEMP VIEW change (what, a, b, c) AS SELECT '', NULL, NULL, NULL",
    *[
        f"CREATE TEMP TRIGGER do_{what} INSTEAD OF INSERT ON change WHEN new.what = '{what}'"
        f" BEGIN {statements} END"
        for what, statements in TRIGGERS.items()
    ],
)
_MOST_CHANGES = 4096
_CHANGE = {  # powers of two, filled up with rows that change nothing: so few serve any number
    rows: "INSERT INTO change VALUES " + ", ".join(["(?, ?, ?, ?)"] * rows)  # noqa: S608
    for rows in (1 << bits for bits in range(_MOST_CHANGES.bit_length()))
}

# As few calls for the same reason: all rows come as one value, unless they are large.
_SIZES = """
    SELECT json_group_array(json_array(seq, octets)) FROM
    (SELECT seq, length(body) AS octets FROM message WHERE seq > ? AND seq < ? ORDER BY seq LIMIT ?)
"""
_ENDS = """
    SELECT (SELECT min(seq) FROM message WHERE seq > :first AND seq < :end),
    (SELECT max(seq) FROM message WHERE seq > :first AND seq < :end)
"""
_ROWS = """
    SELECT json_group_array(json_array(seq, json(properties), hex(body)))
    FROM message WHERE seq > ? AND seq <= ?
"""
_LARGE_ROWS = "SELECT seq, properties, body FROM message WHERE seq > ? AND seq <= ? ORDER BY seq"
_LARGE = 2**20


@dataclass(frozen=True, slots=True)
class Entry:
    """A message to be kept: its publisher and id, its properties in JSON, its body, and the tenant
    in whose line it is."""

    source: str
    id: str
    properties: str
    body: bytes
    tenant: str = ""

    def __len__(self) -> int:
        """Return the size in bytes."""
        return len(self.properties) + len(self.body)


@dataclass(frozen=True, slots=True)
class Stored:
    """A message that was read back."""

    seq: int
    properties: dict[str, str]
    body: bytes


class Journal:
    """The file. ``commits`` counts transactions.

    Args:
        survive_power_loss: False leaves flushing to the system: a commit then survives the end of
            the process, not that of the machine.
        reserve: Bytes of the disk that publications leave free, so that settling, which makes
            room, always finds some. None takes 16 MiB, of a tiny file system half.
    """

    def __init__(
        self, path: Path, *, survive_power_loss: bool = True, reserve: int | None = None
    ) -> None:
        self.path = path
        self.commits = 0
        self._lines = {"": 0}
        """The numbers of lines, by tenant."""
        self._last: dict[int, int] = {}
        """The newest message's number, of each line."""
        self._before: dict[int, int] = {}
        """The number before its oldest message, when the state was read last."""
        self._synchronous = "FULL" if survive_power_loss else "NORMAL"
        self._wanted_reserve = reserve
        self._reserve = 0
        self._room = 0
        self._room_asked = 0.0
        self._repeats = Repeats()
        self._sound = False
        self._connection: sqlite3.Connection

    @property
    def lines(self) -> Mapping[str, tuple[int, int]]:
        """The number before the oldest message of each line at the start, and that of its newest,
        by tenant."""
        return {
            tenant: (self._before[line], self._last[line]) for tenant, line in self._lines.items()
        }

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
            self._sound = False
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
            self._take_room(sum(map(len, entries)))
        try:
            self._recover()
            self._make_lines(entries)
            numbers, changes = self._number(entries, now)
            if settled:
                changes.append((SETTLED, json.dumps(settled), None, None))
            self._write(changes)
        except sqlite3.Error as exc:
            self._sound = False
            self._roll_back()
            raise AdapterUnavailable(
                f"the journal cannot be written: {exc}", retry_after=RETRY_AFTER
            ) from exc
        self.commits += 1
        return numbers

    def probe(self, *, now: float) -> None:
        """Write what changes nothing, to see whether the disk takes anything.

        Raises:
            AdapterUnavailable: It does not.
        """
        self._take_room(PAGE)
        self.commit((), (0,), now=now)
        self.commits -= 1

    def read(self, after: int, *, messages: int, octets: int) -> tuple[list[Stored], int]:
        """The oldest messages behind number *after*, of its line: at most *messages*, and no more
        once they have *octets*.

        Returns:
            Them, and the number up to which the line has no others.
        """
        try:
            line = after >> LINE_BITS
            sizes = self._ask(_SIZES, after, line + 1 << LINE_BITS, messages)
            upto, size = after, 0
            for number, of_one in sizes:
                if size >= octets:
                    break
                upto = number
                size += of_one
            found = self._load(after, upto, large=size > _LARGE)
        except sqlite3.Error as exc:
            raise AdapterUnavailable(f"the journal cannot be read: {exc}") from exc
        return found, self._last[line] if len(found) == len(sizes) < messages else upto

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
        execute("PRAGMA temp_store = MEMORY")  # a folder for temporary files may not be writable
        execute(f"PRAGMA wal_autocheckpoint = {min(1000, max(64, self._reserve // 4 // PAGE))}")
        if version == 0:
            execute("BEGIN IMMEDIATE")
            for statement in SCHEMA:
                execute(statement)
            execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
            execute("COMMIT")
        for statement in _PROCEDURES:
            execute(statement)

    def _recover(self) -> None:
        """Read the state of the file into memory, at the start and after an error."""
        if self._sound:
            return
        self._roll_back()
        execute = self._connection.execute
        self._repeats.load(self._connection)
        if execute("SELECT 1 FROM sqlite_schema WHERE name = 'line'").fetchone():
            self._lines.update(execute("SELECT tenant, number FROM line").fetchall())
        for line in self._lines.values():
            first, end = line << LINE_BITS, line + 1 << LINE_BITS
            oldest, newest = execute(_ENDS, {"first": first, "end": end}).fetchone()
            self._last[line] = max(self._last.get(line, first), newest or 0)
            self._before[line] = self._last[line] if oldest is None else oldest - 1
        self._sound = True

    def _make_lines(self, entries: Sequence[Entry]) -> None:
        """Make the lines of tenants that have none."""
        fresh = {entry.tenant for entry in entries} - self._lines.keys()
        if not fresh:
            return
        first = max(self._lines.values()) + 1
        made = dict(zip(sorted(fresh), range(first, first + len(fresh)), strict=True))
        execute = self._connection.execute
        execute("BEGIN IMMEDIATE")
        execute(LINES)
        for tenant, line in made.items():
            execute("INSERT INTO line VALUES (?, ?)", (line, tenant))
        execute("COMMIT")
        self._lines.update(made)
        self._last.update({line: line << LINE_BITS for line in made.values()})

    def _roll_back(self) -> None:
        if self._connection.in_transaction:
            with suppress(sqlite3.Error):  # SQLite has rolled back by itself
                self._connection.execute("ROLLBACK")

    def _number(
        self, entries: Sequence[Entry], now: float
    ) -> tuple[list[int | None], list[Change]]:
        """Return the numbers of *entries*, and the changes to write for them."""
        numbers: list[int | None] = []
        changes: list[Change] = []
        used: dict[str, list[int]] = {}
        fresh: set[tuple[str, int]] = set()
        for entry in entries:
            id = hash_id(entry.source, entry.id)
            if (entry.source, id) in fresh or self._repeats.know(entry.source, id):
                numbers.append(None)
                continue
            fresh.add((entry.source, id))
            used.setdefault(entry.source, []).append(id)
            line = self._lines[entry.tenant]
            self._last[line] = number = self._last[line] + 1
            numbers.append(number)
            changes.append((MESSAGE, number, entry.properties, entry.body))
        if used:
            changes += self._repeats.add(used, now)
        return numbers, changes

    def _write(self, changes: Sequence[Change]) -> None:
        """Make *changes*, all or none."""
        chunks = [changes[i : i + _MOST_CHANGES] for i in range(0, len(changes), _MOST_CHANGES)]
        if len(chunks) > 1:
            self._connection.execute("BEGIN IMMEDIATE")
        for chunk in chunks:
            rows = 1 << (len(chunk) - 1).bit_length()
            padded = (*chunk, *[NOTHING] * (rows - len(chunk)))
            self._connection.execute(_CHANGE[rows], list(chain.from_iterable(padded)))
        if len(chunks) > 1:
            self._connection.execute("COMMIT")

    def _ask(self, query: str, *values: int) -> list[Any]:
        (answer,) = self._connection.execute(query, values).fetchone()
        return sorted(json.loads(answer))

    def _load(self, after: int, upto: int, *, large: bool) -> list[Stored]:
        if large:
            rows = self._connection.execute(_LARGE_ROWS, (after, upto)).fetchall()
            return [Stored(number, json.loads(text), body) for number, text, body in rows]
        return [
            Stored(number, properties, bytes.fromhex(body))
            for number, properties, body in self._ask(_ROWS, after, upto)
        ]

    def _choose_reserve(self) -> int:
        if self._wanted_reserve is not None:
            return self._wanted_reserve
        disk = os.statvfs(self.path.parent)
        return min(MOST_RESERVE, disk.f_blocks * disk.f_frsize // 2)

    def _take_room(self, octets: int) -> None:
        """Refuse a publication that would leave less than the reserve. The disk is asked once a
        second."""
        now = time.monotonic()
        if now - self._room_asked > ROOM_SECONDS or self._room < octets:
            self._room = self._measure_room()
            self._room_asked = now
        if self._room < octets:
            raise AdapterUnavailable("the journal's disk is full", retry_after=RETRY_AFTER)
        self._room -= octets

    def _measure_room(self) -> int:
        """Return the bytes that publications may take: those free on the disk, and those inside the
        file, which keeps the room that settled messages leave."""
        try:
            disk = os.statvfs(self.path.parent)
            (pages,) = self._connection.execute("PRAGMA freelist_count").fetchone()
        except (OSError, sqlite3.Error) as exc:
            raise AdapterUnavailable(
                f"the journal cannot be written: {exc}", retry_after=RETRY_AFTER
            ) from exc
        return disk.f_bavail * disk.f_frsize + int(pages) * PAGE - self._reserve


def _has_content(path: Path) -> bool:
    return path.exists() and path.stat().st_size > 0


def _damaged(path: Path, what: str) -> AdapterError:
    return AdapterError(
        Reason.INTERNAL,
        f"{path} is damaged ({what}): put back a copy of it, or move it away to begin with an"
        " empty journal",
    )
