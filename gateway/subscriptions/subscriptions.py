"""All subscriptions of this process, as the rest of the gateway asks for them and changes them."""

import contextlib
from collections.abc import Callable, Collection, Iterable
from datetime import UTC, datetime, timedelta

from adapters import XPathFilterAdapter
from filters import Refused
from gateway.delivery import Dispatchers, Entry, WorkSharing
from gateway.mailboxes.mailboxes import Mailboxes
from gateway.model.mailboxes import Mailbox
from gateway.security.principals import Principal
from gateway.security.quotas import SubscriptionQuotas
from gateway.store import Store
from gateway.store.owner_bytes import OwnerBytes
from gateway.subscriptions.consumers import Consumers
from gateway.subscriptions.creation import Prove, SubscriptionCreation
from gateway.subscriptions.leases import LeaseTerms
from gateway.subscriptions.lifecycle import Lifecycle, SubscriptionUnknown
from gateway.subscriptions.renewal import Renewal
from gateway.subscriptions.replication import Replication
from gateway.subscriptions.resumption import Resumption
from gateway.subscriptions.sequences import SubscriberSequences
from gateway.subscriptions.table import SubscriptionTable
from gateway.subscriptions.webhooks import WebHooks
from mediation.model.expiry import Expiry
from mediation.model.messages import End, Subscription
from mediation.model.requests import Context, Subscribe, SubscribePulling

KEPT_ALIVE = 60.0
"""Seconds that a subscription lives on when its reader asked for messages."""


class Subscriptions:
    """All subscriptions, in memory and in the store.

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
        owner_bytes: OwnerBytes | None = None,
    ) -> None:
        self._table = table
        self._mailboxes = mailboxes
        mailboxes.before_destroying(self.end_filling)
        self._sharing = sharing
        self._terms = terms
        self.lifecycle = Lifecycle(
            store,
            table,
            adapter,
            consumers,
            mailboxes,
            dispatchers,
            sharing,
            sequences,
            terms=terms,
            notify_end=notify_end,
        )
        self._renewal = Renewal(table, self.lifecycle, terms)
        self._replication = Replication(
            store, table, adapter, consumers, dispatchers, self.lifecycle
        )
        self._creation = SubscriptionCreation(
            table,
            adapter,
            consumers,
            dispatchers,
            web_hooks,
            sequences,
            self.lifecycle,
            self._renewal,
            Resumption(store, table, self._renewal),
            self._replication,
            terms=terms,
            quotas=quotas,
            owner_bytes=owner_bytes,
        )

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

    @property
    def longest_lease(self) -> timedelta:
        """The longest lease that a stranger gets."""
        return self._terms.longest

    async def start(self) -> dict[str, Subscription]:
        """Load the subscriptions of the store; those to match, by key.

        Raises:
            StoreUnavailable: The store cannot be read.
        """
        return await self._replication.load()

    async def run(self) -> None:
        """Halt and end what expires, for ever."""
        await self.lifecycle.run()

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

    async def subscribe(
        self,
        request: Subscribe | SubscribePulling,
        context: Context,
        principal: Principal,
        *,
        base: str,
        now: datetime,
        prove: Prove | None = None,
        channel: str = "",
    ) -> Subscription:
        """Create a subscription, or renew the one that is asked for again; it is in the store and
        in force on return.

        Args:
            prove: Asked when the request is counted.
            channel: The name of the channel that it is at; empty: none with a name.

        Raises:
            Refused: as the specification says; nothing was created.
        """
        return await self._creation.subscribe(
            request, context, principal, base=base, now=now, prove=prove, channel=channel
        )

    def find(self, candidates: Iterable[str | None], *, now: datetime) -> Entry:
        """The subscription that *candidates* name, each the peer's text.

        Raises:
            SubscriptionUnknown: None, or one whose lease is over beyond its grace.
            Refused: ``MESSAGE_INVALID`` where they name two different ones.
        """
        return self._renewal.find(candidates, now=now)

    async def renew(
        self, entry: Entry, asked: Expiry, principal: Principal, *, now: datetime
    ) -> Subscription:
        """Move the end of a lease.

        Raises:
            Refused: as the specification says; the lease is as it was.
        """
        return await self._renewal.renew(entry, asked, principal, now=now)

    async def keep_alive(self, entry: Entry, seconds: float) -> None:
        """Let a subscription live for *seconds* at least: its subscriber just showed itself."""
        await self._renewal.keep_alive(entry, seconds)

    async def set_paused(self, entry: Entry, paused: bool) -> Subscription:
        """Pause or resume a subscription; doing so twice is no error."""
        return await self.lifecycle.set_paused(entry, paused)

    async def end(self, entry: Entry, *, why: End | None = None, reason: str = "") -> None:
        """End a subscription; on return it is gone from the store. With *why*, ``EndTo`` is
        told."""
        await self.lifecycle.end(entry, why=why, reason=reason)

    # Several at a time, or with their mailboxes.

    async def end_at(self, channel: str) -> None:
        """End the subscriptions at a channel, which is not there any more."""
        await self.refresh()
        for entry in self._table.at_channel(channel):
            with contextlib.suppress(SubscriptionUnknown):
                await self.end(entry, why=End.CANCELLING, reason="The channel was removed.")

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
