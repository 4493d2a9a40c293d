"""What each gateway that uses the store says of itself, as operations on a connection."""

from enum import Enum

from sqlalchemy import Connection, text

from gateway.store.statements import now

KEPT = 3600.0
"""Seconds after which the figures of a gateway that is gone are forgotten."""


class Figures(Enum):
    """Figures, by the name of their column; their table is ``replica_`` and that."""

    RATES = "rates"
    """Of the last hour."""
    FAILURES = "failures"
    """Which subscriptions fail."""


def write(connection: Connection, figures: Figures, replica: str, written: str) -> None:
    """Keep the *figures* of *replica*, a text, in place of its former ones."""
    clock, name = now(connection), figures.value
    connection.execute(
        text(
            f"INSERT INTO replica_{name} (replica, written, {name}) "  # noqa: S608
            f"VALUES (:replica, {clock}, :figures) "
            f"ON CONFLICT (replica) DO UPDATE SET written = excluded.written, "
            f"{name} = excluded.{name}"
        ),
        {"replica": replica, "figures": written},
    )
    connection.execute(
        text(f"DELETE FROM replica_{name} WHERE written < {clock} - :kept"),  # noqa: S608
        {"kept": KEPT},
    )


def of_others(
    connection: Connection, figures: Figures, replica: str, within: float = KEPT
) -> list[str]:
    """The *figures* of all gateways but *replica* that wrote some *within* so many seconds."""
    name = figures.value
    query = text(
        f"SELECT {name} FROM replica_{name} WHERE replica <> :replica "  # noqa: S608
        f"AND written >= {now(connection)} - :within ORDER BY replica"
    )
    values = {"replica": replica, "within": within}
    return [str(one) for one in connection.execute(query, values).scalars()]
