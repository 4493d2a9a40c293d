"""Messages that a topic discovery node has answered, and proofs of possession that were used: each
counts once, for all gateways that share the store.

How many there are is counted beside them, of each sender and of all, so that a claim costs the same
however many are remembered. Those who write take the lock `gateway.store.advertisements.LOCK`.
A gateway of an older version that has the store, too, may count nothing: `recount` sets it right.
"""

from sqlalchemy import Connection, and_, func, or_, select, text

from gateway.model.advertisements import AdvertisementLimits, Claimed
from gateway.store.schema import discovery_claims, discovery_messages
from gateway.store.statements import add_counts, write_many

ALL = ""
"""The sender that stands for all."""
PROOF = "proof"
"""The kind of messages that are proofs of possession: they are counted apart."""
_FORGET = "DELETE FROM discovery_messages WHERE sender = ? AND message = ?"
AT_ONCE = 1000
"""Messages that are forgotten at once: a claim does not wait for many."""
_SENDER = discovery_claims.c.sender
_NOTHING = {"proofs": 0, "requests": 0}


def claim(
    connection: Connection,
    *,
    sender: str,
    message: str,
    notification: str,
    expires: float,
    now: float,
    limits: AdvertisementLimits,
    kind: str = "",
    most: int | None = None,
    once: bool = False,
) -> Claimed:
    """Remember a message by *sender*, which is to be answered, until it expires.

    Args:
        notification: The id of what it came in. The same message in the same notification may be
            answered again: it came again after a crash.
        once: It may not.
        kind, most: How many of a kind a sender may have claimed in the last minute; `PROOF` is
            a kind.
    """
    columns = discovery_messages.c
    own = (columns.sender == sender) & (columns.message == message)
    known = connection.execute(select(columns.notification, columns.expires).where(own)).first()
    if known is not None and known.expires >= now:
        same = known.notification == notification and not once
        return Claimed.YES if same else Claimed.REPLAYED
    left = forget_expired(connection, now, besides=(sender, message))
    if most is not None:
        lately = (columns.sender == sender) & (columns.kind == kind) & (columns.at > now - 60.0)
        counting = select(func.count()).select_from(discovery_messages).where(lately)
        if connection.execute(counting).scalar_one() >= most:
            return Claimed.TOO_OFTEN
    while _is_full(connection, sender, kind, limits):
        if not left:
            return Claimed.CROWDED
        left = forget_expired(connection, now)
    connection.execute(
        discovery_messages.insert().values(
            sender=sender,
            message=message,
            notification=notification,
            kind=kind,
            at=now,
            # Claims are counted by the minute, so that each is known for a minute at least.
            expires=expires if most is None else max(expires, now + 60.0),
        )
    )
    add_counts(connection, _SENDER, (sender, ALL), _NOTHING | {_counter(kind): 1})
    return Claimed.YES


def forget_expired(
    connection: Connection, now: float, *, besides: tuple[str, str] | None = None
) -> bool:
    """Forget some of the claims that have expired by *now*, and the message *besides*, by its
    sender and its own id. Returns whether more may be left."""
    columns = discovery_messages.c
    query = select(columns.sender, columns.message, columns.kind).where(columns.expires < now)
    found = connection.execute(query.order_by(columns.expires).limit(AT_ONCE)).all()
    gone = {(row.sender, row.message): row.kind for row in found}
    if besides is not None and besides not in gone:
        own = and_(columns.sender == besides[0], columns.message == besides[1])
        kind = connection.execute(select(columns.kind).where(own, columns.expires < now)).scalar()
        if kind is not None:
            gone[besides] = kind
    counts: dict[str, dict[str, int]] = {}
    for (sender, _), kind in gone.items():
        of_sender = counts.setdefault(sender, dict(_NOTHING))
        of_sender[_counter(kind)] -= 1
    if gone:
        write_many(connection, _FORGET, list(gone))
    for sender in sorted(counts):
        add_counts(connection, _SENDER, (sender, ALL), counts[sender])
    return len(found) == AT_ONCE


def recount(connection: Connection) -> bool:
    """Count the claims anew. Returns whether the counts were wrong.

    It reads every row: it is for whoever keeps house, now and then.
    """
    there = {
        row.sender: (int(row.proofs), int(row.requests))
        for row in connection.execute(_THERE, {"proof": PROOF})
    }
    there[ALL] = (sum(one for one, _ in there.values()), sum(one for _, one in there.values()))
    said = {ALL: (0, 0)}
    for row in connection.execute(select(discovery_claims)):
        said[row.sender] = (int(row.proofs), int(row.requests))
    if said == there:
        return False
    connection.execute(discovery_claims.delete())
    rows = [
        {"sender": sender, "proofs": proofs, "requests": requests}
        for sender, (proofs, requests) in there.items()
    ]
    connection.execute(discovery_claims.insert(), rows)
    return True


_THERE = text(
    "SELECT sender, SUM(CASE WHEN kind = :proof THEN 1 ELSE 0 END) AS proofs, "
    "SUM(CASE WHEN kind = :proof THEN 0 ELSE 1 END) AS requests "
    "FROM discovery_messages GROUP BY sender"
)


def _is_full(connection: Connection, sender: str, kind: str, limits: AdvertisementLimits) -> bool:
    """Return whether *sender*, or all senders, have as many claims of *kind* as may be
    remembered."""
    columns = discovery_claims.c
    query = select(columns.sender, columns[_counter(kind)].label("number"))
    found = connection.execute(query.where(or_(columns.sender == sender, columns.sender == ALL)))
    numbers = {row.sender: int(row.number) for row in found}
    of_sender = limits.proofs_of_sender if kind == PROOF else limits.requests_of_sender
    return numbers.get(sender, 0) >= of_sender or numbers.get(ALL, 0) >= limits.requests


def _counter(kind: str) -> str:
    return "proofs" if kind == PROOF else "requests"
