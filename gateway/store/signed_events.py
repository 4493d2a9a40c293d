"""Signed events that came, as operations on a connection: each counts once, in all gateways of a
store, until its signature is too old to count at all."""

from collections.abc import Sequence

from sqlalchemy import Connection, func, select, text

from gateway.store.schema import signed_events
from gateway.store.statements import write_many

AT_ONCE = 1000
"""Events that are forgotten at once: nobody waits for many."""
_INSERT = (
    "INSERT INTO signed_events (signer, event, stage, carried, until) VALUES (?, ?, ?, ?, ?)"
    " ON CONFLICT DO NOTHING"
)
_INSERT_ONE = text(
    "INSERT INTO signed_events (signer, event, stage, carried, until)"
    " VALUES (:signer, :event, :stage, :carried, :until) ON CONFLICT DO NOTHING"
)
ACCEPTED, DELIVERED = "accepted", "delivered"
"""The stages of an event: it came over a gateway; the messaging system yielded it, and it was
settled."""
AGAIN = 300.0
"""Seconds for which the sender of an event that was delivered may try again, for it may not have
the answer: messaging systems know ids for longer, and yield it once."""
MOST = 10_000_000
"""Events that are remembered; beyond, none is taken rather than others forgotten."""
_SOME = "04"
"""Of the digests of what carries an event, those below: with one in 64 of them old ones are
forgotten, and the others counted; with each, that took as long as all else."""
Row = tuple[str, str, str, str, float]
"""Signer, event, stage, what carried it, and until when (POSIX seconds) it is remembered."""


class SignedEventsFull(Exception):
    """No more signed events can be remembered."""


def accept(connection: Connection, row: Row, *, now: float) -> bool:
    """Remember an event as accepted. Returns False if it was before, in something else, or was
    delivered since: somebody repeats it. Otherwise its sender tries again.

    Raises:
        SignedEventsFull: There is no room.
    """
    signer, event, stage, carried, until = row
    if carried < _SOME:
        forget(connection, now)
        if _number(connection) >= MOST:
            raise SignedEventsFull
    values = {
        "signer": signer, "event": event, "stage": stage, "carried": carried, "until": until,
    }  # fmt: skip
    if connection.execute(_INSERT_ONE, values).rowcount == 1:
        return True
    columns = signed_events.c
    known = {
        one.stage: one
        for one in connection.execute(
            select(columns.stage, columns.carried, columns.until).where(
                columns.signer == signer, columns.event == event
            )
        )
    }
    before = known.get(stage)
    if before is None or before.carried != carried:
        return False
    # Each is remembered for as long as the others, from when it was accepted.
    return DELIVERED not in known or until - before.until <= AGAIN


def note(connection: Connection, rows: Sequence[Row], *, now: float) -> None:
    """Remember events at their stages; what is known stays as it is."""
    forget(connection, now)
    write_many(connection, _INSERT, rows)


def is_known(connection: Connection, signer: str, event: str, stage: str) -> bool:
    """Return True if an event is remembered at this stage."""
    return _carried(connection, signer, event, stage) is not None


def forget(connection: Connection, now: float) -> None:
    """Forget some of what need not be remembered any more."""
    columns = signed_events.c
    old = select(columns.signer, columns.event, columns.stage).where(columns.until < now)
    found = connection.execute(old.order_by(columns.until).limit(AT_ONCE)).all()
    if found:
        statement = "DELETE FROM signed_events WHERE signer = ? AND event = ? AND stage = ?"
        write_many(connection, statement, [tuple(row) for row in found])


def _number(connection: Connection) -> int:
    return int(connection.execute(select(func.count()).select_from(signed_events)).scalar_one())


def _carried(connection: Connection, signer: str, event: str, stage: str) -> str | None:
    columns = signed_events.c
    found: str | None = connection.execute(
        select(columns.carried).where(
            columns.signer == signer, columns.event == event, columns.stage == stage
        )
    ).scalar()
    return found
