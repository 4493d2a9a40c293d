"""Sequences of subscribers as operators see them."""

from dataclasses import dataclass, fields

from sqlalchemy import ColumnElement, Connection, func, select

from gateway.delivery.sequences import message_numbers
from gateway.reliability.records import OutgoingSequence
from gateway.reliability.stores.tables import outgoing

_START = message_numbers.key_start("")


@dataclass(frozen=True, slots=True)
class SubscriberSequence:
    """A sequence in which a subscriber gets its notifications.

    Attributes:
        id: What lists call it: its key, which has the ids of its subscription and partition.
        subscription: The id of its subscription, which may have ended.
    """

    id: str
    subscription: str
    sequence: OutgoingSequence


def page(connection: Connection, after: str, limit: int) -> list[SubscriberSequence]:
    """Sequences in the order of their ids, also those that ended a while ago: from behind *after*,
    at most *limit*."""
    return _states(connection, outgoing.c.key > _key(after), limit)


def find(connection: Connection, id: str) -> SubscriberSequence | None:
    """The sequence with this id."""
    if "-" not in id or not id.isprintable():
        return None
    return next(iter(_states(connection, outgoing.c.key == _key(id), 1)), None)


def count(connection: Connection) -> int:
    """Count the sequences that have not ended."""
    query = select(func.count()).select_from(outgoing).where(outgoing.c.ended_at.is_(None))
    return int(connection.execute(query).scalar_one())


def _key(id: str) -> str:
    return _START + id.replace("-", "/", 1)


def _states(
    connection: Connection, which: ColumnElement[bool], limit: int
) -> list[SubscriberSequence]:
    columns = [outgoing.c[field.name] for field in fields(OutgoingSequence)]
    query = select(*columns).where(which).order_by(outgoing.c.key).limit(limit)
    found = [OutgoingSequence(*tuple(row)) for row in connection.execute(query)]
    return [
        SubscriberSequence(
            sequence.key.removeprefix(_START).replace("/", "-", 1),
            message_numbers.subscription_of(sequence.key) or "",
            sequence,
        )
        for sequence in found
    ]
