"""Deliveries that a consumer acknowledged in a sequence, so that one which comes again, because a
crash fell between its acknowledgement and its end, is known."""

from collections.abc import Iterable
from uuid import UUID

from sqlalchemy import Connection, select, text

from gateway.store.schema import sequence_deliveries

KEPT = 16_384
"""The deliveries of one subscription that are remembered: more than a messaging system hands out
before the first of them is settled."""
PRUNED = 256
"""One delivery in so many is the occasion to forget older ones."""

_ADD = text(
    "INSERT INTO sequence_deliveries (subscription, delivery, ordinal) "
    "SELECT :subscription, :delivery, COALESCE(MAX(ordinal), 0) + 1 FROM sequence_deliveries "
    "WHERE subscription = :subscription ON CONFLICT DO NOTHING RETURNING ordinal"
)


def add(connection: Connection, subscription: str, message_ids: Iterable[str]) -> None:
    """Remember deliveries by their message ids."""
    for message_id in message_ids:
        values = {"subscription": subscription, "delivery": _short(message_id)}
        ordinal = connection.execute(_ADD, values).scalar()
        if ordinal is not None and ordinal % PRUNED == 0:
            columns = sequence_deliveries.c
            old = (columns.subscription == subscription) & (columns.ordinal <= ordinal - KEPT)
            connection.execute(sequence_deliveries.delete().where(old))


def is_known(connection: Connection, subscription: str, message_id: str) -> bool:
    """Return whether the delivery with *message_id* was acknowledged."""
    return bool(known(connection, subscription, (message_id,)))


def known(connection: Connection, subscription: str, message_ids: Iterable[str]) -> set[str]:
    """The *message_ids* whose deliveries were acknowledged."""
    asked = {_short(message_id): message_id for message_id in message_ids}
    columns = sequence_deliveries.c
    query = select(columns.delivery).where(
        columns.subscription == subscription, columns.delivery.in_(list(asked))
    )
    return {asked[bytes(found)] for found in connection.execute(query).scalars()}


def forget(connection: Connection, subscription: str) -> None:
    """Forget those of a subscription, which has ended."""
    mine = sequence_deliveries.c.subscription == subscription
    connection.execute(sequence_deliveries.delete().where(mine))


def _short(message_id: str) -> bytes:
    return UUID(message_id).bytes
