"""Deliveries that wait in the store, and those that died, as operations on a connection."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from sqlalchemy import Connection, Row, func, select, text

from gateway.store import schema, totals
from gateway.store.schema import held, messages, subscriptions
from gateway.store.statements import write_many
from gateway.store.totals import Totals
from mediation import Notification
from mediation.records import decode, encode


class Reason(Enum):
    """Why a delivery died."""

    REJECTED = "rejected"
    EXHAUSTED = "exhausted"
    EXPIRED_BACKLOG = "expired-backlog"
    FILTER_BUDGET = "filter-budget"
    EGRESS_FORBIDDEN = "egress-forbidden"
    TOO_LARGE = "too-large"


@dataclass(frozen=True, slots=True)
class HeldRow:
    """One delivery that waits. Times are POSIX seconds."""

    subscription: str
    position: int
    octets: int
    since: float
    attempts: int = 0
    answered: int = 0
    due: float = 0.0
    message: int = 0
    """The number of its message; given by the store."""


@dataclass(frozen=True, slots=True)
class Backlog:
    """What waits for one subscription."""

    count: int
    octets: int
    due: float


@dataclass(frozen=True, slots=True)
class Death:
    """Why and when a delivery died, and what the consumer said last."""

    subscription: str
    owner: str
    delivery_id: str
    topic: str | None
    reason: Reason
    status: int | None
    failure: str | None
    answer: str
    attempts: int
    since: float
    died: float


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A dead letter as it is listed."""

    number: int
    death: Death


def put_message(connection: Connection, notification: Notification) -> tuple[int, bool]:
    """Store a notification once; the number of its row, and whether it is new."""
    found = connection.execute(
        select(messages.c.number).where(
            messages.c.source == notification.source, messages.c.id == notification.id
        )
    ).scalar_one_or_none()
    if found is not None:
        return int(found), False
    record = encode(notification)
    result = connection.execute(
        messages.insert().values(
            source=notification.source,
            id=notification.id,
            body=record.body,
            properties=json.dumps(record.properties, separators=(",", ":")),
            octets=len(record.body),
        )
    )
    key = result.inserted_primary_key
    if key is None:  # pragma: no cover - both databases return it
        raise RuntimeError("the database gave no key")
    return int(key[0]), True


_HOLD = (
    "INSERT INTO held (subscription, position, message, octets, since, attempts, answered, due) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
)
_IS_KNOWN = text(
    "SELECT 1 FROM held WHERE subscription = :subscription AND message = :message "
    "UNION ALL "
    "SELECT 1 FROM dead_letters WHERE subscription = :subscription AND message = :message"
)


def hold(connection: Connection, notification: Notification, rows: Sequence[HeldRow]) -> list[bool]:
    """Keep *notification* for each of *rows*, and count it as matched; whether each is new.

    One that waits already, or lies in the dead letters, was taken before a crash.
    """
    number, new = put_message(connection, notification)
    kept = [
        new
        or not connection.execute(
            _IS_KNOWN, {"subscription": row.subscription, "message": number}
        ).first()
        for row in rows
    ]
    fresh = [row for row, keep in zip(rows, kept, strict=True) if keep]
    if fresh:
        values = [
            (
                row.subscription,
                row.position,
                number,
                row.octets,
                row.since,
                row.attempts,
                row.answered,
                row.due,
            )
            for row in fresh
        ]
        write_many(connection, _HOLD, values)
        totals.add(connection, {row.subscription: Totals(matched=1) for row in fresh})
    return kept


def load(
    connection: Connection, subscription: str, *, limit: int, due: float | None = None
) -> list[tuple[HeldRow, Notification]]:
    """The first deliveries that wait for *subscription*, at most *limit* and about 1 MiB; with
    *due*, only those that are due then."""
    query = (
        select(held, messages.c.body, messages.c.properties)
        .join(messages, messages.c.number == held.c.message)
        .where(held.c.subscription == subscription)
        .order_by(held.c.position)
        .limit(limit)
    )
    if due is not None:
        query = query.where(held.c.due <= due)
    loaded: list[tuple[HeldRow, Notification]] = []
    octets = 0
    for row in connection.execute(query):
        octets += row.octets
        if loaded and octets > 1 << 20:
            break
        loaded.append(_read(row))
    return loaded


def _read(row: Row[Any]) -> tuple[HeldRow, Notification]:
    waiting = HeldRow(
        row.subscription,
        row.position,
        row.octets,
        row.since,
        row.attempts,
        row.answered,
        row.due,
        row.message,
    )
    return waiting, decode(bytes(row.body), json.loads(row.properties))


def backlogs(connection: Connection) -> Mapping[str, Backlog]:
    """What waits for each subscription; ``due`` is its first delivery's."""
    first = (
        select(held.c.subscription, func.min(held.c.position).label("position"))
        .group_by(held.c.subscription)
        .subquery()
    )
    heads = connection.execute(
        select(held.c.subscription, held.c.due).join(
            first,
            (first.c.subscription == held.c.subscription) & (first.c.position == held.c.position),
        )
    )
    due = dict(map(tuple, heads))
    sums = connection.execute(
        select(held.c.subscription, func.count(), func.sum(held.c.octets)).group_by(
            held.c.subscription
        )
    )
    return {
        subscription: Backlog(count, int(octets), due[subscription])
        for subscription, count, octets in sums
    }


def drop_leftovers(connection: Connection) -> None:
    """Remove what waits for subscriptions that are no more: a crash fell between their end and
    that of their last deliveries."""
    alive = select(subscriptions.c.id)
    for waiting in (
        connection.execute(
            select(held.c.subscription).where(held.c.subscription.not_in(alive)).distinct()
        )
        .scalars()
        .all()
    ):
        drop(connection, waiting, expired=False)
    for counted in (
        connection.execute(
            select(schema.totals.c.subscription).where(
                schema.totals.c.subscription.not_in(alive),
                schema.totals.c.subscription != totals.ENDED,
            )
        )
        .scalars()
        .all()
    ):
        totals.retire(connection, counted)


def last_position(connection: Connection) -> int:
    """The highest position that was ever given to a delivery that still waits."""
    return int(connection.execute(select(func.max(held.c.position))).scalar() or 0)


def next_due(connection: Connection, subscription: str) -> float | None:
    """When the first of the deliveries that wait for *subscription* is due."""
    return connection.execute(
        select(func.min(held.c.due)).where(held.c.subscription == subscription)
    ).scalar()


def delivered(connection: Connection, done: Sequence[tuple[str, int]]) -> None:
    """Remove deliveries, by subscription and position, and count them as delivered."""
    changes: dict[str, Totals] = {}
    for subscription, position in done:
        if _take(connection, subscription, position) is not None:
            changes.setdefault(subscription, Totals()).delivered += 1
    totals.add(connection, changes)


def _take(connection: Connection, subscription: str, position: int) -> int | None:
    """Remove one delivery, and its message unless somebody else needs it; the message's number."""
    number = connection.execute(
        held.delete()
        .where(held.c.subscription == subscription, held.c.position == position)
        .returning(held.c.message)
    ).scalar_one_or_none()
    if number is not None:
        sweep(connection, [number])
    return number


def postpone(
    connection: Connection, subscription: str, position: int, *, attempts: int, answered: int,
    due: float,
) -> None:  # fmt: skip
    """Note a failed attempt and when the next one is due."""
    connection.execute(
        held.update()
        .where(held.c.subscription == subscription, held.c.position == position)
        .values(attempts=attempts, answered=answered, due=due)
    )


_SWEEP = text(
    "DELETE FROM messages WHERE number = :number "
    "AND NOT EXISTS (SELECT 1 FROM held WHERE held.message = messages.number) "
    "AND NOT EXISTS (SELECT 1 FROM dead_letters WHERE dead_letters.message = messages.number)"
)


def sweep(connection: Connection, numbers: Iterable[int]) -> None:
    """Remove those messages that nobody needs any more."""
    rows = [{"number": number} for number in numbers]
    if rows:
        connection.execute(_SWEEP, rows)


def bury_held(connection: Connection, position: int, death: Death) -> bool:
    """Move a delivery that waits to the dead letters; whether it still waited."""
    number = connection.execute(
        held.delete()
        .where(held.c.subscription == death.subscription, held.c.position == position)
        .returning(held.c.message)
    ).scalar_one_or_none()
    if number is None:
        return False
    if _bury(connection, number, death):
        totals.add(connection, {death.subscription: Totals(dead=1)})
    return True


def oldest(
    connection: Connection,
    subscription: str,
    *,
    number: int,
    octets: int,
    before: float,
    spared: Collection[int],
    limit: int = 256,
) -> list[tuple[HeldRow, Notification]]:
    """The oldest deliveries that wait for *subscription*: at least *number* of them, and so many
    that they have *octets*, and all from before a time; but none of the positions *spared*, and
    no more than *limit*."""
    query = (
        select(held.c.position, held.c.octets, held.c.since)
        .where(held.c.subscription == subscription)
        .order_by(held.c.position)
        .limit(limit + len(spared))
    )
    chosen: list[int] = []
    for position, size, since in connection.execute(query):
        if position in spared:
            continue
        if (number <= 0 and octets <= 0 and since >= before) or len(chosen) == limit:
            break
        number, octets = number - 1, octets - size
        chosen.append(position)
    found = (
        select(held, messages.c.body, messages.c.properties)
        .join(messages, messages.c.number == held.c.message)
        .where(held.c.subscription == subscription, held.c.position.in_(chosen))
        .order_by(held.c.position)
    )
    return [_read(row) for row in connection.execute(found)] if chosen else []


def bury_fresh(connection: Connection, notification: Notification, death: Death) -> None:
    """Lay a delivery that never waited in the store to the dead letters, as matched and dead."""
    number, _ = put_message(connection, notification)
    if _bury(connection, number, death):
        totals.add(connection, {death.subscription: Totals(matched=1, dead=1)})


_BURY = text(
    "INSERT INTO dead_letters (subscription, owner, message, delivery_id, topic, reason, status, "
    "failure, answer, attempts, since, died) VALUES (:subscription, :owner, :message, "
    ":delivery_id, :topic, :reason, :status, :failure, :answer, :attempts, :since, :died) "
    "ON CONFLICT DO NOTHING"
)


def _bury(connection: Connection, number: int, death: Death) -> bool:
    result = connection.execute(
        _BURY,
        {
            "subscription": death.subscription,
            "owner": death.owner,
            "message": number,
            "delivery_id": death.delivery_id,
            "topic": death.topic,
            "reason": death.reason.value,
            "status": death.status,
            "failure": death.failure,
            "answer": death.answer,
            "attempts": death.attempts,
            "since": death.since,
            "died": death.died,
        },
    )
    return bool(result.rowcount)


def drop(connection: Connection, subscription: str, *, expired: bool) -> int:
    """Remove all that waits for *subscription*, as expired or as cancelled; how many."""
    numbers = [
        number
        for (number,) in connection.execute(
            held.delete().where(held.c.subscription == subscription).returning(held.c.message)
        )
    ]
    sweep(connection, numbers)
    if numbers:
        change = Totals(expired=len(numbers)) if expired else Totals(cancelled=len(numbers))
        totals.add(connection, {subscription: change})
    return len(numbers)
