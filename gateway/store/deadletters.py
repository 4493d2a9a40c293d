"""The dead letters: listed, redriven, purged."""

import time
from collections.abc import Collection

from sqlalchemy import Connection, select

from gateway.store import outbox, replicas, totals
from gateway.store.outbox import DeadLetter, Death, Reason
from gateway.store.schema import dead_letters, held, messages, subscriptions
from gateway.store.statements import number
from gateway.store.totals import Totals

KEPT = 7 * 86400.0
"""Seconds that a dead letter is kept."""
MOST = 10_000
"""Dead letters that are redriven at a time."""


def listed(
    connection: Connection, *, subscription: str | None = None, after: int = 0, limit: int = 100
) -> list[DeadLetter]:
    """Dead letters in the order of their numbers, from the one after *after*."""
    query = (
        select(dead_letters)
        .where(dead_letters.c.number > after)
        .order_by(dead_letters.c.number)
        .limit(limit)
    )
    if subscription is not None:
        query = query.where(dead_letters.c.subscription == subscription)
    return [
        DeadLetter(
            row.number,
            Death(
                row.subscription,
                row.owner,
                row.delivery_id,
                row.topic,
                Reason(row.reason),
                row.status,
                row.failure,
                row.answer,
                row.attempts,
                row.since,
                row.died,
            ),
        )
        for row in connection.execute(query)
    ]


def payload(connection: Connection, number: int) -> bytes | None:
    """The body of a dead letter's message."""
    found = connection.execute(
        select(messages.c.body)
        .join(dead_letters, dead_letters.c.message == messages.c.number)
        .where(dead_letters.c.number == number)
    ).scalar_one_or_none()
    return None if found is None else bytes(found)


def redrive(
    connection: Connection,
    numbers: Collection[int] | None,
    *,
    alive: Collection[str],
    position: int,
    step: int = 1,
) -> dict[str, tuple[int, int]]:
    """Let dead letters wait again, those of subscriptions *alive* alone; None means all.

    Their message ids stay. They take positions from *position* on, *step* apart. Where replicas
    share the store, whoever holds their partitions is told.

    Returns:
        The number and the octets that wait again, by subscription.
    """
    query = (
        select(dead_letters, messages.c.octets)
        .join(messages, messages.c.number == dead_letters.c.message)
        .where(dead_letters.c.subscription.in_(select(subscriptions.c.id)))
        .order_by(dead_letters.c.number)
        .limit(MOST)
    )
    query = query.where(dead_letters.c.reason.not_in(outbox.OF_MAILBOXES))
    if numbers is not None:
        query = query.where(dead_letters.c.number.in_(list(numbers)))
    again: dict[str, tuple[int, int]] = {}
    parts: dict[str, dict[int, tuple[int, int]]] = {}
    now = time.time()
    for row in connection.execute(query).all():
        if row.subscription not in alive:
            continue
        connection.execute(dead_letters.delete().where(dead_letters.c.number == row.number))
        connection.execute(
            held.insert().values(
                subscription=row.subscription,
                position=position,
                message=row.message,
                octets=row.octets,
                since=now,
                attempts=0,
                answered=0,
                due=now,
                partition=row.partition,
            )
        )
        position += step
        part = parts.setdefault(row.subscription, {})
        count, octets = part.get(row.partition, (0, 0))
        part[row.partition] = (count + 1, octets + row.octets)
        count, octets = again.get(row.subscription, (0, 0))
        again[row.subscription] = (count + 1, octets + row.octets)
    totals.add(connection, {key: Totals(dead=-count) for key, (count, _) in again.items()})
    if number(connection):
        for subscription, part in sorted(parts.items()):
            replicas.changed(connection, subscription, part)
    return again


def purge(
    connection: Connection, numbers: Collection[int] | None = None, *, before: float | None = None
) -> int:
    """Forget dead letters: those named, or those that died before a time, or all; how many.

    They stay counted as dead.
    """
    query = dead_letters.delete().returning(dead_letters.c.message)
    if numbers is not None:
        query = query.where(dead_letters.c.number.in_(list(numbers)))
    if before is not None:
        query = query.where(dead_letters.c.died < before)
    gone = [message for (message,) in connection.execute(query)]
    outbox.sweep(connection, gone)
    return len(gone)
