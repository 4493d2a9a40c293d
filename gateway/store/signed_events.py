"""Signed events that came, as operations on a connection: each counts once, in all gateways of a
store, until its signature is too old to count at all."""

from collections.abc import Sequence

from sqlalchemy import ColumnElement, Connection, func, select, text

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
MOST_OF_ONE = 1_000_000
"""Events of one signer that are remembered: no signer keeps others from being heard."""
WAITING = 86_400.0
"""Seconds that an event is remembered after its signature counts no longer by its time, for it may
wait at the messaging system. Who has filled its part is remembered for less."""
Row = tuple[str, str, str, str, float]
"""Signer, event, stage, what carried it, and until when (POSIX seconds) it is remembered."""


def accept(connection: Connection, row: Row) -> bool:
    """Remember an event as accepted. Returns False if it was before, in something else, or was
    delivered since: somebody repeats it. Otherwise its sender tries again."""
    signer, event, stage, carried, until = row
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


def room(connection: Connection, signer: str, *, now: float) -> int:
    """Return for how many events more of *signer* there is room. Those that cost it its room and
    whose signatures count no longer by their time are forgotten first: they are its own."""
    forget(connection, now)
    columns = signed_events.c
    whole = select(func.count()).select_from(signed_events)
    of_one = whole.where(columns.signer == signer)
    used = int(connection.execute(of_one).scalar_one())
    if used >= MOST_OF_ONE:
        late = [columns.signer == signer, columns.until < now + WAITING]
        used -= _delete_oldest(connection, late, most=MOST_OF_ONE // 10)
    in_all = int(connection.execute(whole).scalar_one()) if used < MOST_OF_ONE else MOST
    return max(0, min(MOST_OF_ONE - used, MOST - in_all))


def is_known(connection: Connection, signer: str, event: str, stage: str) -> bool:
    """Return True if an event is remembered at this stage."""
    return _carried(connection, signer, event, stage) is not None


def forget(connection: Connection, now: float) -> None:
    """Forget some of what need not be remembered any more."""
    _delete_oldest(connection, [signed_events.c.until < now], most=AT_ONCE)


def _delete_oldest(
    connection: Connection, which: Sequence[ColumnElement[bool]], *, most: int
) -> int:
    """Forget at *most* so many of those events *which* hold for; how many that were."""
    columns = signed_events.c
    old = select(columns.signer, columns.event, columns.stage).where(*which)
    found = connection.execute(old.order_by(columns.until).limit(most)).all()
    if found:
        statement = "DELETE FROM signed_events WHERE signer = ? AND event = ? AND stage = ?"
        write_many(connection, statement, [tuple(row) for row in found])
    return len(found)


def _carried(connection: Connection, signer: str, event: str, stage: str) -> str | None:
    columns = signed_events.c
    found: str | None = connection.execute(
        select(columns.carried).where(
            columns.signer == signer, columns.event == event, columns.stage == stage
        )
    ).scalar()
    return found
