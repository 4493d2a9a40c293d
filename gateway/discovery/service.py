"""The node at work: what is published on its topics, taken in order, kept, answered.

    delivery -> take -> kept in the store -> catalogue -> answers published -> settled

One task handles what has come in batches; one thread checks, searches and signs. A search that
takes long goes on beside (`gateway.discovery.searches`), and its request is settled when it is
answered. What the store or the messaging system does not take of a batch is tried again, and the
messages are not taken again: what is kept is known the second time, and an answer has the id that
the request gives, so that it is published once. After a crash what was not settled is taken and
handled again.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, Protocol, TypeVar
from uuid import NAMESPACE_URL, uuid5

import structlog

from adapters import AdapterUnavailable, Delivery
from filters import Expression, Filter, FilterError
from filters.dialects import TOPIC_FULL
from filters.queries import Spent, seconds
from gateway.discovery.node import Node
from gateway.discovery.outcomes import (
    Advertised,
    Answer,
    Asked,
    Dropped,
    Dropping,
    Found,
    Searching,
    Withdrawn,
)
from gateway.discovery.protected import ProtectedTopics
from gateway.discovery.searches import SOON, Searches
from gateway.model.advertisements import AdvertisementLimits, AdvertisementRow, Claimed, Kept
from gateway.observing.samples import Sample, counters, gauge
from gateway.store import Store, StoreUnavailable, advertisements, claims
from gateway.store.advertisements import LOCK
from mediation.discovery import Denial, Fault, path_of, topic_of
from mediation.model.messages import Notification
from mediation.names import PUBLISHER, TDN

KEY = "topic-discovery-node"
"""The key of the node's filter among those of subscriptions, which are longer."""
WAITING = 4096
"""Messages that wait for the node; more are dropped, for whoever sent them repeats them."""
OF_SOURCE = WAITING // 8
"""How many of them are of one source: it leaves room for others."""
BATCH = 128
RETRY = 1.0
"""Seconds after which a batch is tried again."""
PURGE = 60.0
"""Seconds from one look for what has expired to the next."""
RECOUNT = 3600.0
"""Seconds from one count of what is remembered to the next: gateways of an older version may share
the store for a while."""
LOOK = 1.0
"""Seconds from one look at what other gateways keep to the next."""
LOADED = 500
"""Rows that are read at once."""
T = TypeVar("T")
_log = structlog.get_logger("dragoman.discovery")


class Publishing(Protocol):
    """A way to publish durably."""

    async def publish(self, notifications: Sequence[Notification]) -> None: ...


class Subscribers(Protocol):
    """Those who subscribed to a protected topic by right."""

    def end(self, topic_id: str, reason: str) -> None:
        """End their subscriptions, soon; they are told."""

    def listen(self, topic_id: str) -> bool:
        """Whether there is one still."""


class _Nobody:
    """No subscribers."""

    def end(self, topic_id: str, reason: str) -> None:
        return None

    def listen(self, topic_id: str) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class _Taken:
    """A message that was taken, and the notification that it came in."""

    what: Advertised | Withdrawn | Asked
    notification: str


class DiscoveryService:
    """Runs *node*.

    Args:
        shared: Other gateways have the store, too: what they keep is learnt before a query.
        protected: The topics that advertisements protect, as this keeps them.
        subscribers: Of protected topics.
        keeps_house: Whether this gateway does what is done once for all.
        now: Tells the time.
    """

    def __init__(
        self,
        node: Node,
        store: Store,
        publishing: Publishing,
        *,
        shared: bool = False,
        protected: ProtectedTopics | None = None,
        subscribers: Subscribers | None = None,
        keeps_house: Callable[[], bool] = lambda: True,
        limits: AdvertisementLimits | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.node = node
        self.key = KEY
        self._store = store
        self._publishing = publishing
        self._shared = shared
        self._keeps_house = keeps_house
        self._recounted_at: float | None = None
        """When what is remembered was counted; None: not since this gateway keeps house."""
        self._limits = limits or AdvertisementLimits()
        self._now = now
        self._waiting: asyncio.Queue[Delivery] = asyncio.Queue(WAITING)
        self._of_source: Counter[str] = Counter()
        """How many messages of each source wait."""
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="discovery")
        self._searches = Searches()
        self._unsettled: dict[str, list[Delivery]] = {}
        """By the id of its notification, each request that is still searched for."""
        self._beside: set[asyncio.Task[None]] = set()
        self._revision = 0
        self._ways = {str(topic): way for topic, way in node.topics.items()}
        self._outcomes: dict[str, int] = {}
        self.protected = ProtectedTopics() if protected is None else protected
        self._subscribers = subscribers or _Nobody()

    @property
    def filter(self) -> Filter:
        """What the node subscribes to."""
        names = "|".join(f"tdn:{path_of(topic)}" for topic in self.node.topics)
        return Filter(topics=(Expression(names, TOPIC_FULL, (("tdn", TDN),)),))

    async def start(self) -> None:
        """Learn what is in the store.

        Raises:
            StoreUnavailable: It cannot be read.
        """
        await self._learn()
        _log.info("discovery.started", node=self.node.id, advertisements=len(self.node.catalogue))

    def accept(self, delivery: Delivery) -> None:
        """Take on a message; it is settled when it is done with."""
        source = delivery.notification.source
        if self._waiting.full() or self._of_source[source] >= OF_SOURCE:
            self._count("crowded")
            delivery.settle()
            return
        self._of_source[source] += 1
        self._waiting.put_nowait(delivery)

    def _next(self, delivery: Delivery) -> Delivery:
        """*delivery*, which waits no more."""
        source = delivery.notification.source
        self._of_source[source] -= 1
        if not self._of_source[source]:
            del self._of_source[source]
        return delivery

    async def run(self) -> None:
        """Handle what comes, for ever."""
        self._end_subscriptions()  # What a crash has left.
        self._start(self._purge())
        if self._shared:
            self._start(self._look_around())
        try:
            while True:
                batch = [self._next(await self._waiting.get())]
                while len(batch) < BATCH and not self._waiting.empty():
                    batch.append(self._next(self._waiting.get_nowait()))
                await self._handle_surely(batch)
                for delivery in batch:
                    unsettled = self._unsettled.get(delivery.notification.id)
                    if unsettled is None:
                        delivery.settle()
                    else:
                        unsettled.append(delivery)
        finally:
            for task in self._beside:
                task.cancel()
            self._searches.close()
            self._thread.shutdown(wait=False, cancel_futures=True)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        """Do *work* beside the messages."""
        task = asyncio.create_task(work)
        self._beside.add(task)
        task.add_done_callback(self._beside.discard)

    async def _handle_surely(self, batch: Sequence[Delivery]) -> None:
        notifications = [delivery.notification for delivery in batch]
        # Once: the second time a stranger's request would be its own replay.
        taken = await self._apart(partial(self._take, notifications))
        await self._carry_out(taken)

    async def _carry_out(self, taken: Sequence[_Taken]) -> None:
        while True:
            try:
                await self._handle(taken)
                return
            except (StoreUnavailable, AdapterUnavailable) as error:
                _log.warning("discovery.waits", why=str(error))
                await asyncio.sleep(RETRY)
            except Exception:  # One message must not end the node: it would come again for ever.
                if len(taken) <= 1:
                    self._failed()
                    return
                for each in taken:
                    await self._carry_out([each])
                return

    async def _handle(self, taken: Sequence[_Taken]) -> None:
        await self._keep([each.what for each in taken if isinstance(each.what, Advertised)])
        for each in taken:
            if isinstance(each.what, Withdrawn):
                await self._withdraw(each.what)
        asked = [(each.what, each.notification) for each in taken if isinstance(each.what, Asked)]
        asked.sort(key=lambda one: not one[0].signed)  # Strangers wait for those who sign.
        answers = [
            answer
            for what, notification in asked
            if (answer := await self._answer(what, notification)) is not None
        ]
        if answers:
            await self._publishing.publish(answers)

    def _take(self, notifications: Sequence[Notification]) -> list[_Taken]:
        taken = []
        for each in notifications:
            way = self._ways.get(str(each.topic))
            if way is None:
                continue
            try:
                with self._dropping():
                    what = self.node.take(each.payload, way, each.source, now=self._now())
                    taken.append(_Taken(what, each.id))
            except Exception:
                self._failed()
        return taken

    # Advertisements.

    async def _keep(self, advertised: Sequence[Advertised]) -> None:
        if not advertised:
            return
        kept = await self._store.submit(
            partial(
                advertisements.keep,
                rows=[each.row for each in advertised],
                limits=self._limits,
                now=self._now().timestamp(),
            ),
            locks=(LOCK,),
        )
        for each, what in zip(advertised, kept, strict=True):
            self._count(f"advertisement-{what.value}")
            if what is Kept.CONFLICT:
                _log.warning(
                    "discovery.conflict", topic=each.row.topic_id, creator=each.row.creator,
                    node=each.row.node, why="the topic is another's, or has another synopsis",
                )  # fmt: skip
        news = [
            each
            for each, what in zip(advertised, kept, strict=True)
            if what in (Kept.NEW, Kept.NEWER)
        ]
        await self._apart(partial(self._know_all, [each.row for each in news]))

    async def _withdraw(self, withdrawn: Withdrawn) -> None:
        gone = await self._store.submit(
            partial(
                advertisements.withdraw, topic_id=withdrawn.topic_id, creator=withdrawn.creator
            ),
            locks=(LOCK,),
        )
        self._count("withdrawal-unknown" if gone is None else "withdrawn")
        if gone is not None:
            await self._apart(partial(self._know, gone))
            self._end_subscriptions()

    def _know_all(self, rows: Sequence[AdvertisementRow]) -> None:
        for row in rows:
            self._know(row)

    def _know(self, row: AdvertisementRow) -> None:
        withdrawn, expired = row.octets is None, row.expires <= self._now().timestamp()
        if withdrawn or expired:
            self.node.forget(row.topic_id)
            why = Denial.WITHDRAWN if withdrawn else Denial.EXPIRED
            self.protected.close(row.topic_id, row.topic, why, row.expires)
            return
        try:
            self.node.know(row)
        except FilterError as full:
            _log.warning("discovery.not-searched", topic=row.topic_id, why=full.text)
        self.protected.add(row.topic_id, row.topic)

    def _end_subscriptions(self) -> None:
        """End those to topics that are closed: of who could subscribe meanwhile, too."""
        for topic_id, closed in self.protected.closed():
            self._subscribers.end(topic_id, f"{closed.why.value[0].upper()}{closed.why.value[1:]}.")

    async def _learn(self) -> None:
        """Learn what changed in the store."""
        while True:
            changed = await self._store.submit(
                partial(advertisements.changed_since, revision=self._revision, limit=LOADED)
            )
            await self._apart(partial(self._know_all, [row for _, row in changed]))
            if any(row.octets is None for _, row in changed):
                self._end_subscriptions()
            if changed:
                self._revision = changed[-1][0]
            if len(changed) < LOADED:
                return

    async def _look_around(self) -> None:
        """Learn what others keep, for ever: the topics of it are protected here, too."""
        while True:
            await asyncio.sleep(LOOK)
            with suppress(StoreUnavailable):
                await self._learn()

    async def _purge(self) -> None:
        """Forget what has expired, for ever."""
        while True:
            await self._recount()
            await asyncio.sleep(PURGE)
            try:
                now = self._now()
                purge = partial(advertisements.purge, now=now.timestamp())
                while await self._store.submit(purge, locks=(LOCK,)):
                    pass  # Others have their turn between two transactions.
                await self._apart(partial(self._close_expired, now))
                self._end_subscriptions()
                await self._apart(partial(self._forget_closed, now))
            except StoreUnavailable as error:
                _log.warning("discovery.waits", why=str(error))
            except Exception:  # What could not be forgotten now may be the next time.
                _log.exception("discovery.purge-failed")

    async def _recount(self) -> None:
        """Count what is remembered anew: when this gateway begins to keep house, and from time to
        time as long as it does."""
        if not self._keeps_house():
            self._recounted_at = None
            return
        now = self._now().timestamp()
        if self._recounted_at is not None and now < self._recounted_at + RECOUNT:
            return
        try:
            if await self._store.submit(claims.recount, locks=(LOCK,)):
                _log.warning("discovery.recounted", why="an older version shares the store")
            self._recounted_at = now
        except StoreUnavailable as error:
            _log.warning("discovery.waits", why=str(error))
        except Exception:  # The next time, maybe.
            _log.exception("discovery.recount-failed")

    def _close_expired(self, now: datetime) -> None:
        for topic_id in self.node.expired(now):
            self.node.forget(topic_id)
            self.protected.close(topic_id, None, Denial.EXPIRED, now.timestamp())

    def _forget_closed(self, now: datetime) -> None:
        """Let those topics be everybody's whose time is over and to which nobody listens."""
        for topic_id, closed in self.protected.closed():
            if closed.until <= now.timestamp() and not self._subscribers.listen(topic_id):
                self.protected.remove(topic_id)

    # Requests.

    async def _answer(self, asked: Asked, notification: str) -> Notification | None:
        """The answer; None: there is none, or not yet."""
        if notification in self._unsettled:
            return None
        with self._dropping():
            fault = await self._claim(asked, notification)
            now = self._now()
            if fault is not None:
                refuse = partial(self.node.refuse, asked, fault, "Too much is asked for.", now=now)
                return self._notification(asked, await self._apart(refuse), now)
            if self._shared:
                await self._learn()
            left = Spent(self.node.limits.query_time)
            answer = await self._apart(partial(self._begin, asked, left, now))
            if isinstance(answer, Searching):
                if self._searches.has_room(asked):
                    self._unsettled[notification] = []
                    self._start(self._search_on(answer, left, notification))
                    return None
                self._count("search-crowded")
                answer = await self._apart(partial(self.node.end, answer, now=now))
            return await self._written(asked, answer, now)
        return None

    def _begin(self, asked: Asked, left: Spent, now: datetime) -> Answer | Found | Searching:
        with left:
            return self.node.begin(asked, seconds_left=left, soon=seconds(SOON), now=now)

    async def _search_on(self, searching: Searching, left: Spent, notification: str) -> None:
        """Let a search go on, answer, and settle the request."""
        try:
            await self._searches.finish(searching, left)
            await self._answer_surely(searching)
        except Exception:
            self._failed()
        for delivery in self._unsettled.pop(notification):
            delivery.settle()

    async def _answer_surely(self, searching: Searching) -> None:
        while True:
            try:
                with self._dropping():
                    now = self._now()
                    answer = await self._apart(partial(self.node.end, searching, now=now))
                    written = await self._written(searching.asked, answer, now)
                    await self._publishing.publish([written])
                return
            except (StoreUnavailable, AdapterUnavailable) as error:
                _log.warning("discovery.waits", why=str(error))
                await asyncio.sleep(RETRY)

    async def _written(self, asked: Asked, answer: Answer | Found, now: datetime) -> Notification:
        """What is published: *answer*, or one with the advertisements that were found."""
        if isinstance(answer, Found):
            load = partial(advertisements.load, topic_ids=answer.topic_ids)
            octets = {row.topic_id: row.octets for row in await self._store.submit(load)}
            found = [one for id_ in answer.topic_ids if (one := octets.get(id_)) is not None]
            answer = await self._apart(partial(self.node.respond, answer, found, now=now))
        return self._notification(asked, answer, now)

    async def _claim(self, asked: Asked, notification: str) -> Fault | None:
        """Remember that a signed message is answered; why it is refused, or None.

        Raises:
            Dropped: It came before.
        """
        if asked.checked.signer is None:
            return None  # The node remembers those of strangers apart.
        head, now = asked.head, self._now().timestamp()
        claimed = await self._store.submit(
            partial(
                claims.claim,
                sender=head.sender,
                message=str(head.message_id),
                notification=notification,
                expires=head.expires.timestamp(),
                now=now,
                limits=self._limits,
                kind="create" if asked.creates else "",
                most=self.node.limits.creations if asked.creates else None,
            ),
            locks=(LOCK,),
        )
        if claimed is Claimed.REPLAYED:
            raise Dropped("replayed")
        return None if claimed is Claimed.YES else Fault.LIMIT

    def _notification(self, asked: Asked, answer: Answer, now: datetime) -> Notification:
        """What *answer* is published as: twice the same for one request, and published once."""
        self._count(answer.outcome)
        id_ = uuid5(NAMESPACE_URL, f"{self.node.id}/{asked.head.sender}/{asked.head.message_id}")
        return Notification(
            id=f"urn:uuid:{id_}",
            source=PUBLISHER + self.node.id,
            payload=answer.octets,
            time=now,
            topic=topic_of(answer.receiver),
        )

    # Counts.

    def _dropping(self) -> Dropping:
        return Dropping(self._count)

    def _failed(self) -> None:
        """Count a message that could not be handled, for the reason that is being caught."""
        _log.exception("discovery.message-failed")
        self._count("failed")

    def _count(self, outcome: str) -> None:
        self._outcomes[outcome] = self._outcomes.get(outcome, 0) + 1

    async def _apart(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def metrics(self) -> Iterator[Sample]:
        """What became of messages, and what is known."""
        yield counters(
            "discovery_messages",
            "Messages to the topic discovery node, by what became of them.",
            "outcome",
            dict(self._outcomes),
        )
        yield gauge(
            "discovery_advertisements",
            "Advertised topics that are known.",
            len(self.node.catalogue),
        )
        yield gauge("discovery_waiting", "Messages that wait for the node.", self._waiting.qsize())
