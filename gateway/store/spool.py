"""The spool: notifications that the messaging system could not take, as operations on a connection.

    put, all of a publication or nothing ---> waiting ---> removed, once the system has confirmed
                                                 |
                                                 +-- refused for good: set aside, with the reason

Whoever puts something in or takes it out locks the one row of ``spool_size`` first: so bounds hold
over all replicas, and numbers are in the order of commits.
"""

import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, func, select, text

from filters import Refused
from gateway.observing.samples import Sample, gauge
from gateway.store.schema import spool, spool_size
from mediation.model.messages import Notification
from mediation.packaging.records import Record, decode, encode


@dataclass(frozen=True, slots=True)
class SpoolSize:
    """The size of the spool. ``since`` is when the oldest that waits came, as POSIX seconds; None
    where nothing waits."""

    messages: int = 0
    octets: int = 0
    since: float | None = None
    refused: int = 0
    """The number of messages that are set aside."""

    def metrics(self, *, now: float) -> Iterator[Sample]:
        """The numbers of the spool at *now*, POSIX seconds."""
        age = 0.0 if self.since is None else max(0.0, now - self.since)
        yield gauge("spool_messages", "Notifications in the spool.", self.messages)
        yield gauge("spool_bytes", "Bytes in the spool.", self.octets)
        yield gauge("spool_oldest_seconds", "Since the oldest in the spool came.", age)
        yield gauge(
            "spool_refused", "Notifications in the spool that the broker refuses.", self.refused
        )


@dataclass(frozen=True, slots=True)
class Spooled:
    """One waiting message. ``retried``: an operator has had it tried again."""

    number: int
    topic: str
    octets: int
    notification: Notification
    retried: bool = False


@dataclass(frozen=True, slots=True)
class SpoolEntry:
    """A message of the spool as operators see it. ``refused`` is why it was set aside at
    ``refused_at``, None where it waits. Times are POSIX seconds."""

    number: int
    topic: str
    source: str
    id: str
    octets: int
    since: float
    refused: str | None
    refused_at: float | None


class SpoolUnreadable(Exception):
    """Message *number* of the spool cannot be read."""

    def __init__(self, number: int, topic: str, why: str) -> None:
        super().__init__(why)
        self.number = number
        self.topic = topic


def topic_of(notification: Notification) -> str:
    """The topic by which the order of the spool goes; "" stands for none."""
    return "" if notification.topic is None else _storable(str(notification.topic))


def put(
    connection: Connection,
    notifications: Sequence[Notification],
    *,
    now: float,
    messages: int,
    octets: int,
) -> Mapping[str, int] | None:
    """Add *notifications*, but for those that wait here already, behind what there is.

    Args:
        messages: The most messages in the spool, and the most bytes (``octets``).

    Returns:
        How many were added, by topic. None where there is no room for all: then none was.
    """
    size = connection.execute(_LOCK).one()
    rows = _rows(connection, notifications, now)
    added = sum(row["octets"] for row in rows)
    if size.messages + len(rows) > messages or size.octets + added > octets:
        return None
    for row in rows:  # One statement each: their numbers are in this order.
        connection.execute(spool.insert().values(row))
    connection.execute(_GROW, {"messages": len(rows), "octets": added})
    return Counter(row["topic"] for row in rows)


def put_aside(
    connection: Connection,
    refused: Sequence[tuple[Notification, str]],
    *,
    now: float,
    messages: int,
    octets: int,
) -> int:
    """Set aside messages that the system refuses for good, each with the reason; those set aside
    before stay as they are. At most half of the room is for them: the oldest make way.

    Args:
        messages: The most messages in the spool, and the most bytes (``octets``).

    Returns:
        How many made way.
    """
    connection.execute(_LOCK)
    reasons = {(_storable(each.source), _storable(each.id)): why for each, why in refused}
    rows = _rows(connection, [each for each, _ in refused], now)
    for row in rows:
        why = reasons[row["source"], row["id"]]
        values = {**row, "refused": _storable(why), "refused_at": now}
        connection.execute(spool.insert().values(values))
    added = {"messages": len(rows), "octets": sum(row["octets"] for row in rows)}
    connection.execute(_GROW, added)
    return _make_way(connection, messages // 2, octets // 2)


def _rows(
    connection: Connection, notifications: Sequence[Notification], now: float
) -> list[dict[str, Any]]:
    """The rows of *notifications*, but for those that are here already."""
    fresh = {}
    for each in notifications:
        used = _storable(each.source), _storable(each.id)
        there = select(spool.c.number).where(spool.c.source == used[0], spool.c.id == used[1])
        if used not in fresh and connection.execute(there).first() is None:
            fresh[used] = (topic_of(each), encode(each))
    rows: list[dict[str, Any]] = [
        {
            "topic": topic,
            "source": source,
            "id": id,
            "body": record.body,
            "properties": json.dumps(record.properties, separators=(",", ":")),
            "since": now,
        }
        for (source, id), (topic, record) in fresh.items()
    ]
    for row in rows:
        row["octets"] = len(row["body"]) + len(row["properties"])
    return rows


def _make_way(connection: Connection, messages: int, octets: int) -> int:
    """Forget the oldest that are set aside, until at most so many are; how many."""
    aside = select(spool.c.number, spool.c.octets).where(spool.c.refused.is_not(None))
    gone = []
    for row in connection.execute(aside.order_by(spool.c.number.desc())).all():
        messages, octets = messages - 1, octets - row.octets
        if messages < 0 or octets < 0:
            gone.append(row.number)
    _delete(connection, spool.c.number.in_(gone))
    return len(gone)


def waits(connection: Connection, topics: Collection[str]) -> bool:
    """Return whether a message of one of *topics* waits in the spool."""
    found = select(spool.c.number).where(spool.c.topic.in_(topics), spool.c.refused.is_(None))
    return connection.execute(found.limit(1)).first() is not None


def waiting(connection: Connection) -> dict[str, int]:
    """The number of messages that wait, by topic."""
    query = (
        select(spool.c.topic, func.count()).where(spool.c.refused.is_(None)).group_by(spool.c.topic)
    )
    return {topic: int(count) for topic, count in connection.execute(query)}


def oldest(
    connection: Connection, *, messages: int, octets: int, without: Collection[str] = ()
) -> list[Spooled]:
    """The oldest that wait, in their order, but for topics *without*: at most so many, and, beyond
    the first, so many octets.

    Raises:
        SpoolUnreadable: The first of them cannot be read.
    """
    query = (
        select(spool)
        .where(spool.c.refused.is_(None), spool.c.topic.not_in(without))
        .order_by(spool.c.number)
        .limit(messages)
    )
    found: list[Spooled] = []
    with connection.execute(query, execution_options={"yield_per": 16}) as rows:
        for row in rows:
            octets -= row.octets
            if found and octets < 0:
                break
            try:
                record = Record(bytes(row.body), json.loads(row.properties))
                notification = decode(record.body, record.properties)
            except (Refused, ValueError, TypeError, KeyError) as error:
                if found:
                    break
                raise SpoolUnreadable(row.number, row.topic, f"cannot be read: {error}") from error
            found.append(Spooled(row.number, row.topic, row.octets, notification, row.retried))
    return found


def remove(connection: Connection, those: Sequence[Spooled]) -> dict[str, int]:
    """Forget *those*, which the system has confirmed; how many were still there, by topic."""
    connection.execute(_LOCK)
    delete = spool.delete().where(spool.c.number.in_([each.number for each in those]))
    there = set(connection.execute(delete.returning(spool.c.number)).scalars())
    gone = [each for each in those if each.number in there]
    shrink = {"messages": -len(gone), "octets": -sum(each.octets for each in gone)}
    connection.execute(_GROW, shrink)
    return Counter(each.topic for each in gone)


def set_aside(connection: Connection, number: int, why: str, *, now: float) -> None:
    """Let message *number* wait no more: the system refuses it for good."""
    aside = {"refused": _storable(why), "refused_at": now, "retried": False}
    connection.execute(spool.update().where(spool.c.number == number).values(aside))


def purge(connection: Connection, *, before: float) -> None:
    """Forget messages that were set aside before a time."""
    connection.execute(_LOCK)
    _delete(connection, spool.c.refused.is_not(None) & (spool.c.refused_at < before))


def listed(
    connection: Connection, *, refused: bool | None = None, after: int = 0, limit: int
) -> list[SpoolEntry]:
    """The messages of the spool, in their order, behind number *after*: those that are set aside,
    or that wait, or, with *refused* None, all."""
    query = select(*_SHOWN).where(spool.c.number > after).order_by(spool.c.number).limit(limit)
    if refused is not None:
        query = query.where(spool.c.refused.is_not(None) if refused else spool.c.refused.is_(None))
    return [SpoolEntry(*row) for row in connection.execute(query)]


def find(connection: Connection, number: int) -> tuple[SpoolEntry, bytes] | None:
    """Message *number* of the spool, and its body; None where there is none."""
    query = select(*_SHOWN, spool.c.body).where(spool.c.number == number)
    row = connection.execute(query).first()
    return None if row is None else (SpoolEntry(*row[:-1]), bytes(row.body))


def retry(connection: Connection, numbers: Collection[int] | None) -> dict[str, int]:
    """Let messages *numbers*, or all that are set aside, wait again; how many do, by topic."""
    again = {"refused": None, "refused_at": None, "retried": True}
    query = spool.update().where(_aside(numbers)).values(again).returning(spool.c.topic)
    return Counter(connection.execute(query).scalars())


def discard(connection: Connection, numbers: Collection[int] | None) -> tuple[int, dict[str, int]]:
    """Forget messages *numbers*, or all that are set aside; how many, and how many of them waited,
    by topic."""
    connection.execute(_LOCK)
    which = _aside(None) if numbers is None else spool.c.number.in_(numbers)
    waited = select(spool.c.topic).where(which, spool.c.refused.is_(None))
    topics = Counter(connection.execute(waited).scalars())
    return _delete(connection, which), topics


def _aside(numbers: Collection[int] | None) -> ColumnElement[bool]:
    aside = spool.c.refused.is_not(None)
    return aside if numbers is None else aside & spool.c.number.in_(numbers)


def _delete(connection: Connection, which: ColumnElement[bool]) -> int:
    """Forget the messages *which*, and count the rest; how many they were."""
    query = spool.delete().where(which).returning(spool.c.octets)
    gone = connection.execute(query).scalars().all()
    connection.execute(_GROW, {"messages": -len(gone), "octets": -sum(gone)})
    return len(gone)


def size(connection: Connection) -> SpoolSize:
    """The size of the spool."""
    row = connection.execute(select(spool_size)).one()
    if not row.messages:
        return SpoolSize()
    first = select(spool.c.since).where(spool.c.refused.is_(None)).order_by(spool.c.number)
    refused = select(func.count()).select_from(spool).where(spool.c.refused.is_not(None))
    return SpoolSize(
        row.messages,
        row.octets,
        connection.execute(first.limit(1)).scalar(),
        connection.execute(refused).scalar_one(),
    )


def _storable(value: str) -> str:
    """PostgreSQL's text has every character but NUL."""
    return value.replace("\0", "\N{REPLACEMENT CHARACTER}")


_SHOWN = (
    spool.c.number,
    spool.c.topic,
    spool.c.source,
    spool.c.id,
    spool.c.octets,
    spool.c.since,
    spool.c.refused,
    spool.c.refused_at,
)
_LOCK = text("UPDATE spool_size SET messages = messages RETURNING messages, octets")
_GROW = text("UPDATE spool_size SET messages = messages + :messages, octets = octets + :octets")
