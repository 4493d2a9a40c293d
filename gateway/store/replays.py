"""Replays of archives into subscriptions, as operations on a connection.

What is replayed waits in the store as any delivery does, and in the same transaction the replay
says how far it is: a crash neither loses a row nor adds one twice.
"""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Row, func, select, text

from filters.archive_positions import Position
from gateway.model.replays import Replay, ReplayKind, ReplayProgress, ReplaySelection, ReplayState
from gateway.store import replicas, schema, waiting_deliveries
from gateway.store.messages import storable
from gateway.store.schema import held, mailbox_messages, replays
from gateway.store.statements import number
from gateway.store.waiting_deliveries import HeldRow
from mediation.model.messages import Notification

MOST = 100
"""Replays that run at a time."""
KEPT = 30 * 86_400.0
"""Seconds for which a replay that has ended is remembered."""
_GOING = (ReplayState.RUNNING.value, ReplayState.CANCELLING.value)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_BEGIN = text(
    "INSERT INTO replays (subscription, kind, since, until, selection, rate, state, detail, "
    "reached, reached_id, read, replayed, known, unevaluated, begun, changed) "
    "VALUES (:subscription, :kind, :since, :until, :selection, :rate, 'running', '', "
    ":reached, :reached_id, 0, 0, 0, 0, :begun, :begun) "
    "ON CONFLICT (subscription) DO UPDATE SET kind = excluded.kind, since = excluded.since, "
    "until = excluded.until, selection = excluded.selection, rate = excluded.rate, "
    "state = 'running', detail = '', reached = excluded.reached, "
    "reached_id = excluded.reached_id, read = 0, replayed = 0, known = 0, unevaluated = 0, "
    "begun = excluded.begun, changed = excluded.changed "
    "WHERE replays.state NOT IN ('running', 'cancelling')"
)


@dataclass(frozen=True, slots=True)
class Added:
    """A number of deliveries that wait, and their bytes."""

    count: int
    octets: int


def begin(connection: Connection, replay: Replay) -> bool:
    """Begin a replay; False where one runs into the same subscription already."""
    position = replay.progress.position
    values = {
        "subscription": replay.subscription,
        "kind": replay.kind.value,
        "since": _microseconds(replay.since.time),
        "until": None if replay.until is None else _microseconds(replay.until),
        "selection": _written(replay),
        "rate": replay.rate,
        "reached": _microseconds(position.time),
        "reached_id": storable(position.id),
        "begun": replay.begun,
    }
    return connection.execute(_BEGIN, values).rowcount == 1


def find(connection: Connection, subscription: str) -> Replay | None:
    """The last replay into a subscription; None where there was none."""
    query = select(replays).where(replays.c.subscription == subscription)
    row = connection.execute(query).first()
    return None if row is None else _read(row)


def running(connection: Connection) -> list[Replay]:
    """All replays that run, or are about to end, in the order in which they began."""
    query = select(replays).where(replays.c.state.in_(_GOING))
    return [_read(row) for row in connection.execute(query.order_by(replays.c.begun))]


def add(
    connection: Connection,
    replay: Replay,
    progress: ReplayProgress,
    work: Sequence[tuple[Notification, int, str | None]],
) -> tuple[Replay, Added] | None:
    """Let notifications wait for the subscription of *replay*, each at its position and with its
    key, and note the
    *progress* that this is, but for how many were replayed or known, which shows here: those that
    wait already, or lie in the dead letters, are left out.

    They wait in the first partition, so that they are sent in their order.

    Returns:
        The replay as it is now; None where it runs no longer, or somebody else went on with it.
    """
    there = (
        select(schema.subscriptions.c.id)
        .where(schema.subscriptions.c.id == replay.subscription)
        .with_for_update(read=True)  # It cannot end before this is committed.
    )
    if connection.execute(there).first() is None:
        return None
    id_, now = replay.subscription, time.time()
    rows = [
        (notification, HeldRow(id_, position, notification.octets, now, order_key=key))
        for notification, position, key in work
    ]
    if not _note(connection, replay, progress):
        return None
    kept = waiting_deliveries.hold(connection, rows) if rows else []
    octets = sum(row.octets for (_, row), new in zip(rows, kept, strict=True) if new)
    added = Added(sum(kept), octets)
    progress = replace(
        progress,
        replayed=replay.progress.replayed + added.count,
        known=replay.progress.known + len(rows) - added.count,
    )
    connection.execute(
        replays.update()
        .where(replays.c.subscription == id_)
        .values(replayed=progress.replayed, known=progress.known)
    )
    if added.count and number(connection):
        replicas.changed(connection, id_, {0: (added.count, added.octets)})
    return replace(replay, progress=progress, changed=now, detail=""), added


def _note(connection: Connection, replay: Replay, progress: ReplayProgress) -> bool:
    """Note *progress*, where *replay* runs and is as far as it says."""
    former = replay.progress.position
    noted = (
        replays.update()
        .where(
            *_same(replay),
            replays.c.state == ReplayState.RUNNING.value,
            replays.c.reached == _microseconds(former.time),
            replays.c.reached_id == storable(former.id),
        )
        .values(
            reached=_microseconds(progress.position.time),
            reached_id=storable(progress.position.id),
            read=progress.read,
            unevaluated=progress.unevaluated,
            changed=time.time(),
            detail="",
        )
    )
    return connection.execute(noted).rowcount == 1


def _same(replay: Replay) -> tuple[Any, ...]:
    return replays.c.subscription == replay.subscription, replays.c.begun == replay.begun


def describe(connection: Connection, replay: Replay, detail: str) -> None:
    """Note what *replay* waits for."""
    connection.execute(replays.update().where(*_same(replay)).values(detail=detail))


def end(connection: Connection, replay: Replay, state: ReplayState, detail: str = "") -> bool:
    """Note that *replay* has ended, and why; False where it had."""
    values = {"state": state.value, "detail": detail, "changed": time.time()}
    going = replays.update().where(*_same(replay), replays.c.state.in_(_GOING))
    return connection.execute(going.values(values)).rowcount == 1


def cancel(connection: Connection, subscription: str) -> None:
    """Have the replay into a subscription end, if one runs."""
    running = replays.c.state == ReplayState.RUNNING.value
    cancelled = replays.update().where(replays.c.subscription == subscription, running)
    connection.execute(cancelled.values(state=ReplayState.CANCELLING.value))


def waiting(connection: Connection, subscription: str, mailbox: str | None = None) -> Added:
    """The deliveries that wait for a subscription in the store, and the messages in the *mailbox*
    with this key; and their bytes."""
    query = select(func.count(), func.coalesce(func.sum(held.c.octets), 0))
    count, octets = connection.execute(query.where(held.c.subscription == subscription)).one()
    if mailbox is not None:
        there = mailbox_messages.c
        query = select(func.count(), func.coalesce(func.sum(there.octets), 0))
        query = query.where(there.mailbox == mailbox, there.handed.is_(None))
        more, bytes_ = connection.execute(query).one()
        count, octets = count + more, octets + bytes_
    return Added(count, int(octets))


def last_position(connection: Connection, subscription: str, before: int | None = None) -> int:
    """The highest position of a delivery that waits for a subscription, among those *before*
    one, or among all; 0 where none does."""
    query = select(func.max(held.c.position)).where(held.c.subscription == subscription)
    if before is not None:
        query = query.where(held.c.position < before)
    return int(connection.execute(query).scalar() or 0)


def forget(connection: Connection) -> None:
    """Forget replays that ended long ago, and those of subscriptions that are gone."""
    alive = select(schema.subscriptions.c.id)
    old = replays.c.changed < time.time() - KEPT
    ended = replays.c.state.not_in(_GOING)
    gone = replays.c.subscription.not_in(alive)
    connection.execute(replays.delete().where((ended & old) | gone))


def _written(replay: Replay) -> str:
    selection = replay.selection
    return json.dumps(
        {
            "since_id": replay.since.id,
            "topic": selection.topic,
            "xpath": selection.xpath,
            "namespaces": dict(selection.namespaces),
        }
    )


def _read(row: Row[Any]) -> Replay:
    said = json.loads(row.selection)
    namespaces = tuple(sorted(said["namespaces"].items()))
    return Replay(
        row.subscription,
        Position(_moment(row.since), said["since_id"]),
        None if row.until is None else _moment(row.until),
        ReplaySelection(said["topic"], said["xpath"], namespaces),
        row.rate,
        ReplayProgress(
            Position(_moment(row.reached), row.reached_id),
            row.read,
            row.replayed,
            row.known,
            row.unevaluated,
        ),
        row.begun,
        row.changed,
        ReplayState(row.state),
        row.detail,
        ReplayKind(row.kind),
    )


def _microseconds(moment: datetime) -> int:
    return (moment - _EPOCH) // _MICROSECOND


def _moment(microseconds: int) -> datetime:
    return _EPOCH + microseconds * _MICROSECOND
