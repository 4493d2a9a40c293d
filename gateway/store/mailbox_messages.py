"""Messages in mailboxes as rows: put in, leased, and removed when they were handed over."""

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Select, select, text

from gateway.model.dead_letter_reasons import Death, DeathReason
from gateway.model.mailboxes import MailboxBounds, MailboxMessage, PutResult
from gateway.model.moments import moment_of
from gateway.model.subscriber_grants import PROPERTY, Holds, grant_from
from gateway.store import dead_letters
from gateway.store.dead_lettering import bury
from gateway.store.dead_letters import Selection, Slice
from gateway.store.mailboxes import count
from gateway.store.schema import mailbox_messages, mailboxes
from mediation.model.messages import Notification
from mediation.soap.addressing import id_to_keep

AT_A_TIME = 1000
"""Messages that one operation looks at."""
LOST_AT_A_TIME = 200
"""Messages to which a right was lost that one operation moves to the dead letters, about: each
takes half a millisecond."""
REPLAYED, REPLAYED_OCTETS = 2000, 16 * 2**20
"""Messages, and octets of them, that are kept of one mailbox after a stream sent them: the newest,
and one at least."""
TRIMMED = 64
"""Messages, or KiB of them, after which it is looked whether more is kept."""


def ready(connection: Connection, keys: Collection[str], *, now: float) -> list[str]:
    """The *keys* whose mailboxes have messages to be taken, or are gone."""
    query = select(mailboxes.c.key).where(mailboxes.c.key.in_(list(keys)), ~_waits(now).exists())
    idle = set(connection.execute(query).scalars())
    return [key for key in keys if key not in idle]


def _waits(now: float) -> Select[Any]:
    """The messages of a mailbox that wait, and that no reader has."""
    return select(mailbox_messages.c.position).where(
        mailbox_messages.c.mailbox == mailboxes.c.key,
        mailbox_messages.c.expires.is_(None) | (mailbox_messages.c.expires > now),
        *nobodys(now),
    )


def nobodys(now: float) -> tuple[ColumnElement[bool], ...]:
    """The condition that no reader has a message."""
    return (
        mailbox_messages.c.handed.is_(None),
        mailbox_messages.c.until.is_(None) | (mailbox_messages.c.until <= now),
    )


# Each change of a mailbox's messages updates its row first: one at a time, on every database.
_NEXT = text(
    "UPDATE mailboxes SET position = position + :count WHERE key = :key "
    "RETURNING id, owner, position, messages, octets"
)
_PUT = text(
    "INSERT INTO mailbox_messages "
    "(mailbox, position, id, envelope, octets, since, takes, expires, granted) "
    "VALUES (:mailbox, :position, :id, :envelope, :octets, :since, 0, :expires, :granted) "
    "ON CONFLICT (mailbox, id) DO NOTHING"
)
_LEASED = text(
    "SELECT count(*), coalesce(sum(octets), 0) FROM mailbox_messages "
    "WHERE mailbox = :key AND handed IS NULL AND until > :now"
)
_OPEN = text("UPDATE mailboxes SET used = :now WHERE key = :key RETURNING id")


def put(
    connection: Connection,
    key: str,
    envelopes: Sequence[tuple[str | None, bytes]],
    *,
    bounds: MailboxBounds,
    now: float,
    expires: float | None = None,
    granted: str | None = None,
) -> tuple[PutResult, int]:
    """Put envelopes into a mailbox, each with its message id. An envelope whose id lies there
    already came twice, and is kept once.

    Args:
        expires: When the life of their events is over; None: never.
        granted: The right by which their subscriber gets them; None: it takes none.

    Returns:
        Their fate, and how many older ones went to the dead letters to make room.
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
                "expires": expires,
                "granted": granted,
            },
        )
        if result.rowcount:
            kept, kept_octets = kept + 1, kept_octets + len(envelope)
    count(connection, key, kept, kept_octets)
    over, over_octets = over - len(envelopes) + kept, over_octets - octets + kept_octets
    dropped = 0
    if over > 0 or over_octets > 0:
        dropped = _make_room(connection, row, key, over, over_octets, before=position, now=now)
    return PutResult.KEPT, dropped


def _make_room(
    connection: Connection,
    mailbox: Row[Any],
    key: str,
    number: int,
    octets: int,
    *,
    before: int,
    now: float,
) -> int:
    """Bury the oldest messages that no reader has, *number* and *octets* of them at least."""
    query = (
        select(mailbox_messages.c.position, mailbox_messages.c.octets)
        .where(
            mailbox_messages.c.mailbox == key,
            mailbox_messages.c.position <= before,
            *nobodys(now),
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
    return _bury(
        connection, mailbox.id, mailbox.owner, key, chosen, DeathReason.MAILBOX_OVERFLOW, now
    )


def _bury(
    connection: Connection,
    id_: str,
    owner: str,
    key: str,
    positions: Collection[int],
    reason: DeathReason,
    now: float,
) -> int:
    """Move messages of a mailbox to the dead letters, but not those that a reader has meanwhile;
    how many."""
    gone = connection.execute(
        mailbox_messages.delete()
        .where(
            mailbox_messages.c.mailbox == key,
            mailbox_messages.c.position.in_(list(positions)),
            *nobodys(now),
        )
        .returning(
            mailbox_messages.c.position,
            mailbox_messages.c.id,
            mailbox_messages.c.envelope,
            mailbox_messages.c.octets,
            mailbox_messages.c.since,
            mailbox_messages.c.takes,
            mailbox_messages.c.granted,
        )
    ).all()
    for row in sorted(gone, key=lambda row: row.position):
        name = row.id or f"{id_}#{row.position}"
        letter = Notification(
            id=name,
            source=f"urn:dragoman:mailbox:{id_}",
            payload=row.envelope,
            time=moment_of(row.since),
            properties={PROPERTY: row.granted} if row.granted else {},
        )
        death = Death(
            subscription=id_, owner=owner, delivery_id=name, topic=None, reason=reason,
            status=None, failure=None, answer="", attempts=row.takes, since=row.since, died=now,
        )  # fmt: skip
        bury(connection, letter, death)
    octets = sum(row.octets for row in gone)
    count(connection, key, -len(gone), -octets, dropped=len(gone))
    return len(gone)


_LOOK = text(
    "SELECT position, octets, granted FROM mailbox_messages "
    "WHERE mailbox = :key AND handed IS NULL "
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
    holds: Holds | None = None,
) -> tuple[list[MailboxMessage], bool, int] | None:
    """Lease the oldest messages that no reader has: at most *most*, and about *octets*. Those whose
    life is over are removed, and those go to the dead letters whose grant *holds* no more: so many
    at a time that others have their turn at the store.

    Returns:
        The messages, whether others are left, and how many had expired; None where there is no such
        mailbox. No messages, and others left: it has to be asked again for these.
    """
    if connection.execute(_OPEN, {"key": key, "now": now}).first() is None:
        return None
    expired = _expire(connection, key, now)
    look = {"key": key, "now": now, "most": most + 1}
    found, buried = connection.execute(_LOOK, look).all(), 0
    while holds is not None and (lost := [row.position for row in found if _is_lost(row, holds)]):
        if buried >= LOST_AT_A_TIME:
            return [], True, expired
        mailbox = connection.execute(_NEXT, {"key": key, "count": 0}).one()
        reason = DeathReason.MAILBOX_RIGHT_WITHDRAWN
        buried += _bury(connection, mailbox.id, mailbox.owner, key, lost, reason, now)
        look["most"] = max(most + 1, LOST_AT_A_TIME)
        found = connection.execute(_LOOK, look).all()
    chosen = 0
    for row in found[:most]:
        octets -= row.octets
        if octets < 0 and chosen:
            break
        chosen += 1
    if not chosen:
        return [], bool(found), expired
    values = {
        "key": key, "lease": lease, "until": until, "now": now, "last": found[chosen - 1].position
    }  # fmt: skip
    rows = connection.execute(_LEASE, values).all()
    held = [MailboxMessage(row.position, bytes(row.envelope), row.since, row.takes) for row in rows]
    return sorted(held, key=lambda one: one.position), len(found) > chosen, expired


def _is_lost(row: Row[Any], holds: Holds) -> bool:
    """True if who subscribed has no right any more to the message of *row*."""
    return row.granted is not None and not holds(grant_from(row.granted))


_HAS_EXPIRED = text(
    "SELECT 1 FROM mailbox_messages WHERE mailbox = :key AND expires <= :now LIMIT 1"
)


def _expire(connection: Connection, key: str, now: float) -> int:
    """Remove messages of a mailbox whose life is over, and that no reader has; how many."""
    if connection.execute(_HAS_EXPIRED, {"key": key, "now": now}).first() is None:
        return 0
    gone = connection.execute(
        mailbox_messages.delete()
        .where(mailbox_messages.c.mailbox == key, mailbox_messages.c.expires <= now, *nobodys(now))
        .returning(mailbox_messages.c.octets)
    )
    octets = gone.scalars().all()
    count(connection, key, -len(octets), -sum(octets))
    return len(octets)


def expire(connection: Connection, *, now: float) -> int:
    """Remove messages whose life is over from all mailboxes; how many."""
    query = select(mailbox_messages.c.mailbox).where(mailbox_messages.c.expires <= now)
    expired = 0
    for key in sorted(set(connection.execute(query.limit(AT_A_TIME)).scalars())):
        connection.execute(_NEXT, {"key": key, "count": 0})
        expired += _expire(connection, key, now)
    return expired


_ALL: Collection[int] | None = None


def acknowledge(
    connection: Connection, key: str, lease: str, positions: Collection[int] | None = _ALL
) -> int:
    """Remove leased messages: those at *positions*, or all of the lease; how many. Messages that
    are not under this lease any more stay."""
    connection.execute(_NEXT, {"key": key, "count": 0})
    query = mailbox_messages.delete().where(
        mailbox_messages.c.mailbox == key, mailbox_messages.c.lease == lease
    )
    if positions is not None:
        query = query.where(mailbox_messages.c.position.in_(list(positions)))
    gone = connection.execute(query.returning(mailbox_messages.c.octets)).scalars().all()
    count(connection, key, -len(gone), -sum(gone))
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
    """Note that leased messages were sent over a stream. They do not wait any more, but can be sent
    again while they are among the newest."""
    connection.execute(_NEXT, {"key": key, "count": 0})
    query = (
        mailbox_messages.update()
        .where(mailbox_messages.c.mailbox == key, mailbox_messages.c.lease == lease)
        .values(handed=now, lease=None, until=None)
        .returning(mailbox_messages.c.position, mailbox_messages.c.octets)
    )
    handed = connection.execute(query).all()
    octets = sum(row.octets for row in handed)
    count(connection, key, -len(handed), -octets)
    if octets > TRIMMED * 1024 or any(row.position % TRIMMED == 0 for row in handed):
        values = {"key": key, "most": REPLAYED, "octets": REPLAYED_OCTETS}
        connection.execute(_REPLAYED, values)
    return len(handed)


def release(
    connection: Connection, key: str, lease: str | None, positions: Collection[int] | None = _ALL
) -> int:
    """Give leased messages back, as the oldest; how many. None: of all leases."""
    return _set_until(connection, key, lease, positions, None)


def extend(
    connection: Connection,
    key: str,
    lease: str,
    positions: Collection[int] | None = _ALL,
    *,
    until: float,
) -> int:
    """Move the end of a lease; how many messages are still under it."""
    return _set_until(connection, key, lease, positions, until)


def _set_until(
    connection: Connection,
    key: str,
    lease: str | None,
    positions: Collection[int] | None,
    until: float | None,
) -> int:
    connection.execute(_NEXT, {"key": key, "count": 0})
    of = mailbox_messages.c.lease
    query = mailbox_messages.update().where(
        mailbox_messages.c.mailbox == key, of.is_not(None) if lease is None else of == lease
    )
    if positions is not None:
        query = query.where(mailbox_messages.c.position.in_(list(positions)))
    values = {"until": until} if until is not None else {"until": None, "lease": None}
    return connection.execute(query.values(values)).rowcount


def rewind(connection: Connection, key: str, after: int) -> int:
    """Of the messages that a stream sent, remove those sent up to the one at position *after*, and
    let the rest wait again; how many do.

    A message that was given back was sent behind newer ones, so the time of sending decides, not
    the position. Where the message at *after* is not kept any more, all that are kept were sent
    behind it.
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
    count(connection, key, len(again), sum(again))
    return len(again)


def sweep(connection: Connection, *, now: float, oldest: float, handed: float) -> int:
    """Remove messages that a stream sent before *handed*, and move those that came before *oldest*
    to the dead letters; how many of the latter."""
    connection.execute(mailbox_messages.delete().where(mailbox_messages.c.handed < handed))
    query = (
        select(mailbox_messages.c.mailbox, mailbox_messages.c.position)
        .where(mailbox_messages.c.since < oldest, *nobodys(now))
        .limit(AT_A_TIME)
    )
    old: dict[str, list[int]] = {}
    for key, position in connection.execute(query):
        old.setdefault(key, []).append(position)
    buried = 0
    for key in sorted(old):
        mailbox = connection.execute(_NEXT, {"key": key, "count": 0}).first()
        if mailbox is None:
            connection.execute(mailbox_messages.delete().where(mailbox_messages.c.mailbox == key))
        else:
            reason = DeathReason.MAILBOX_AGE
            buried += _bury(connection, mailbox.id, mailbox.owner, key, old[key], reason, now)
    return buried


def redrive(
    connection: Connection,
    selection: Selection,
    *,
    now: float,
    after: int = 0,
    upto: int,
) -> tuple[Slice, dict[str, int]]:
    """Put a slice of the dead letters of mailboxes back, as the newest messages; how many, by the
    keys of the mailboxes."""
    slice_, taken = dead_letters.redrive_to_mailboxes(connection, selection, after=after, upto=upto)
    boundless = MailboxBounds(2**31, 2**62)
    again: dict[str, int] = {}
    for row, key, letter in taken:
        put(
            connection,
            key,
            [(row.delivery_id, letter.payload)],
            bounds=boundless,
            now=now,
            granted=letter.properties.get(PROPERTY),
        )
        again[key] = again.get(key, 0) + 1
    return slice_, again
