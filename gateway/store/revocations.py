"""Delegations that the creators of topics have taken back, as operations on a connection.

They are so for all gateways that share the store, until the delegations would have ended. Those who
write take the lock `gateway.store.advertisements.LOCK`; revisions are counted with those of
advertisements.
"""

from collections.abc import Iterable

from sqlalchemy import ColumnElement, Connection, Row, func, select

from gateway.model.advertisements import AdvertisementLimits, RevocationRow, Revoked
from gateway.store.advertisements import next_revision
from gateway.store.schema import advertisements, revocations


def keep(
    connection: Connection,
    rows: Iterable[RevocationRow],
    *,
    limits: AdvertisementLimits,
    now: float,
) -> list[Revoked]:
    """Keep revocations, each unless something stands against it; what became of each."""
    forget(connection, now)
    return [_keep(connection, row, limits) for row in rows]


def _keep(connection: Connection, row: RevocationRow, limits: AdvertisementLimits) -> Revoked:
    topic = advertisements.c
    known = connection.execute(
        select(topic.creator, topic.expires).where(topic.topic_id == row.topic_id)
    ).first()
    if known is None:
        return Revoked.UNKNOWN
    if known.creator != row.creator:
        return Revoked.NOT_CREATOR
    until = min(row.until, known.expires)  # No delegation outlives its topic.
    table = revocations.c
    own = (table.topic_id == row.topic_id) & (table.delegation == row.delegation)
    before = connection.execute(select(table.until).where(own)).scalar()
    if before is not None and before >= until:  # What was said once is never shortened.
        return Revoked.KNOWN
    if before is not None:
        values = {"until": until, "revision": next_revision(connection)}
        connection.execute(revocations.update().where(own).values(values))
        return Revoked.NEW
    if (
        _count(connection, table.topic_id == row.topic_id) >= limits.revocations_of_topic
        or _count(connection, table.creator == row.creator) >= limits.revocations_of_creator
        or _count(connection) >= limits.revocations
    ):
        return Revoked.FULL
    connection.execute(
        revocations.insert().values(
            topic_id=row.topic_id,
            delegation=row.delegation,
            creator=row.creator,
            until=until,
            revision=next_revision(connection),
        )
    )
    return Revoked.NEW


def changed_since(
    connection: Connection, revision: int, limit: int
) -> list[tuple[int, RevocationRow]]:
    """Return the next *limit* revocations that were kept after *revision*, with the revision of
    each, in their order."""
    columns = revocations.c
    query = select(revocations).where(columns.revision > revision)
    found = connection.execute(query.order_by(columns.revision).limit(limit))
    return [(int(row.revision), _row(row)) for row in found]


def forget(connection: Connection, now: float) -> None:
    """Delete those of delegations that are over by *now*."""
    connection.execute(revocations.delete().where(revocations.c.until <= now))


def _count(connection: Connection, which: ColumnElement[bool] | None = None) -> int:
    query = select(func.count()).select_from(revocations)
    return int(connection.execute(query if which is None else query.where(which)).scalar_one())


def _row(row: Row[tuple[str, str, str, float, int]]) -> RevocationRow:
    return RevocationRow(row.topic_id, row.delegation, row.creator, row.until)
