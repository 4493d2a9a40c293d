"""Counts of what one tenant has in the store."""

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import Connection, func, select

from gateway.security.principals import owner_in
from gateway.store import dead_letter_counts
from gateway.store.dead_letter_counts import Died
from gateway.store.schema import dead_letter_totals, held, mailboxes, subscriptions, totals


@dataclass(frozen=True, slots=True)
class TenantFigures:
    """Counts of what is a tenant's.

    Attributes:
        matched, delivered: Deliveries to the subscriptions that it has now.
        waiting: Deliveries that wait in the store; *oldest* is when the first of them came, in
            POSIX seconds, None where none waits.
        mailboxes: How many, with how many messages and bytes in them.
        died: The newest dead letters by their reason, as `dead_letter_counts.by_reason` says.
    """

    matched: int
    delivered: int
    waiting: int
    oldest: float | None
    mailboxes: tuple[int, int, int]
    dead_letters: int
    dead_letter_bytes: int
    died: Mapping[str, Died]


def count(connection: Connection, tenant: str, since: float) -> TenantFigures:
    """Count what is of *tenant*, which is not the default one; dead letters are new if they died
    *since* a POSIX time."""
    owners = owner_in(tenant, "")
    own = select(subscriptions.c.id).where(
        subscriptions.c.owner.startswith(owners, autoescape=True)
    )
    sums = select(
        *(func.coalesce(func.sum(one), 0) for one in (totals.c.matched, totals.c.delivered))
    ).where(totals.c.subscription.in_(own))
    matched, delivered = connection.execute(sums).one()
    waiting, oldest = connection.execute(
        select(func.count(), func.min(held.c.since)).where(held.c.subscription.in_(own))
    ).one()
    boxes = connection.execute(
        select(
            func.count(),
            func.coalesce(func.sum(mailboxes.c.messages), 0),
            func.coalesce(func.sum(mailboxes.c.octets), 0),
        ).where(mailboxes.c.owner.startswith(owners, autoescape=True))
    ).one()
    letters = dead_letter_totals.c
    kept, octets = connection.execute(
        select(
            func.coalesce(func.sum(letters.buried - letters.purged), 0),
            func.coalesce(func.sum(letters.octets), 0),
        ).where(letters.owner.startswith(owners, autoescape=True))
    ).one()
    died = dead_letter_counts.by_reason(connection, since, owners=owners)
    return TenantFigures(
        int(matched), int(delivered), int(waiting), oldest,
        (int(boxes[0]), int(boxes[1]), int(boxes[2])), int(kept), int(octets), died,
    )  # fmt: skip
