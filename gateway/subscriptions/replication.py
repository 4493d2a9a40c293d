"""Replication: subscriptions that other replicas made, renewed, paused and ended."""

import asyncio
from collections.abc import Iterable
from functools import partial

import structlog

from adapters import XPathFilterAdapter
from filters import Refused
from gateway.delivery import Dispatchers, Entry
from gateway.security.principals import tenant_of
from gateway.store import Store
from gateway.store import subscriptions as rows
from gateway.store.replicas import Added
from gateway.subscriptions.consumers import Consumers
from gateway.subscriptions.lifecycle.leftovers import drop_leftovers
from gateway.subscriptions.lifecycle.lifecycle import Lifecycle
from gateway.subscriptions.table import SubscriptionTable
from mediation.model.messages import Subscription

_log = structlog.get_logger("dragoman.subscriptions")


class Replication:
    """Learns from the store.

    Args:
        shared: Whether other replicas may change subscriptions.
    """

    def __init__(
        self,
        store: Store,
        table: SubscriptionTable,
        adapter: XPathFilterAdapter,
        consumers: Consumers,
        dispatchers: Dispatchers,
        lifecycle: Lifecycle,
        *,
        shared: bool,
    ) -> None:
        self._shared = shared
        self._store = store
        self._table = table
        self._adapter = adapter
        self._consumers = consumers
        self._dispatchers = dispatchers
        self._lifecycle = lifecycle
        self._version: int | None = None
        self._alone = asyncio.Lock()

    async def load(self) -> dict[str, Subscription]:
        """Load all subscriptions of the store; those to match, by key.

        Raises:
            StoreUnavailable: The store cannot be read.
        """
        matched = {}
        learnt = await self._store.submit(partial(rows.learn, known=None))
        self._version = learnt.version
        await self._consumers.learn(learnt.there)
        for subscription in learnt.there:
            entry = self._enter(subscription)
            if entry is not None and not entry.halted:
                matched[subscription.key] = subscription
        return matched

    async def refresh(self) -> None:
        """Learn what other replicas have changed, where there are any (see `learn`)."""
        if self._shared:
            await self.learn()

    async def learn(self) -> None:
        """Learn what has changed: on return all is known that was committed before.

        Raises:
            StoreUnavailable: The store cannot be read; what was known is known.
        """
        async with self._alone:
            learnt = await self._store.submit(partial(rows.learn, known=self._version))
            gone = learnt.gone
            if learnt.all:
                gone = list(self._table.keys() - {one.key for one in learnt.there})
            await self._consumers.learn(learnt.there)
            for subscription in learnt.there:
                await self._learn(subscription)
            for key in gone:
                await self._forget(key)
            self._version = learnt.version
            self._deliver(learnt.added)

    async def clear(self, identity: str) -> None:
        """End the subscription of the store with this *identity* where it has no entry here: its
        consumer could not be sent to, and whoever asks for the same now would never get it.

        Raises:
            StoreUnavailable: The store cannot be asked.
        """
        found = await self._store.submit(partial(rows.identified, identity=identity))
        if found is None or self._table.get(found.key) is not None:
            return
        over = self._lifecycle.is_over(found)
        _log.warning("subscription.replaced", subscription=found.id, over=over)
        deleting = partial(rows.delete, subscription=found, expired=over)
        if (await self._store.submit(deleting)).left:
            drop_leftovers(self._store, found.id, None, expired=over)

    async def _forget(self, key: str) -> None:
        entry = self._table.get(key)
        if entry is not None:
            async with self._lifecycle.lock(entry):
                if not entry.ended:
                    await self._lifecycle.has_ended(entry)

    def _deliver(self, added: Iterable[Added]) -> None:
        for one in added:
            entry = self._table.by_id(one.key)
            if entry is not None:
                self._dispatchers.add_rows(entry, one.count, one.octets, one.partition)

    async def _learn(self, subscription: Subscription) -> None:
        entry = self._table.get(subscription.key)
        if entry is None:
            entry = self._enter(subscription)
            if entry is not None and not entry.halted:
                await self._adopt(entry)
            return
        async with self._lifecycle.lock(entry):
            if entry.ended or entry.subscription == subscription:
                return
            self._lifecycle.moved(entry, subscription)
            if entry.halted and not self._lifecycle.is_over(subscription):
                await self._adopt(entry)
                self._lifecycle.set_halted(entry, False)
            (self._dispatchers.quiet if entry.silent else self._dispatchers.resume)(entry)

    def _enter(self, subscription: Subscription) -> Entry | None:
        """Enter a subscription of the store, halted where its lease is over; None where its
        consumer cannot be sent to any more."""
        try:
            entry = self._lifecycle.enter(subscription)
        except Refused as refused:
            _log.error("subscription.unusable", subscription=subscription.id, reason=refused.text)
            return None
        self._lifecycle.set_halted(entry, self._lifecycle.is_over(subscription))
        return entry

    async def _adopt(self, entry: Entry) -> None:
        """Match what another replica has made the messaging system yield."""
        subscription = entry.subscription
        try:
            tenant = tenant_of(subscription.owner)
            await self._adapter.add(
                subscription.key, subscription.filter, tenant=tenant, adopted=True
            )
        except Refused as refused:  # A dialect that is installed there, not here.
            _log.error("subscription.unmatched", subscription=entry.id, reason=refused.text)
