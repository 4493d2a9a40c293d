"""The life of subscriptions: the one place that creates, renews, pauses and ends them.

    subscribe ---> active <---> paused (what is published passes it by)
                     |
                     +-- lease over ---> halted ---> renewed: active again (WS-Notification)
                     |                     |
                     |                     +-- grace over ---> expired
                     +-- Unsubscribe, delivery failed, cancelled ---> ended

Each change is in the store before it is in memory, and one subscription is changed by one request
at a time. `table` holds the entries, `expiry` the clock, `replication` learns from the store.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from hmac import compare_digest
from typing import Any
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
from gateway.security.keys import new_key, public_id
from gateway.security.principals import Principal
from gateway.security.quotas import PrincipalRate, QuotaExceeded, SubscriptionQuotas
from gateway.security.resource_addresses import key_in, shown
from gateway.store import Store, StoreUnavailable, bookmarks, mailboxes
from gateway.store import subscriptions as rows
from gateway.store.subscriptions import Deleted
from gateway.subscriptions.consumers import Consumers
from gateway.subscriptions.expiry import ExpiryClock
from gateway.subscriptions.leases import LeaseTerms, grant
from gateway.subscriptions.leftovers import drop_leftovers
from gateway.subscriptions.replication import Replication
from gateway.subscriptions.sequences import Agreed, SubscriberSequences
from gateway.subscriptions.table import SubscriptionTable, identity_of
from gateway.subscriptions.webhooks import WebHooks
from mediation import (
    SPECIFICATIONS,
    Bookmark,
    Calling,
    Context,
    DeliveryMode,
    End,
    EndpointReference,
    Expiry,
    Lease,
    LeaseRules,
    Policy,
    Rights,
    Subscribe,
    SubscribePulling,
    Subscription,
    Wsa,
    bookmark_of,
    prepare,
)
from mediation.names import WSMAN_FAULT_DETAIL

SUBSCRIBES, SUBSCRIBES_AT_ONCE = 2.0, 20.0
"""Subscribe requests that a network address may send: a second, and at once."""
KEPT_ALIVE = 60.0
"""Seconds that a subscription lives on when its reader asked for messages."""
ELSEWHERE = 5.0
"""Seconds that another replica has to end what has expired, before it is looked at again."""
_log = structlog.get_logger("dragoman.subscriptions")


class SubscriptionUnknown(Refused):
    """There is no such subscription, or it is somebody else's: the text does not say which."""

    def __init__(self) -> None:
        super().__init__(Reason.SUBSCRIPTION_UNKNOWN, "There is no such subscription.")


class Subscriptions:
    """All subscriptions of this process, in memory and in the store.

    Args:
        notify_end: Called with each subscription that ends early, to notify its ``EndTo``.
    """

    def __init__(
        self,
        store: Store,
        table: SubscriptionTable,
        adapter: XPathFilterAdapter,
        consumers: Consumers,
        mailboxes: Mailboxes,
        dispatchers: Dispatchers,
        sharing: WorkSharing,
        web_hooks: WebHooks,
        sequences: SubscriberSequences,
        *,
        terms: LeaseTerms,
        quotas: SubscriptionQuotas,
        notify_end: Callable[[Subscription, End, str], None],
    ) -> None:
        self._store = store
        self._table = table
        self._adapter = adapter
        self._consumers = consumers
        self._mailboxes = mailboxes
        mailboxes.before_destroying(self.end_filling)
        self._terms = terms
        self._quotas = quotas
        self._notify_end = notify_end
        self._dispatchers = dispatchers
        self._sharing = sharing
        self._web_hooks = web_hooks
        self._sequences = sequences
        self._clock = ExpiryClock(table)
        self._replication = Replication(store, table, adapter, consumers, dispatchers, self)
        self._rate = PrincipalRate(SUBSCRIBES, SUBSCRIBES_AT_ONCE, "Too many Subscribe requests.")
        self._changing: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def __len__(self) -> int:
        return len(self._table)

    @property
    def entries(self) -> Collection[Entry]:
        return self._table.entries

    def by_key(self, key: str) -> Entry | None:
        """The subscription with this key."""
        return self._table.get(key)

    def by_id(self, id_: str) -> Entry | None:
        """The subscription with this id."""
        return self._table.by_id(id_)

    def made_with(self, mailbox: Mailbox) -> Entry | None:
        """The subscription that *mailbox* was made for."""
        return self._table.made_with(mailbox)

    def number_at(self, channel: str) -> int:
        """The number of subscriptions at the channel of this name."""
        return self._table.number_at(channel)

    async def end_at(self, channel: str) -> None:
        """End the subscriptions at a channel, which is not there any more."""
        await self.refresh()
        for entry in self._table.at_channel(channel):
            with contextlib.suppress(SubscriptionUnknown):
                await self.end(entry, why=End.CANCELLING, reason="The channel was removed.")

    async def start(self) -> dict[str, Subscription]:
        """Load the subscriptions of the store; those to match, by key.

        Raises:
            StoreUnavailable: The store cannot be read.
        """
        return await self._replication.load()

    # Beginnings.

    async def subscribe(
        self,
        request: Subscribe | SubscribePulling,
        context: Context,
        principal: Principal,
        *,
        base: str,
        now: datetime,
        rights: Rights | None = None,
        channel: str = "",
    ) -> Subscription:
        """Create a subscription; it is in the store and in force on return.

        Args:
            rights: To the topic that the filter names, where that is somebody's.
            channel: The name of the channel that it is at; empty: none with a name.

        Raises:
            Refused: as the specification says; nothing was created.
        """
        self._rate.take(principal)
        target = None
        if isinstance(request, Subscribe):
            target = await self._consumers.check(request.consumer, principal.owner)
            _check_answers(request.delivery, target)
            if request.end_to is not None:
                await self._consumers.check(request.end_to, principal.owner)
        self._adapter.check(request.filter)
        spec = context.spec
        rules = SPECIFICATIONS[spec.version].leases
        expires = grant(request.expires, rules, self._terms, trusted=principal.trusted, now=now)
        if SPECIFICATIONS[spec.version].identity is None:  # Else it may be there already.
            self._check_quotas(principal, target)
        if isinstance(request, Subscribe) and SPECIFICATIONS[spec.version].handshake:
            rate = await self._web_hooks.ask(request.consumer, principal)
            request = replace(request, rate=rate)
            self._check_quotas(principal, target)  # Others came while the consumer thought.
            now = datetime.now(UTC)
            expires = grant(request.expires, rules, self._terms, trusted=principal.trusted, now=now)
        key = new_key()
        manager = f"{base}/subscriptions/{key}"
        make = partial(
            Subscription,
            key=key,
            id=public_id(key),
            owner=shared(principal.owner),
            spec=shared(spec),
            lease=Lease(now, _cut(expires, rights), request.expires.as_duration),
            filter=shared(request.filter),
            manager=manager,
        )
        mailbox = agreed = None
        if isinstance(request, Subscribe):
            policy = Policy(
                raw=request.raw,
                dialect=request.dialect,
                packaging=request.packaging,
                data=request.data,
                delivery=request.delivery,
                rate=request.rate,
                calling=request.calling,
                rights=rights,
                channel=channel,
            )
            subscription = make(
                consumer=request.consumer,
                end_to=request.end_to,
                policy=shared(policy),
                secret=request.secret,
            )
            if request.bookmark is not None:
                return await self._resume(
                    subscription, request.bookmark, request.expires, principal, now
                )
            repeated = await self._repeat(subscription, request.expires, principal, now)
            if repeated is not None:
                return repeated
            agreed = await self._sequences.ask(subscription, target, principal)
            if agreed is not None:
                self._check_quotas(principal, target)  # Others came while the consumer thought.
            if target is None:
                target = await self._consumers.take_on(request.consumer, principal)
            if request.end_to is not None:
                await self._consumers.take_on(request.end_to, principal)
        else:
            consumer = EndpointReference(manager, spec.wsa or Wsa.V2005_08)
            policy = Policy(
                dialect=request.dialect, delivery=request.delivery, rights=rights, channel=channel
            )
            subscription = make(consumer=consumer, policy=shared(policy))
            mailbox = Mailbox(key, subscription.id, principal.owner, MailboxKind.SUBSCRIPTION)
            target = mailbox_target(mailbox, manager)
        renew = partial(self._renew_identical, subscription, request.expires, principal, now)
        identity = identity_of(subscription)
        if identity is not None:
            if (renewed := await renew(identity)) is not None:
                return renewed
            self._check_quotas(principal, target)
        entry = Entry(subscription, prepare(subscription), target)
        if not await self._put_in_force(entry, mailbox, principal, agreed, identity):
            await self.learn()  # Another gateway was first.
            if (renewed := await renew(identity or "")) is not None:
                return renewed
            await self._replication.clear(identity or "")
            entry = Entry(subscription, prepare(subscription), target)
            if not await self._put_in_force(entry, mailbox, principal, agreed, identity):
                raise StoreUnavailable("The same subscription ends at this moment.")
        if agreed is not None:
            self._sequences.wake()
        _log.info(
            "subscription.created",
            subscription=subscription.id,
            owner=subscription.owner,
            spec=spec.version.value,
            consumer=shown(target.url),
        )
        return subscription

    async def _resume(
        self,
        subscription: Subscription,
        bookmark: Bookmark,
        asked: Expiry,
        principal: Principal,
        now: datetime,
    ) -> Subscription:
        """Renew the subscription that *bookmark* is of, and return it; *subscription* must be like
        it. What its sink has not acknowledged still waits for it.

        Raises:
            Refused: ``BOOKMARK_INVALID``: it is none, or something behind the bookmark is not kept.
        """
        entry = self._table.by_id(bookmark.subscription)
        if entry is None or not self._is_alive(entry, now):
            raise _bookmark("Its subscription has ended, and nothing waits for it.", "Expired")
        old = entry.subscription
        proof = bookmark_of(old.id, old.key, bookmark.position).proof
        if old.owner != principal.owner or not compare_digest(
            proof.encode(), bookmark.proof.encode()
        ):
            raise _bookmark("It is of no subscription of yours.", "Invalid")
        if _resumable(old) != _resumable(subscription):
            raise _bookmark(
                "Its subscription has another filter, consumer, channel or delivery mode.",
                "Invalid",
            )
        kept = await self._store.submit(partial(bookmarks.acknowledged, subscription=old.id))
        if kept is None or bookmark.position < max(kept, entry.acknowledged):
            raise _bookmark("What came behind it is not kept.", "Expired")
        return await self.renew(entry, asked, principal, now=now)

    async def _repeat(
        self, subscription: Subscription, asked: Expiry, principal: Principal, now: datetime
    ) -> Subscription | None:
        """Renew the subscription that *subscription* repeats, and return it; None where it repeats
        none. Strangers behind one address are not told each other's keys."""
        entry = self._table.repeated(subscription) if principal.trusted else None
        if entry is None or not self._is_alive(entry, now):
            return None
        with contextlib.suppress(SubscriptionUnknown):  # It has just ended.
            return await self.renew(entry, asked, principal, now=now)
        return None

    async def _renew_identical(
        self,
        subscription: Subscription,
        asked: Expiry,
        principal: Principal,
        now: datetime,
        identity: str,
    ) -> Subscription | None:
        """Renew the one subscription with this *identity*, and send now what waits for it; None
        where there is none. It is answered as *subscription* asks for. Who does not own it makes
        its lease longer, and changes nothing else."""
        entry = self._table.identical(identity)
        if entry is None:
            return None
        owns = entry.subscription.owner == principal.owner
        calling = subscription.policy.calling if owns else None
        grows = not owns and not principal.trusted
        try:
            renewed = await self.renew(
                entry, asked, principal, now=now, calling=calling, grows=grows
            )
        except SubscriptionUnknown:  # It has just ended.
            return None
        self._dispatchers.hasten(entry)
        return replace(renewed, policy=subscription.policy)

    async def _put_in_force(
        self,
        entry: Entry,
        mailbox: Mailbox | None,
        principal: Principal,
        agreed: Agreed | None,
        identity: str | None = None,
    ) -> bool:
        """Store and match *entry*; where that fails, nothing of it is left. Returns whether it is
        in force: not so where the store has another with its *identity*."""
        subscription = entry.subscription
        self._table.add(entry)  # Counted from now on; matched when it is in the store.
        self._clock.watch(subscription)
        self._dispatchers.heartbeats.watch(entry)
        try:
            inserting = self._inserting(subscription, mailbox, principal, agreed, identity)
            if not await self._store.submit(inserting):
                entry.ended = True
                self._table.drop(entry)
                return False
            if mailbox is not None:
                self._mailboxes.made(mailbox)
            await self._adapter.add(subscription.key, subscription.filter)
        except BaseException:
            self._table.drop(entry)
            with contextlib.suppress(Refused):  # Then nothing of it is in the store.
                self._store.submit(
                    self._deleting(entry, expired=False), locks=_locks(entry)
                ).add_done_callback(_forget_failure)
            if mailbox is not None:
                self._mailboxes.gone(subscription.key)
            raise
        return True

    def _inserting(
        self,
        subscription: Subscription,
        mailbox: Mailbox | None,
        principal: Principal,
        agreed: Agreed | None,
        identity: str | None,
    ) -> Callable[[Connection], bool]:
        """The operation that inserts a subscription, and the mailbox or the sequence that is made
        for it; it returns whether it did."""
        making = self._mailboxes.making(mailbox, principal) if mailbox is not None else None

        def insert(connection: Connection) -> bool:
            if making is not None:
                making(connection)
            if not rows.insert(connection, subscription, identity):
                return False
            if agreed is not None:
                agreed.keep(connection)
            return True

        return insert

    def _deleting(self, entry: Entry, *, expired: bool) -> Callable[[Connection], Deleted]:
        """The operation that deletes a subscription, and the mailbox that was made for it, and that
        ends its sequences; it is submitted at once."""
        outboxes = self._dispatchers.outboxes(entry)
        let_go = self._sequences.letting_go(entry.subscription, outboxes)

        def delete(connection: Connection) -> Deleted:
            let_go(connection)
            left = _has_own_mailbox(entry) and mailboxes.forget(connection, entry.subscription.key)
            deleted = rows.delete(connection, entry.subscription, expired=expired)
            return Deleted(deleted.there, deleted.left or left)

        return delete

    def _check_quotas(self, principal: Principal, target: Target | None) -> None:
        if len(self._table) >= self._quotas.total:
            raise QuotaExceeded(Reason.QUOTA, "There are too many subscriptions.")
        if principal.trusted:
            return
        if self._table.of_owner(principal.owner) >= self._quotas.owner:
            raise QuotaExceeded(Reason.QUOTA, "You have too many subscriptions.")
        if target is None:
            return  # Its mailbox is its own destination.
        if self._table.of_owner_to(principal.owner, target) >= self._quotas.destination:
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
        entry = self._table.get(keys[0]) if keys else None
        if entry is None or not self._is_alive(entry, now):
            raise SubscriptionUnknown
        return entry

    def _is_alive(self, entry: Entry, now: datetime) -> bool:
        """Whether the lease of *entry* is not over, or can still be renewed."""
        expires = entry.subscription.lease.expires
        if entry.ended or expires is None or expires > now:
            return not entry.ended
        return _rules(entry).grace and expires + self._terms.grace > now

    async def renew(
        self,
        entry: Entry,
        asked: Expiry,
        principal: Principal,
        *,
        now: datetime,
        calling: Calling | None = None,
        grows: bool = False,
    ) -> Subscription:
        """Move the end of a lease.

        Args:
            calling: How its listener is called from now on; None is as before.
            grows: Its end is never moved forward.

        Raises:
            Refused: as the specification says; the lease is as it was.
        """
        expires = grant(asked, _rules(entry), self._terms, trusted=principal.trusted, now=now)
        expires = _cut(expires, entry.subscription.policy.rights)

        def renewed(old: Subscription) -> Subscription:
            former = old.lease.expires
            shortens = expires is not None and (former is None or expires < former)
            lease = Lease(old.lease.created, expires, asked.as_duration)
            if grows and shortens:
                lease = old.lease
            if calling is None or calling == old.policy.calling:
                return replace(old, lease=lease)
            return replace(old, lease=lease, policy=shared(replace(old.policy, calling=calling)))

        return await self._change(entry, renewed)

    async def keep_alive(self, entry: Entry, seconds: float) -> None:
        """Let a subscription live for *seconds* at least: its subscriber just showed itself."""
        lease = entry.subscription.lease
        end = datetime.now(UTC) + timedelta(seconds=seconds)
        end = _cut(end, entry.subscription.policy.rights) or end
        if lease.expires is not None and lease.expires < end:
            await self._change(
                entry, lambda old: replace(old, lease=replace(old.lease, expires=end))
            )

    async def end_filling(self, mailbox: Mailbox) -> None:
        """End the subscriptions whose consumer is *mailbox*, which is being destroyed."""
        with contextlib.suppress(Refused):  # What is not known here ends when it is delivered.
            await self.refresh()
        for entry in self._table.feeds(mailbox):
            with contextlib.suppress(Refused):
                await self.end(entry, why=End.CANCELLING, reason="Its mailbox was destroyed.")

    async def destroy_mailbox(self, mailbox: Mailbox) -> None:
        """Forget *mailbox* with all that lies in it, and end what fills it."""
        entry = self.made_with(mailbox)
        if entry is not None:
            await self.end(entry)
        else:
            await self._mailboxes.destroy(mailbox)

    async def keep_alive_by_reading(
        self, mailbox: Mailbox, seconds: float = 2 * KEPT_ALIVE
    ) -> None:
        """Keep the subscription alive that *mailbox* was made for: its reader asks for messages,
        and waits for *seconds* (as ONVIF Core, "PullMessages")."""
        entry = self.made_with(mailbox)
        if entry is None or entry.subscription.lease.expires is None:
            return
        left = (entry.subscription.lease.expires - datetime.now(UTC)).total_seconds()
        if left < seconds:
            await self.keep_alive(entry, seconds + KEPT_ALIVE)

    @property
    def longest_lease(self) -> timedelta:
        """The longest lease that a stranger gets."""
        return self._terms.longest

    async def set_paused(self, entry: Entry, paused: bool) -> Subscription:
        """Pause or resume a subscription; doing so twice is no error."""
        subscription = await self._change(
            entry, lambda old: replace(old, policy=replace(old.policy, paused=paused))
        )
        (self._dispatchers.quiet if paused else self._dispatchers.resume)(entry)
        return subscription

    async def _change(
        self, entry: Entry, change: Callable[[Subscription], Subscription]
    ) -> Subscription:
        async with self.lock(entry):
            if entry.ended:
                raise SubscriptionUnknown
            former = entry.subscription
            changed = change(former)
            if not await self._store.submit(
                partial(rows.update, subscription=changed, former=former)
            ):
                await self.has_ended(entry)
                raise SubscriptionUnknown
            self.moved(entry, changed)
            if entry.halted and not self.is_over(changed):
                await self._adapter.add(changed.key, changed.filter)
                entry.halted = False
                self._dispatchers.resume(entry)
        return changed

    def lock(self, entry: Entry) -> asyncio.Lock:
        """The lock of a subscription: one request at a time changes or ends it."""
        return self._changing.setdefault(entry.subscription.key, asyncio.Lock())

    @staticmethod
    def is_over(subscription: Subscription) -> bool:
        expires = subscription.lease.expires
        return expires is not None and expires <= datetime.now(UTC)

    async def end(self, entry: Entry, *, why: End | None = None, reason: str = "") -> None:
        """End a subscription; on return it is gone from the store. With *why*, ``EndTo`` is
        told."""
        async with self.lock(entry):
            await self._end(entry, expired=False)
        if why is not None:
            self._notify_end(entry.subscription, why, reason)
        _log.info(
            "subscription.ended",
            subscription=entry.id,
            why=why.name.lower() if why else "unsubscribed",
        )

    async def _end(self, entry: Entry, *, expired: bool) -> None:
        """End *entry*, in the store first: an answer is final, and a failure has changed
        nothing."""
        if entry.ended:
            raise SubscriptionUnknown
        deleted = await self._store.submit(
            self._deleting(entry, expired=expired), locks=_locks(entry)
        )
        if deleted.left:
            mailbox = entry.subscription.key if _has_own_mailbox(entry) else None
            drop_leftovers(self._store, entry.id, mailbox, expired=expired)
        await self.has_ended(entry, expired=expired)
        if entry.delivery.reliable:
            self._sequences.wake()
        if not deleted.there:  # Another replica ended it.
            raise SubscriptionUnknown

    async def has_ended(self, entry: Entry, *, expired: bool = False) -> None:
        """Forget *entry*, which is not in the store any more."""
        entry.ended = True
        self._dispatchers.end(entry, expired=expired)
        self._table.drop(entry)
        if _has_own_mailbox(entry):
            self._mailboxes.gone(entry.subscription.key)
        await self._adapter.remove(entry.subscription.key)

    # Replication: see `gateway.subscriptions.replication`.

    async def refresh(self) -> None:
        """Learn what other replicas have changed, where there are any (see `learn`)."""
        if self._sharing.shared:
            await self.learn()

    async def learn(self) -> None:
        """Learn what other replicas have changed: on return all is known that was committed before.

        Raises:
            StoreUnavailable: The store cannot be read; what was known is known.
        """
        await self._replication.learn()

    def enter(self, subscription: Subscription) -> Entry:
        """Make an entry of a subscription that is in the store.

        Raises:
            Refused: Its consumer cannot be sent to.
        """
        target = self._consumers.known(subscription.consumer, subscription.key)
        entry = Entry(subscription, prepare(subscription), target)
        self._table.add(entry)
        self._clock.watch(subscription)
        self._dispatchers.heartbeats.watch(entry)
        return entry

    def moved(self, entry: Entry, subscription: Subscription) -> None:
        """Put *subscription*, which the store has, in the place of the former one of *entry*."""
        former, entry.subscription = entry.subscription, subscription
        if subscription.policy.calling != former.policy.calling:
            entry.recipient = prepare(subscription)
        if subscription.lease != former.lease:
            self._clock.watch(subscription)

    # Expiry.

    async def run(self) -> None:
        """Halt and end what expires, for ever."""
        while True:
            await asyncio.gather(*map(self._expire, await self._clock.due()))

    async def _expire(self, entry: Entry) -> None:
        """Halt *entry* when its lease is over, and end it when it cannot be renewed any more."""
        key = entry.subscription.key
        async with self.lock(entry):
            expires = entry.subscription.lease.expires
            if entry.ended or expires is None or not self.is_over(entry.subscription):
                return  # Renewed or ended meanwhile.
            if not entry.halted:
                entry.halted = True
                await self._adapter.remove(key)
                self._dispatchers.quiet(entry)
            over = expires + self._terms.grace
            if _rules(entry).grace and over.timestamp() > time.time():
                self._clock.watch_at(over.timestamp(), key)
                return
            if not self._sharing.keeps_house:
                self._clock.watch_at(time.time() + ELSEWHERE, key)
                return
            try:
                await self._end(entry, expired=True)
            except Refused as refused:
                _log.warning(
                    "subscription.expiry-failed", subscription=entry.id, error=refused.text
                )
                self._clock.watch_at(time.time() + 5.0, key)
            else:
                _log.info("subscription.expired", subscription=entry.id)


def _cut(expires: datetime | None, rights: Rights | None) -> datetime | None:
    """Return the end of a lease that is no longer than the right that it rests on."""
    if rights is None:
        return expires
    return rights.until if expires is None else min(expires, rights.until)


def _resumable(subscription: Subscription) -> tuple[object, ...]:
    """What a subscription has in common with the one that it goes on with."""
    policy = subscription.policy
    return subscription.filter, subscription.consumer, policy.delivery, policy.channel


def _bookmark(text: str, detail: str) -> Refused:
    return Refused(Reason.BOOKMARK_INVALID, text, names=(WSMAN_FAULT_DETAIL + detail,))


def _check_answers(delivery: DeliveryMode, target: Target | None) -> None:
    """Refuse a delivery mode in which the consumer has to answer, where it cannot.

    Raises:
        Refused: ``CONSUMER_ADDRESS``.
    """
    answers = target is not None and target.scheme in ("http", "https")
    if (delivery.acknowledged or delivery.heartbeats is not None) and not answers:
        raise Refused(
            Reason.CONSUMER_ADDRESS, "Deliveries can be acknowledged over HTTP and HTTPS alone."
        )


def _rules(entry: Entry) -> LeaseRules:
    return SPECIFICATIONS[entry.subscription.spec.version].leases


def _has_own_mailbox(entry: Entry) -> bool:
    return entry.target.scheme == SCHEME and entry.target.host == entry.subscription.key


def _locks(entry: Entry) -> tuple[str, ...]:
    """The locks of what ends with a subscription, and others change."""
    return (entry.subscription.key,) if _has_own_mailbox(entry) else ()


def _forget_failure(future: "asyncio.Future[Any]") -> None:
    if not future.cancelled() and future.exception() is not None:
        _log.warning("subscription.leftover", error=str(future.exception()))
