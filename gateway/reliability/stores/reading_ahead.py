"""Reads and removes for many sequences with one statement of PostgreSQL. Only names of tables and
columns of ours are put into its text."""

# ruff: noqa: S608

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields

from sqlalchemy import Connection

from gateway.reliability.records import InvokerMessage, OutgoingMessage, made
from gateway.reliability.stores.array_statements import array_of
from gateway.reliability.stores.driver_statements import rows_of_text
from gateway.reliability.stores.tables import invoker_messages, outgoing_messages
from mediation.reliable_messaging import Ranges


@dataclass(frozen=True, slots=True)
class Due:
    """The due messages of one outgoing sequence, as they were read.

    Attributes:
        highest, now: The arguments of the query.
        most: The limit of the query.
        next_due: The earliest time after *now* at which another message is due, or None.
    """

    highest: int
    now: float
    most: int
    next_due: float | None
    messages: tuple[OutgoingMessage, ...]


def _columns(record: type, table: str) -> str:
    return ", ".join(f'{table}."{field.name}"' for field in fields(record))


_WAITING = f"""
SELECT wanted.sequence, found.* FROM
unnest(%(keys)s::text[], %(firsts)s::bigint[]) AS wanted (sequence, first) CROSS JOIN LATERAL (
    SELECT own.number, CASE WHEN octet_length(own.envelope) <= %(short)s::bigint
    THEN own.envelope END, own.content_type FROM {invoker_messages.name} AS own
    WHERE own.sequence = wanted.sequence AND own.number >= wanted.first
    ORDER BY own.number LIMIT %(most)s::bigint
) AS found ORDER BY wanted.sequence, found.number
"""

_DUE = f"""
SELECT wanted.sequence, (
    SELECT min(own.next_at) FROM {outgoing_messages.name} AS own
    WHERE own.sequence = wanted.sequence AND own.number <= wanted.highest
    AND own.next_at > %(now)s::float8
), found.* FROM
unnest(%(keys)s::text[], %(highests)s::bigint[], %(mosts)s::bigint[])
AS wanted (sequence, highest, most) LEFT JOIN LATERAL (
    SELECT {_columns(OutgoingMessage, "own")} FROM {outgoing_messages.name} AS own
    WHERE own.sequence = wanted.sequence
    AND (own.next_at IS NULL OR own.next_at <= %(now)s::float8)
    ORDER BY own.number LIMIT wanted.most
) AS found ON true ORDER BY wanted.sequence, found.number
"""

_REMOVE = f"""
DELETE FROM {outgoing_messages.name} AS own
USING unnest(%(keys)s::text[], %(lows)s::bigint[], %(highs)s::bigint[])
AS known (sequence, low, high)
WHERE own.sequence = known.sequence AND own.number BETWEEN known.low AND known.high
AND NOT own.wants_reply RETURNING own.sequence
"""


def waiting(
    connection: Connection, firsts: Mapping[str, int], most: int, short: int
) -> dict[str, tuple[InvokerMessage, ...]]:
    """The messages of several buffers, from these numbers on, at most *most* of each; none after
    one of more than *short* bytes, which is left out, too.

    Raises:
        DBAPIError: As SQLAlchemy raises it.
    """
    values = {
        "keys": array_of(None, firsts),
        "firsts": array_of(None, firsts.values()),
        "most": most,
        "short": short,
    }
    found: dict[str, list[InvokerMessage]] = {key: [] for key in firsts}
    long: set[str] = set()
    for key, number, envelope, content_type in rows_of_text(connection, _WAITING, values):
        if envelope is None or key in long:
            long.add(key)
        else:
            found[key].append(made(InvokerMessage, (number, envelope, content_type)))
    return {key: tuple(messages) for key, messages in found.items()}


def due(
    connection: Connection, wanted: Mapping[str, tuple[int, int]], now: float
) -> dict[str, Due]:
    """Read the due messages of several sequences, and when the next message of each is due.

    Args:
        wanted: The highest number and the most messages, by key.
    """
    values = {
        "keys": array_of(None, wanted),
        "highests": array_of(None, (highest for highest, _ in wanted.values())),
        "mosts": array_of(None, (most for _, most in wanted.values())),
        "now": now,
    }
    times: dict[str, float | None] = {}
    found: dict[str, list[OutgoingMessage]] = {key: [] for key in wanted}
    for key, next_due, number, *others in rows_of_text(connection, _DUE, values):
        times[key] = next_due
        if number is not None:
            found[key].append(made(OutgoingMessage, (number, *others)))
    return {
        key: Due(highest, now, most, times.get(key), tuple(found[key]))
        for key, (highest, most) in wanted.items()
    }


def remove(connection: Connection, known: Iterable[tuple[str, Ranges]]) -> Counter[str]:
    """Remove the messages with these numbers, but for those that wait for replies; how many they
    were, by the key of the sequence."""
    triples = [(key, low, high) for key, ranges in known for low, high in ranges.pairs]
    if not triples:
        return Counter()
    keys, lows, highs = (array_of(None, column) for column in zip(*triples, strict=True))
    values = {"keys": keys, "lows": lows, "highs": highs}
    return Counter(key for (key,) in rows_of_text(connection, _REMOVE, values))
