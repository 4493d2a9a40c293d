"""Advertisements of topics as rows.

What is kept and counted here is so for all gateways that share the store: they are one node. Those
who write take the lock `LOCK` (`Store.submit`), so that limits hold, and the revisions that others
learn from are committed in their order.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, func, select

from gateway.model.advertisements import AdvertisementLimits, AdvertisementRow, Kept
from gateway.store import claims
from gateway.store.schema import advertisements, advertisers
from gateway.store.statements import add_counts, rows_for_each, write_many

LOCK = "discovery"
ALL = ""
"""The advertiser that stands for all."""
_CREATOR = advertisers.c.creator


def keep(
    connection: Connection,
    rows: Iterable[AdvertisementRow],
    *,
    limits: AdvertisementLimits,
    now: float,
) -> list[Kept]:
    """Keep advertisements, each unless something stands against it; what became of each.

    However many there are, it is a handful of statements: each costs more than a row.
    """
    purge(connection, now)
    rows = list(rows)
    keeping = _Keeping(connection, rows, limits)
    kept = [keeping.take(row) for row in rows]
    keeping.write()
    return kept


@dataclass(frozen=True, slots=True)
class _Known:
    """The values of a row that a new claim is compared with."""

    claim: bytes
    issued: float
    gone: bool


class _Keeping:
    """A change of some rows and of the counts of their creators: all is read once, and written
    once."""

    def __init__(
        self,
        connection: Connection,
        rows: Sequence[AdvertisementRow],
        limits: AdvertisementLimits,
    ) -> None:
        self._connection = connection
        self._limits = limits
        found = rows_for_each(connection, _KNOWN, (row.topic_id for row in rows))
        self._known = {
            row.topic_id: _Known(bytes(row.claim), row.issued, bool(row.gone)) for row in found
        }
        self._stored = frozenset(self._known)
        names = {ALL, _REVISIONS, *(row.creator for row in rows)}
        self._counts = {
            row.creator: (int(row.living), int(row.gone))
            for row in rows_for_each(connection, _COUNTED, names)
        }
        self._counted = frozenset(self._counts)
        self._changed: set[str] = set()
        """The advertisers whose counts are others than before."""
        self._rows: dict[str, tuple[AdvertisementRow, int]] = {}
        """The rows to write, with their revisions."""

    def take(self, row: AdvertisementRow) -> Kept:
        known = self._known.get(row.topic_id)
        if known is None:
            for advertiser, most, full in (
                (row.creator, self._limits.of_creator, Kept.CREATOR_FULL),
                (ALL, self._limits.in_all, Kept.FULL),
            ):
                living, gone = self._counts.get(advertiser, (0, 0))
                if living >= most or living + gone >= 2 * most:
                    return full
            self._add(row.creator)
            self._add(ALL)
            self._put(row)
            return Kept.NEW
        if known.claim != row.claim:
            return Kept.CONFLICT
        if known.gone:
            return Kept.WITHDRAWN
        if row.issued <= known.issued:
            return Kept.KNOWN
        self._put(row)
        return Kept.NEWER

    def _put(self, row: AdvertisementRow) -> None:
        self._known[row.topic_id] = _Known(row.claim, row.issued, gone=False)
        self._rows[row.topic_id] = (row, self._add(_REVISIONS))

    def _add(self, advertiser: str) -> int:
        living, gone = self._counts.get(advertiser, (0, 0))
        self._counts[advertiser] = (living + 1, gone)
        self._changed.add(advertiser)
        return living + 1

    def write(self) -> None:
        """Write the changes."""
        new: list[tuple[Any, ...]] = []
        newer: list[tuple[Any, ...]] = []
        for row, revision in self._rows.values():
            of_them = newer if row.topic_id in self._stored else new
            of_them.append(_values(row, revision))
        counts: tuple[list[tuple[Any, ...]], ...] = ([], [])
        for advertiser in sorted(self._changed):
            counts[advertiser in self._counted].append((*self._counts[advertiser], advertiser))
        for statement, written in (
            (_INSERT, new),
            (_UPDATE, newer),
            (_INSERT_COUNT, counts[0]),
            (_UPDATE_COUNT, counts[1]),
        ):
            if written:
                write_many(self._connection, statement, written)


_KNOWN = (
    "SELECT topic_id, claim, issued, octets IS NULL AS gone FROM advertisements "
    "WHERE topic_id IN (SELECT value FROM EACH)"
)
_COUNTED = "SELECT creator, living, gone FROM advertisers WHERE creator IN (SELECT value FROM EACH)"
_INSERT = (
    "INSERT INTO advertisements (creator, node, created, expires, issued, claim, topic, described, "
    "octets, revision, topic_id) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_UPDATE = (
    "UPDATE advertisements SET creator = ?, node = ?, created = ?, expires = ?, issued = ?, "
    "claim = ?, topic = ?, described = ?, octets = ?, revision = ? WHERE topic_id = ?"
)
_INSERT_COUNT = "INSERT INTO advertisers (living, gone, creator) VALUES (?, ?, ?)"
_UPDATE_COUNT = "UPDATE advertisers SET living = ?, gone = ? WHERE creator = ?"


def withdraw(connection: Connection, topic_id: str, creator: str) -> AdvertisementRow | None:
    """Reduce an advertisement by *creator* to its topic, and that it is withdrawn, until it would
    have expired. Returns this rest; None where there was no advertisement."""
    table = advertisements.c
    changed = (
        advertisements.update()
        .where(table.topic_id == topic_id, table.creator == creator, table.octets.is_not(None))
        .values(octets=None, described="", revision=next_revision(connection))
    )
    if not connection.execute(changed).rowcount:
        return None
    add_counts(connection, _CREATOR, (creator, ALL), {"living": -1, "gone": 1})
    return _row(connection.execute(select(advertisements).where(table.topic_id == topic_id)).one())


def changed_since(
    connection: Connection, revision: int, limit: int
) -> list[tuple[int, AdvertisementRow]]:
    """The next *limit* advertisements that were kept or withdrawn after *revision*, with the
    revision of each, in their order."""
    table = advertisements.c
    query = select(advertisements).where(table.revision > revision)
    found = connection.execute(query.order_by(table.revision).limit(limit))
    return [(int(row.revision), _row(row)) for row in found]


def last_revision(connection: Connection) -> int:
    """Return the number of the last change of an advertisement or a revocation."""
    columns = advertisers.c
    query = select(columns.living).where(columns.creator == _REVISIONS)
    return int(connection.execute(query).scalar() or 0)


def purge(connection: Connection, now: float) -> bool:
    """Delete advertisements that have expired by *now*, and as many claims as one transaction may
    take. Returns whether there may be more of them."""
    table = advertisements.c
    over = table.expires <= now
    withdrawn = table.octets.is_(None)
    query = select(table.creator, withdrawn.label("withdrawn"), func.count().label("number"))
    found = connection.execute(query.where(over).group_by(table.creator, withdrawn)).all()
    for creator, is_withdrawn, number in found:
        counts = {"living": 0, "gone": 0, "gone" if is_withdrawn else "living": -int(number)}
        add_counts(connection, _CREATOR, (creator, ALL), counts)
    if found:
        connection.execute(advertisements.delete().where(over))
    return claims.forget_expired(connection, now)


def count(connection: Connection) -> tuple[int, int]:
    """Count the advertisements that are kept, and those that are withdrawn."""
    return _count(connection, ALL)


# Rows.


def _count(connection: Connection, advertiser: str) -> tuple[int, int]:
    columns = advertisers.c
    query = select(columns.living, columns.gone).where(columns.creator == advertiser)
    found = connection.execute(query).first()
    return (0, 0) if found is None else (int(found.living), int(found.gone))


def next_revision(connection: Connection) -> int:
    """The revision of the next change. It is not used twice: one row counts them."""
    columns = advertisers.c
    changed = (
        advertisers.update()
        .where(columns.creator == _REVISIONS)
        .values(living=columns.living + 1)
        .returning(columns.living)
    )
    found: int | None = connection.execute(changed).scalar_one_or_none()
    if found is not None:
        return int(found)
    connection.execute(advertisers.insert().values(creator=_REVISIONS, living=1, gone=0))
    return 1


_REVISIONS = "revisions"
"""No identifier of an entity: the row that counts changes."""


def _values(row: AdvertisementRow, revision: int) -> tuple[Any, ...]:
    """The parameters of `_INSERT` and `_UPDATE`."""
    return (
        row.creator,
        row.node,
        row.created,
        row.expires,
        row.issued,
        row.claim,
        row.topic,
        row.described,
        row.octets,
        revision,
        row.topic_id,
    )


def _row(row: Row[Any]) -> AdvertisementRow:
    return AdvertisementRow(
        row.topic_id,
        row.creator,
        row.node,
        row.created,
        row.expires,
        row.issued,
        bytes(row.claim),
        row.topic,
        row.described,
        None if row.octets is None else bytes(row.octets),
    )


def load(connection: Connection, topic_ids: Sequence[str]) -> list[AdvertisementRow]:
    """Load the kept advertisements of *topic_ids*, in any order."""
    query = select(advertisements).where(
        advertisements.c.topic_id.in_(list(topic_ids)), advertisements.c.octets.is_not(None)
    )
    return [_row(row) for row in connection.execute(query)]
