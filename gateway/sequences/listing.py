"""Sequences as operators see them."""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, fields

from sqlalchemy import Connection, func, select

from gateway.reliability.records import IncomingSequence
from gateway.reliability.stores.tables import incoming, invoker
from gateway.security.keys import public_id


@dataclass(frozen=True, slots=True)
class SequenceState:
    """A sequence, and how far it is published.

    Attributes:
        id: What lists and logs call it; its identifier is a secret.
        delivered: The number of the last message that is published.
        waiting: How many messages wait for those before them, or for the messaging system.
    """

    id: str
    sequence: IncomingSequence
    delivered: int
    waiting: int


def page(connection: Connection, after: str, limit: int) -> list[SequenceState]:
    """Sequences in the order of their ids, also those that ended a while ago: from behind *after*,
    at most *limit*."""
    ids = _ids(connection)
    chosen = heapq.nsmallest(limit, (each for each in ids if each[0] > after))
    return _states(connection, [identifier for _, identifier in chosen])


def find(connection: Connection, id: str) -> SequenceState | None:
    """The sequence with this id."""
    named = [identifier for known, identifier in _ids(connection) if known == id]
    return next(iter(_states(connection, named[:1])), None)


def count(connection: Connection) -> int:
    """How many there are, those that ended included."""
    return int(connection.execute(select(func.count()).select_from(incoming)).scalar_one())


def _ids(connection: Connection) -> list[tuple[str, str]]:
    found = connection.execute(select(incoming.c.identifier)).scalars()
    return [(public_id(identifier), identifier) for identifier in found]


def _states(connection: Connection, identifiers: Sequence[str]) -> list[SequenceState]:
    columns = [incoming.c[field.name] for field in fields(IncomingSequence)]
    joined = incoming.outerjoin(invoker, invoker.c.identifier == incoming.c.identifier)
    rows = connection.execute(
        select(*columns, invoker.c.delivered, invoker.c["count"])
        .select_from(joined)
        .where(incoming.c.identifier.in_(identifiers))
    )
    states = []
    for row in rows:
        *parts, delivered, waiting = tuple(row)
        sequence = IncomingSequence(*parts)
        id = public_id(sequence.identifier)
        states.append(SequenceState(id, sequence, delivered or 0, waiting or 0))
    return sorted(states, key=lambda state: state.id)
