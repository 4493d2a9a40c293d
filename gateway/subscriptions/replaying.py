"""Replays: a range of the archive is read again, and delivered to one subscription.

    archive --slices--> filter --matches--> rows of the store that wait, with the progress
       thread             thread              |
                                              +--> delivery, as of anything that waits

The gateway that keeps house reads, whichever was asked. It reads on while few deliveries wait for
the subscription: a replay takes no room from what is published meanwhile. How far it is stands in
the store, in the transaction that lets the rows wait, so that a crash neither loses nor doubles
any.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import TypeVar

import structlog
from sqlalchemy import Connection

from adapters import Evaluated
from filters import (
    Deferred,
    Expression,
    Filter,
    FilterError,
    Question,
    Reason,
    Refused,
    Step,
    Topic,
    View,
    compile,
    parse_clark,
    parse_expression,
)
from filters.archive import Row
from filters.archive_ranges import ArchiveReader, Position
from filters.dialects import TOPIC_FULL
from gateway.delivery import Entry, WorkSharing, author, next_position
from gateway.model.channels import CHANNEL_PROPERTY
from gateway.model.replays import Replay, ReplayProgress, ReplaySelection, ReplayState
from gateway.observing.samples import Sample, counter
from gateway.observing.system_events import is_system_topic
from gateway.publishing.archive import Archive
from gateway.publishing.filter_thread import FilterThread
from gateway.security.principals import tenant_of
from gateway.security.quotas import QuotaExceeded
from gateway.store import Store, StoreUnavailable
from gateway.store import replays as rows
from gateway.store.replicas import HOUSE
from gateway.subscriptions.matching import Guard, MayPublish, MayReceive
from gateway.subscriptions.table import SubscriptionTable
from mediation.filtering import of_producer
from mediation.grid_events import VIA_PROPERTY
from mediation.model.messages import EndpointReference, Notification
from mediation.model.versions import Wsa
from mediation.tenants import as_its_tenant_knows_it, tenant_of_topic, topic_in

LOOK = 2.0
"""Seconds from one look for new replays to the next."""
AT_A_TIME = 4
"""Replays that are read at a time; others have their turn in between."""
PART = 64
"""Rows that are matched, and added in one transaction, at a time."""
WAITING, WAITING_OCTETS = 256, 16 * 2**20
"""Deliveries that may wait for a subscription before more are added, and their bytes."""
PAUSE = 0.5
"""Seconds after which is looked again whether fewer wait."""
RETRY = 2.0
"""Seconds after which the store, or the archive, is asked again."""
ARCHIVED = "urn:dragoman:archive"
"""The source of messages in archives that do not say who published."""

T = TypeVar("T")
Evaluate = Callable[[str, Sequence[Question]], Awaitable[Evaluated | None]]
"""`XPathFilterAdapter.evaluate`."""
Documents = Callable[[Collection[View]], Awaitable[Mapping[View, bytes]]]
"""`ProducerDocuments.of`."""
_log = structlog.get_logger("dragoman.replays")


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


class Replays:
    """Begins, carries out and cancels replays of *archive*; None: this gateway has none.

    Args:
        evaluate: Evaluates what is dear, for the key of a subscription.
        documents: Returns the documents of the producer that views name, as they are now.
    """

    def __init__(
        self,
        archive: Archive | None,
        store: Store,
        table: SubscriptionTable,
        sharing: WorkSharing,
        evaluate: Evaluate,
        documents: Documents,
        rules: Rules,
    ) -> None:
        self._archive = archive
        self._store = store
        self._table = table
        self._sharing = sharing
        self._evaluate = evaluate
        self._documents = documents
        self._rules = rules
        self._turns = asyncio.Semaphore(AT_A_TIME)
        self._tasks: dict[tuple[str, float], asyncio.Task[None]] = {}
        self._wake = asyncio.Event()
        self._position = 0
        self.replayed = 0

    def metrics(self) -> Iterator[Sample]:
        if self._archive is not None:
            yield counter("replayed", "Deliveries replayed from the archive.", self.replayed)

    async def begin(
        self,
        entry: Entry,
        since: Position,
        until: datetime,
        selection: ReplaySelection,
        rate: float | None,
    ) -> Replay:
        """Begin a replay into *entry* of what was published from *since* on, before *until*; it is
        in the store on return.

        Raises:
            Refused: ``ACTION_UNSUPPORTED``: there is no archive, the subscription keeps nothing, or
                one runs already. ``FILTER_...``: its filter cannot be evaluated over an archive.
            QuotaExceeded: Too many run.
        """
        if self._archive is None:
            text = "This gateway has no archive: start it with --archive DIR."
            raise Refused(Reason.ACTION_UNSUPPORTED, text)
        if entry.delivery.at_most_once:
            text = "It wants each event at most once, so nothing waits for it: none is replayed."
            raise Refused(Reason.ACTION_UNSUPPORTED, text)
        selected(entry.subscription.filter, selection)
        now = time.time()
        progress = ReplayProgress(since)
        replay = Replay(entry.id, since, until, selection, rate, progress, now, now)
        await self._store.submit(rows.forget)
        if len(await self._store.submit(rows.running)) >= rows.MOST:
            raise QuotaExceeded(Reason.QUOTA, f"{rows.MOST} replays run already.")
        if not await self._store.submit(partial(rows.begin, replay=replay)):
            text = "A replay into this subscription runs: wait for its end, or cancel it."
            raise Refused(Reason.ACTION_UNSUPPORTED, text)
        _log.info(
            "replay.started",
            subscription=entry.id, since=str(since), until=str(Position(until)), rate=rate,
        )  # fmt: skip
        self._wake.set()
        return replay

    async def find(self, entry: Entry) -> Replay | None:
        """The last replay into *entry*; None where there was none."""
        return await self._store.submit(partial(rows.find, subscription=entry.id))

    async def cancel(self, entry: Entry) -> Replay | None:
        """End the replay into *entry* that runs, if one does. What waits already is delivered.
        Returns the last one, as `find` does."""
        replay = await self.find(entry)
        if replay is not None and replay.state is ReplayState.RUNNING:
            await self._end(replay, ReplayState.CANCELLED)
        return await self.find(entry)

    async def run(self) -> None:
        """Carry out replays while this gateway keeps house, for ever."""
        try:
            while True:
                self._wake.clear()
                with suppress(StoreUnavailable):
                    await self._look()
                with suppress(TimeoutError):
                    async with asyncio.timeout(LOOK):
                        await self._wake.wait()
        finally:
            for task in self._tasks.values():
                task.cancel()
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _look(self) -> None:
        """Begin to read for replays that run, and stop for those that do not."""
        found = await self._store.submit(rows.running) if self._sharing.keeps_house else []
        there = {(one.subscription, one.begun): one for one in found}
        for key, task in list(self._tasks.items()):
            if task.done():
                del self._tasks[key]
            elif key not in there:
                task.cancel()
        for key, replay in there.items():
            if key not in self._tasks:
                self._tasks[key] = asyncio.create_task(self._carry_out(replay))

    async def _carry_out(self, replay: Replay) -> None:
        try:
            await self._replay(replay)
        except FilterError as error:
            await self._fail(replay, error.text)
        except ImportError as error:
            await self._fail(replay, f"the archive is Parquet, and pyarrow is missing: {error}")
        except Exception as error:
            _log.exception("replay.broken", subscription=replay.subscription)
            await self._fail(replay, f"{type(error).__name__}: {error}"[:500])

    async def _replay(self, replay: Replay) -> None:
        """Replay what is left of *replay*; until that is done, cancelled, or its subscription
        ended."""
        if self._archive is None:
            raise FilterError(Reason.UNAVAILABLE, "the gateway that keeps house has no archive")
        entry = self._table.by_id(replay.subscription)
        if entry is None:
            return  # Not known here yet, or gone: looked at again.
        filter_ = selected(entry.subscription.filter, replay.selection)
        views = {one.view for one in filter_.contents if of_producer(one)}
        documents = await self._documents(views) if views else {}
        tenant = tenant_of(entry.subscription.owner)
        await self._archive.flush()
        reader = ArchiveReader(self._archive.folder, _roots(filter_, tenant))
        thread = FilterThread(filter_, documents)
        going: Replay | None = replay
        try:
            while going is not None and not entry.ended:
                going = await self._step(going, entry, reader, thread)
        finally:
            thread.close()

    async def _step(
        self, replay: Replay, entry: Entry, reader: ArchiveReader, thread: FilterThread
    ) -> Replay | None:
        """Replay the next slice. Returns the replay as it is then; None at its end."""
        async with self._turns:
            try:
                position = replay.progress.position
                found = await asyncio.to_thread(reader.next, position, replay.until)
            except OSError as error:
                await self._describe(replay, f"the archive cannot be read: {error}")
                await asyncio.sleep(RETRY)
                return replay
        going: Replay | None = replay
        for first in range(0, len(found.rows), PART):
            part = found.rows[first : first + PART]
            going = await self._replay_part(replay, entry, part, thread)
            if going is None:
                return None
            replay = going
        progress = replace(replay.progress, position=found.position)
        moved = await self._add(replay, entry, progress, [])
        if moved is None or not found.done:
            return moved
        detail = f"damaged, left out: {', '.join(reader.damaged)}" if reader.damaged else ""
        await self._end(moved, ReplayState.DONE, detail)
        return None

    async def _replay_part(
        self, replay: Replay, entry: Entry, part: Sequence[Row], thread: FilterThread
    ) -> Replay | None:
        """Replay those of *part* that the filter takes, as fast as is allowed."""
        matches, unevaluated = await self._matches(entry, part, thread)
        most = PART if replay.rate is None else max(1, int(replay.rate))
        progress = replace(
            replay.progress,
            read=replay.progress.read + len(part),
            unevaluated=replay.progress.unevaluated + unevaluated,
        )
        going: Replay | None = replay
        for first in range(0, len(matches), most):
            if going is None:
                return None
            await self._wait_for_room(going, entry)
            some = matches[first : first + most]
            last = some[-1]
            done = replace(going.progress, position=Position(last.time, last.id))
            if first + most >= len(matches):
                done = replace(
                    done, position=_behind(part), read=progress.read,
                    unevaluated=progress.unevaluated,
                )  # fmt: skip
            began = time.monotonic()
            going = await self._add(going, entry, done, some)
            if going is not None and going.rate is not None:
                await asyncio.sleep(max(0.0, began + len(some) / going.rate - time.monotonic()))
        if not matches:
            return await self._add(replay, entry, replace(progress, position=_behind(part)), [])
        return going

    async def _matches(
        self, entry: Entry, part: Sequence[Row], thread: FilterThread
    ) -> tuple[list[Notification], int]:
        """The messages of *part* that *entry* gets, and how many could not be evaluated."""
        allowed, unevaluated = [], 0
        for row in part:
            try:
                notification = notification_of(row)
                tenant = tenant_of_topic(parse_clark(row.topic) if row.topic else None)
            except ValueError:
                unevaluated += 1
                continue
            if self._rules.allow(entry, tenant, notification):
                allowed.append(notification)
        matches: list[Notification] = []
        candidates, failed = await self._candidates(allowed, thread)
        for notification, costly in candidates:
            taken = True if costly is None else await self._verdict(entry, costly)
            if taken is None:
                unevaluated += 1
            elif taken:
                matches.append(notification)
        return matches, unevaluated + failed

    async def _candidates(
        self, part: Sequence[Notification], thread: FilterThread
    ) -> tuple[list[tuple[Notification, Deferred[str] | None]], int]:
        """Those that the filter takes, or may take; and how many cannot be matched: what others
        wrote to an archive need not be XML that a gateway takes."""
        try:
            return (await thread.match(part)).messages, 0
        except FilterError:
            raise
        except Exception:
            if len(part) <= 1:
                return [], len(part)
        found, failed = [], 0
        for one in part:
            some, bad = await self._candidates([one], thread)
            found += some
            failed += bad
        return found, failed

    async def _verdict(self, entry: Entry, costly: Deferred[str]) -> bool | None:
        """Whether what is left of the filter takes a message; None: not within its budget."""
        while True:
            question = (costly.expressions, costly.documents)
            evaluated = await self._evaluate(entry.subscription.key, [question])
            if evaluated is not None:
                [verdict] = evaluated.verdicts
                return verdict
            await asyncio.sleep(PAUSE)  # Others wait, too.

    async def _wait_for_room(self, replay: Replay, entry: Entry) -> None:
        """Wait until few deliveries wait for *entry*."""
        described = False
        while not entry.ended:
            waiting = await self._asked(partial(rows.waiting, subscription=entry.id))
            if waiting.count < WAITING and waiting.octets < WAITING_OCTETS:
                return
            if not described:
                await self._describe(replay, f"{waiting.count} deliveries wait for the consumer")
                described = True
            await asyncio.sleep(PAUSE)

    async def _add(
        self,
        replay: Replay,
        entry: Entry,
        progress: ReplayProgress,
        found: Sequence[Notification],
    ) -> Replay | None:
        """Let *found* wait for *entry*, and note the progress. Returns the replay as it is then;
        None where it runs no longer."""
        own = author(self._sharing.number, HOUSE)
        work = []
        for notification in found:
            self._position = next_position(self._position, time.time_ns(), own)
            work.append((notification, self._position))
        made = await self._asked(partial(rows.add, replay=replay, progress=progress, work=work))
        if made is None:
            return None
        replay, added = made
        self.replayed += added.count
        if added.count:
            await self._sharing.rows_added({entry.id: (added.count, added.octets)})
        return replay

    async def _asked(self, operation: Callable[[Connection], T]) -> T:
        """The answer of the store, which is asked until it is there."""
        while True:
            try:
                return await self._store.submit(operation)
            except StoreUnavailable:
                await asyncio.sleep(RETRY)

    async def _describe(self, replay: Replay, detail: str) -> None:
        await self._asked(partial(rows.describe, replay=replay, detail=detail))

    async def _fail(self, replay: Replay, why: str) -> None:
        await self._end(replay, ReplayState.FAILED, why)

    async def _end(self, replay: Replay, state: ReplayState, detail: str = "") -> None:
        ended = partial(rows.end, replay=replay, state=state, detail=detail)
        if await self._asked(ended):
            if state is ReplayState.FAILED:
                _log.warning("replay.failed", subscription=replay.subscription, why=detail)
            else:
                _log.info("replay.ended", subscription=replay.subscription, state=state.value)


def _behind(part: Sequence[Row]) -> Position:
    return Position(part[-1].time, part[-1].id)


def _roots(filter_: Filter, tenant: str) -> frozenset[Step] | None:
    """The first steps of the topics that *filter_* of *tenant* can take; None: all."""
    if tenant:
        topic = topic_in(tenant, None)
        return frozenset(topic.steps[:1]) if isinstance(topic, Topic) else None
    found = [parse_expression(one).roots() for one in filter_.topics]
    known = [roots for roots in found if roots is not None]
    return frozenset.intersection(*known) if known else None
