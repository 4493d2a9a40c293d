"""Certificates that proved owners, as rows."""

from collections.abc import Iterable

from sqlalchemy import Connection, text

from gateway.model.shown_certificates import ShownCertificate
from gateway.store.statements import now

LATE = 10.0
"""Seconds that a transaction may take between its clock and its commit: so much is read again."""
_WRITE = (
    "INSERT INTO shown_certificates (owner, numbers, shown, revoked, written) "
    "VALUES (:owner, :numbers, :shown, :revoked, {now}) ON CONFLICT (owner) DO UPDATE SET "
    "numbers = excluded.numbers, shown = excluded.shown, revoked = excluded.revoked, "
    "written = excluded.written WHERE excluded.shown > shown_certificates.shown "
    "OR (excluded.shown = shown_certificates.shown AND excluded.revoked)"
)
_DELETE = (
    "DELETE FROM shown_certificates WHERE shown < :before "
    "AND owner NOT IN (SELECT owner FROM subscriptions)"
)


def write(connection: Connection, shown: Iterable[ShownCertificate]) -> None:
    """Keep *shown* in place of what their owners showed before, unless another gateway was shown
    one later."""
    statement = text(_WRITE.format(now=now(connection)))
    for one in shown:
        values = {
            "owner": one.owner,
            "numbers": one.numbers,
            "shown": one.shown,
            "revoked": one.revoked,
        }
        connection.execute(statement, values)


def learn(connection: Connection, since: float) -> tuple[list[ShownCertificate], float]:
    """What was written since a moment of the store's clock (0: all), and its moment now."""
    moment = float(connection.execute(text(f"SELECT {now(connection)}")).scalar_one())
    query = text("SELECT * FROM shown_certificates WHERE written >= :since ORDER BY shown")
    rows = connection.execute(query, {"since": since - LATE if since else 0.0})
    found = [ShownCertificate(one.owner, one.numbers, one.shown, bool(one.revoked)) for one in rows]
    return found, moment


def delete_old(connection: Connection, before: float) -> None:
    """Forget what was shown *before* (POSIX seconds) by whoever has no subscription."""
    connection.execute(text(_DELETE), {"before": before})
