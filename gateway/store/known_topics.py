"""Pages of the advertisements that are kept, for those who list them."""

from dataclasses import dataclass

from sqlalchemy import Connection, Row, Select, func, select

from gateway.store.schema import advertisements


@dataclass(frozen=True, slots=True)
class AdvertisedRow:
    """An advertisement as it is listed.

    Attributes:
        revision: The number of its last change; later changes have higher ones.
        octets: The SignedTopicAdvertisement as it came.
    """

    topic_id: str
    topic: str | None
    issued: float
    revision: int
    octets: bytes


def listed(connection: Connection, *, after: str, limit: int, now: float) -> list[AdvertisedRow]:
    """The next *limit* that are in force, in the order of their ids."""
    query = _in_force(now).where(advertisements.c.topic_id > after)
    found = connection.execute(query.order_by(advertisements.c.topic_id).limit(limit))
    return [_row(row) for row in found]


def one(connection: Connection, *, topic_id: str, now: float) -> AdvertisedRow | None:
    """Find the advertisement of a topic, if it is in force."""
    found = connection.execute(_in_force(now).where(advertisements.c.topic_id == topic_id)).first()
    return None if found is None else _row(found)


def extent(connection: Connection, *, now: float) -> tuple[int, int]:
    """Count the advertisements in force; return the number of the last change, too."""
    columns = advertisements.c
    living = select(func.count()).where(columns.octets.is_not(None), columns.expires > now)
    newest = connection.execute(select(func.max(columns.revision))).scalar()
    return int(connection.execute(living).scalar_one()), int(newest or 0)


def _in_force(now: float) -> Select[tuple[str, str | None, float, int, bytes]]:
    columns = advertisements.c
    return select(
        columns.topic_id, columns.topic, columns.issued, columns.revision, columns.octets
    ).where(columns.octets.is_not(None), columns.expires > now)


def _row(row: Row[tuple[str, str | None, float, int, bytes]]) -> AdvertisedRow:
    return AdvertisedRow(row.topic_id, row.topic, row.issued, int(row.revision), bytes(row.octets))
