"""Deliveries that become dead letters, as operations on a connection."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, select, text

from gateway.model.dead_letter_reasons import Death, DeathReason
from gateway.store import dead_letter_counts, totals
from gateway.store.dead_letter_counts import Buried
from gateway.store.messages import put_message, storable
from gateway.store.schema import held
from gateway.store.statements import for_each, rows_for_each
from gateway.store.totals import Totals
from gateway.store.waiting_deliveries import REMOVE_SOME, in_partition
from mediation.model.messages import Notification


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


def bury_oldest(
    connection: Connection,
    overflows: Sequence[Overflow],
    *,
    partition: int | None = None,
    died: float,
    limit: int,
) -> list[tuple[int, int]]:
    """Move deliveries beyond the bounds of backlogs to the dead letters, *limit* at most. No body
    is read.

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
            "consumer": each.consumer and storable(each.consumer),
            "reason": DeathReason.EXPIRED_BACKLOG.value,
            "failure": each.failure and storable(each.failure),
            "died": died,
            "alone": CHARGED,
        }
        charged = rows_for_each(connection, _BURY_OLDEST, names, **values)
        for_each(connection, REMOVE_SOME, names, subscription=each.subscription)
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
        .where(held.c.subscription == overflow.subscription, *in_partition(partition))
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
            "topic": death.topic and storable(death.topic),
            "reason": death.reason.value,
            "status": death.status,
            "failure": death.failure and storable(death.failure),
            "answer": storable(death.answer),
            "attempts": death.attempts,
            "since": death.since,
            "died": death.died,
            "partition": death.partition,
            "octets": octets,
            "alone": CHARGED,
            "consumer": death.consumer and storable(death.consumer),
        },
    )
    charged = result.scalar()
    if charged is None:
        return False
    dead_letter_counts.add(connection, {death.owner: Buried(buried=1, octets=int(charged))})
    return True
