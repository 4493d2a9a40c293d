"""Copies of the store and the journal of one moment, while a gateway writes to both.

The gateway commits to the store first and settles in the journal afterwards. Whoever copied the
store before the journal would lose what was settled between the two. So the journal is locked for
the moment in which a snapshot of each begins, some milliseconds, in which nothing is accepted or
settled; the snapshots are copied afterwards.
"""

import contextlib
import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import quote

from gateway.backup.errors import BackupError

LOCKED = 5.0
"""Seconds that it is waited for a lock."""
PAGES = 4096
"""Pages that are copied at once."""


@contextlib.contextmanager
def snapshots(
    journal: Path | None, stores: Mapping[str, Path]
) -> Iterator[dict[str, sqlite3.Connection]]:
    """Connections to *stores* and the journal, by name, that all see the same moment.

    Raises:
        BackupError: One cannot be read.
    """
    paths = {**({} if journal is None else {"journal.db": journal}), **stores}
    with contextlib.ExitStack() as stack:
        opened = {name: _open(path, stack) for name, path in paths.items()}
        locker = None if journal is None else _open(journal, stack)
        try:
            if locker is not None:
                locker.execute("BEGIN IMMEDIATE")
            for connection in opened.values():
                connection.execute("BEGIN")
                connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
            if locker is not None:
                locker.execute("ROLLBACK")
        except sqlite3.Error as error:
            raise BackupError(f"The databases cannot be read: {error}.") from error
        yield opened


def _open(path: Path, stack: contextlib.ExitStack) -> sqlite3.Connection:
    uri = f"file:{quote(str(path.absolute()))}?mode=rw"
    try:
        connection = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=LOCKED)
    except sqlite3.Error as error:
        raise BackupError(f"{path} cannot be read: {error}.") from error
    stack.callback(connection.close)
    return connection


def copy(snapshot: sqlite3.Connection, target: Path) -> None:
    """Copy what *snapshot* sees into a new file, and see that it is sound.

    Raises:
        BackupError: It is damaged, or there is no room.
    """
    try:
        with contextlib.closing(sqlite3.connect(target, isolation_level=None)) as connection:
            connection.execute("PRAGMA synchronous=OFF")  # Nobody needs it after a crash.
            snapshot.backup(connection, pages=PAGES)
            connection.execute("PRAGMA journal_mode=DELETE")
            (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.Error as error:
        raise BackupError(f"{target.name} cannot be copied: {error}.") from error
    if verdict != "ok":
        raise BackupError(f"{target.name} is damaged, and not copied: {verdict:.200}.")
