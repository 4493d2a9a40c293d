"""Gives waiting messages to functions: each in the transaction that marks it as done, those of a
key in order.

A transaction locks one lane and gives functions as many of its messages as they take in `BUDGET`
seconds, each in a savepoint of its own; other threads and processes have the other lanes.
"""

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import select, update

from gateway.client.outbox.handlers import Handler
from gateway.client.outbox.message import Dead
from gateway.client.outbox.tables import DEAD, DONE, WAITING, inbox, lanes
from gateway.client.outbox.transactions import Transaction

MOST = 64
"""Messages of one transaction."""
BUDGET = 0.1
"""Seconds in which further functions are called in a transaction."""
EXPIRED = "it expired before its function could take it"


@dataclass(frozen=True, slots=True)
class Arrived:
    """A message that waits in the inbox."""

    position: int
    id: str
    topic: str
    key: str
    attributes: str
    content_type: str
    body: bytes
    expires_at: float | None
    attempts: int


def claim(transaction: Transaction, topics: Sequence[str], most: int = MOST) -> list[Arrived]:
    """Lock a lane that has messages that are due, and read these; those that an earlier one of
    their key holds up are left out."""
    own, now = inbox.c, time.time()
    due = (own.state == WAITING) & (own.due_at <= now) & own.topic.in_(topics)
    found = [lane for (lane,) in transaction.rows(select(own.lane).where(due).distinct())]
    random.shuffle(found)  # Nobody takes all lanes in the same order.
    for lane in found:
        locking = select(lanes.c.lane).where(lanes.c.lane == lane)
        if transaction.rows(locking.with_for_update(skip_locked=True)):
            return _read(transaction, lane, topics, now, most)
    return []


def _read(
    transaction: Transaction, lane: int, topics: Sequence[str], now: float, most: int
) -> list[Arrived]:
    own, earlier = inbox.c, inbox.alias()
    holding = select(earlier.c.position).where(
        earlier.c.state == WAITING,
        earlier.c.lane == lane,
        earlier.c.topic == own.topic,
        earlier.c.key == own.key,
        earlier.c.position < own.position,
        earlier.c.due_at > now,
    )
    found = select(
        own.position, own.id, own.topic, own.key, own.attributes, own.content_type, own.body,
        own.expires_at, own.attempts,
    ).where(
        own.state == WAITING,
        own.lane == lane,
        own.due_at <= now,
        own.topic.in_(topics),
        ~holding.exists(),
    )  # fmt: skip
    rows = transaction.rows(found.order_by(own.position).limit(most))
    return [
        Arrived(at, id, topic, key, attributes, content_type, bytes(body), expires_at, attempts)
        for at, id, topic, key, attributes, content_type, body, expires_at, attempts in rows
    ]


class Outcomes:
    """What became of the messages that a transaction gave to functions."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._done: list[int] = []
        self._failed: list[tuple[Arrived, Handler, Exception]] = []
        self._dead: list[tuple[Arrived, str]] = []
        self._held: set[tuple[str, str]] = set()

    def may_take(self, row: Arrived) -> bool:
        """Whether a message may be given to its function now."""
        if (row.topic, row.key) in self._held:
            return False
        if row.expires_at is not None and row.expires_at <= time.time():
            self._dead.append((row, EXPIRED))
            return False
        count = len(self._done) + len(self._failed)
        if count and time.monotonic() - self._began > BUDGET:
            self._held.add((row.topic, row.key))  # Those behind it come later, too.
            return False
        return True

    def done(self, row: Arrived) -> None:
        """Note that a message was taken."""
        self._done.append(row.position)

    def failed(self, row: Arrived, handler: Handler, error: Exception) -> bool:
        """Note that a function failed.

        Returns:
            Whether the message is dead.
        """
        if isinstance(error, Dead) or row.attempts >= handler.retries:
            self._dead.append((row, in_words(error)))
            return True
        self._failed.append((row, handler, error))
        self._held.add((row.topic, row.key))
        return False

    @property
    def count(self) -> int:
        """How many messages were given to functions, or ended without."""
        return len(self._done) + len(self._failed) + len(self._dead)

    def write(self, transaction: Transaction) -> None:
        """Store what became of them."""
        own, now = inbox.c, time.time()
        if self._done:
            ended = update(inbox).where(own.position.in_(self._done))
            transaction.change(
                ended.values(state=DONE, body=b"", attributes="{}", error=None, done_at=now)
            )
        for row, reason in self._dead:
            dead = update(inbox).where(own.position == row.position)
            transaction.change(dead.values(state=DEAD, error=reason, attempts=row.attempts + 1))
        for row, handler, error in self._failed:
            later = update(inbox).where(own.position == row.position)
            due_at = now + handler.backoff.seconds(row.attempts + 1)
            transaction.change(
                later.values(due_at=due_at, error=in_words(error), attempts=row.attempts + 1)
            )


def in_words(error: Exception) -> str:
    """An exception as the reason of a dead letter."""
    if isinstance(error, Dead):
        return str(error) or "its function refused it"
    return f"{type(error).__name__}: {error}"[:4000]
