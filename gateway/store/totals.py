"""Durable counts of the deliveries of each subscription, by their end.

The conservation law: matched = delivered + waiting + in flight + dead + expired + cancelled.
What is waiting or in flight and durable is a row of ``held``.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any

from sqlalchemy import Connection, Select, func, select

from gateway.store import dead_letter_counts, schema
from gateway.store.statements import for_each, number, rows_for_each, write_many

ENDED = ""
"""Under this id stand the totals of all subscriptions that have ended."""


@dataclass(slots=True)
class Totals:
    matched: int = 0
    delivered: int = 0
    dead: int = 0
    expired: int = 0
    cancelled: int = 0
    skipped: int = 0

    def settled(self) -> int:
        """The matched ones that are no longer under way."""
        return self.delivered + self.dead + self.expired + self.cancelled


@dataclass(frozen=True, slots=True)
class Letters:
    """The dead letters: how many are kept, and their bytes; how many were ever buried and not
    redriven, and how many of these were purged."""

    kept: int = 0
    buried: int = 0
    purged: int = 0
    octets: int = 0

    @property
    def error(self) -> int:
        """Buried - (kept + purged)."""
        return self.buried - self.kept - self.purged


_NAMES = tuple(field.name for field in fields(Totals))
_values = attrgetter(*_NAMES)
_ADD = (
    "INSERT INTO totals (matched, delivered, dead, expired, cancelled, skipped, subscription, "
    "replica) VALUES (?, ?, ?, ?, ?, ?, ?, ?) "
    "ON CONFLICT (subscription, replica) DO UPDATE SET "
    "matched = totals.matched + excluded.matched, "
    "delivered = totals.delivered + excluded.delivered, dead = totals.dead + excluded.dead, "
    "expired = totals.expired + excluded.expired, "
    "cancelled = totals.cancelled + excluded.cancelled, "
    "skipped = totals.skipped + excluded.skipped"
)


def add(connection: Connection, changes: Mapping[str, Totals]) -> None:
    """Add *changes* to the totals, by subscription id."""
    if changes:
        replica = number(connection)
        rows = [(*_values(change), key, replica) for key, change in sorted(changes.items())]
        write_many(connection, _ADD, rows)


_MATCHED = (
    "INSERT INTO totals (subscription, replica, matched, delivered, dead, expired, cancelled, "
    "skipped) SELECT value, :replica, 1, 0, 0, 0, 0, 0 FROM EACH WHERE true "
    "ON CONFLICT (subscription, replica) DO UPDATE SET matched = totals.matched + 1"
)


def add_matched(connection: Connection, subscriptions: Iterable[str]) -> None:
    """Add one that matched to the totals of each of *subscriptions*."""
    for_each(connection, _MATCHED, subscriptions, replica=number(connection))


def retire(connection: Connection, subscription: str) -> None:
    """Move the totals of a subscription that ends to those of all ended ones."""
    rows = connection.execute(
        schema.totals.delete()
        .where(schema.totals.c.subscription == subscription)
        .returning(*(schema.totals.c[name] for name in _NAMES))
    ).all()
    if rows:
        add(connection, {ENDED: Totals(*map(sum, zip(*rows, strict=True)))})


def read(connection: Connection, subscription: str) -> Totals:
    """The totals of one subscription."""
    row = connection.execute(_sums().where(schema.totals.c.subscription == subscription)).one()
    return Totals(*map(int, row))


_SOME = (
    "SELECT subscription, sum(matched), sum(delivered), sum(dead), sum(expired), sum(cancelled), "
    "sum(skipped) FROM totals WHERE subscription IN (SELECT value FROM EACH) GROUP BY subscription"
)


def read_some(connection: Connection, subscriptions: Iterable[str]) -> dict[str, Totals]:
    """The totals of each of *subscriptions*, in one query; one that nothing matched has none."""
    return {
        row[0]: Totals(*map(int, row[1:]))
        for row in rows_for_each(connection, _SOME, subscriptions)
    }


def overall(connection: Connection) -> tuple[Totals, int, Letters]:
    """The sums over all subscriptions, the rows of ``held``, and the dead letters."""
    sums = connection.execute(_sums()).one()
    held = connection.execute(select(func.count()).select_from(schema.held)).scalar_one()
    dead = connection.execute(select(func.count()).select_from(schema.dead_letters)).scalar_one()
    sums_of_dead = dead_letter_counts.overall(connection)
    letters = Letters(dead, sums_of_dead.buried, sums_of_dead.purged, sums_of_dead.octets)
    return Totals(*map(int, sums)), held, letters


def _sums() -> Select[Any]:
    return select(*(func.coalesce(func.sum(schema.totals.c[name]), 0) for name in _NAMES))
