"""Sequences as operators see them."""

from dataclasses import dataclass

from sqlalchemy import Connection, select

from gateway.reliability.records import IncomingSequence
from gateway.reliability.stores.managers import DatabaseLook
from gateway.reliability.stores.tables import invoker
from gateway.security.keys import public_id

PAGE = 1000


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


def read_all(connection: Connection) -> list[SequenceState]:
    """All sequences, also those that ended a while ago."""
    columns = invoker.c
    rows = connection.execute(select(columns.identifier, columns.delivered, columns.count))
    buffers = {row.identifier: (row.delivered, row[2]) for row in rows}
    look, states, after = DatabaseLook(connection), list[SequenceState](), ""
    while page := look.incoming_page(after, PAGE):
        for sequence in page:
            delivered, waiting = buffers.get(sequence.identifier, (0, 0))
            id = public_id(sequence.identifier)
            states.append(SequenceState(id, sequence, delivered, waiting))
        after = page[-1].identifier
    return states
