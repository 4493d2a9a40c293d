"""Counts of the dead letters of each owner, and of their bytes, kept as they come and go.

The law of dead letters: buried = kept + purged. One that is redriven was never buried.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sqlalchemy import Connection, case, func, select, text

from gateway.store.schema import dead_letter_totals, dead_letters
from gateway.store.statements import number, write_many


@dataclass(slots=True)
class Buried:
    """Changes of the totals of one owner."""

    buried: int = 0
    purged: int = 0
    octets: int = 0
    """Bytes of the letters that are there."""


_ADD = (
    "INSERT INTO dead_letter_totals (buried, purged, octets, owner, replica) "
    "VALUES (?, ?, ?, ?, ?) ON CONFLICT (owner, replica) DO UPDATE SET "
    "buried = dead_letter_totals.buried + excluded.buried, "
    "purged = dead_letter_totals.purged + excluded.purged, "
    "octets = dead_letter_totals.octets + excluded.octets"
)


def add(connection: Connection, changes: Mapping[str, Buried]) -> None:
    """Add *changes*, by owner."""
    if changes:
        replica = number(connection)
        rows = [
            (change.buried, change.purged, change.octets, owner, replica)
            for owner, change in sorted(changes.items())
        ]
        write_many(connection, _ADD, rows)


def count_gone(connection: Connection, gone: Iterable[tuple[str, int]], *, redriven: bool) -> None:
    """Count letters that are there no more, each by its owner and its bytes: as redriven or as
    purged."""
    changes: dict[str, Buried] = {}
    for owner, octets in gone:
        change = changes.setdefault(owner, Buried())
        change.octets -= octets
        if redriven:
            change.buried -= 1
        else:
            change.purged += 1
    add(connection, changes)


def overall(connection: Connection) -> Buried:
    """The sums over all owners."""
    table = dead_letter_totals.c
    query = select(
        *(func.coalesce(func.sum(one), 0) for one in (table.buried, table.purged, table.octets))
    )
    return Buried(*map(int, connection.execute(query).one()))


def by_owner(connection: Connection) -> dict[str, int]:
    """The bytes of the letters of each owner that has some, the most first."""
    octets = func.sum(dead_letter_totals.c.octets)
    query = (
        select(dead_letter_totals.c.owner, octets)
        .where(dead_letter_totals.c.owner != GONE)
        .group_by(dead_letter_totals.c.owner)
        .having(octets > 0)
        .order_by(octets.desc(), dead_letter_totals.c.owner)
    )
    return {owner: int(size) for owner, size in connection.execute(query)}


NEWEST = 10_000
"""Dead letters that are counted by reason: the newest."""


@dataclass(frozen=True, slots=True)
class Died:
    """Dead letters of one reason: how many are kept of the newest, and how many of these died
    lately."""

    kept: int
    lately: int


def by_reason(
    connection: Connection, since: float, *, newest: int = NEWEST, owners: str = ""
) -> dict[str, Died]:
    """Count the *newest* dead letters by their reason, and of these those that died *since* a POSIX
    time; with *owners*, of those whose names begin so."""
    table = dead_letters.c
    last = select(table.reason, table.died).order_by(table.number.desc()).limit(newest)
    if owners:
        last = last.where(table.owner.startswith(owners, autoescape=True))
    some = last.subquery()
    lately = func.sum(case((some.c.died >= since, 1), else_=0))
    query = select(some.c.reason, func.count(), lately).group_by(some.c.reason)
    return {reason: Died(int(kept), int(new)) for reason, kept, new in connection.execute(query)}


GONE = ""
"""Under this owner stand the totals of all owners that have no dead letter left."""
FOLDED = 1000
"""Owners that one transaction does that for, so that it is short."""
_WITHOUT = text(
    "SELECT owner FROM dead_letter_totals WHERE owner <> '' GROUP BY owner "
    "HAVING sum(buried) = sum(purged) ORDER BY owner LIMIT :most"
)


def fold(connection: Connection) -> None:
    """Add up the totals of owners that have no dead letter left: their number grows for ever."""
    table = dead_letter_totals
    sums = Buried()
    for owner in connection.execute(_WITHOUT, {"most": FOLDED}).scalars().all():
        query = select(table).where(table.c.owner == owner).with_for_update()
        rows = connection.execute(query).all()
        if sum(row.buried for row in rows) != sum(row.purged for row in rows):
            continue  # Another replica buried one of its letters meanwhile.
        numbers = [row.replica for row in rows]
        connection.execute(
            table.delete().where(table.c.owner == owner, table.c.replica.in_(numbers))
        )
        for row in rows:
            sums.buried += row.buried
            sums.purged += row.purged
            sums.octets += row.octets
    if sums.buried or sums.purged:
        add(connection, {GONE: sums})
