"""Deliveries that wait in the store, and those that died, as operations on a connection."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Row, func, select, text

from gateway.model.deaths import Death, DeathReason
from gateway.store import dead_letter_counts, schema, totals
from gateway.store.dead_letter_counts import Buried
from gateway.store.schema import held, messages, subscriptions
from gateway.store.statements import for_each, for_pairs, rows_for_each, write_many
from gateway.store.totals import Totals
from mediation import Notification
from mediation.packaging.records import decode, encode


class HeldRow(NamedTuple):
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
    partition: int = 0


@dataclass(frozen=True, slots=True)
class Backlog:
    """The deliveries that wait for one subscription."""

    count: int
    octets: int
    due: float
    attempts: int = 0
    """Attempts of its first delivery."""


def put_message(connection: Connection, notification: Notification) -> tuple[int, bool]:
    """Store a notification once; the number of its row, and whether it is new."""
    source, id_ = _storable(notification.source), _storable(notification.id)
    record = encode(notification)
    values = {
        "source": source,
        "id": id_,
        "topic": _storable(str(notification.topic)) if notification.topic else None,
        "octets": len(record.body),
        "properties": json.dumps(record.properties, separators=(",", ":")),
        "body": record.body,
    }
    query = (
        select(messages.c.number)
        .where(messages.c.source == source, messages.c.id == id_)
        .with_for_update(read=True, key_share=True)
    )
    for _ in range(_RACES):
        found = connection.execute(query).scalar_one_or_none()
        if found is not None:
            return int(found), False
        made = connection.execute(_PUT, values).scalar_one_or_none()
        if made is not None:
            return int(made), True
    raise RuntimeError("a message comes and goes")  # pragma: no cover


_RACES = 5
"""Another replica may store the same message, or remove it, between two statements."""
_PUT = text(
    "INSERT INTO messages (source, id, topic, octets, properties, body) "
    "VALUES (:source, :id, :topic, :octets, :properties, :body) "
    "ON CONFLICT (source, id) DO NOTHING RETURNING number"
)


def _storable(value: str) -> str:
    """PostgreSQL's text has every character but NUL, which a broker or a consumer may send."""
    return value.replace("\0", "\N{REPLACEMENT CHARACTER}")


_HOLD = (
    "INSERT INTO held (subscription, position, octets, since, attempts, answered, due, message, "
    "partition) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_HOLD_ALL = (
    "INSERT INTO held (subscription, position, message, octets, since, attempts, answered, due, "
    "partition) SELECT value, :position, :message, :octets, :since, 0, 0, 0, :partition "
    "FROM EACH WHERE true"
)
_IS_KNOWN = text(
    "SELECT 1 FROM held WHERE subscription = :subscription AND message = :message "
    "UNION ALL "
    "SELECT 1 FROM dead_letters WHERE subscription = :subscription AND message = :message"
)
_KNOWN = text(
    "SELECT subscription FROM held WHERE message = :message "
    "UNION ALL SELECT subscription FROM dead_letters WHERE message = :message"
)
_FEW = 8
"""Subscriptions that are looked up one by one; for more, all that have the message are read."""


def hold(connection: Connection, work: Sequence[tuple[Notification, HeldRow]]) -> list[bool]:
    """Keep each notification as its row, and count it as matched; whether it is new.

    One that waits already, or lies in the dead letters, was taken before a crash.
    """
    by_message: dict[tuple[str, str], tuple[Notification, list[int]]] = {}
    for index, (notification, _) in enumerate(work):
        key = (notification.source, notification.id)
        by_message.setdefault(key, (notification, []))[1].append(index)
    kept = [True] * len(work)
    fresh: list[HeldRow] = []
    for notification, indices in by_message.values():
        number, new = put_message(connection, notification)
        subscriptions = [work[index][1].subscription for index in indices]
        known = set() if new else _known(connection, number, subscriptions)
        for index in indices:
            row = work[index][1]
            kept[index] = row.subscription not in known
            if kept[index]:
                known.add(row.subscription)
                fresh.append(row._replace(message=number))
    if fresh:
        write_many(connection, _HOLD, fresh)
        changes: dict[str, Totals] = {}
        for row in fresh:
            changes.setdefault(row.subscription, Totals()).matched += 1
        totals.add(connection, changes)
    return kept


def _known(connection: Connection, number: int, subscriptions: Sequence[str]) -> set[str]:
    """The *subscriptions* that have a message already."""
    if len(subscriptions) > _FEW:
        return set(connection.execute(_KNOWN, {"message": number}).scalars())
    return {
        subscription
        for subscription in subscriptions
        if connection.execute(_IS_KNOWN, {"subscription": subscription, "message": number}).first()
    }


def hold_all(
    connection: Connection,
    notification: Notification,
    subscriptions: Sequence[str],
    *,
    position: int,
    octets: int,
    since: float,
    partition: int = 0,
) -> list[bool]:
    """Keep a fresh *notification* for each of *subscriptions*, as `hold` does for one."""
    number, new = put_message(connection, notification)
    known = set() if new else _known(connection, number, subscriptions)
    fresh = [subscription for subscription in subscriptions if subscription not in known]
    if fresh:
        for_each(
            connection, _HOLD_ALL, fresh,
            position=position, message=number, octets=octets, since=since, partition=partition,
        )  # fmt: skip
        totals.add_matched(connection, fresh)
    return [subscription not in known for subscription in subscriptions]


def load(
    connection: Connection,
    subscription: str,
    *,
    limit: int,
    due: float | None = None,
    partition: int | None = None,
) -> list[tuple[HeldRow, Notification]]:
    """The first deliveries that wait for *subscription*, at most *limit* and about 1 MiB; with
    *due*, only those that are due then; in *partition*, or in all."""
    query = (
        select(held, messages.c.body, messages.c.properties)
        .join(messages, messages.c.number == held.c.message)
        .where(held.c.subscription == subscription, *_within(partition))
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


def _within(partition: int | None) -> list[ColumnElement[bool]]:
    return [] if partition is None else [held.c.partition == partition]


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
        row.partition,
    )
    return waiting, decode(bytes(row.body), json.loads(row.properties))


def backlogs(connection: Connection, partition: int | None = None) -> Mapping[str, Backlog]:
    """The backlog of each subscription, in *partition* or in all; ``due`` is that of its first
    delivery."""
    within = _within(partition)
    first = (
        select(held.c.subscription, func.min(held.c.position).label("position"))
        .where(*within)
        .group_by(held.c.subscription)
        .subquery()
    )
    heads = connection.execute(
        select(held.c.subscription, held.c.due, held.c.attempts).join(
            first,
            (first.c.subscription == held.c.subscription) & (first.c.position == held.c.position),
        )
    )
    first_due = {row.subscription: (row.due, row.attempts) for row in heads}
    sums = connection.execute(
        select(held.c.subscription, func.count(), func.sum(held.c.octets))
        .where(*within)
        .group_by(held.c.subscription)
    )
    return {
        subscription: Backlog(count, int(octets), *first_due[subscription])
        for subscription, count, octets in sums
    }


def head(connection: Connection, subscription: str) -> HeldRow | None:
    """The oldest delivery that waits for *subscription* in the store, in any partition."""
    query = select(held).where(held.c.subscription == subscription).order_by(held.c.position)
    row = connection.execute(query.limit(1)).first()
    if row is None:
        return None
    return HeldRow(
        row.subscription, row.position, row.octets, row.since, row.attempts, row.answered, row.due,
        row.message, row.partition,
    )  # fmt: skip


def drop_leftovers(connection: Connection) -> bool:
    """Remove some of what waits for subscriptions that are no more: a crash fell between their end
    and that of their last deliveries. Whether that was all."""
    alive = select(subscriptions.c.id)
    waiting = select(held.c.subscription).where(held.c.subscription.not_in(alive)).limit(1)
    left = connection.execute(waiting).scalar()
    if left is not None:
        drop(connection, left, expired=False)
        return False
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
    return True


def last_position(connection: Connection) -> int:
    """The highest position that was ever given to a delivery that still waits."""
    return int(connection.execute(select(func.max(held.c.position))).scalar() or 0)


def next_due(
    connection: Connection, subscription: str, *, partition: int | None = None
) -> float | None:
    """When the first of the deliveries that wait for *subscription* is due, in *partition* or in
    all."""
    return connection.execute(
        select(func.min(held.c.due)).where(held.c.subscription == subscription, *_within(partition))
    ).scalar()


_WAITING = (
    "SELECT held.subscription, held.position, held.message FROM (PAIRS) AS pairs JOIN held "
    "ON held.subscription = pairs.text AND held.position = pairs.number"
)
_REMOVE = "DELETE FROM held WHERE subscription = ? AND position = ?"


def delivered(connection: Connection, done: Sequence[tuple[str, int]]) -> None:
    """Remove deliveries, by subscription and position, and count them as delivered."""
    gone = for_pairs(connection, _WAITING, done)
    if gone:
        write_many(connection, _REMOVE, [(row.subscription, row.position) for row in gone])
        changes: dict[str, Totals] = {}
        for row in gone:
            changes.setdefault(row.subscription, Totals()).delivered += 1
        totals.add(connection, changes)
        sweep(connection, (row.message for row in gone))


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


_SWEEP = (
    "DELETE FROM messages WHERE number = ? "
    "AND NOT EXISTS (SELECT 1 FROM held WHERE held.message = messages.number) "
    "AND NOT EXISTS (SELECT 1 FROM dead_letters WHERE dead_letters.message = messages.number)"
)


_LOCK = text("SELECT 1 FROM messages WHERE number = ANY(:numbers) ORDER BY number FOR UPDATE")


def sweep(connection: Connection, numbers: Iterable[int]) -> None:
    """Remove those messages that nobody needs any more."""
    rows = [(number,) for number in sorted(set(numbers))]
    if rows:
        if connection.dialect.name == "postgresql":
            # Whoever is just about to need one of them does so before it is looked at.
            connection.execute(_LOCK, {"numbers": [number for (number,) in rows]})
        write_many(connection, _SWEEP, rows)


def bury_held(connection: Connection, position: int, death: Death) -> bool:
    """Move a delivery that waits to the dead letters; whether it still waited."""
    gone = connection.execute(
        held.delete()
        .where(held.c.subscription == death.subscription, held.c.position == position)
        .returning(held.c.message, held.c.octets)
    ).one_or_none()
    if gone is None:
        return False
    if _bury(connection, gone.message, death, gone.octets):
        totals.add(connection, {death.subscription: Totals(dead=1)})
    return True


@dataclass(frozen=True, slots=True)
class Overflow:
    """The part of a backlog that dies: the oldest deliveries that wait for a subscription, at least
    *number* of them, and so many that they have *octets*, and all from before a time; but none of
    the positions *spared*. ``failure`` is what went wrong last."""

    subscription: str
    owner: str
    consumer: str | None
    number: int
    octets: int
    before: float
    spared: Collection[int]
    failure: str | None = None


CHARGED = 512
"""Bytes that a dead letter is charged with beside those of its message, which one of the letters of
that message is charged with."""
_BURY_OLDEST = (
    "INSERT INTO dead_letters (subscription, owner, message, delivery_id, topic, reason, status, "
    "failure, answer, attempts, since, died, partition, octets, charged, consumer) "
    "SELECT held.subscription, :owner, held.message, '', messages.topic, :reason, NULL, "
    "CASE WHEN held.attempts > 0 THEN :failure END, '', held.attempts, held.since, :died, "
    "held.partition, held.octets, CASE WHEN EXISTS (SELECT 1 FROM dead_letters AS other "
    "WHERE other.message = held.message) THEN :alone ELSE :alone + held.octets END, :consumer "
    "FROM held JOIN messages ON messages.number = held.message "
    "WHERE held.subscription = :subscription "
    "AND held.position IN (SELECT CAST(value AS bigint) FROM EACH) "
    "ORDER BY held.position "
    "ON CONFLICT DO NOTHING RETURNING charged"
)
_REMOVE_OLDEST = (
    "DELETE FROM held WHERE subscription = :subscription "
    "AND position IN (SELECT CAST(value AS bigint) FROM EACH)"
)
_DROP = f"{_REMOVE_OLDEST} RETURNING message"


def bury_oldest(
    connection: Connection,
    overflows: Sequence[Overflow],
    *,
    partition: int | None = None,
    died: float,
    limit: int,
) -> list[tuple[int, int]]:
    """Move what is over the bounds of backlogs to the dead letters, *limit* deliveries at most.
    No body is read.

    Returns:
        How many of each backlog were moved, and their bytes.
    """
    moved: list[tuple[int, int]] = []
    dead: dict[str, Totals] = {}
    letters: dict[str, Buried] = {}
    for each in overflows:
        positions, octets = _oldest(connection, each, partition, limit)
        limit -= len(positions)
        moved.append((len(positions), octets))
        if not positions:
            continue
        names = [str(position) for position in positions]
        values = {
            "subscription": each.subscription,
            "owner": each.owner,
            "consumer": each.consumer and _storable(each.consumer),
            "reason": DeathReason.EXPIRED_BACKLOG.value,
            "failure": each.failure and _storable(each.failure),
            "died": died,
            "alone": CHARGED,
        }
        charged = rows_for_each(connection, _BURY_OLDEST, names, **values)
        for_each(connection, _REMOVE_OLDEST, names, subscription=each.subscription)
        dead[each.subscription] = Totals(dead=len(charged))
        letter = letters.setdefault(each.owner, Buried())
        letter.buried += len(charged)
        letter.octets += sum(row.charged for row in charged)
    totals.add(connection, dead)
    dead_letter_counts.add(connection, letters)
    return moved


def _oldest(
    connection: Connection, overflow: Overflow, partition: int | None, limit: int
) -> tuple[list[int], int]:
    """The positions of what dies of a backlog, and its bytes."""
    query = (
        select(held.c.position, held.c.octets, held.c.since)
        .where(held.c.subscription == overflow.subscription, *_within(partition))
        .order_by(held.c.position)
        .limit(limit + len(overflow.spared))
        .with_for_update()  # Else another replica may end the subscription meanwhile.
    )
    number, octets, size = overflow.number, overflow.octets, 0
    chosen: list[int] = []
    for row in connection.execute(query):
        if row.position in overflow.spared:
            continue
        enough = number <= 0 and octets <= 0 and row.since >= overflow.before
        if enough or len(chosen) == limit:
            break
        number, octets, size = number - 1, octets - row.octets, size + row.octets
        chosen.append(row.position)
    return chosen, size


def bury_fresh(connection: Connection, notification: Notification, death: Death) -> None:
    """Lay a delivery that never waited in the store to the dead letters, as matched and dead."""
    number, _ = put_message(connection, notification)
    if _bury(connection, number, death, notification.octets):
        totals.add(connection, {death.subscription: Totals(matched=1, dead=1)})


def bury(connection: Connection, notification: Notification, death: Death) -> None:
    """Lay a message to the dead letters that no subscription's totals count."""
    number, _ = put_message(connection, notification)
    _bury(connection, number, death, notification.octets)


_BURY = text(
    "INSERT INTO dead_letters (subscription, owner, message, delivery_id, topic, reason, status, "
    "failure, answer, attempts, since, died, partition, octets, charged, consumer) VALUES "
    "(:subscription, :owner, :message, :delivery_id, :topic, :reason, :status, :failure, :answer, "
    ":attempts, :since, :died, :partition, :octets, CASE WHEN EXISTS (SELECT 1 FROM dead_letters "
    "AS other WHERE other.message = :message) THEN :alone ELSE :alone + :octets END, :consumer) "
    "ON CONFLICT DO NOTHING RETURNING charged"
)


def _bury(connection: Connection, number: int, death: Death, octets: int) -> bool:
    result = connection.execute(
        _BURY,
        {
            "subscription": death.subscription,
            "owner": death.owner,
            "message": number,
            "delivery_id": death.delivery_id,
            "topic": death.topic and _storable(death.topic),
            "reason": death.reason.value,
            "status": death.status,
            "failure": death.failure and _storable(death.failure),
            "answer": _storable(death.answer),
            "attempts": death.attempts,
            "since": death.since,
            "died": death.died,
            "partition": death.partition,
            "octets": octets,
            "alone": CHARGED,
            "consumer": death.consumer and _storable(death.consumer),
        },
    )
    charged = result.scalar()
    if charged is None:
        return False
    dead_letter_counts.add(connection, {death.owner: Buried(buried=1, octets=int(charged))})
    return True


DROPPED, DROPPED_OCTETS = 256, 16 * 2**20
"""Deliveries that one transaction removes of a subscription that has ended, and the bytes of their
messages, about."""


def drop(connection: Connection, subscription: str, *, expired: bool) -> bool:
    """Remove some of what waits for *subscription*, as expired or as cancelled: a large backlog
    takes the store's time in slices. Whether that was all; then its totals are retired, too."""
    query = (
        select(held.c.position, held.c.octets)
        .where(held.c.subscription == subscription)
        .order_by(held.c.position)
        .limit(DROPPED + 1)
    )
    rows = connection.execute(query).all()
    chosen, octets = 0, 0
    for row in rows[:DROPPED]:
        octets += row.octets
        if chosen and octets > DROPPED_OCTETS:
            break
        chosen += 1
    if chosen:
        positions = [str(row.position) for row in rows[:chosen]]
        # What another replica has removed meanwhile is not counted again.
        gone = rows_for_each(connection, _DROP, positions, subscription=subscription)
        sweep(connection, (row.message for row in gone))
        change = Totals(expired=len(gone)) if expired else Totals(cancelled=len(gone))
        totals.add(connection, {subscription: change})
    if chosen < len(rows):
        return False
    totals.retire(connection, subscription)
    return True
