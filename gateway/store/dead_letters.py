"""The dead letters: listed, shown, redriven, purged; many of them in slices, so that other work of
the store runs in between."""

import json
import re
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Select, func, literal, select

from gateway.model.dead_letter_reasons import OF_MAILBOXES, DeadLetter, Death, DeathReason
from gateway.security.principals import owner_in
from gateway.store import dead_letter_counts, replicas, totals
from gateway.store.dead_letter_counts import Buried
from gateway.store.dead_lettering import CHARGED
from gateway.store.messages import of_tenant, sweep
from gateway.store.schema import dead_letters, mailboxes, messages, subscriptions
from gateway.store.statements import number, write_many
from gateway.store.totals import Totals
from mediation.model.messages import Notification
from mediation.packaging.records import decode
from mediation.rendering import delivery_id_of

KEPT = 7 * 86400.0
"""Seconds that a dead letter is kept."""
SLICE = 256
"""Dead letters that one transaction changes."""
LOOKED = 8
"""The factor by which a slice looks at more letters, while few are selected."""
SLICE_OCTETS = 16 * 2**20
"""Bytes of their messages, about, that one transaction removes or moves."""


@dataclass(frozen=True, slots=True)
class Selection:
    """A selection of dead letters: those for which every field that is not None holds.

    ``topic`` says of the name of a letter's topic, None where it has none, whether it is one of
    those meant; ``since`` is a POSIX time, letters that died then or later are meant; ``message``
    is the id of the message, the one of its publisher or the one that its consumer was told. A
    ``tenant``, which is not the default one, has those of all owners in it.
    """

    numbers: Collection[int] | None = None
    subscription: str | None = None
    topic: Callable[[str | None], bool] | None = None
    reason: DeathReason | None = None
    since: float | None = None
    owner: str | None = None
    message: str | None = None
    tenant: str | None = None

    def covers(self, reason: str, died: float, topic: str | None) -> bool:
        """Return whether a letter is selected, by the fields that no index covers."""
        return (
            (self.reason is None or self.reason.value == reason)
            and (self.since is None or round(died, 6) >= self.since)  # As it is shown.
            and (self.topic is None or self.topic(topic))
        )


ALL = Selection()


@dataclass(frozen=True, slots=True)
class Slice:
    """The letters that one transaction looked at: how many were chosen, by reason.
    ``last`` is the number of the last one it looked at, None where none was left."""

    chosen: Counter[str]
    last: int | None
    octets: int = 0


def listed(
    connection: Connection, *, subscription: str | None = None, after: int = 0, limit: int = 100
) -> list[DeadLetter]:
    """Dead letters in the order of their numbers, from the one after *after*."""
    chosen = Selection(subscription=subscription)
    return selected(connection, chosen, after=after, limit=limit)[0]


def selected(
    connection: Connection, selection: Selection = ALL, *, after: int = 0, limit: int = 100
) -> tuple[list[DeadLetter], int | None]:
    """Dead letters of *selection* in the order of their numbers, from the one after *after*, and
    the number to go on behind; None at the end. There may be none and still more behind."""
    rows, last = _look(
        connection, selection, after=after, upto=newest(connection), limit=limit, bounded=False
    )
    query = _with_names().where(dead_letters.c.number.in_([row.number for row in rows]))
    return [_read(row) for row in connection.execute(query)] if rows else [], last


def of_messages(
    connection: Connection, ids: Sequence[str], limit: int, tenant: str | None = None
) -> list[DeadLetter]:
    """The first dead letters of the messages with these ids, of one *tenant* or of all."""
    query = _with_names().where(messages.c.id.in_(ids), of_tenant(tenant)).limit(limit)
    return [_read(row) for row in connection.execute(query)]


def find(connection: Connection, number: int) -> tuple[DeadLetter, Notification] | None:
    """One dead letter and its message; None where there is no such letter."""
    row = connection.execute(_with_names().where(dead_letters.c.number == number)).first()
    if row is None:
        return None
    query = select(messages.c.body, messages.c.properties)
    body, properties = connection.execute(query.where(messages.c.number == row.message)).one()
    return _read(row), decode(bytes(body), json.loads(properties))


def _with_names() -> Select[Any]:
    """Dead letters with what names their messages, but not the bodies."""
    return (
        select(dead_letters, messages.c.source, messages.c.id)
        .join(messages, messages.c.number == dead_letters.c.message)
        .order_by(dead_letters.c.number)
    )


def _read(row: Row[Any]) -> DeadLetter:
    return DeadLetter(
        row.number,
        Death(
            row.subscription,
            row.owner,
            row.delivery_id or delivery_id_of(row.source, row.id, row.subscription),
            row.topic,
            DeathReason(row.reason),
            row.status,
            row.failure,
            row.answer,
            row.attempts,
            row.since,
            row.died,
            row.partition,
            row.consumer,
        ),
        row.octets,
        row.id,
    )


def newest(connection: Connection) -> int:
    """The highest number of a dead letter; 0 where there is none."""
    return int(connection.execute(select(func.max(dead_letters.c.number))).scalar() or 0)


_COLUMNS: tuple[ColumnElement[Any], ...] = (
    dead_letters.c.number,
    dead_letters.c.subscription,
    dead_letters.c.owner,
    dead_letters.c.message,
    dead_letters.c.topic,
    dead_letters.c.reason,
    dead_letters.c.partition,
    dead_letters.c.octets,
    dead_letters.c.charged,
    dead_letters.c.delivery_id,
    dead_letters.c.died,
)


def _look(
    connection: Connection,
    selection: Selection,
    *,
    after: int,
    upto: int,
    limit: int,
    bounded: bool = True,
    only: ColumnElement[bool] | None = None,
) -> tuple[list[Row[Any]], int | None]:
    """The next letters of *selection* behind the number *after*, and the number of the last one
    that was looked at; None where none is left up to *upto*. With *bounded*, of so many bytes alone
    as one transaction moves."""
    c = dead_letters.c
    looked, octets = LOOKED * limit, SLICE_OCTETS
    query: Select[Any] = select(
        *_COLUMNS, (literal(True) if only is None else only).label("counts")
    ).where(c.number > after, c.number <= upto)
    numbers: list[int] = []
    if selection.numbers is not None:
        numbers = sorted(one for one in selection.numbers if after < one <= upto)[:limit]
        query = query.where(c.number.in_(numbers))
    if selection.subscription is not None:
        query = query.where(c.subscription == selection.subscription)
    if selection.owner is not None:
        query = query.where(c.owner == selection.owner)
    if selection.tenant is not None:
        query = query.where(c.owner.startswith(owner_in(selection.tenant, ""), autoescape=True))
    if selection.message is not None:
        query = query.where(_is_named(selection.message))
    rows: Sequence[Any] = connection.execute(query.order_by(c.number).limit(looked)).all()
    last = rows[-1].number if len(rows) == looked else None
    if selection.numbers is not None:
        last = numbers[-1] if len(numbers) == limit else None
    chosen: list[Row[Any]] = []
    for row in rows:
        if not (row.counts and selection.covers(row.reason, row.died, row.topic)):
            continue
        if selection.message is not None and not _names(connection, row, selection.message):
            continue
        octets -= row.octets
        if bounded and chosen and octets < 0:
            return chosen, row.number - 1
        chosen.append(row)
        if len(chosen) == limit:
            return chosen, row.number
    return chosen, last


_DERIVED = re.compile(
    r"urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
)
"""The form of ids that follow from a message and a subscription (`delivery_id_of`)."""


def _is_named(message: str) -> ColumnElement[bool]:
    """Return whether a letter may have this id. For an id that is derived from others, `_names`
    decides."""
    c = dead_letters.c
    published = c.message.in_(select(messages.c.number).where(messages.c.id == message))
    told = c.delivery_id == message
    derived = (c.delivery_id == "") if _DERIVED.fullmatch(message) else literal(False)
    return published | told | derived


def _names(connection: Connection, row: Row[Any], message: str) -> bool:
    """Return whether *message* is an id of the letter *row*."""
    if row.delivery_id == message:
        return True
    query = select(messages.c.source, messages.c.id).where(messages.c.number == row.message)
    source, id_ = connection.execute(query).one()
    return message in (id_, delivery_id_of(source, id_, row.subscription))


def count(
    connection: Connection,
    selection: Selection,
    *,
    after: int,
    upto: int,
    redrivable: bool,
    limit: int = 4 * SLICE,
) -> Slice:
    """Count the letters of a slice of *selection*, or those of them that would be redriven; nothing
    changes."""
    only = _is_redrivable() if redrivable else None
    rows, last = _look(
        connection, selection, after=after, upto=upto, limit=limit, bounded=False, only=only
    )
    return Slice(Counter(row.reason for row in rows), last, sum(row.octets for row in rows))


def _of_subscriptions() -> ColumnElement[bool]:
    return dead_letters.c.reason.not_in(OF_MAILBOXES)


def _is_redrivable() -> ColumnElement[bool]:
    """Return whether the subscription or mailbox of a letter still exists, or the letter has none
    yet."""
    there = dead_letters.c.subscription.in_(select(subscriptions.c.id))
    mailbox = dead_letters.c.subscription.in_(select(mailboxes.c.id))
    return (_of_subscriptions() & there) | (~_of_subscriptions() & mailbox) | _is_set_aside()


def _is_set_aside() -> ColumnElement[bool]:
    return dead_letters.c.reason == DeathReason.UNKNOWN_TOPIC.value


@dataclass(frozen=True, slots=True)
class Redriven:
    """The deliveries of a slice that wait again: their number and bytes, by subscription."""

    slice: Slice
    again: dict[str, tuple[int, int]]


def redrive(
    connection: Connection,
    selection: Selection,
    *,
    alive: Collection[str],
    position: int,
    after: int = 0,
    upto: int,
    step: int = 1,
    limit: int = SLICE,
) -> Redriven:
    """Let a slice of dead letters wait again, those of subscriptions *alive* alone.

    Their message ids stay. They take positions from *position* on, *step* apart. Where replicas
    share the store, whoever holds their partitions is told.
    """
    there = dead_letters.c.subscription.in_(select(subscriptions.c.id))
    rows, last = _look(
        connection, selection, after=after, upto=upto, limit=limit, bounded=False,
        only=_of_subscriptions() & there,
    )  # fmt: skip
    rows = _take(connection, [row for row in rows if row.subscription in alive])
    again: dict[str, tuple[int, int]] = {}
    parts: dict[str, dict[int, tuple[int, int]]] = {}
    now = time.time()
    waiting = []
    for row in rows:
        waiting.append(
            (row.subscription, position, row.message, row.octets, now, 0, 0, now, row.partition)
        )
        position += step
        part = parts.setdefault(row.subscription, {})
        many, octets = part.get(row.partition, (0, 0))
        part[row.partition] = (many + 1, octets + row.octets)
        many, octets = again.get(row.subscription, (0, 0))
        again[row.subscription] = (many + 1, octets + row.octets)
    if waiting:
        write_many(connection, _WAIT, waiting)
    totals.add(connection, {key: Totals(dead=-many) for key, (many, _) in again.items()})
    dead_letter_counts.count_gone(connection, _whose(rows), redriven=True)
    if number(connection):
        for subscription, part in sorted(parts.items()):
            replicas.changed(connection, subscription, part)
    return Redriven(Slice(Counter(row.reason for row in rows), last), again)


_WAIT = (
    "INSERT INTO held (subscription, position, message, octets, since, attempts, answered, due, "
    "partition) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)


def redrive_to_mailboxes(
    connection: Connection, selection: Selection, *, after: int, upto: int
) -> tuple[Slice, list[tuple[Row[Any], str, Notification]]]:
    """Take a slice of the letters of mailboxes that there still are out of the dead letters: each
    with the key of its mailbox and its message, which is an envelope.

    A mailbox that a subscription fills has its id: what could not be delivered into it is the
    subscription's letter, and no envelope.
    """
    there = dead_letters.c.subscription.in_(select(mailboxes.c.id))
    rows, last = _look(
        connection, selection, after=after, upto=upto, limit=SLICE,
        only=~_of_subscriptions() & there,
    )  # fmt: skip
    # Locked, so that no other replica destroys a mailbox before its letters are in it.
    ids = {row.subscription for row in rows}
    query = select(mailboxes.c.id, mailboxes.c.key).where(mailboxes.c.id.in_(ids))
    query = query.order_by(mailboxes.c.id).with_for_update()
    keys = dict(map(tuple, connection.execute(query)))
    rows = _take(connection, [row for row in rows if row.subscription in keys])
    dead_letter_counts.count_gone(connection, _whose(rows), redriven=True)
    taken = []
    for row in rows:
        query = select(messages.c.body, messages.c.properties)
        body, properties = connection.execute(query.where(messages.c.number == row.message)).one()
        taken.append((row, keys[row.subscription], decode(bytes(body), json.loads(properties))))
    sweep(connection, (row.message for row in rows))
    return Slice(Counter(row.reason for row in rows), last), taken


def set_aside(
    connection: Connection, selection: Selection, *, after: int, upto: int
) -> tuple[list[tuple[int, Notification]], int | None]:
    """The next letters of *selection* behind *after* that were set aside when they came: their
    numbers and messages; and the number to go on behind, None at the end."""
    rows, last = _look(
        connection, selection, after=after, upto=upto, limit=SLICE, only=_is_set_aside()
    )
    found = [(row.number, find(connection, row.number)) for row in rows]
    return [(number, one[1]) for number, one in found if one is not None], last


def remove_redriven(connection: Connection, numbers: Sequence[int]) -> Counter[str]:
    """Remove the letters with these numbers, which are published now; how many, by reason."""
    query = select(*_COLUMNS).where(dead_letters.c.number.in_(numbers))
    rows = _take(connection, connection.execute(query).all())
    dead_letter_counts.count_gone(connection, _whose(rows), redriven=True)
    sweep(connection, (row.message for row in rows))
    return Counter(row.reason for row in rows)


def _take(connection: Connection, rows: Sequence[Row[Any]]) -> list[Row[Any]]:
    """Remove letters; those that another replica has not removed meanwhile, in their order."""
    if not rows:
        return []
    numbers = [row.number for row in rows]
    delete = dead_letters.delete().where(dead_letters.c.number.in_(numbers)).returning(*_COLUMNS)
    taken = sorted(connection.execute(delete), key=lambda row: int(row.number))
    paid = {row.message: row.octets for row in taken if row.charged > CHARGED}
    if paid:
        _charge_others(connection, paid)
    return taken


def _charge_others(connection: Connection, paid: Mapping[int, int]) -> None:
    """Charge the bytes of messages, by number, to the next letters of these, where there are
    any."""
    c = dead_letters.c
    query = select(c.message, func.min(c.number)).where(c.message.in_(paid)).group_by(c.message)
    changes: dict[str, Buried] = {}
    for message, heir in connection.execute(query).all():
        charged = CHARGED + paid[message]
        update = dead_letters.update().where(c.number == heir, c.charged < charged)
        owner = connection.execute(update.values(charged=charged).returning(c.owner)).scalar()
        if owner is not None:
            changes.setdefault(owner, Buried()).octets += paid[message]
    dead_letter_counts.add(connection, changes)


def _whose(rows: Iterable[Row[Any]]) -> list[tuple[str, int]]:
    """The owner of each, and the bytes that are charged for it."""
    return [(row.owner, row.charged) for row in rows]


def purge(
    connection: Connection,
    selection: Selection = ALL,
    *,
    after: int = 0,
    upto: int | None = None,
    limit: int = SLICE,
) -> Slice:
    """Forget a slice of dead letters. They stay counted as dead, and are counted as purged."""
    rows, last = _look(
        connection, selection, after=after, upto=newest(connection) if upto is None else upto,
        limit=limit,
    )  # fmt: skip
    rows = _forget(connection, rows)
    return Slice(Counter(row.reason for row in rows), last, sum(row.octets for row in rows))


def purge_died(connection: Connection, before: float, *, limit: int = SLICE) -> int:
    """Forget a slice of the letters that died before a POSIX time, the oldest first; how many. It
    reads no others."""
    query = select(*_COLUMNS).where(dead_letters.c.died < before)
    rows: list[Row[Any]] = []
    octets = SLICE_OCTETS
    for row in connection.execute(query.order_by(dead_letters.c.died).limit(limit)):
        octets -= row.octets
        if rows and octets < 0:
            break
        rows.append(row)
    return len(_forget(connection, rows)) if rows else 0


def purge_oldest(connection: Connection, owner: str, octets: int) -> tuple[int, int]:
    """Forget the oldest letters of *owner* that are charged with so many bytes together, or a slice
    of them; how many, and the bytes charged for them."""
    upto = newest(connection)
    rows, _ = _look(connection, Selection(owner=owner), after=0, upto=upto, limit=SLICE)
    chosen: list[Row[Any]] = []
    for row in rows:
        if octets <= 0:
            break
        octets -= row.charged
        chosen.append(row)
    chosen = _forget(connection, chosen)
    return len(chosen), sum(row.charged for row in chosen)


def _forget(connection: Connection, rows: Sequence[Row[Any]]) -> list[Row[Any]]:
    """Remove letters for ever, and those of their messages that nobody needs any more."""
    rows = _take(connection, rows)
    dead_letter_counts.count_gone(connection, _whose(rows), redriven=False)
    sweep(connection, (row.message for row in rows))
    return rows
