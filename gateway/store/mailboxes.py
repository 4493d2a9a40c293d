"""Mailboxes as rows: messages are put in, leased, and removed when they were handed over."""

from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Select, func, select, text

from gateway.model.deaths import Death, DeathReason
from gateway.model.mailboxes import (
    Mailbox,
    MailboxBounds,
    MailboxKind,
    MailboxMessage,
    MailboxSize,
    PutResult,
)
from gateway.store import dead_letters, held
from gateway.store.dead_letters import Selection, Slice
from gateway.store.schema import mailbox_messages, mailboxes
from mediation import Notification
from mediation.soap.addressing import id_to_keep

AT_A_TIME = 1000
"""Messages that one operation looks at."""
THINNED = 256
"""Messages that one transaction removes of a box that is about to be destroyed."""
REPLAYED, REPLAYED_OCTETS = 2000, 16 * 2**20
"""What is kept of one box that was sent over its streams: the newest, and one at least."""
TRIMMED = 64
"""Messages, or KiB of them, after which it is looked whether more is kept."""


# Boxes.


def make(
    connection: Connection, box: Mailbox, *, now: float, of_owner: int | None, in_all: int
) -> bool:
    """Keep a new box, unless there are so many already; whether it is there."""
    if of_owner is not None:
        of_one = select(func.count()).select_from(mailboxes).where(mailboxes.c.owner == box.owner)
        if connection.execute(of_one).scalar_one() >= of_owner:
            return False
    if connection.execute(select(func.count()).select_from(mailboxes)).scalar_one() >= in_all:
        return False
    connection.execute(
        mailboxes.insert().values(
            key=box.key, id=box.id, owner=box.owner, kind=box.kind.value, name=box.name,
            created=now, used=now, position=0, messages=0, octets=0, dropped=0,
        )
    )  # fmt: skip
    return True


def thin(connection: Connection, key: str) -> int:
    """Remove some of what lies in a box, `THINNED` messages at most; how many. It may still be
    there after a crash, so they count no longer."""
    query = select(mailbox_messages.c.position).where(mailbox_messages.c.mailbox == key)
    query = query.order_by(mailbox_messages.c.position).limit(THINNED)
    oldest = connection.execute(query).scalars().all()
    if not oldest:
        return 0
    removal = (
        mailbox_messages.delete()
        .where(mailbox_messages.c.mailbox == key, mailbox_messages.c.position <= oldest[-1])
        .returning(mailbox_messages.c.octets, mailbox_messages.c.handed)
    )
    gone = connection.execute(removal).all()
    waiting = [row.octets for row in gone if row.handed is None]
    _count(connection, key, -len(waiting), -sum(waiting))
    return len(gone)


def destroy(connection: Connection, key: str) -> bool:
    """Forget a box with all that lies in it; whether there was one."""
    connection.execute(mailbox_messages.delete().where(mailbox_messages.c.mailbox == key))
    return bool(connection.execute(mailboxes.delete().where(mailboxes.c.key == key)).rowcount)


def forget(connection: Connection, key: str) -> bool:
    """Forget a box with some of what lies in it; whether something is left, for `thin`."""
    connection.execute(mailboxes.delete().where(mailboxes.c.key == key))
    return thin(connection, key) == THINNED


def load(
    connection: Connection,
    keys: Collection[str] | None = None,
    names: Collection[str] = (),
) -> list[Mailbox]:
    """All boxes, or those with *keys* and *names*."""
    query = select(mailboxes)
    if keys is not None:
        query = query.where(mailboxes.c.key.in_(list(keys)) | mailboxes.c.name.in_(list(names)))
    return [_box(row) for row in connection.execute(query)]


def find(
    connection: Connection, *, key: str | None = None, name: str | None = None
) -> Mailbox | None:
    """The box with this key, or this name."""
    query = select(mailboxes)
    query = query.where(mailboxes.c.key == key if name is None else mailboxes.c.name == name)
    row = connection.execute(query).first()
    return None if row is None else _box(row)


def _box(row: Row[Any]) -> Mailbox:
    return Mailbox(row.key, row.id, row.owner, MailboxKind(row.kind), row.name)


def size(connection: Connection, key: str) -> MailboxSize | None:
    """What lies in a box; None where there is no such box."""
    row = connection.execute(select(mailboxes).where(mailboxes.c.key == key)).first()
    if row is None:
        return None
    return _size(row)


def _size(row: Row[Any]) -> MailboxSize:
    return MailboxSize(row.messages, row.octets, row.dropped, row.created, row.used)


def listed(
    connection: Connection, *, after: str = "", limit: int, id_: str | None = None
) -> list[tuple[Mailbox, MailboxSize]]:
    """Boxes in the order of their ids, from the one after *after*; or the one with an id."""
    query = select(mailboxes).order_by(mailboxes.c.id).limit(limit)
    query = query.where(mailboxes.c.id > after if id_ is None else mailboxes.c.id == id_)
    return [(_box(row), _size(row)) for row in connection.execute(query)]


def overall(connection: Connection) -> tuple[int, int, int]:
    """Boxes, and the messages and octets that wait in all of them."""
    count, waiting, octets = connection.execute(
        select(
            func.count(),
            func.coalesce(func.sum(mailboxes.c.messages), 0),
            func.coalesce(func.sum(mailboxes.c.octets), 0),
        )
    ).one()
    return int(count), int(waiting), int(octets)


def ready(connection: Connection, keys: Collection[str], *, now: float) -> list[str]:
    """Those of *keys* whose box has something to be taken, or is no more."""
    query = select(mailboxes.c.key).where(mailboxes.c.key.in_(list(keys)), ~_waits(now).exists())
    idle = set(connection.execute(query).scalars())
    return [key for key in keys if key not in idle]


def _waits(now: float) -> Select[Any]:
    """What waits in a box, and is nobody's just now."""
    return select(mailbox_messages.c.position).where(
        mailbox_messages.c.mailbox == mailboxes.c.key, *_nobodys(now)
    )


def _nobodys(now: float) -> tuple[ColumnElement[bool], ...]:
    """No reader has it."""
    return (
        mailbox_messages.c.handed.is_(None),
        mailbox_messages.c.until.is_(None) | (mailbox_messages.c.until <= now),
    )


def unused(connection: Connection, before: float) -> list[str]:
    """The keys of boxes that nobody has opened since, but of those that end with a subscription."""
    query = select(mailboxes.c.key).where(
        mailboxes.c.used < before, mailboxes.c.kind != MailboxKind.SUBSCRIPTION.value
    )
    query = query.limit(AT_A_TIME)
    return list(connection.execute(query).scalars())


# Messages.

# Whoever changes what lies in a box changes its row first: one at a time, on every database.
_NEXT = text(
    "UPDATE mailboxes SET position = position + :count WHERE key = :key "
    "RETURNING id, owner, position, messages, octets"
)
_PUT = text(
    "INSERT INTO mailbox_messages (mailbox, position, id, envelope, octets, since, takes) "
    "VALUES (:mailbox, :position, :id, :envelope, :octets, :since, 0) "
    "ON CONFLICT (mailbox, id) DO NOTHING"
)
_LEASED = text(
    "SELECT count(*), coalesce(sum(octets), 0) FROM mailbox_messages "
    "WHERE mailbox = :key AND handed IS NULL AND until > :now"
)
_COUNT = text(
    "UPDATE mailboxes SET messages = messages + :messages, octets = octets + :octets, "
    "dropped = dropped + :dropped WHERE key = :key"
)
_OPEN = text("UPDATE mailboxes SET used = :now WHERE key = :key RETURNING id")


def put(
    connection: Connection,
    key: str,
    envelopes: Sequence[tuple[str | None, bytes]],
    *,
    bounds: MailboxBounds,
    now: float,
) -> tuple[PutResult, int]:
    """Put envelopes into a box, each with its message id: what has one that lies there already
    came twice, and is kept once.

    Returns:
        What became of them, and how many older ones went to the dead letters to make room.
    """
    row = connection.execute(_NEXT, {"key": key, "count": len(envelopes)}).first()
    if row is None:
        return PutResult.UNKNOWN, 0
    octets = sum(len(envelope) for _, envelope in envelopes)
    if octets > bounds.octets or len(envelopes) > bounds.messages:
        return PutResult.FULL, 0
    over = row.messages + len(envelopes) - bounds.messages
    over_octets = row.octets + octets - bounds.octets
    if over > 0 or over_octets > 0:
        fixed, fixed_octets = connection.execute(_LEASED, {"key": key, "now": now}).one()
        over_fixed = fixed + len(envelopes) > bounds.messages
        if bounds.refuse or over_fixed or fixed_octets + octets > bounds.octets:
            return PutResult.FULL, 0
    position = row.position - len(envelopes)
    kept = kept_octets = 0
    for number, (id_, envelope) in enumerate(envelopes, 1):
        result = connection.execute(
            _PUT,
            {
                "mailbox": key,
                "position": position + number,
                "id": id_to_keep(id_) if id_ else None,
                "envelope": envelope,
                "octets": len(envelope),
                "since": now,
            },
        )
        if result.rowcount:
            kept, kept_octets = kept + 1, kept_octets + len(envelope)
    _count(connection, key, kept, kept_octets)
    over, over_octets = over - len(envelopes) + kept, over_octets - octets + kept_octets
    dropped = 0
    if over > 0 or over_octets > 0:
        dropped = _make_room(connection, row, key, over, over_octets, before=position, now=now)
    return PutResult.KEPT, dropped


def _count(connection: Connection, key: str, number: int, octets: int, *, dropped: int = 0) -> None:
    if number or octets or dropped:
        values = {"key": key, "messages": number, "octets": octets, "dropped": dropped}
        connection.execute(_COUNT, values)


def _make_room(
    connection: Connection,
    box: Row[Any],
    key: str,
    number: int,
    octets: int,
    *,
    before: int,
    now: float,
) -> int:
    """Let the oldest that nobody is just reading go, *number* and *octets* of them at least."""
    query = (
        select(mailbox_messages.c.position, mailbox_messages.c.octets)
        .where(
            mailbox_messages.c.mailbox == key,
            mailbox_messages.c.position <= before,
            *_nobodys(now),
        )
        .order_by(mailbox_messages.c.position)
        .limit(AT_A_TIME)
    )
    chosen: list[int] = []
    for position, size_ in connection.execute(query):
        if number <= 0 and octets <= 0:
            break
        chosen.append(position)
        number, octets = number - 1, octets - size_
    return _bury(connection, box.id, box.owner, key, chosen, DeathReason.MAILBOX_OVERFLOW, now)


def _bury(
    connection: Connection,
    id_: str,
    owner: str,
    key: str,
    positions: Collection[int],
    reason: DeathReason,
    now: float,
) -> int:
    """Move messages of a box to the dead letters, but for what a reader has meanwhile; how
    many."""
    gone = connection.execute(
        mailbox_messages.delete()
        .where(
            mailbox_messages.c.mailbox == key,
            mailbox_messages.c.position.in_(list(positions)),
            *_nobodys(now),
        )
        .returning(
            mailbox_messages.c.position,
            mailbox_messages.c.id,
            mailbox_messages.c.envelope,
            mailbox_messages.c.octets,
            mailbox_messages.c.since,
            mailbox_messages.c.takes,
        )
    ).all()
    for row in sorted(gone, key=lambda row: row.position):
        name = row.id or f"{id_}#{row.position}"
        letter = Notification(
            id=name,
            source=f"urn:dragoman:mailbox:{id_}",
            payload=row.envelope,
            time=datetime.fromtimestamp(row.since, UTC),
        )
        death = Death(
            subscription=id_, owner=owner, delivery_id=name, topic=None, reason=reason,
            status=None, failure=None, answer="", attempts=row.takes, since=row.since, died=now,
        )  # fmt: skip
        held.bury(connection, letter, death)
    octets = sum(row.octets for row in gone)
    _count(connection, key, -len(gone), -octets, dropped=len(gone))
    return len(gone)


_LOOK = text(
    "SELECT position, octets FROM mailbox_messages WHERE mailbox = :key AND handed IS NULL "
    "AND (until IS NULL OR until <= :now) ORDER BY position LIMIT :most"
)
_LEASE = text(
    "UPDATE mailbox_messages SET lease = :lease, until = :until, takes = takes + 1 "
    "WHERE mailbox = :key AND handed IS NULL AND (until IS NULL OR until <= :now) "
    "AND position <= :last RETURNING position, envelope, since, takes"
)


def take(
    connection: Connection,
    key: str,
    *,
    lease: str,
    most: int,
    octets: int,
    now: float,
    until: float,
) -> tuple[list[MailboxMessage], bool] | None:
    """Lease the oldest messages that nobody has: at most *most*, and about *octets*.

    Returns:
        Them, and whether others are left; None where there is no such box.
    """
    if connection.execute(_OPEN, {"key": key, "now": now}).first() is None:
        return None
    found = connection.execute(_LOOK, {"key": key, "now": now, "most": most + 1}).all()
    chosen = 0
    for row in found[:most]:
        octets -= row.octets
        if octets < 0 and chosen:
            break
        chosen += 1
    if not chosen:
        return [], bool(found)
    values = {
        "key": key, "lease": lease, "until": until, "now": now, "last": found[chosen - 1].position
    }  # fmt: skip
    rows = connection.execute(_LEASE, values).all()
    held = [MailboxMessage(row.position, bytes(row.envelope), row.since, row.takes) for row in rows]
    return sorted(held, key=lambda one: one.position), len(found) > chosen


_ALL: Collection[int] | None = None


def acknowledge(
    connection: Connection, key: str, lease: str, positions: Collection[int] | None = _ALL
) -> int:
    """Remove what was leased: *positions* of it, or all; how many. What another has meanwhile, or
    nobody, stays."""
    connection.execute(_NEXT, {"key": key, "count": 0})
    query = mailbox_messages.delete().where(
        mailbox_messages.c.mailbox == key, mailbox_messages.c.lease == lease
    )
    if positions is not None:
        query = query.where(mailbox_messages.c.position.in_(list(positions)))
    gone = connection.execute(query.returning(mailbox_messages.c.octets)).scalars().all()
    _count(connection, key, -len(gone), -sum(gone))
    return len(gone)


# In the order in which they were sent, the last one first.
_REPLAYED = text(
    "DELETE FROM mailbox_messages WHERE mailbox = :key AND position IN (SELECT position FROM ("
    "SELECT position, row_number() OVER sent AS number, sum(octets) OVER sent AS octets "
    "FROM mailbox_messages WHERE mailbox = :key AND handed IS NOT NULL "
    "WINDOW sent AS (ORDER BY handed DESC, position DESC ROWS UNBOUNDED PRECEDING)) AS kept "
    "WHERE number > 1 AND (number > :most OR octets > :octets))"
)


def hand(connection: Connection, key: str, lease: str, *, now: float) -> int:
    """Note that what was leased was sent over a stream: it waits no more, but can be sent again,
    while it is among the newest."""
    connection.execute(_NEXT, {"key": key, "count": 0})
    query = (
        mailbox_messages.update()
        .where(mailbox_messages.c.mailbox == key, mailbox_messages.c.lease == lease)
        .values(handed=now, lease=None, until=None)
        .returning(mailbox_messages.c.position, mailbox_messages.c.octets)
    )
    handed = connection.execute(query).all()
    octets = sum(row.octets for row in handed)
    _count(connection, key, -len(handed), -octets)
    if octets > TRIMMED * 1024 or any(row.position % TRIMMED == 0 for row in handed):
        values = {"key": key, "most": REPLAYED, "octets": REPLAYED_OCTETS}
        connection.execute(_REPLAYED, values)
    return len(handed)


def release(
    connection: Connection, key: str, lease: str, positions: Collection[int] | None = _ALL
) -> int:
    """Give back what was leased; how many. It is the oldest again."""
    return _set_until(connection, key, lease, positions, None)


def extend(
    connection: Connection,
    key: str,
    lease: str,
    positions: Collection[int] | None = _ALL,
    *,
    until: float,
) -> int:
    """Lengthen a lease; how many messages are still under it."""
    return _set_until(connection, key, lease, positions, until)


def _set_until(
    connection: Connection,
    key: str,
    lease: str,
    positions: Collection[int] | None,
    until: float | None,
) -> int:
    connection.execute(_NEXT, {"key": key, "count": 0})
    query = mailbox_messages.update().where(
        mailbox_messages.c.mailbox == key, mailbox_messages.c.lease == lease
    )
    if positions is not None:
        query = query.where(mailbox_messages.c.position.in_(list(positions)))
    values = {"until": until} if until is not None else {"until": None, "lease": None}
    return connection.execute(query.values(values)).rowcount


def rewind(connection: Connection, key: str, after: int) -> int:
    """Of what was handed over a stream, forget what was sent up to the message at position
    *after*, and let the rest wait again; how many do.

    What others gave back was sent behind newer messages: the time decides. Where that message is
    kept no more, all that is kept was sent behind it.
    """
    connection.execute(_NEXT, {"key": key, "count": 0})
    handed = (mailbox_messages.c.mailbox == key) & mailbox_messages.c.handed.is_not(None)
    query = select(mailbox_messages.c.handed).where(handed, mailbox_messages.c.position == after)
    then = connection.execute(query).scalar()
    if then is not None:
        same = (mailbox_messages.c.handed == then) & (mailbox_messages.c.position <= after)
        connection.execute(
            mailbox_messages.delete().where(handed, (mailbox_messages.c.handed < then) | same)
        )
    again = (
        connection.execute(
            mailbox_messages.update()
            .where(handed)
            .values(handed=None)
            .returning(mailbox_messages.c.octets)
        )
        .scalars()
        .all()
    )
    _count(connection, key, len(again), sum(again))
    return len(again)


def sweep(connection: Connection, *, now: float, oldest: float, handed: float) -> int:
    """Forget what was handed over a stream before *handed*, and move what has waited since before
    *oldest* to the dead letters; how many of these."""
    connection.execute(mailbox_messages.delete().where(mailbox_messages.c.handed < handed))
    query = (
        select(mailbox_messages.c.mailbox, mailbox_messages.c.position)
        .where(mailbox_messages.c.since < oldest, *_nobodys(now))
        .limit(AT_A_TIME)
    )
    old: dict[str, list[int]] = {}
    for key, position in connection.execute(query):
        old.setdefault(key, []).append(position)
    buried = 0
    for key in sorted(old):
        box = connection.execute(_NEXT, {"key": key, "count": 0}).first()
        if box is None:
            connection.execute(mailbox_messages.delete().where(mailbox_messages.c.mailbox == key))
        else:
            reason = DeathReason.MAILBOX_AGE
            buried += _bury(connection, box.id, box.owner, key, old[key], reason, now)
    return buried


def redrive(
    connection: Connection,
    selection: Selection,
    *,
    now: float,
    after: int = 0,
    upto: int,
) -> tuple[Slice, dict[str, int]]:
    """Put a slice of the dead letters of boxes back into them, as the newest; how many, by the keys
    of the boxes."""
    slice_, taken = dead_letters.redrive_to_mailboxes(connection, selection, after=after, upto=upto)
    boundless = MailboxBounds(2**31, 2**62)
    again: dict[str, int] = {}
    for row, key, envelope in taken:
        put(connection, key, [(row.delivery_id, envelope)], bounds=boundless, now=now)
        again[key] = again.get(key, 0) + 1
    return slice_, again
