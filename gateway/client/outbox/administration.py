"""Messages of an outbox and an inbox as people look at them and mend them, and their counts."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Table, delete, func, select, update

from gateway.client.outbox.databases import AnyDatabase, database_of
from gateway.client.outbox.tables import DEAD, DONE, WAITING, inbox, outbox
from gateway.client.outbox.transactions import Transaction

BOXES: dict[str, Table] = {"outbox": outbox, "inbox": inbox}
LISTED = 100


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A message in a database.

    Attributes:
        number: ``outbox/12`` or ``inbox/7``; other methods take it.
        state: ``waiting``, ``dead`` or, in an inbox, ``done``.
        created_at, due_at: Seconds since the epoch.
        error: Why the last attempt failed; of a dead letter, why it is one.
        attributes: Of its CloudEvent, as JSON; with the body, where one message is asked for.
    """

    number: str
    id: str
    topic: str
    key: str
    state: str
    created_at: float
    due_at: float
    attempts: int
    error: str | None
    content_type: str
    attributes: str = ""
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Count:
    """How many messages of a topic there are in a box, in one state, and how old the oldest is."""

    box: str
    topic: str
    state: str
    number: int
    oldest_at: float


class StoredMessages:
    """The messages in a database.

    Args:
        database: As of `Outbox`, but no asynchronous engine.
    """

    def __init__(self, database: AnyDatabase) -> None:
        self._database = database_of(database)

    def list_all(self, state: str | None = None, limit: int = LISTED) -> list[StoredMessage]:
        """The messages in *state*, or all that are not done; the oldest first, of each box at most
        *limit*."""
        with self._database.begin() as transaction:
            return [each for box in BOXES for each in _list(transaction, box, state, limit)]

    def show(self, number: str) -> StoredMessage:
        """A message with its attributes and its body.

        Raises:
            LookupError: There is none with that number.
        """
        box, position = _read(number)
        with self._database.begin() as transaction:
            own = BOXES[box].c
            found = select(*_columns(box), own.attributes, own.body)
            rows = transaction.rows(found.where(own.position == position))
        if not rows:
            raise LookupError(f"there is no message {number}")
        *row, body = rows[0]
        return replace(_message(box, row[:-1]), attributes=row[-1], body=bytes(body))

    def retry(self, numbers: Sequence[str] | None = None) -> int:
        """Give dead letters, all or these, and what waits for its next attempt, a new start; how
        many."""
        values = {"state": WAITING, "attempts": 0, "due_at": time.time(), "error": None}
        with self._database.begin() as transaction:
            return sum(
                transaction.change(update(BOXES[box]).where(which).values(**values))
                for box, which in _chosen(numbers)
            )

    def drop(self, numbers: Sequence[str] | None = None) -> int:
        """Drop dead letters, all, or these messages; how many. Their ids stay known in an inbox."""
        with self._database.begin() as transaction:
            return sum(
                transaction.change(_dropping(box).where(which)) for box, which in _chosen(numbers)
            )

    def counts(self) -> list[Count]:
        """How many messages wait and are dead, by box and topic."""
        with self._database.begin() as transaction:
            return [each for box in BOXES for each in _count(transaction, box)]

    def close(self) -> None:
        """Close the connections, but for those of an engine that was given."""
        self._database.close()


def _columns(box: str) -> Any:
    own = BOXES[box].c
    return (
        own.position, own.id, own.topic, own.key, own.state, own.created_at, own.due_at,
        own.attempts, own.error, own.content_type,
    )  # fmt: skip


def _message(box: str, row: Sequence[Any]) -> StoredMessage:
    position, *others = row
    return StoredMessage(f"{box}/{position}", *others)


def _list(transaction: Transaction, box: str, state: str | None, limit: int) -> list[StoredMessage]:
    own = BOXES[box].c
    which = own.state != DONE if state is None else own.state == state
    found = select(*_columns(box)).where(which).order_by(own.position).limit(limit)
    return [_message(box, row) for row in transaction.rows(found)]


def _count(transaction: Transaction, box: str) -> list[Count]:
    own = BOXES[box].c
    found = select(own.topic, own.state, func.count(), func.min(own.created_at))
    found = found.where(own.state != DONE).group_by(own.topic, own.state)
    return [Count(box, *row) for row in transaction.rows(found)]


def _dropping(box: str) -> Any:
    if box == "outbox":
        return delete(outbox)
    # Whoever sends it again is told that it was taken.
    return update(inbox).values(state=DONE, body=b"", attributes="{}", done_at=time.time())


def _chosen(numbers: Sequence[str] | None) -> list[tuple[str, Any]]:
    """The boxes, with the condition of what is chosen there: dead letters, or these numbers."""
    if numbers is None:
        return [(box, table.c.state == DEAD) for box, table in BOXES.items()]
    read = [_read(number) for number in numbers]
    return [
        (box, table.c.position.in_([at for each, at in read if each == box]) & _not_done(table))
        for box, table in BOXES.items()
    ]


def _not_done(table: Table) -> Any:
    return table.c.state != DONE


def _read(number: str) -> tuple[str, int]:
    box, _, position = number.partition("/")
    if box not in BOXES or not position.isdigit() or len(position) > 18:
        raise LookupError(f"{number!r} is not the number of a message, such as inbox/7")
    return box, int(position)
