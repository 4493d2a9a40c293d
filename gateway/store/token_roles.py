"""Roles that tokens said their users have, as rows."""

import json
from collections.abc import Iterable

from sqlalchemy import Connection, text

from gateway.model.token_roles import TokenRoles
from gateway.store.statements import now

LATE = 10.0
"""Seconds that a transaction may take between its clock and its commit: so much is read again."""
_WRITE = (
    "INSERT INTO token_roles (owner, issuer, roles, until, issued, written) "
    "VALUES (:owner, :issuer, :roles, :until, :issued, {now}) ON CONFLICT (owner) DO UPDATE SET "
    "issuer = excluded.issuer, roles = excluded.roles, until = excluded.until, "
    "issued = excluded.issued, written = excluded.written "
    "WHERE excluded.issuer <> token_roles.issuer OR excluded.issued >= token_roles.issued"
)


def write(connection: Connection, shown: Iterable[TokenRoles]) -> None:
    """Keep *shown* in place of what their users showed before, unless another gateway was shown a
    token that was issued later."""
    statement = text(_WRITE.format(now=now(connection)))
    for one in shown:
        values = {
            "owner": one.owner,
            "issuer": one.issuer,
            "roles": json.dumps(sorted(one.roles)),
            "until": one.until,
            "issued": one.issued,
        }
        connection.execute(statement, values)


def learn(connection: Connection, since: float) -> tuple[list[TokenRoles], float]:
    """What was written since a moment of the store's clock (0: all), and its moment now."""
    moment = float(connection.execute(text(f"SELECT {now(connection)}")).scalar_one())
    query = text("SELECT * FROM token_roles WHERE written >= :since")
    rows = connection.execute(query, {"since": since - LATE if since else 0.0})
    found = [
        TokenRoles(one.owner, one.issuer, frozenset(json.loads(one.roles)), one.until, one.issued)
        for one in rows
    ]
    return found, moment


def delete_old(connection: Connection, before: float) -> None:
    """Forget what counts no longer: until *before*, in POSIX seconds."""
    connection.execute(text("DELETE FROM token_roles WHERE until <= :before"), {"before": before})
