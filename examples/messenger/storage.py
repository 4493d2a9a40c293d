"""What must not be lost, in a file of SQLite: whatever a method did is there after kill -9."""

import sqlite3
from collections.abc import Iterable
from pathlib import Path

from said import NAMESPACE, Chat, kind_for, now

_TABLES = """
CREATE TABLE IF NOT EXISTS counted (recipient TEXT PRIMARY KEY, number INTEGER) STRICT;
CREATE TABLE IF NOT EXISTS waiting (
    recipient TEXT, sender TEXT, number INTEGER, said_at INTEGER, text TEXT,
    PRIMARY KEY (recipient, sender, number)) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS heard (
    sender TEXT, number INTEGER, said_at INTEGER, text TEXT,
    PRIMARY KEY (sender, number)) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS buddies (person TEXT PRIMARY KEY, names TEXT) STRICT;
"""


class NotYet(Exception):
    """Raised for a message before whose turn another has to come: its sender comes again."""


class Store:
    """Of a server: what is on its way. Of a person: that, and what was heard."""

    def __init__(self, file: Path) -> None:
        self._db = sqlite3.connect(file, isolation_level=None)
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = FULL")
        self._db.executescript(_TABLES)

    def close(self) -> None:
        self._db.close()

    def say(self, sender: str, recipient: str, text: str) -> None:
        """Give what *sender* says the next number, and keep it until somebody has taken it."""
        with _Transaction(self._db):
            (number,) = self._db.execute(
                "INSERT INTO counted VALUES (?, 1)"
                " ON CONFLICT DO UPDATE SET number = number + 1 RETURNING number",
                (recipient,),
            ).fetchone()
            self.keep(_chat(recipient, sender, number, now(), text))

    def keep(self, chat: Chat) -> None:
        """Keep what is on its way; what is here already is the same once more."""
        self._db.execute(
            "INSERT OR IGNORE INTO waiting VALUES (?, ?, ?, ?, ?)",
            (chat.recipient, chat.source, chat.seq_no, chat.timestamp, chat.message),
        )

    def done(self, chat: Chat) -> None:
        """Forget what somebody else has taken."""
        self._db.execute(
            "DELETE FROM waiting WHERE (recipient, sender, number) = (?, ?, ?)",
            (chat.recipient, chat.source, chat.seq_no),
        )

    def next_for(self, recipient: str) -> list[Chat]:
        """The first of what each sender says to *recipient*."""
        rows = self._db.execute(
            "SELECT recipient, sender, min(number), said_at, text FROM waiting"
            " WHERE recipient = ? GROUP BY sender ORDER BY said_at",
            (recipient,),
        )
        return [_chat(*row) for row in rows]

    def recipients(self) -> list[str]:
        """For whom something waits."""
        return [name for (name,) in self._db.execute("SELECT DISTINCT recipient FROM waiting")]

    def hear(self, chat: Chat) -> bool:
        """Take a message where it arrives; whether it is a new one.

        This is what makes each come once and in order, whichever ways it and others went, and how
        often: after one comes the next, and nothing else.

        Raises:
            NotYet: One before it is missing.
        """
        with _Transaction(self._db):
            (last,) = self._db.execute(
                "SELECT coalesce(max(number), 0) FROM heard WHERE sender = ?", (chat.source,)
            ).fetchone()
            if chat.seq_no > last + 1:
                raise NotYet(f"{last + 1} of {chat.source} has not come yet")
            if chat.seq_no <= last:
                return False
            row = (chat.source, chat.seq_no, chat.timestamp, chat.message)
            self._db.execute("INSERT INTO heard VALUES (?, ?, ?, ?)", row)
            return True

    def hear_in_room(self, chat: Chat) -> bool:
        """Take a message of a room; whether it is a new one. Who comes late has missed some."""
        row = (f"{chat.recipient} {chat.source}", chat.seq_no, chat.timestamp, chat.message)
        query = "INSERT OR IGNORE INTO heard VALUES (?, ?, ?, ?)"
        return self._db.execute(query, row).rowcount == 1

    def set_buddies(self, person: str, names: Iterable[str]) -> None:
        self._db.execute(
            "INSERT OR REPLACE INTO buddies VALUES (?, ?)", (person, " ".join(sorted(names)))
        )

    def buddies(self, person: str) -> list[str]:
        row = self._db.execute("SELECT names FROM buddies WHERE person = ?", (person,)).fetchone()
        return row[0].split() if row else []


class _Transaction:
    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def __enter__(self) -> None:
        self._db.execute("BEGIN IMMEDIATE")

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        self._db.execute("ROLLBACK" if error else "COMMIT")


def _chat(recipient: str, sender: str, number: int, said_at: int, text: str) -> Chat:
    return Chat(
        event_namespace=NAMESPACE, event_type=f"{kind_for(recipient)}.chat", source=sender,
        timestamp=said_at, seq_no=number, message=text, handback="", recipient=recipient,
    )  # fmt: skip
