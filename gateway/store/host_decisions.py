"""Decisions of operators about hosts that messages are sent to, as rows."""

from sqlalchemy import Connection, func, select

from gateway.model.host_decisions import MOST, Decision, HostDecision
from gateway.store.schema import host_decisions


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
    connection.execute(host_decisions.delete().where(host_decisions.c.host == decision.host))
    count = select(func.count()).select_from(host_decisions)
    if connection.execute(count).scalar_one() >= most:
        return False
    values = {
        "host": decision.host,
        "decision": decision.decision.value,
        "decided_by": decision.by,
        "decided": decision.at,
    }
    connection.execute(host_decisions.insert().values(values))
    return True


def delete(connection: Connection, host: str) -> None:
    """Forget the decision about *host*."""
    connection.execute(host_decisions.delete().where(host_decisions.c.host == host))
