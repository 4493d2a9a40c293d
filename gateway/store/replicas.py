"""Tables shared by several gateways: the live ones, the holders of partitions, changes of
subscriptions.

    take ---> held, fence n ---> renewed ---> renewed ---> released
                                    |
                                    +-- not renewed in time ---> taken by another, fence n + 1

All times are the database's: clocks of replicas may differ, and a replica may be frozen. Whoever
holds a partition checks its fence in every transaction after which a message is settled; the row
stays locked until that is committed, so that nobody takes the partition in between.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sqlalchemy import Connection, select, text

from filters import Reason, Refused
from gateway.store import schema
from gateway.store.migrations.older_replicas import REGISTERING, oldest_schema
from gateway.store.migrations.revisions import newest
from gateway.store.statements import now

FORGOTTEN = 60.0
"""Seconds after its last sign of life for which the number of a replica is not given again."""
KEPT = 10_000
"""Changes that are kept. A replica that missed more reads everything."""
HOUSE = -1
"""The partition without messages: the replica that holds it does what is done once for all."""


class Fenced(Exception):
    """Another replica holds the partition now, or may take it."""


@dataclass(frozen=True, slots=True)
class Lease:
    """A partition that is held."""

    partition: int
    fence: int


@dataclass(frozen=True, slots=True)
class Standing:
    """The state of all replicas. ``alive`` are their ids, sorted; ``holders`` says who holds
    each partition, None where anybody may take it; ``kept`` are the leases that were renewed."""

    alive: tuple[str, ...]
    holders: Mapping[int, str | None]
    kept: frozenset[int]


@dataclass(frozen=True, slots=True)
class Added:
    """Rows that were added to the waiting deliveries of a subscription in a partition."""

    key: str
    partition: int
    count: int
    octets: int


@dataclass(frozen=True, slots=True)
class Changes:
    """Changes up to ``version``: the ``keys`` of subscriptions, None where they are too many for a
    list."""

    version: int
    keys: tuple[str, ...] | None
    added: tuple[Added, ...] = ()


def register(connection: Connection, replica: str) -> int:
    """Make *replica* one of those that are alive; its number. What an earlier process of the same
    id held is free.

    Raises:
        Refused: The store was migrated after this program opened it, and it cannot go on with it.
    """
    _lock(connection)
    _check_schema(connection)
    clock = now(connection)
    connection.execute(
        text(f"DELETE FROM replicas WHERE heartbeat < {clock} - :old"),  # noqa: S608
        {"old": FORGOTTEN},
    )
    connection.execute(
        text("UPDATE partitions SET holder = NULL, until = 0 WHERE holder = :replica"),
        {"replica": replica},
    )
    connection.execute(schema.replicas.delete().where(schema.replicas.c.id == replica))
    taken = set(connection.execute(select(schema.replicas.c.number)).scalars())
    number = next(number for number in range(1, len(taken) + 2) if number not in taken)
    connection.execute(
        text(
            "INSERT INTO replicas (number, id, heartbeat, schema)"  # noqa: S608
            f" VALUES (:number, :id, {clock}, :schema)"
        ),
        {"number": number, "id": replica, "schema": newest()},
    )
    return number


def unregister(connection: Connection, replica: str) -> None:
    """*replica* has gone; what it held is free."""
    connection.execute(
        text("UPDATE partitions SET holder = NULL, until = 0 WHERE holder = :replica"),
        {"replica": replica},
    )
    connection.execute(schema.replicas.delete().where(schema.replicas.c.id == replica))


def alive(connection: Connection, *, lease: float) -> tuple[str, ...]:
    """The ids of the replicas that gave a sign of life within *lease* seconds, sorted."""
    return tuple(
        connection.execute(
            text(
                f"SELECT id FROM replicas WHERE heartbeat >= {now(connection)} - :lease"  # noqa: S608
                " ORDER BY id"
            ),
            {"lease": lease},
        ).scalars()
    )


def declare(connection: Connection, partitions: Iterable[int]) -> None:
    """See that there is a row for each of *partitions*."""
    for partition in partitions:
        connection.execute(
            text(
                "INSERT INTO partitions (partition, holder, fence, until)"
                " VALUES (:partition, NULL, 0, 0) ON CONFLICT (partition) DO NOTHING"
            ),
            {"partition": partition},
        )


def renew(
    connection: Connection, replica: str, leases: Iterable[Lease], *, lease: float
) -> Standing:
    """A sign of life, and *leases* for another *lease* seconds; one that another replica took is
    not renewed."""
    clock = now(connection)
    connection.execute(
        text(f"UPDATE replicas SET heartbeat = {clock} WHERE id = :replica"),  # noqa: S608
        {"replica": replica},
    )
    kept = frozenset(
        one.partition
        for one in sorted(leases, key=lambda one: one.partition)
        if connection.execute(
            text(
                f"UPDATE partitions SET until = {clock} + :lease"  # noqa: S608
                " WHERE partition = :partition AND holder = :replica AND fence = :fence"
            ),
            {
                "lease": lease,
                "partition": one.partition,
                "replica": replica,
                "fence": one.fence,
            },
        ).rowcount
    )
    rows = connection.execute(
        text(
            f"SELECT partition, CASE WHEN until >= {clock} THEN holder END AS holder"  # noqa: S608
            " FROM partitions ORDER BY partition"
        )
    )
    return Standing(alive(connection, lease=lease), {row[0]: row[1] for row in rows}, kept)


def take(connection: Connection, replica: str, partition: int, *, lease: float) -> Lease | None:
    """Hold *partition* for *lease* seconds, if nobody does. One in whose name a transaction is
    under way is not waited for."""
    clock = now(connection)
    skip = "FOR UPDATE SKIP LOCKED" if connection.dialect.name == "postgresql" else ""
    fence = connection.execute(
        text(
            f"UPDATE partitions SET holder = :replica, fence = fence + 1, until = {clock} + :lease"  # noqa: S608
            " WHERE partition IN (SELECT partition FROM partitions WHERE partition = :partition"
            f" AND (holder IS NULL OR until < {clock}) {skip}) RETURNING fence"
        ),
        {"replica": replica, "partition": partition, "lease": lease},
    ).scalar_one_or_none()
    return None if fence is None else Lease(partition, int(fence))


def release(connection: Connection, replica: str, lease: Lease) -> None:
    """Let others take the partitions of this replica."""
    connection.execute(
        text(
            "UPDATE partitions SET holder = NULL, until = 0"
            " WHERE partition = :partition AND holder = :replica AND fence = :fence"
        ),
        {"partition": lease.partition, "replica": replica, "fence": lease.fence},
    )


def check(connection: Connection, replica: str, lease: Lease) -> None:
    """Go on only while *lease* is held, and let nobody take it before this is committed.

    Raises:
        Fenced: It is over.
    """
    share = " FOR SHARE" if connection.dialect.name == "postgresql" else ""
    found = connection.execute(
        text(
            "SELECT 1 FROM partitions WHERE partition = :partition AND holder = :replica"  # noqa: S608
            f" AND fence = :fence AND until >= {now(connection)}{share}"
        ),
        {"partition": lease.partition, "replica": replica, "fence": lease.fence},
    ).first()
    if found is None:
        raise Fenced(f"partition {lease.partition} is held no longer")


# Changes.


def changed(
    connection: Connection, key: str, added: Mapping[int, tuple[int, int]] | None = None
) -> None:
    """Let other replicas learn that the subscription *key* was made, changed or ended; or that
    waiting deliveries were *added* to it: their number and bytes, by partition.

    Versions are given one transaction after the other, so nobody sees a later one first.
    """
    parts: Mapping[int | None, tuple[int, int]] = dict(added.items()) if added else {None: (0, 0)}
    for partition, (count, octets) in parts.items():
        version = connection.execute(_NEXT).scalar_one()
        connection.execute(
            schema.changes.insert().values(
                version=version, key=key, partition=partition, count=count, octets=octets
            )
        )


_NEXT = text(
    "UPDATE versions SET version = version + 1 WHERE name = 'subscriptions' RETURNING version"
)


def version(connection: Connection) -> int:
    """The version of the subscriptions."""
    return int(
        connection.execute(
            text("SELECT version FROM versions WHERE name = 'subscriptions'")
        ).scalar_one()
    )


def changes_since(connection: Connection, known: int) -> Changes:
    """The changes since version *known*."""
    rows = connection.execute(
        text(
            "SELECT version, key, partition, count, octets FROM changes WHERE version > :known"
            " ORDER BY version"
        ),
        {"known": known},
    ).all()
    if not rows:
        return Changes(known, ())
    last = rows[-1].version
    if rows[0].version != known + 1:
        return Changes(last, None)
    return Changes(
        last,
        tuple(dict.fromkeys(row.key for row in rows if row.partition is None)),
        tuple(Added(*row[1:]) for row in rows if row.partition is not None),
    )


def prune(connection: Connection) -> None:
    """Forget changes that every replica has long seen."""
    connection.execute(
        text("DELETE FROM changes WHERE version <= :last"), {"last": version(connection) - KEPT}
    )


def _lock(connection: Connection) -> None:
    """One replica registers at a time."""
    if connection.dialect.name == "postgresql":
        connection.execute(REGISTERING)


def _check_schema(connection: Connection) -> None:
    oldest = oldest_schema(connection)
    if oldest is not None and oldest > newest():
        raise Refused(
            Reason.UNAVAILABLE,
            f"A newer Dragoman migrated the store while this one started: it needs schema {oldest},"
            f" and this one was written for {newest()}; install the newer version.",
        )
