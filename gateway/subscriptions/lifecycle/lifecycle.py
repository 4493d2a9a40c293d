"""The life of one subscription: the one place where it begins, changes, is paused and ends.

    begin ---> active <---> paused (what is published passes it by, or waits for it)
                  |
                  +-- lease over ---> halted ---> renewed: active again (WS-Notification)
                  |                     |
                  |                     +-- grace over ---> expired
                  +-- Unsubscribe, delivery failed, cancelled ---> ended

Each change is in the store before it is in memory, and one subscription is changed by one request
at a time. `table` holds the entries, `expiry` the clock; `creation` decides what a Subscribe leads
to, `leases` how long a lease is, `renewal` moves its end, and `replication` learns from the store.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeAlias
from weakref import WeakValueDictionary

import structlog
from sqlalchemy import Connection

from adapters import XPathFilterAdapter
from filters import Reason, Refused
from gateway.delivery import Dispatchers, Entry, WorkSharing
from gateway.delivery.status import host_shown
from gateway.interning import shared
from gateway.mailboxes.mailboxes import Mailboxes
from gateway.mailboxes.transport import SCHEME
from gateway.model.mailboxes import Mailbox
from gateway.observing.system_events import CREATED, ENDED, SystemEvents
from gateway.security.audit import NO_AUDIT, Audit
from gateway.security.identify import GATEWAY
from gateway.security.principals import Principal, tenant_of
from gateway.security.tenant_quotas import counting_refusals
from gateway.store import Store, mailboxes
from gateway.store import subscriptions as rows
from gateway.store.subscriptions import Deleted
from gateway.subscriptions.consumers import Consumers
from gateway.subscriptions.lifecycle.expiry import ExpiryClock
from gateway.subscriptions.lifecycle.leases import LeaseTerms, rules_of
from gateway.subscriptions.lifecycle.leftovers import drop_leftovers
from gateway.subscriptions.sequences.subscriber_sequences import Agreed, SubscriberSequences
from gateway.subscriptions.table import SubscriptionTable
from mediation.model.messages import CatchingUp, End, Subscription
from mediation.rendering import prepare

ELSEWHERE = 5.0
"""Seconds that another replica has to end what has expired, before it is looked at again."""
END_RETRY = 5.0
"""Seconds until a subscription is ended again that has expired and could not be ended."""
_log = structlog.get_logger("dragoman.subscriptions")


class SubscriptionUnknown(Refused):
    """There is no such subscription, or it is somebody else's: the text does not say which.
    *missing* is as of `Refused`."""

    def __init__(self, missing: str = "") -> None:
        text = "There is no such subscription."
        super().__init__(Reason.SUBSCRIPTION_UNKNOWN, text, missing=missing)


Start: TypeAlias = Callable[[Connection], object]
"""Has a new subscription begin with what the archive has, in the transaction that stores it."""


class Lifecycle:
    """Begins, changes and ends subscriptions, each in the store first.

    Args:
        hold_while_paused: What is published while a subscription is paused waits for it, unless
            who pauses it says something else.
        system_events: Told of subscriptions that begin, are renewed, and end.
        notify_end: Called with each subscription that ends early, to notify its ``EndTo``.
        audit: Notes what ends without its owner's wish.
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
        sequences: SubscriberSequences,
        *,
        terms: LeaseTerms,
        hold_while_paused: bool,
        notify_end: Callable[[Subscription, End, str], None],
        system_events: SystemEvents,
        audit: Audit = NO_AUDIT,
    ) -> None:
        self.system_events = system_events
        self._audit = audit
        self._store = store
        self._table = table
        self._adapter = adapter
        self._consumers = consumers
        self._mailboxes = mailboxes
        self._dispatchers = dispatchers
        self._sharing = sharing
        self._sequences = sequences
        self._terms = terms
        self._hold_while_paused = hold_while_paused
        self._notify_end = notify_end
        self._clock = ExpiryClock(table)
        self._changing: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def lock(self, entry: Entry) -> asyncio.Lock:
        """The lock of a subscription: one request at a time changes or ends it."""
        return self._changing.setdefault(entry.subscription.key, asyncio.Lock())

    @staticmethod
    def is_over(subscription: Subscription) -> bool:
        """True if the lease has ended."""
        expires = subscription.lease.expires
        return expires is not None and expires <= datetime.now(UTC)

    # Beginnings.

    def enter(self, subscription: Subscription) -> Entry:
        """Make an entry of a subscription that is in the store.

        Raises:
            Refused: Its consumer cannot be sent to.
        """
        target = self._consumers.known(subscription.consumer, subscription.owner, subscription.key)
        entry = Entry(subscription, prepare(subscription), target)
        self._table.add(entry)
        self._clock.watch(subscription)
        self._dispatchers.heartbeats.watch(entry)
        return entry

    async def begin(
        self,
        entry: Entry,
        mailbox: Mailbox | None,
        principal: Principal,
        agreed: Agreed | None,
        identity: str | None = None,
        start: Start | None = None,
    ) -> bool:
        """Store and match *entry*; where that fails, nothing of it is left. Returns whether it is
        in force: not so where the store has another with its *identity*."""
        subscription = entry.subscription
        self._table.add(entry)  # Counted from now on; matched when it is in the store.
        self._clock.watch(subscription)
        self._dispatchers.heartbeats.watch(entry)
        try:
            inserting = self._inserting(subscription, mailbox, principal, agreed, identity, start)
            with counting_refusals(principal.quotas):
                inserted = await self._store.submit(inserting)
            if not inserted:
                self._leave(entry)
                return False
            if mailbox is not None:
                self._mailboxes.made(mailbox)
            tenant = tenant_of(subscription.owner)
            await self._adapter.add(subscription.key, subscription.filter, tenant=tenant)
        except BaseException:
            self._table.drop(entry)
            with contextlib.suppress(Refused):  # Then nothing of it is in the store.
                self._store.submit(
                    self._deleting(entry, expired=False), locks=_locks(entry)
                ).add_done_callback(_forget_failure)
            if mailbox is not None:
                self._mailboxes.gone(subscription.key)
            raise
        spec, consumer = subscription.spec.version.value, host_shown(entry.target.destination)
        self.system_events.tell_of(subscription, CREATED, spec=spec, consumer=consumer)
        return True

    def _inserting(
        self,
        subscription: Subscription,
        mailbox: Mailbox | None,
        principal: Principal,
        agreed: Agreed | None,
        identity: str | None,
        start: Start | None,
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
            if start is not None:
                start(connection)
            return True

        return insert

    # Changes.

    async def change(
        self, entry: Entry, change: Callable[[Subscription], Subscription]
    ) -> Subscription:
        """Put what *change* makes of a subscription in its place.

        Raises:
            SubscriptionUnknown: It has ended.
        """
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
                tenant = tenant_of(changed.owner)
                await self._adapter.add(changed.key, changed.filter, tenant=tenant)
                self.set_halted(entry, False)
                self._dispatchers.resume(entry)
        return changed

    async def set_paused(
        self, entry: Entry, paused: bool, hold: bool | None = None
    ) -> Subscription:
        """Pause or resume a subscription; doing so twice is no error.

        Args:
            hold: What is published while it is paused waits for it; None: as the setting says.

        Raises:
            SubscriptionUnknown: It has ended.
        """
        held = paused and (self._hold_while_paused if hold is None else hold)
        subscription = await self.change(
            entry,
            lambda old: replace(
                old, policy=shared(replace(old.policy, paused=paused, hold_while_paused=held))
            ),
        )
        (self._dispatchers.quiet if paused else self._dispatchers.resume)(entry)
        return subscription

    async def set_catching_up(self, entry: Entry, catching_up: CatchingUp) -> None:
        """Note how far a subscription is that began with what the archive has.

        Raises:
            SubscriptionUnknown: It has ended.
        """
        await self.change(
            entry,
            lambda old: replace(old, policy=shared(replace(old.policy, catching_up=catching_up))),
        )
        (self._dispatchers.quiet if entry.silent else self._dispatchers.resume)(entry)

    def moved(self, entry: Entry, subscription: Subscription) -> None:
        """Put *subscription*, which the store has, in the place of the former one of *entry*."""
        former, entry.subscription = entry.subscription, subscription
        if subscription.policy.calling != former.policy.calling:
            entry.recipient = prepare(subscription)
        if subscription.lease != former.lease:
            self._clock.watch(subscription)

    @staticmethod
    def set_halted(entry: Entry, halted: bool) -> None:
        """Halt *entry*, whose lease is over, or let it be sent to again."""
        entry.halted = halted

    # Ends.

    async def end(self, entry: Entry, *, why: End | None = None, reason: str = "") -> None:
        """End a subscription; on return it is gone from the store. With *why*, ``EndTo`` is
        told."""
        async with self.lock(entry):
            await self._end(entry, expired=False)
        if why is not None:
            self._notify_end(entry.subscription, why, reason)
            self._note_end(entry, reason or why.name.lower())
        said = why.name.lower() if why else "unsubscribed"
        self.system_events.tell_of(entry.subscription, ENDED, why=said, reason=reason or None)
        _log.info("subscription.ended", subscription=entry.id, why=said)

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

    def _deleting(self, entry: Entry, *, expired: bool) -> Callable[[Connection], Deleted]:
        """The operation that deletes a subscription, and the mailbox that was made for it, and that
        ends its sequences; it is submitted at once."""
        outboxes = self._dispatchers.outboxes(entry)
        let_go = self._sequences.ending_sequences(entry.subscription, outboxes)

        def delete(connection: Connection) -> Deleted:
            let_go(connection)
            left = _has_own_mailbox(entry) and mailboxes.forget(connection, entry.subscription.key)
            deleted = rows.delete(connection, entry.subscription, expired=expired)
            return Deleted(deleted.there, deleted.left or left)

        return delete

    async def has_ended(self, entry: Entry, *, expired: bool = False) -> None:
        """Forget *entry*, which is not in the store any more."""
        self._leave(entry)
        self._dispatchers.end(entry, expired=expired)
        if _has_own_mailbox(entry):
            self._mailboxes.gone(entry.subscription.key)
        await self._adapter.remove(entry.subscription.key)

    def _leave(self, entry: Entry) -> None:
        """Mark *entry* as ended: nothing finds it any more, and nothing more is sent to it."""
        entry.ended = True
        self._table.drop(entry)

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
                self.set_halted(entry, True)
                await self._adapter.remove(key)
                self._dispatchers.quiet(entry)
            over = expires + self._terms.grace
            if rules_of(entry.subscription).grace and over.timestamp() > time.time():
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
                self._clock.watch_at(time.time() + END_RETRY, key)
            else:
                self.system_events.tell_of(entry.subscription, ENDED, why="expired")
                _log.info("subscription.expired", subscription=entry.id)
                self._note_end(entry, "its lease expired")

    def _note_end(self, entry: Entry, reason: str) -> None:
        """Note an end that no request of its owner asked for."""
        what = f"{entry.id} of {entry.subscription.owner}"
        self._audit.note(GATEWAY, "ended the subscription", what, f"done: {reason[:1024]}")


def _has_own_mailbox(entry: Entry) -> bool:
    return entry.target.scheme == SCHEME and entry.target.host == entry.subscription.key


def _locks(entry: Entry) -> tuple[str, ...]:
    """The locks of what ends with a subscription, and others change."""
    return (entry.subscription.key,) if _has_own_mailbox(entry) else ()


def _forget_failure(future: "asyncio.Future[Any]") -> None:
    if not future.cancelled() and future.exception() is not None:
        _log.warning("subscription.leftover", error=str(future.exception()))
