"""The register of sequences in the gateway's store: their public ids, and the bytes of the messages
that wait in each. The tables of reliable messaging itself, which applications have as well, know
neither."""

from sqlalchemy import Connection, bindparam, case, delete, func, insert, select, update

from gateway.reliability.records import IncomingSequence
from gateway.reliability.steps import Step
from gateway.reliability.stores.tables import invoker_messages
from gateway.security.keys import public_id
from gateway.store.schema import sequences
from mediation.reliable_messaging import SequenceHeader

WAITING_OCTETS = 64 * 2**20
"""Bytes of the messages of one sequence that wait for others before them."""
FEW = 32
"""So many messages do not exceed that."""

_own = sequences.c.identifier == bindparam("own")
_GROW = update(sequences).where(_own).values(octets=sequences.c.octets + bindparam("more"))
_size = func.coalesce(func.sum(func.length(invoker_messages.c.envelope)), 0)
_COUNT = (
    update(sequences)
    .where(_own)
    .values(
        octets=select(_size)
        .where(invoker_messages.c.sequence == sequences.c.identifier)
        .scalar_subquery()
    )
)
_WAITING = select(
    func.coalesce(func.sum(case((_own, sequences.c.octets))), 0),
    func.coalesce(func.sum(sequences.c.octets), 0),
).where(sequences.c.owner == bindparam("owned_by"), sequences.c.octets > 0)


def add(connection: Connection, identifier: str, owner: str) -> None:
    """Register a new sequence."""
    row = {"identifier": identifier, "id": public_id(identifier), "owner": owner, "octets": 0}
    connection.execute(insert(sequences), row)


def remove(connection: Connection, identifier: str) -> None:
    """Forget a sequence that is no more."""
    connection.execute(delete(sequences).where(_own), {"own": identifier})


def grow(connection: Connection, identifier: str, octets: int) -> None:
    """Note that so many bytes more wait in a sequence, or fewer."""
    if octets:
        connection.execute(_GROW, {"own": identifier, "more": octets})


def count_again(connection: Connection, identifier: str) -> None:
    """Count the bytes that wait in a sequence, some of which may have been discarded."""
    connection.execute(_COUNT, {"own": identifier})


def waiting(connection: Connection, identifier: str, owner: str) -> tuple[int, int]:
    """The bytes that wait in a sequence, and in all of its owner's."""
    names = {"own": identifier, "owned_by": owner}
    own, owners = connection.execute(_WAITING, names).one()
    return int(own), int(owners)


def count(connection: Connection) -> int:
    """Count the sequences, those that ended included."""
    return int(connection.execute(select(func.count()).select_from(sequences)).scalar_one())


def has_room(
    step: Step, header: SequenceHeader, octets: int, owner: str, octets_per_owner: int
) -> bool:
    """Return whether the bytes of a message may wait for others before it. The next message in
    order may always come."""
    step.tx.incoming.find(header.identifier)
    buffer = step.tx.invoker.find(header.identifier)
    if buffer is None or header.number == buffer.delivered + 1:
        return True
    own, owners = waiting(step.tx.connection, header.identifier, owner)
    if owners + octets > octets_per_owner:
        return False
    return buffer.count < FEW or own + octets <= WAITING_OCTETS


def follow(step: Step, before: IncomingSequence | None) -> None:
    """Have the register follow what became of a sequence: one that takes nothing more may have lost
    what waited behind a gap."""
    if before is None:
        return
    after = step.tx.incoming.find(before.identifier)
    if after is None:
        remove(step.tx.connection, before.identifier)
    elif after.closed and not before.closed:
        count_again(step.tx.connection, before.identifier)
