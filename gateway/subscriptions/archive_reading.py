"""Reads an archive for one subscription: slices, the filter, and rows that wait in the store.

    archive --slices--> filter --matches--> rows of the store that wait, with the progress
       thread             thread              |
                                              +--> delivery, as of anything that waits

It reads on while few deliveries wait for the subscription: a replay takes no room from what is
published meanwhile. How far it is stands in the store, in the transaction that lets the rows wait,
so that a crash neither loses nor doubles any.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import TypeVar

from sqlalchemy import Connection

from adapters import Evaluated
from filters import (
    Deferred,
    Expression,
    Filter,
    FilterError,
    Question,
    Step,
    Topic,
    compile,
    parse_clark,
    parse_expression,
)
from filters.archive import Row
from filters.archive_positions import Position
from filters.archive_ranges import ArchiveReader, share_of
from filters.dialects import TOPIC_FULL
from gateway.delivery import Entry, WorkSharing, author, next_position
from gateway.mailboxes.transport import SCHEME
from gateway.model.channels import CHANNEL_PROPERTY
from gateway.model.replays import Replay, ReplayKind, ReplayProgress, ReplaySelection
from gateway.observing.system_events import is_system_topic
from gateway.publishing.filter_thread import FilterThread
from gateway.security.principals import tenant_of
from gateway.store import Store, StoreUnavailable
from gateway.store import replays as rows
from gateway.store.replicas import HOUSE
from gateway.subscriptions.matching import Guard, MayPublish, MayReceive
from mediation.grid_events import VIA_PROPERTY
from mediation.model.messages import EndpointReference, Notification
from mediation.model.versions import Wsa
from mediation.order_keys import key_of
from mediation.tenants import as_its_tenant_knows_it, tenant_of_topic, topic_in

PART = 64
"""Rows that are matched, and added in one transaction, at a time."""
WAITING, WAITING_OCTETS = 256, 16 * 2**20
"""Deliveries that may wait for a subscription before more are added, and their bytes."""
PAUSE = 0.5
"""Seconds after which is looked again whether fewer wait."""
RETRY = 2.0
"""Seconds after which the store, or the archive, is asked again."""
AHEAD = 10**9
"""Nanoseconds by which positions may be ahead of the times of their messages, where many came at
the same time: 15,000. It is less than a reader keeps behind what is published."""
ARCHIVED = "urn:dragoman:archive"
"""The source of messages in archives that do not say who published."""

T = TypeVar("T")
Evaluate = Callable[[str, Sequence[Question]], Awaitable[Evaluated | None]]
"""`XPathFilterAdapter.evaluate`."""


def notification_of(row: Row) -> Notification:
    """The message that a row of an archive was, without its header blocks and attachments.

    Raises:
        ValueError: The row's topic is not one.
    """
    producer = None if row.producer is None else EndpointReference(row.producer, Wsa.V2005_08)
    return as_its_tenant_knows_it(
        Notification(
            row.id,
            row.source or ARCHIVED,
            row.payload.encode(),
            row.time,
            parse_clark(row.topic) if row.topic else None,
            row.action,
            producer,
            properties=row.properties,
        )
    )


def selected(filter_: Filter, selection: ReplaySelection) -> Filter:
    """What of *filter_* a replay wants.

    Raises:
        FilterError: The filter cannot be evaluated over an archive, or the selection is not valid.
    """
    declared = selection.namespaces
    topics, contents = filter_.topics, filter_.contents
    if selection.topic is not None:
        topics = (*topics, Expression(selection.topic, TOPIC_FULL, declared))
    if selection.xpath is not None:
        contents = (*contents, Expression(selection.xpath, namespaces=declared))
    wanted = replace(filter_, topics=topics, contents=contents)
    compile(wanted)
    return wanted


@dataclass(frozen=True, slots=True)
class Rules:
    """Who may get what of an archive.

    Attributes:
        may_receive: Whether the owner of a subscription may get what is on a topic; None: all may.
        may_publish: Whether who published natively had a right to; None: all had.
        guard: Says which topics are somebody's; what is on these is not replayed, because the
            proofs of its publishers are not in an archive. None: none is.
    """

    may_receive: MayReceive | None = None
    may_publish: MayPublish | None = None
    guard: Guard | None = None

    def allow(self, entry: Entry, tenant: str, notification: Notification) -> bool:
        """True if *entry* may get *notification*, an event of *tenant*, if its filter takes it."""
        subscription, topic = entry.subscription, notification.topic
        properties = notification.properties
        passed = frozenset(properties.get(VIA_PROPERTY, "").split())
        return (
            tenant == tenant_of(subscription.owner)
            and properties.get(CHANNEL_PROPERTY, "") == subscription.policy.channel
            and passed.isdisjoint((subscription.consumer.address, entry.target.url))
            and not is_system_topic(topic)
            and not (self.guard is not None and topic is not None and self.guard.guards(topic))
            and (self.may_publish is None or self.may_publish(notification))
            and (self.may_receive is None or self.may_receive(subscription.owner, topic))
        )


class ArchiveReading:
    """Reads the archive in the folder of *reader* for *entry*, as *replay* says.

    Args:
        turns: Of all that read at a time.
        readings: Counts those there are: each keeps a slice while it waits for its consumer.
        evaluate: Evaluates what is dear, for the key of a subscription.

    Attributes:
        replay: As it is now; None where it runs no longer, or somebody else went on with it.
        replayed: How many deliveries were added.
    """

    def __init__(
        self,
        replay: Replay,
        entry: Entry,
        reader: ArchiveReader,
        thread: FilterThread,
        store: Store,
        sharing: WorkSharing,
        *,
        turns: asyncio.Semaphore,
        readings: Callable[[], int],
        evaluate: Evaluate,
        rules: Rules,
    ) -> None:
        self.replay: Replay | None = replay
        self.replayed = 0
        self._entry = entry
        self._reader = reader
        self._thread = thread
        self._store = store
        self._sharing = sharing
        self._turns = turns
        self._readings = readings
        self._evaluate = evaluate
        self._rules = rules
        self._position: int | None = None
        """The last position that a row got."""

    @property
    def goes_on(self) -> bool:
        """True while there is somebody to read for."""
        return self.replay is not None and not self._entry.ended

    async def read(self, until: datetime, *, hurry: bool = False) -> None:
        """Read until all rows before *until* are taken up, or it runs no longer.

        Args:
            hurry: However many deliveries wait.

        Raises:
            FilterError: The filter cannot be evaluated here.
            ImportError: The archive is Parquet, and pyarrow is not installed.
        """
        done = False
        while self.goes_on and not done:
            done = await self._read_slice(until, hurry)

    async def _read_slice(self, until: datetime, hurry: bool) -> bool:
        """Read the next slice. Returns whether that was the last one."""
        assert self.replay is not None
        async with self._turns:
            try:
                position = self.replay.progress.position
                rows_, octets = share_of(self._readings())
                found = await asyncio.to_thread(
                    self._reader.next, position, until, rows=rows_, octets=octets
                )
            except OSError as error:
                await self.describe(f"the archive cannot be read: {error}")
                await asyncio.sleep(RETRY)
                return False
        for first in range(0, len(found.rows), PART):
            await self._read_part(found.rows[first : first + PART], hurry)
        replay = self._current()
        if replay is not None and found.position > replay.progress.position:
            await self._add(replace(replay.progress, position=found.position), [])
        return found.done

    def _current(self) -> Replay | None:
        return self.replay

    async def _read_part(self, part: Sequence[Row], hurry: bool) -> None:
        """Take up those of *part* that the filter takes, as fast as is allowed."""
        if self.replay is None:
            return
        matches, unevaluated = await self._matches(part)
        former, rate = self.replay.progress, self.replay.rate
        behind = ReplayProgress(
            Position(part[-1].time, part[-1].id),
            former.read + len(part),
            unevaluated=former.unevaluated + unevaluated,
        )
        most = PART if rate is None else max(1, int(rate))
        for first in range(0, max(1, len(matches)), most):
            some = matches[first : first + most]
            if some and not hurry:
                await self._wait_for_room()
            if not self.goes_on:
                return
            progress = behind
            if first + most < len(matches):
                progress = replace(former, position=Position(some[-1].time, some[-1].id))
            began = time.monotonic()
            await self._add(progress, some)
            if rate is not None:
                await asyncio.sleep(max(0.0, began + len(some) / rate - time.monotonic()))

    async def _matches(self, part: Sequence[Row]) -> tuple[list[Notification], int]:
        """The messages of *part* that the subscription gets, and how many could not be
        evaluated."""
        allowed, unevaluated = [], 0
        for row in part:
            try:
                notification = notification_of(row)
                tenant = tenant_of_topic(parse_clark(row.topic) if row.topic else None)
            except ValueError:
                unevaluated += 1
                continue
            if self._rules.allow(self._entry, tenant, notification):
                allowed.append(notification)
        matches: list[Notification] = []
        candidates, failed = await self._candidates(allowed)
        for notification, costly in candidates:
            taken = True if costly is None else await self._verdict(costly)
            if taken is None:
                unevaluated += 1
            elif taken:
                matches.append(notification)
        return matches, unevaluated + failed

    async def _candidates(
        self, part: Sequence[Notification]
    ) -> tuple[list[tuple[Notification, Deferred[str] | None]], int]:
        """Those that the filter takes, or may take; and how many cannot be matched: what others
        wrote to an archive need not be XML that a gateway takes."""
        try:
            return (await self._thread.match(part)).messages, 0
        except FilterError:
            raise
        except Exception:
            if len(part) <= 1:
                return [], len(part)
        found, failed = [], 0
        for one in part:
            some, bad = await self._candidates([one])
            found += some
            failed += bad
        return found, failed

    async def _verdict(self, costly: Deferred[str]) -> bool | None:
        """Whether what is left of the filter takes a message; None: not within its budget."""
        while True:
            question = (costly.expressions, costly.documents)
            evaluated = await self._evaluate(self._entry.subscription.key, [question])
            if evaluated is not None:
                [verdict] = evaluated.verdicts
                return verdict
            await asyncio.sleep(PAUSE)  # Others wait, too.

    async def _wait_for_room(self) -> None:
        """Wait until few deliveries wait for the subscription, and few messages in its mailbox."""
        target, described = self._entry.target, False
        mailbox = target.host if target.scheme == SCHEME else None
        look = partial(rows.waiting, subscription=self._entry.id, mailbox=mailbox)
        while not self._entry.ended:
            waiting = await self.asked(look)
            if waiting.count < WAITING and waiting.octets < WAITING_OCTETS:
                return
            if not described:
                await self.describe(f"{waiting.count} deliveries wait for the consumer")
                described = True
            await asyncio.sleep(PAUSE)

    async def _add(self, progress: ReplayProgress, found: Sequence[Notification]) -> None:
        """Let *found* wait for the subscription, and note the progress."""
        assert self.replay is not None
        order = self._entry.subscription.policy.order_key
        work = [
            (one, await self._next_position(one), key_of(order, one) if order else None)
            for one in found
        ]
        adding = partial(rows.add, replay=self.replay, progress=progress, work=work)
        made = await self.asked(adding)
        if made is None:
            self.replay = None
            return
        self.replay, added = made
        self.replayed += added.count
        if added.count:
            await self._sharing.rows_added({self._entry.id: (added.count, added.octets)})

    async def _next_position(self, notification: Notification) -> int:
        """The position of a row: behind all that waits where somebody asked for a replay; at the
        start of a subscription by the time of the message, before all that is published now."""
        assert self.replay is not None
        own, now = author(self._sharing.number, HOUSE), time.time_ns()
        before = None
        if self.replay.kind is ReplayKind.START:
            now = min(now, nanoseconds(notification.time))
            before = nanoseconds(self.replay.progress.position.time) + AHEAD
        if self._position is None:  # Rows that a former run added are not met again.
            last = partial(rows.last_position, subscription=self._entry.id, before=before)
            self._position = await self.asked(last)
        self._position = next_position(self._position, now, own)
        return self._position

    async def describe(self, detail: str) -> None:
        """Note what it waits for."""
        if self.replay is not None:
            await self.asked(partial(rows.describe, replay=self.replay, detail=detail))

    async def asked(self, operation: Callable[[Connection], T]) -> T:
        """The answer of the store, which is asked until it is there."""
        while True:
            try:
                return await self._store.submit(operation)
            except StoreUnavailable:
                await asyncio.sleep(RETRY)


def nanoseconds(moment: datetime) -> int:
    """The POSIX time of *moment*, as positions have it."""
    return int(moment.timestamp() * 1_000_000) * 1000


def roots_of(filter_: Filter, tenant: str) -> frozenset[Step] | None:
    """The first steps of the topics that *filter_* of *tenant* can take; None: all."""
    if tenant:
        topic = topic_in(tenant, None)
        return frozenset(topic.steps[:1]) if isinstance(topic, Topic) else None
    found = [parse_expression(one).roots() for one in filter_.topics]
    known = [roots for roots in found if roots is not None]
    return frozenset.intersection(*known) if known else None
