"""Sequences as operators see them."""

from dataclasses import dataclass, fields

from sqlalchemy import ColumnElement, Connection, select

from gateway.reliability.records import IncomingSequence
from gateway.reliability.stores.tables import incoming, invoker
from gateway.store.schema import sequences


@dataclass(frozen=True, slots=True)
class SequenceState:
    """A sequence, and how far it is published.

    Attributes:
        id: Its name in lists and logs, since its identifier is a secret.
        delivered: The number of the last message that is published.
        waiting: Messages that wait for those before them, or for the messaging system.
    """

    id: str
    sequence: IncomingSequence
    delivered: int
    waiting: int


def page(connection: Connection, after: str, limit: int) -> list[SequenceState]:
    """Sequences in the order of their ids, also those that ended a while ago: from behind *after*,
    at most *limit*."""
    return _states(connection, sequences.c.id > after, limit)


def find(connection: Connection, id: str) -> SequenceState | None:
    """The sequence with this id."""
    return next(iter(_states(connection, sequences.c.id == id, 1)), None)


def _states(connection: Connection, which: ColumnElement[bool], limit: int) -> list[SequenceState]:
    columns = [incoming.c[field.name] for field in fields(IncomingSequence)]
    own = incoming.c.identifier
    joined = sequences.join(incoming, own == sequences.c.identifier)
    rows = connection.execute(
        select(sequences.c.id, invoker.c.delivered, invoker.c["count"], *columns)
        .select_from(joined.outerjoin(invoker, invoker.c.identifier == own))
        .where(which)
        .order_by(sequences.c.id)
        .limit(limit)
    )
    return [
        SequenceState(id, IncomingSequence(*parts), delivered or 0, waiting or 0)
        for id, delivered, waiting, *parts in rows
    ]
