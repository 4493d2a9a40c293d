"""Run a node: read the messages on its topics in order, keep advertisements, publish answers.

    delivery -> read -> kept in the store -> catalogue -> answers published -> settled

One task handles messages in batches; one thread checks, searches and signs. A search that takes
long goes on beside (`gateway.discovery.long_searches`), and its request is settled when it is
answered. When the store or the messaging system does not take a batch, it is tried again without
reading its messages again: an advertisement that was kept is known the second time, and an answer
has an id made of its request's, so that it is published once. After a crash, messages that were not
settled are read and handled again.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Sequence
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
from gateway.discovery.long_searches import SOON, LongSearches
from gateway.discovery.node import Node
from gateway.discovery.node_messages import (
    Answer,
    CountDropped,
    MessageDropped,
    NewAdvertisement,
    NodeRequest,
    Revocation,
    RunningSearch,
    SearchResult,
    Withdrawal,
)
from gateway.discovery.protected_topics import ProtectedTopics, SignatureDemand
from gateway.discovery.revocations import Revocations
from gateway.discovery.topic_descriptions import signers_of
from gateway.model.advertisements import (
    AdvertisementLimits,
    AdvertisementRow,
    Claimed,
    Kept,
    RevocationRow,
    Revoked,
)
from gateway.observing.samples import Sample, counters, gauge
from gateway.parsing import RenewedThread
from gateway.store import Store, StoreUnavailable, advertisements, claims, revocations
from gateway.store.advertisements import LOCK
from mediation.discovery import Denial, Fault, path_of, topic_of
from mediation.model.messages import Notification
from mediation.names import PUBLISHER, TDN

KEY = "topic-discovery-node"
"""The key of the node's filter among the keys of subscriptions, which are longer."""
WAITING = 4096
"""Messages that wait for the node; more are dropped, because their senders repeat them."""
OF_SOURCE = WAITING // 8
"""The most of them that may be of one source, so that others have room."""
BATCH = 128
RETRY = 1.0
"""Seconds after which a batch is tried again."""
PURGE = 60.0
"""Seconds between two purges of expired advertisements."""
RECOUNT = 3600.0
"""Seconds between two counts of remembered messages: gateways of an older version, which do not
count, may share the store for a while."""
FOLLOW = 0.5
"""Seconds between two looks at what other gateways keep: what a creator takes back is over within
one second."""
LOADED = 500
"""Rows that are read at once."""
T = TypeVar("T")
_REFUSED = {
    Revoked.UNKNOWN: (Fault.UNAUTHORIZED, "No such topic of the signer is known here."),
    Revoked.NOT_CREATOR: (Fault.UNAUTHORIZED, "No such topic of the signer is known here."),
    Revoked.FULL: (Fault.LIMIT, "Too many delegations of the topic are revoked; withdraw it."),
}
_log = structlog.get_logger("dragoman.discovery")


class Publishing(Protocol):
    """A way to publish durably."""

    async def publish(self, notifications: Sequence[Notification]) -> None: ...


class Subscribers(Protocol):
    """The subscriptions to protected topics."""

    def end(self, topic_id: str, reason: str) -> None:
        """End the subscriptions to a topic soon, and tell their subscribers."""

    def end_delegated(self, revoked: Callable[[str], frozenset[str]], reason: str) -> None:
        """End those soon, and tell their subscribers, that rest on one of the delegations that are
        *revoked* of a topic, by its id."""

    def listen(self, topic_id: str) -> bool:
        """Return True if a topic has a subscription still."""


class _NoSubscribers:
    """No subscriptions."""

    def end(self, topic_id: str, reason: str) -> None:
        return None

    def end_delegated(self, revoked: Callable[[str], frozenset[str]], reason: str) -> None:
        return None

    def listen(self, topic_id: str) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class _ReadMessage:
    """A message that was read, and the id of the notification in which it came."""

    what: NewAdvertisement | Withdrawal | Revocation | NodeRequest
    notification: str


class DiscoveryService:
    """Runs *node*.

    Args:
        shared: Other gateways use the store, too: what they keep is read before a query.
        protected: The topics that advertisements protect, which the service keeps up to date.
        revocations: The delegations that do not count, which the service keeps up to date.
        subscribers: Subscribers of protected topics.
        keeps_house: Returns True if this gateway does what one does for all.
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
        revocations: Revocations | None = None,
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
        """When remembered messages were counted; None: not since this gateway keeps house."""
        self._limits = limits or AdvertisementLimits()
        self._now = now
        self._waiting: asyncio.Queue[Delivery] = asyncio.Queue(WAITING)
        self._of_source: Counter[str] = Counter()
        """The number of waiting messages of each source."""
        self._thread = RenewedThread("discovery")
        self._searches = LongSearches()
        self._unsettled: dict[str, list[Delivery]] = {}
        """Deliveries of each request whose search goes on, by the id of its notification."""
        self._beside: set[asyncio.Task[None]] = set()
        self._advertisements_read = 0
        """The revision of the last change of advertisements that was read from the store."""
        self._revocations_read = 0
        """The same of revocations."""
        self._last_known = 0
        """The last revision of the store up to which both were read."""
        self._ways = {str(topic): way for topic, way in node.topics.items()}
        self._outcomes: dict[str, int] = {}
        self.protected_topics = ProtectedTopics() if protected is None else protected
        self._revocations = Revocations() if revocations is None else revocations
        self._subscribers = subscribers or _NoSubscribers()

    @property
    def filter(self) -> Filter:
        """The filter of the node's own subscription."""
        names = "|".join(f"tdn:{path_of(topic)}" for topic in self.node.topics)
        return Filter(topics=(Expression(names, TOPIC_FULL, (("tdn", TDN),)),))

    async def start(self) -> None:
        """Read the advertisements from the store.

        Raises:
            StoreUnavailable: It cannot be read.
        """
        await self._load_changes()
        _log.info("discovery.started", node=self.node.id, advertisements=len(self.node.catalogue))

    def accept(self, delivery: Delivery) -> None:
        """Queue a message, which is settled when it was handled, or if there is no room."""
        source = delivery.notification.source
        if self._waiting.full() or self._of_source[source] >= OF_SOURCE:
            self._count("crowded")
            delivery.settle()
            return
        self._of_source[source] += 1
        self._waiting.put_nowait(delivery)

    def _dequeued(self, delivery: Delivery) -> Delivery:
        """Count *delivery* as waiting no longer, and return it."""
        source = delivery.notification.source
        self._of_source[source] -= 1
        if not self._of_source[source]:
            del self._of_source[source]
        return delivery

    async def run(self) -> None:
        """Handle messages, for ever."""
        self._end_subscriptions()  # A crash may have left some.
        self._end_delegated()
        self._start(self._purge())
        if self._shared:
            self._start(self._follow_store())
        try:
            while True:
                batch = [self._dequeued(await self._waiting.get())]
                while len(batch) < BATCH and not self._waiting.empty():
                    batch.append(self._dequeued(self._waiting.get_nowait()))
                await self._handle_batch(batch)
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
            self._thread.close()

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        """Run *work* beside the messages."""
        task = asyncio.create_task(work)
        self._beside.add(task)
        task.add_done_callback(self._beside.discard)

    async def _handle_batch(self, batch: Sequence[Delivery]) -> None:
        notifications = [delivery.notification for delivery in batch]
        # Read once: the second time, a stranger's request would be its own replay.
        taken = await self._in_thread(
            partial(self._read, notifications), documents=len(notifications)
        )
        await self._handle_with_retries(taken)

    async def _handle_with_retries(self, taken: Sequence[_ReadMessage]) -> None:
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
                    await self._handle_with_retries([each])
                return

    async def _handle(self, taken: Sequence[_ReadMessage]) -> None:
        await self._keep([each.what for each in taken if isinstance(each.what, NewAdvertisement)])
        for each in taken:
            if isinstance(each.what, Withdrawal):
                await self._withdraw(each.what)
        refusals = await self._revoke(
            [each.what for each in taken if isinstance(each.what, Revocation)]
        )
        asked = [
            (each.what, each.notification) for each in taken if isinstance(each.what, NodeRequest)
        ]
        asked.sort(key=lambda one: not one[0].signed)  # Signed requests come first.
        answers = [
            answer
            for what, notification in asked
            if (answer := await self._answer(what, notification)) is not None
        ]
        if refusals or answers:
            await self._publishing.publish([*refusals, *answers])

    def _read(self, notifications: Sequence[Notification]) -> list[_ReadMessage]:
        taken = []
        for each in notifications:
            way = self._ways.get(str(each.topic))
            if way is None:
                continue
            try:
                with self._dropping():
                    what = self.node.read(each.payload, way, each.source, now=self._now())
                    taken.append(_ReadMessage(what, each.id))
            except Exception:
                self._failed()
        return taken

    # Advertisements.

    async def _keep(self, advertised: Sequence[NewAdvertisement]) -> None:
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
        rows = [each.row for each in news]
        await self._in_thread(partial(self._apply_all, rows), documents=len(rows))

    async def _withdraw(self, withdrawn: Withdrawal) -> None:
        gone = await self._store.submit(
            partial(
                advertisements.withdraw, topic_id=withdrawn.topic_id, creator=withdrawn.creator
            ),
            locks=(LOCK,),
        )
        self._count("withdrawal-unknown" if gone is None else "withdrawn")
        if gone is not None:
            await self._in_thread(partial(self._apply, gone))
            self._end_subscriptions()

    async def _revoke(self, revoked: Sequence[Revocation]) -> list[Notification]:
        """Keep revocations, and end what rests on their delegations. Returns the refusals of those
        that are not kept."""
        if not revoked:
            return []
        kept = await self._store.submit(
            partial(
                revocations.keep,
                rows=[each.row for each in revoked],
                limits=self._limits,
                now=self._now().timestamp(),
            ),
            locks=(LOCK,),
        )
        refusals = []
        for each, what in zip(revoked, kept, strict=True):
            self._count(f"revocation-{what.value}")
            if what in _REFUSED:
                _log.warning(
                    "discovery.revocation-refused", topic=each.row.topic_id,
                    delegation=each.row.delegation, signer=each.row.creator, why=what.value,
                )  # fmt: skip
                with self._dropping():
                    refusals.append(await self._refusal(each, *_REFUSED[what]))
        # As the store has them, which ends them with their topics: else creators of short-lived
        # topics, whose part of the store is free again soon, could fill the memory.
        await self._load_revocations()
        return refusals

    async def _refusal(self, revoked: Revocation, fault: Fault, text: str) -> Notification:
        now = self._now()
        refuse = partial(self.node.refuse_revocation, revoked, fault, text, now=now)
        answer = await self._in_thread(refuse)
        return self._notification_of(answer, str(revoked.id), now)

    def _apply_revocations(self, rows: Sequence[RevocationRow]) -> None:
        now = self._now().timestamp()
        for row in rows:
            if row.until > now and self._revocations.add(row.topic_id, row.delegation, row.until):
                _log.info("discovery.revoked", topic=row.topic_id, delegation=row.delegation)
        if rows:
            self._end_delegated()

    def _end_delegated(self) -> None:
        """End what rests on delegations that do not count, also what began meanwhile."""
        why = Denial.REVOKED.value
        self._subscribers.end_delegated(self._revocations.of, f"{why[0].upper()}{why[1:]}.")

    def _apply_all(self, rows: Sequence[AdvertisementRow]) -> None:
        for row in rows:
            self._apply(row)

    def _apply(self, row: AdvertisementRow) -> None:
        withdrawn, expired = row.octets is None, row.expires <= self._now().timestamp()
        if withdrawn or expired:
            self.node.remove(row.topic_id)
            why = Denial.WITHDRAWN if withdrawn else Denial.EXPIRED
            self.protected_topics.close(row.topic_id, row.topic, why, row.expires)
            return
        try:
            self.node.add(row)
        except FilterError as full:
            _log.warning("discovery.not-searched", topic=row.topic_id, why=full.text)
        signers = signers_of(row)
        demand = None if signers is None else SignatureDemand(signers, row.creator)
        self.protected_topics.add(row.topic_id, row.topic, demand)

    def _end_subscriptions(self) -> None:
        """End all subscriptions to closed topics, also those that began meanwhile."""
        for topic_id, closed in self.protected_topics.closed():
            self._subscribers.end(topic_id, f"{closed.why.value[0].upper()}{closed.why.value[1:]}.")

    async def _load_changes(self) -> None:
        """Read what changed in the store."""
        last = await self._store.submit(advertisements.last_revision)
        if last == self._last_known:
            return
        await self._load_advertisements()
        await self._load_revocations()
        self._last_known = last

    async def _load_revocations(self) -> None:
        while True:
            changed = await self._store.submit(
                partial(revocations.changed_since, revision=self._revocations_read, limit=LOADED)
            )
            self._apply_revocations([row for _, row in changed])
            if changed:
                self._revocations_read = changed[-1][0]
            if len(changed) < LOADED:
                return

    async def _load_advertisements(self) -> None:
        while True:
            changed = await self._store.submit(
                partial(
                    advertisements.changed_since, revision=self._advertisements_read, limit=LOADED
                )
            )
            rows = [row for _, row in changed]
            await self._in_thread(partial(self._apply_all, rows), documents=len(rows))
            if any(row.octets is None for _, row in changed):
                self._end_subscriptions()
            if changed:
                self._advertisements_read = changed[-1][0]
            if len(changed) < LOADED:
                return

    async def _follow_store(self) -> None:
        """Read what other gateways keep, for ever: their topics are protected here, too."""
        while True:
            await asyncio.sleep(FOLLOW)
            with suppress(StoreUnavailable):
                await self._load_changes()

    async def _purge(self) -> None:
        """Forget expired advertisements, for ever."""
        while True:
            await self._recount()
            await asyncio.sleep(PURGE)
            try:
                now = self._now()
                purge = partial(advertisements.purge, now=now.timestamp())
                while await self._store.submit(purge, locks=(LOCK,)):
                    pass  # Other work has its turn between two transactions.
                await self._in_thread(partial(self._close_expired, now))
                self._end_subscriptions()
                await self._in_thread(partial(self._forget_closed, now))
                self._revocations.forget(now.timestamp())
                self._end_delegated()
            except StoreUnavailable as error:
                _log.warning("discovery.waits", why=str(error))
            except Exception:  # The next purge may succeed.
                _log.exception("discovery.purge-failed")

    async def _recount(self) -> None:
        """Count remembered messages anew: when this gateway begins to keep house, and every
        `RECOUNT` seconds."""
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
            self.node.remove(topic_id)
            self.protected_topics.close(topic_id, None, Denial.EXPIRED, now.timestamp())

    def _forget_closed(self, now: datetime) -> None:
        """Let those topics be everybody's whose time is over and to which nobody listens."""
        for topic_id, closed in self.protected_topics.closed():
            if closed.until <= now.timestamp() and not self._subscribers.listen(topic_id):
                self.protected_topics.remove(topic_id)

    # Requests.

    async def _answer(self, asked: NodeRequest, notification: str) -> Notification | None:
        """The answer; None: there is none, or not yet."""
        if notification in self._unsettled:
            return None
        with self._dropping():
            fault = await self._claim(asked, notification)
            now = self._now()
            if fault is not None:
                refuse = partial(self.node.refuse, asked, fault, "Too much is asked for.", now=now)
                return self._notification(asked, await self._in_thread(refuse), now)
            if self._shared:
                await self._load_changes()
            left = Spent(self.node.limits.query_time)
            answer = await self._in_thread(partial(self._begin, asked, left, now))
            if isinstance(answer, RunningSearch):
                if self._searches.has_room(asked):
                    self._unsettled[notification] = []
                    self._start(self._search_on(answer, left, notification))
                    return None
                self._count("search-crowded")
                answer = await self._in_thread(partial(self.node.finish_search, answer, now=now))
            return await self._written(asked, answer, now)
        return None

    def _begin(
        self, asked: NodeRequest, left: Spent, now: datetime
    ) -> Answer | SearchResult | RunningSearch:
        with left:
            return self.node.begin_answer(asked, seconds_left=left, soon=seconds(SOON), now=now)

    async def _search_on(self, searching: RunningSearch, left: Spent, notification: str) -> None:
        """Finish a search, answer, and settle the request."""
        try:
            await self._searches.finish(searching, left)
            await self._answer_with_retries(searching)
        except Exception:
            self._failed()
        for delivery in self._unsettled.pop(notification):
            delivery.settle()

    async def _answer_with_retries(self, searching: RunningSearch) -> None:
        while True:
            try:
                with self._dropping():
                    now = self._now()
                    answer = await self._in_thread(
                        partial(self.node.finish_search, searching, now=now)
                    )
                    written = await self._written(searching.asked, answer, now)
                    await self._publishing.publish([written])
                return
            except (StoreUnavailable, AdapterUnavailable) as error:
                _log.warning("discovery.waits", why=str(error))
                await asyncio.sleep(RETRY)

    async def _written(
        self, asked: NodeRequest, answer: Answer | SearchResult, now: datetime
    ) -> Notification:
        """Return the notification of *answer*; a search result gets its advertisements."""
        if isinstance(answer, SearchResult):
            load = partial(advertisements.load, topic_ids=answer.topic_ids)
            octets = {row.topic_id: row.octets for row in await self._store.submit(load)}
            found = [one for id_ in answer.topic_ids if (one := octets.get(id_)) is not None]
            answer = await self._in_thread(partial(self.node.answer_found, answer, found, now=now))
        return self._notification(asked, answer, now)

    async def _claim(self, asked: NodeRequest, notification: str) -> Fault | None:
        """Remember that a signed message is answered. Returns why it is refused, or None.

        Raises:
            MessageDropped: It came before.
        """
        if asked.checked.signer is None:
            return None  # The node itself remembers requests without a signature.
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
            raise MessageDropped("replayed")
        return None if claimed is Claimed.YES else Fault.LIMIT

    def _notification(self, asked: NodeRequest, answer: Answer, now: datetime) -> Notification:
        """Return the notification of *answer*. Its id is made of the request's, so that an answer
        that is published twice is one notification."""
        return self._notification_of(answer, str(asked.head.message_id), now)

    def _notification_of(self, answer: Answer, request: str, now: datetime) -> Notification:
        self._count(answer.outcome)
        id_ = uuid5(NAMESPACE_URL, f"{self.node.id}/{answer.receiver}/{request}")
        return Notification(
            id=f"urn:uuid:{id_}",
            source=PUBLISHER + self.node.id,
            payload=answer.octets,
            time=now,
            topic=topic_of(answer.receiver),
        )

    # Counts.

    def _dropping(self) -> CountDropped:
        return CountDropped(self._count)

    def _failed(self) -> None:
        """Log the exception that is being handled, and count its message."""
        _log.exception("discovery.message-failed")
        self._count("failed")

    def _count(self, outcome: str) -> None:
        self._outcomes[outcome] = self._outcomes.get(outcome, 0) + 1

    async def _in_thread(self, work: Callable[[], T], *, documents: int = 1) -> T:
        return await self._thread.run(work, documents=documents)

    def metrics(self) -> Iterator[Sample]:
        """Return the outcomes of messages, and the number of known advertisements."""
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
        yield gauge(
            "discovery_revocations",
            "Delegations that are known as taken back by their creators.",
            len(self._revocations),
        )
        yield gauge("discovery_waiting", "Messages that wait for the node.", self._waiting.qsize())
