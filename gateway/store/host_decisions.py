"""Decisions of operators about hosts that messages are sent to, as rows."""

from sqlalchemy import Connection, func, select, text

from gateway.model.host_decisions import MOST, Decision, HostDecision
from gateway.store.schema import host_decisions

_WRITE = text(
    "INSERT INTO host_decisions (host, decision, decided_by, decided) "
    "VALUES (:host, :decision, :decided_by, :decided) ON CONFLICT (host) DO UPDATE SET "
    "decision = excluded.decision, decided_by = excluded.decided_by, decided = excluded.decided"
)


def load(connection: Connection) -> list[HostDecision]:
    """All decisions, in the order of their hosts."""
    query = select(host_decisions).order_by(host_decisions.c.host)
    return [
        HostDecision(row.host, Decision(row.decision), row.decided_by, row.decided)
        for row in connection.execute(query)
    ]


def write(connection: Connection, decision: HostDecision, *, most: int = MOST) -> bool:
    """Keep *decision* in place of a former one about its host. Returns whether that was done: not
    where there are *most* already."""
    others = select(func.count()).where(host_decisions.c.host != decision.host)
    former = select(host_decisions.c.host).where(host_decisions.c.host == decision.host)
    is_new = connection.execute(former).first() is None
    if is_new and connection.execute(others).scalar_one() >= most:
        return False
    values = {
        "host": decision.host,
        "decision": decision.decision.value,
        "decided_by": decision.by,
        "decided": decision.at,
    }
    connection.execute(_WRITE, values)  # Another gateway may write one about it now, too.
    return True


def delete(connection: Connection, host: str) -> None:
    """Forget the decision about *host*."""
    connection.execute(host_decisions.delete().where(host_decisions.c.host == host))
