"""Puts the figures of one tenant together, for its own operators: nothing of others is in them."""

import asyncio
import time
from dataclasses import dataclass
from functools import partial

from gateway.delivery import Dispatchers
from gateway.security.principals import tenant_of
from gateway.security.tenant_quotas import TenantQuotas
from gateway.store import Store, tenant_figures
from gateway.store.owner_bytes import OwnerBytes
from gateway.store.tenant_figures import TenantFigures
from gateway.subscriptions.table import SubscriptionTable
from gateway.web.failing_consumers import FailingConsumers, failing_consumers
from gateway.web.store_counts import LATELY

FRESH = 5.0
"""Seconds for which one overview of a tenant serves all who ask: many tenants may."""


@dataclass(frozen=True, slots=True)
class TenantOverview:
    """The figures of a tenant at a moment, in POSIX seconds.

    Attributes:
        waiting: Deliveries in the store, and in memory at this gateway.
        bytes: What is kept for its users.
        attempts: At this gateway since its start, by verdict; so is what its *quotas* counted.
        failing: At this gateway.
    """

    at: float
    quotas: TenantQuotas
    subscriptions: int
    waiting: int
    bytes: int
    attempts: dict[str, int]
    failing: FailingConsumers
    figures: TenantFigures


class TenantOverviews:
    """Makes overviews of tenants."""

    def __init__(
        self,
        store: Store,
        table: SubscriptionTable,
        dispatchers: Dispatchers,
        owner_bytes: OwnerBytes,
    ) -> None:
        self._store = store
        self._table = table
        self._dispatchers = dispatchers
        self._owner_bytes = owner_bytes
        self._lock = asyncio.Lock()
        self._last: dict[str, TenantOverview] = {}
        """Of each tenant that asked."""

    async def overview(self, tenant: TenantQuotas) -> TenantOverview:
        """The figures of *tenant* now, or within the last `FRESH` seconds.

        Raises:
            StoreUnavailable: The store cannot be read.
        """
        async with self._lock:  # One at a time asks the store.
            last = self._last.get(tenant.name)
            if last is None or last.quotas is not tenant or time.time() - last.at > FRESH:
                last = self._last[tenant.name] = await self._look(tenant)
            return last

    async def _look(self, tenant: TenantQuotas) -> TenantOverview:
        name, now = tenant.name, time.time()
        await self._dispatchers.counted()
        count = partial(tenant_figures.count, tenant=name, since=now - LATELY)
        figures = await self._store.submit(count)
        return TenantOverview(
            at=now,
            quotas=tenant,
            subscriptions=self._table.of_tenant(name),
            waiting=figures.waiting + await asyncio.to_thread(self._in_memory, name),
            bytes=self._owner_bytes.of_tenant(name),
            attempts={
                verdict: number
                for (whose, verdict), number in self._dispatchers.scheduler.of_tenants.items()
                if whose == name
            },
            failing=await failing_consumers(self._table, self._dispatchers, tenant=name),
            figures=figures,
        )

    def _in_memory(self, tenant: str) -> int:
        """Deliveries of *tenant* that wait in memory alone."""
        outboxes = self._dispatchers.all_outboxes()
        return sum(
            len(one.live) for one in outboxes if tenant_of(one.entry.subscription.owner) == tenant
        )
