"""Rates of the last hour of each gateway that uses the store, as operations on a connection."""

from sqlalchemy import Connection, text

from gateway.store.statements import now

KEPT = 3600.0
"""Seconds after which the rates of a gateway that is gone are forgotten."""
_WRITE = (
    "INSERT INTO replica_rates (replica, written, rates) VALUES (:replica, {now}, :rates) "
    "ON CONFLICT (replica) DO UPDATE SET written = excluded.written, rates = excluded.rates"
)


def write(connection: Connection, replica: str, rates: str) -> None:
    """Keep the *rates* of *replica*, a text, in place of its former ones."""
    clock = now(connection)
    connection.execute(text(_WRITE.format(now=clock)), {"replica": replica, "rates": rates})
    connection.execute(
        text(f"DELETE FROM replica_rates WHERE written < {clock} - :kept"),  # noqa: S608
        {"kept": KEPT},
    )


def of_others(connection: Connection, replica: str) -> list[str]:
    """The rates of all gateways but *replica* that wrote some within `KEPT` seconds."""
    query = text(
        f"SELECT rates FROM replica_rates WHERE replica <> :replica "  # noqa: S608
        f"AND written >= {now(connection)} - :kept ORDER BY replica"
    )
    values = {"replica": replica, "kept": KEPT}
    return [str(rates) for rates in connection.execute(query, values).scalars()]
