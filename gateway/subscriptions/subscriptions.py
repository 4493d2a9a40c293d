"""Subscriptions: who gets what, until when. The one place that creates, renews and ends them."""

import asyncio
import contextlib
import heapq
import time
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, TypeVar
from weakref import WeakValueDictionary

import structlog
from sqlalchemy import Connection

from adapters import XPathFilterAdapter
from filters import Reason, Refused
from gateway.delivery import Dispatchers, Entry, WorkSharing
from gateway.egress import Target
from gateway.interning import shared
from gateway.mailboxes.mailboxes import SCHEME, Mailboxes, mailbox_target
from gateway.model.mailboxes import Mailbox, MailboxKind
from gateway.observing.samples import Sample, gauge
from gateway.security.keys import new_key, public_id
from gateway.security.principals import Principal
from gateway.security.quotas import PrincipalRate, QuotaExceeded, SubscriptionQuotas
from gateway.security.resource_addresses import key_in, shown
from gateway.store import Store, StoreUnavailable, held, mailboxes
from gateway.store import subscriptions as rows
from gateway.store.subscriptions import Deleted
from gateway.subscriptions.consumers import Consumers
from gateway.subscriptions.leases import LeaseTerms, grant
from mediation import (
    SPECIFICATIONS,
    Context,
    End,
    EndpointReference,
    Expiry,
    Lease,
    LeaseRules,
    Policy,
    Subscribe,
    SubscribePulling,
    Subscription,
    Wsa,
    prepare,
)

SUBSCRIBES, SUBSCRIBES_AT_ONCE = 2.0, 20.0
"""Subscribe requests that a network address may send: a second, and at once."""
KEPT_ALIVE = 60.0
"""Seconds that a subscription lives on when its reader asked for messages."""
EXPIRED_AT_A_TIME = 256
ELSEWHERE = 5.0
"""Seconds that another replica has to end what has expired, before it is looked at again."""
RETRY = 1.0
"""Seconds after which it is tried again to remove what waited for a subscription that has ended."""
T = TypeVar("T")
_log = structlog.get_logger("dragoman.subscriptions")


class SubscriptionUnknown(Refused):
    """There is no such subscription, or it is somebody else's: nobody is told which."""

    def __init__(self) -> None:
        super().__init__(Reason.SUBSCRIPTION_UNKNOWN, "There is no such subscription.")


class Subscriptions:
    """All subscriptions of this process, in memory and in the store.

    Args:
        notify_end: Told of each subscription that ends before its time, to tell its ``EndTo``.
    """

    def __init__(
        self,
        store: Store,
        adapter: XPathFilterAdapter,
        consumers: Consumers,
        mailboxes: Mailboxes,
        dispatchers: Dispatchers,
        sharing: WorkSharing,
        *,
        terms: LeaseTerms,
        quotas: SubscriptionQuotas,
        notify_end: Callable[[Subscription, End, str], None],
    ) -> None:
        self._store = store
        self._adapter = adapter
        self._consumers = consumers
        self._mailboxes = mailboxes
        mailboxes.before_destroying(self.end_filling)
        self._terms = terms
        self._quotas = quotas
        self._notify_end = notify_end
        self._dispatchers = dispatchers
        self._sharing = sharing
        self._version: int | None = None
        self._learning = asyncio.Lock()
        self._entries: dict[str, Entry] = {}
        self._by_id: dict[str, Entry] = {}
        self._filling: dict[str, dict[Entry, None]] = {}
        """Those that fill a mailbox, by its key."""
        self._owners: Counter[str] = Counter()
        self._owner_destinations: Counter[int] = Counter()
        self._expiries: list[tuple[float, str]] = []
        self._rate = PrincipalRate(SUBSCRIBES, SUBSCRIBES_AT_ONCE, "Too many Subscribe requests.")
        self._wake = asyncio.Event()
        self._changing: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def entries(self) -> Collection[Entry]:
        return self._entries.values()

    def matching(self, keys: Iterable[str]) -> list[Entry]:
        """The entries of *keys*; one that has just ended has none."""
        entries = self._entries
        return [entries[key] for key in keys if key in entries]

    def owner(self, key: str) -> str | None:
        """The owner of the subscription with this key; None where there is none."""
        entry = self._entries.get(key)
        return None if entry is None else entry.subscription.owner

    def metrics(self) -> Iterator[Sample]:
        """The subscriptions that there are, and those whose last attempt failed."""
        yield gauge("subscriptions", "Subscriptions.", len(self))
        yield gauge(
            "failing_subscriptions",
            "Subscriptions whose last attempt, by this gateway, failed.",
            sum(entry.trouble is not None and entry.trouble.failures > 0 for entry in self.entries),
        )

    # Life and death.

    async def start(self) -> dict[str, Subscription]:
        """Load what the store has; the subscriptions to match, by key.

        Raises:
            StoreUnavailable: The store cannot be read.
        """
        now = datetime.now(UTC)
        matched = {}
        learnt = await self._store.submit(partial(rows.learn, known=None))
        self._version = learnt.version
        await self._consumers.learn(learnt.there)
        for subscription in learnt.there:
            try:
                entry = self._entry(subscription)
            except Refused as refused:  # Its address was fine once.
                _log.error(
                    "subscription.unusable", subscription=subscription.id, reason=refused.text
                )
                continue
            self._add(entry)
            expires = subscription.lease.expires
            if expires is not None and expires <= now:
                entry.halted = True
            else:
                matched[subscription.key] = subscription
        return matched

    def _entry(self, subscription: Subscription) -> Entry:
        target = self._consumers.known(subscription.consumer, subscription.key)
        return Entry(subscription, prepare(subscription), target)

    def _add(self, entry: Entry) -> None:
        subscription = entry.subscription
        self._entries[subscription.key] = entry
        self._by_id[subscription.id] = entry
        if entry.target.scheme == SCHEME:
            self._filling.setdefault(entry.target.host, {})[entry] = None
        self._owners[subscription.owner] += 1
        self._owner_destinations[_place(subscription.owner, entry.target)] += 1
        self._watch(subscription)

    def _drop(self, entry: Entry) -> None:
        subscription = entry.subscription
        del self._entries[subscription.key]
        del self._by_id[subscription.id]
        filling = self._filling.get(entry.target.host, {})
        filling.pop(entry, None)
        if not filling:
            self._filling.pop(entry.target.host, None)
        _decrement(self._owners, subscription.owner)
        _decrement(self._owner_destinations, _place(subscription.owner, entry.target))

    async def subscribe(
        self,
        request: Subscribe | SubscribePulling,
        context: Context,
        principal: Principal,
        *,
        base: str,
        now: datetime,
    ) -> Subscription:
        """Create a subscription; it is in the store and in force on return.

        Raises:
            Refused: as the specification says; nothing was created.
        """
        self._rate.take(principal)
        target = None
        if isinstance(request, Subscribe):
            target = await self._consumers.check(request.consumer)
            if request.end_to is not None:
                await self._consumers.check(request.end_to)
        self._adapter.check(request.filter)
        spec = context.spec
        rules = SPECIFICATIONS[spec.version].leases
        expires = grant(request.expires, rules, self._terms, trusted=principal.trusted, now=now)
        self._check_quotas(principal, target)
        key = new_key()
        manager = f"{base}/subscriptions/{key}"
        lease = Lease(now, expires, request.expires.as_duration)
        made = partial(
            Subscription,
            key=key,
            id=public_id(key),
            owner=shared(principal.owner),
            spec=shared(spec),
            lease=lease,
            filter=shared(request.filter),
            manager=manager,
        )
        box = None
        if isinstance(request, Subscribe):
            policy = Policy(raw=request.raw, dialect=request.dialect, packaging=request.packaging)
            subscription = made(
                consumer=request.consumer, end_to=request.end_to, policy=shared(policy)
            )
            if target is None:
                target = await self._consumers.take_on(request.consumer, principal)
            if request.end_to is not None:
                await self._consumers.take_on(request.end_to, principal)
        else:
            consumer = EndpointReference(manager, spec.wsa or Wsa.V2005_08)
            policy = Policy(dialect=request.dialect)
            subscription = made(consumer=consumer, policy=shared(policy))
            box = Mailbox(key, subscription.id, principal.owner, MailboxKind.SUBSCRIPTION)
            target = mailbox_target(box, manager)
        entry = Entry(subscription, prepare(subscription), target)
        self._add(entry)  # Counted from now on; matched when it is in the store.
        try:
            await self._store.submit(self._inserting(subscription, box, principal))
            if box is not None:
                self._mailboxes.made(box)
            await self._adapter.add(key, subscription.filter)
        except BaseException:
            self._drop(entry)
            with contextlib.suppress(Refused):  # Then nothing of it is in the store.
                self._store.submit(
                    self._deleting(entry, expired=False), locks=_locks(entry)
                ).add_done_callback(_forget_failure)
            if box is not None:
                self._mailboxes.gone(key)
            raise
        _log.info(
            "subscription.created",
            subscription=subscription.id,
            owner=subscription.owner,
            spec=spec.version.value,
            consumer=shown(target.url),
        )
        return subscription

    def _inserting(
        self, subscription: Subscription, box: Mailbox | None, principal: Principal
    ) -> Callable[[Connection], None]:
        """What keeps a subscription, and the box that is made for it, in one transaction."""
        making = self._mailboxes.making(box, principal) if box is not None else None

        def insert(connection: Connection) -> None:
            if making is not None:
                making(connection)
            rows.insert(connection, subscription)

        return insert

    def _deleting(self, entry: Entry, *, expired: bool) -> Callable[[Connection], Deleted]:
        """What forgets a subscription, and the box that was made for it."""

        def delete(connection: Connection) -> Deleted:
            left = _has_own_box(entry) and mailboxes.forget(connection, entry.subscription.key)
            deleted = rows.delete(connection, entry.subscription, expired=expired)
            return Deleted(deleted.there, deleted.left or left)

        return delete

    def _check_quotas(self, principal: Principal, target: Target | None) -> None:
        if len(self._entries) >= self._quotas.total:
            raise QuotaExceeded(Reason.QUOTA, "There are too many subscriptions.")
        if principal.trusted:
            return
        if self._owners[principal.owner] >= self._quotas.owner:
            raise QuotaExceeded(Reason.QUOTA, "You have too many subscriptions.")
        if target is None:
            return  # Its box is its own destination.
        if self._owner_destinations[_place(principal.owner, target)] >= self._quotas.destination:
            raise QuotaExceeded(Reason.QUOTA, "You have too many subscriptions to one destination.")

    def find(self, candidates: Iterable[str | None], *, now: datetime) -> Entry:
        """The subscription that *candidates* name, each the peer's text.

        Raises:
            SubscriptionUnknown: None, or one whose lease is over beyond its grace.
            Refused: ``MESSAGE_INVALID`` where they name two different ones.
        """
        keys = list(dict.fromkeys(key for key in map(key_in, candidates) if key))
        if len(keys) > 1:
            raise Refused(Reason.MESSAGE_INVALID, "The request names two subscriptions.")
        entry = self._entries.get(keys[0]) if keys else None
        if entry is None or not self._is_alive(entry, now):
            raise SubscriptionUnknown
        return entry

    def _is_alive(self, entry: Entry, now: datetime) -> bool:
        """Whether the lease of *entry* is not over, or can still be renewed."""
        expires = entry.subscription.lease.expires
        if entry.ended or expires is None or expires > now:
            return not entry.ended
        return _rules(entry).grace and expires + self._terms.grace > now

    def by_id(self, id_: str) -> Entry | None:
        return self._by_id.get(id_)

    async def listed(self, after: str, limit: int) -> list[str]:
        """The *limit* first ids after *after*, found off the event loop: there may be 100,000."""
        ids = list(self._by_id)
        return await asyncio.to_thread(
            lambda: heapq.nsmallest(limit, (id_ for id_ in ids if id_ > after))
        )

    async def renew(
        self, entry: Entry, asked: Expiry, principal: Principal, *, now: datetime
    ) -> Subscription:
        """Move the end of a lease.

        Raises:
            Refused: as the specification says; the lease is as it was.
        """
        expires = grant(asked, _rules(entry), self._terms, trusted=principal.trusted, now=now)
        lease = Lease(entry.subscription.lease.created, expires, asked.as_duration)
        return await self._change(entry, lambda old: replace(old, lease=lease))

    async def keep_alive(self, entry: Entry, seconds: float) -> None:
        """Let a subscription live for *seconds* at least: its subscriber just showed itself."""
        lease = entry.subscription.lease
        end = datetime.now(UTC) + timedelta(seconds=seconds)
        if lease.expires is not None and lease.expires < end:
            await self._change(
                entry, lambda old: replace(old, lease=replace(old.lease, expires=end))
            )

    def filling(self, box: Mailbox) -> Entry | None:
        """The subscription that *box* was made for."""
        return self._entries.get(box.key) if box.kind is MailboxKind.SUBSCRIPTION else None

    async def end_filling(self, box: Mailbox) -> None:
        """End what fills *box*, which is no more."""
        with contextlib.suppress(Refused):  # What is not known here ends when it is delivered.
            await self.refresh()
        for entry in list(self._filling.get(box.key, ())):
            with contextlib.suppress(Refused):
                await self.end(entry, why=End.CANCELLING, reason="Its mailbox was destroyed.")

    async def destroy_mailbox(self, box: Mailbox) -> None:
        """Forget *box* with all that lies in it, and end what fills it."""
        entry = self.filling(box)
        if entry is not None:
            await self.end(entry)
        else:
            await self._mailboxes.destroy(box)

    async def keep_alive_by_reading(self, box: Mailbox, seconds: float = 2 * KEPT_ALIVE) -> None:
        """Let the subscription that *box* was made for go on, whose reader asks for messages and
        waits for *seconds* (as ONVIF Core, "PullMessages")."""
        entry = self.filling(box)
        if entry is None or entry.subscription.lease.expires is None:
            return
        left = (entry.subscription.lease.expires - datetime.now(UTC)).total_seconds()
        if left < seconds:
            await self.keep_alive(entry, seconds + KEPT_ALIVE)

    @property
    def longest_lease(self) -> timedelta:
        """What a stranger gets at most."""
        return self._terms.longest

    async def set_paused(self, entry: Entry, paused: bool) -> Subscription:
        """Pause or resume; that it is so already is no error."""
        subscription = await self._change(
            entry, lambda old: replace(old, policy=replace(old.policy, paused=paused))
        )
        (self._dispatchers.quiet if paused else self._dispatchers.resume)(entry)
        return subscription

    async def _change(
        self, entry: Entry, change: Callable[[Subscription], Subscription]
    ) -> Subscription:
        async with self._lock(entry):
            if entry.ended:
                raise SubscriptionUnknown
            former = entry.subscription
            changed = change(former)
            if not await self._store.submit(
                partial(rows.update, subscription=changed, former=former)
            ):
                await self._has_ended(entry)
                raise SubscriptionUnknown
            entry.subscription = changed
            if changed.lease != former.lease:
                self._watch(changed)
            if entry.halted and not self._is_over(changed):
                await self._adapter.add(changed.key, changed.filter)
                entry.halted = False
                self._dispatchers.resume(entry)
        return changed

    def _lock(self, entry: Entry) -> asyncio.Lock:
        """Held by whoever changes or ends a subscription: one at a time."""
        return self._changing.setdefault(entry.subscription.key, asyncio.Lock())

    @staticmethod
    def _is_over(subscription: Subscription) -> bool:
        expires = subscription.lease.expires
        return expires is not None and expires <= datetime.now(UTC)

    async def end(self, entry: Entry, *, why: End | None = None, reason: str = "") -> None:
        """End a subscription; on return it is gone from the store. With *why*, ``EndTo`` is
        told."""
        async with self._lock(entry):
            await self._end(entry, expired=False)
        if why is not None:
            self._notify_end(entry.subscription, why, reason)
        _log.info(
            "subscription.ended",
            subscription=entry.id,
            why=why.name.lower() if why else "unsubscribed",
        )

    async def _end(self, entry: Entry, *, expired: bool) -> None:
        """The store first: what is answered is final, and what failed has changed nothing."""
        if entry.ended:
            raise SubscriptionUnknown
        deleted = await self._store.submit(
            self._deleting(entry, expired=expired), locks=_locks(entry)
        )
        if deleted.left:
            self._drop_rest(entry, expired)
        await self._has_ended(entry, expired=expired)
        if not deleted.there:  # Another replica ended it.
            raise SubscriptionUnknown

    def _drop_rest(self, entry: Entry, expired: bool) -> None:
        """Remove what waited for *entry*, which has ended, a slice at a time. Where the store
        fails, it is tried again; where the gateway does, what is left goes at the next start, and
        from a mailbox when it is old."""
        loop = asyncio.get_running_loop()
        key = entry.subscription.key if _has_own_box(entry) else None

        def drop(connection: Connection) -> bool:
            thinned = key is None or mailboxes.thin(connection, key) < mailboxes.THINNED
            return held.drop(connection, entry.id, expired=expired) and thinned

        def again() -> None:
            if self._store.closed:
                return
            try:
                future = self._store.submit(drop)
            except StoreUnavailable:
                loop.call_later(RETRY, again)
            else:
                future.add_done_callback(dropped)

        def dropped(future: "asyncio.Future[bool]") -> None:
            if future.cancelled():
                return
            if future.exception() is not None:
                _log.warning("subscription.leftover", error=str(future.exception()))
                loop.call_later(RETRY, again)
            elif not future.result():
                again()

        again()

    async def _has_ended(self, entry: Entry, *, expired: bool = False) -> None:
        """*entry* is in the store no more."""
        entry.ended = True
        self._dispatchers.end(entry, expired=expired)
        self._drop(entry)
        if _has_own_box(entry):
            self._mailboxes.gone(entry.subscription.key)
        await self._adapter.remove(entry.subscription.key)

    # What other replicas do.

    async def refresh(self) -> None:
        """Learn what other replicas have changed, where there are any (see `learn`)."""
        if self._sharing.shared:
            await self.learn()

    async def learn(self) -> None:
        """Learn what other replicas have changed: on return all is known that was committed before.

        Raises:
            StoreUnavailable: The store cannot be read; what was known is known.
        """
        async with self._learning:
            learnt = await self._store.submit(partial(rows.learn, known=self._version))
            gone = learnt.gone
            if learnt.all:
                gone = list(self._entries.keys() - {one.key for one in learnt.there})
            await self._consumers.learn(learnt.there)
            for subscription in learnt.there:
                await self._learn(subscription)
            for key in gone:
                entry = self._entries.get(key)
                if entry is not None:
                    async with self._lock(entry):
                        if not entry.ended:
                            await self._has_ended(entry)
            self._version = learnt.version
            for added in learnt.added:
                entry = self._by_id.get(added.key)
                if entry is not None:
                    self._dispatchers.waits(entry, added.count, added.octets, added.partition)

    async def _learn(self, subscription: Subscription) -> None:
        entry = self._entries.get(subscription.key)
        if entry is None:
            await self._meet(subscription)
            return
        async with self._lock(entry):
            former = entry.subscription
            if entry.ended or former == subscription:
                return
            entry.subscription = subscription
            if subscription.lease != former.lease:
                self._watch(subscription)
            if entry.halted and not self._is_over(subscription):
                await self._adopt(entry)
                entry.halted = False
            paused = subscription.policy.paused
            (self._dispatchers.quiet if paused else self._dispatchers.resume)(entry)

    async def _meet(self, subscription: Subscription) -> None:
        """One that another replica made."""
        try:
            entry = self._entry(subscription)
        except Refused as refused:
            _log.error("subscription.unusable", subscription=subscription.id, reason=refused.text)
            return
        self._add(entry)
        if self._is_over(subscription):
            entry.halted = True
        else:
            await self._adopt(entry)

    async def _adopt(self, entry: Entry) -> None:
        """Match what another replica has made the messaging system yield."""
        subscription = entry.subscription
        try:
            await self._adapter.add(subscription.key, subscription.filter, adopted=True)
        except Refused as refused:  # A dialect that is installed there, not here.
            _log.error("subscription.unmatched", subscription=entry.id, reason=refused.text)

    # Expiry.

    def _watch(self, subscription: Subscription) -> None:
        if subscription.lease.expires is None:
            return
        heapq.heappush(self._expiries, (subscription.lease.expires.timestamp(), subscription.key))
        if len(self._expiries) > 2 * len(self._entries) + 1024:  # Of leases that were renewed.
            leases = [
                (entry.subscription.lease.expires, key) for key, entry in self._entries.items()
            ]
            self._expiries = [(expires.timestamp(), key) for expires, key in leases if expires]
            heapq.heapify(self._expiries)
        self._wake.set()

    async def run(self) -> None:
        """Halt and end what expires, for ever."""
        while True:
            self._wake.clear()
            wait = self._expiries[0][0] - time.time() if self._expiries else None
            if wait is None or wait > 0:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(
                        self._wake.wait(), None if wait is None else min(wait, 3600)
                    )
                continue
            now = time.time()
            due: list[Coroutine[None, None, None]] = []
            while self._expiries and self._expiries[0][0] <= now and len(due) < EXPIRED_AT_A_TIME:
                entry = self._entries.get(heapq.heappop(self._expiries)[1])
                if entry is not None:
                    due.append(self._expire(entry))
            await asyncio.gather(*due)

    async def _expire(self, entry: Entry) -> None:
        """Halt *entry* when its lease is over, and end it when it cannot be renewed any more."""
        key = entry.subscription.key
        async with self._lock(entry):
            expires = entry.subscription.lease.expires
            if entry.ended or expires is None or not self._is_over(entry.subscription):
                return  # Renewed or ended meanwhile.
            if not entry.halted:
                entry.halted = True
                await self._adapter.remove(key)
                self._dispatchers.quiet(entry)
            over = expires + self._terms.grace
            if _rules(entry).grace and over.timestamp() > time.time():
                heapq.heappush(self._expiries, (over.timestamp(), key))
                return
            if not self._sharing.keeps_house:
                heapq.heappush(self._expiries, (time.time() + ELSEWHERE, key))
                return
            try:
                await self._end(entry, expired=True)
            except Refused as refused:
                _log.warning(
                    "subscription.expiry-failed", subscription=entry.id, error=refused.text
                )
                heapq.heappush(self._expiries, (time.time() + 5.0, key))
            else:
                _log.info("subscription.expired", subscription=entry.id)


def _rules(entry: Entry) -> LeaseRules:
    return SPECIFICATIONS[entry.subscription.spec.version].leases


def _has_own_box(entry: Entry) -> bool:
    return entry.target.scheme == SCHEME and entry.target.host == entry.subscription.key


def _locks(entry: Entry) -> tuple[str, ...]:
    """Of what ends with a subscription, and others change."""
    return (entry.subscription.key,) if _has_own_box(entry) else ()


def _forget_failure(future: "asyncio.Future[Any]") -> None:
    if not future.cancelled() and future.exception() is not None:
        _log.warning("subscription.leftover", error=str(future.exception()))


def _place(owner: str, target: Target) -> int:
    """What counts the subscriptions of an owner to a destination; a number is all it needs."""
    return hash((owner, target.destination))


def _decrement(counter: Counter[T], key: T) -> None:
    counter[key] -= 1
    if not counter[key]:
        del counter[key]
