"""Subscriptions as operators see them: with their status and what became of their deliveries."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from gateway.delivery import Dispatchers, Entry
from gateway.delivery.status import DeliveryStatus
from gateway.store import Store, Totals, totals
from gateway.subscriptions.table import SubscriptionTable


@dataclass(frozen=True, slots=True)
class SubscriptionReport:
    """One moment of a subscription."""

    entry: Entry
    status: DeliveryStatus
    totals: Totals


class SubscriptionReports:
    """Puts reports together from the store and from what is in memory."""

    def __init__(self, store: Store, table: SubscriptionTable, dispatchers: Dispatchers) -> None:
        self._store = store
        self._table = table
        self._dispatchers = dispatchers

    async def of(self, ids: Sequence[str]) -> list[SubscriptionReport]:
        """The reports of those of *ids* whose subscriptions still exist.

        Raises:
            StoreUnavailable: The store cannot be read.
        """
        await self._dispatchers.counted()
        counted = await self._store.submit(partial(totals.read_some, subscriptions=ids))
        entries = filter(None, map(self._table.by_id, ids))
        return [
            SubscriptionReport(
                entry, self._dispatchers.status(entry), counted.get(entry.id, Totals())
            )
            for entry in entries
        ]
