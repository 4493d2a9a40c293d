"""Mailboxes as rows: made, found, counted, and deleted with their messages."""

from collections.abc import Collection
from typing import Any

from sqlalchemy import Connection, Row, func, select, text

from gateway.model.mailboxes import Mailbox, MailboxKind, MailboxSize
from gateway.store.schema import mailbox_messages, mailboxes

AT_A_TIME = 1000
"""Mailboxes that one operation looks at."""
THINNED = 256
"""Messages that one transaction removes from a mailbox that is being destroyed."""


def make(
    connection: Connection, mailbox: Mailbox, *, now: float, of_owner: int | None, in_all: int
) -> bool:
    """Insert a mailbox, unless its owner or all have too many. Returns whether it was inserted."""
    if of_owner is not None:
        of_one = (
            select(func.count()).select_from(mailboxes).where(mailboxes.c.owner == mailbox.owner)
        )
        if connection.execute(of_one).scalar_one() >= of_owner:
            return False
    if connection.execute(select(func.count()).select_from(mailboxes)).scalar_one() >= in_all:
        return False
    connection.execute(
        mailboxes.insert().values(
            key=mailbox.key, id=mailbox.id, owner=mailbox.owner, kind=mailbox.kind.value,
            name=mailbox.name, created=now, used=now, position=0, messages=0, octets=0, dropped=0,
        )
    )  # fmt: skip
    return True


def number_of(connection: Connection, owners: str) -> int:
    """The number of mailboxes of owners whose names begin with *owners*."""
    theirs = mailboxes.c.owner.startswith(owners, autoescape=True)
    query = select(func.count()).select_from(mailboxes).where(theirs)
    return int(connection.execute(query).scalar_one())


def thin(connection: Connection, key: str) -> int:
    """Remove messages of a mailbox, `THINNED` at most; how many. They are subtracted from its
    counts, for the mailbox may still be there after a crash."""
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
    count(connection, key, -len(waiting), -sum(waiting))
    return len(gone)


def destroy(connection: Connection, key: str) -> bool:
    """Delete a mailbox and its messages. Returns whether there was one."""
    connection.execute(mailbox_messages.delete().where(mailbox_messages.c.mailbox == key))
    return bool(connection.execute(mailboxes.delete().where(mailboxes.c.key == key)).rowcount)


def forget(connection: Connection, key: str) -> bool:
    """Delete a mailbox and some of its messages. Returns whether some are left, for `thin`."""
    connection.execute(mailboxes.delete().where(mailboxes.c.key == key))
    return thin(connection, key) == THINNED


def load(
    connection: Connection,
    keys: Collection[str] | None = None,
    names: Collection[str] = (),
) -> list[Mailbox]:
    """All mailboxes, or those with *keys* and *names*."""
    query = select(mailboxes)
    if keys is not None:
        query = query.where(mailboxes.c.key.in_(list(keys)) | mailboxes.c.name.in_(list(names)))
    return [_mailbox(row) for row in connection.execute(query)]


def find(
    connection: Connection, *, key: str | None = None, name: str | None = None
) -> Mailbox | None:
    """The mailbox with this key, or this name."""
    query = select(mailboxes)
    query = query.where(mailboxes.c.key == key if name is None else mailboxes.c.name == name)
    row = connection.execute(query).first()
    return None if row is None else _mailbox(row)


def _mailbox(row: Row[Any]) -> Mailbox:
    return Mailbox(row.key, row.id, row.owner, MailboxKind(row.kind), row.name)


def size(connection: Connection, key: str) -> MailboxSize | None:
    """The counts of a mailbox; None where there is no such mailbox."""
    row = connection.execute(select(mailboxes).where(mailboxes.c.key == key)).first()
    if row is None:
        return None
    return _size(row)


def _size(row: Row[Any]) -> MailboxSize:
    return MailboxSize(row.messages, row.octets, row.dropped, row.created, row.used)


def listed(
    connection: Connection,
    *,
    after: str = "",
    limit: int,
    id_: str | None = None,
    owners: str = "",
) -> list[tuple[Mailbox, MailboxSize]]:
    """Mailboxes in the order of their ids, from the one after *after*, of owners whose names begin
    with *owners*; or the one with an id."""
    query = select(mailboxes).order_by(mailboxes.c.id).limit(limit)
    query = query.where(mailboxes.c.id > after if id_ is None else mailboxes.c.id == id_)
    if owners:
        query = query.where(mailboxes.c.owner.startswith(owners, autoescape=True))
    return [(_mailbox(row), _size(row)) for row in connection.execute(query)]


def overall(connection: Connection) -> tuple[int, int, int]:
    """The number of mailboxes, and of messages and octets that wait in all of them."""
    count, waiting, octets = connection.execute(
        select(
            func.count(),
            func.coalesce(func.sum(mailboxes.c.messages), 0),
            func.coalesce(func.sum(mailboxes.c.octets), 0),
        )
    ).one()
    return int(count), int(waiting), int(octets)


def unused(connection: Connection, before: float) -> list[str]:
    """The keys of mailboxes that nobody has read since *before*, without those that end with a
    subscription."""
    query = select(mailboxes.c.key).where(
        mailboxes.c.used < before, mailboxes.c.kind != MailboxKind.SUBSCRIPTION.value
    )
    query = query.limit(AT_A_TIME)
    return list(connection.execute(query).scalars())


_COUNT = text(
    "UPDATE mailboxes SET messages = messages + :messages, octets = octets + :octets, "
    "dropped = dropped + :dropped WHERE key = :key"
)


def count(connection: Connection, key: str, number: int, octets: int, *, dropped: int = 0) -> None:
    """Add to the counts of a mailbox."""
    if number or octets or dropped:
        values = {"key": key, "messages": number, "octets": octets, "dropped": dropped}
        connection.execute(_COUNT, values)
