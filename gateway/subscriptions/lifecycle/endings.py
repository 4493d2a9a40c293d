"""Subscriptions that the gateway itself ends, in the background: delivery gave up, the consumer's
host never accepted anything, or a filter takes too long."""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from typing import Any

from filters import Refused
from gateway.delivery import NEVER_AGREED, Dispatchers, Entry, Probations
from gateway.store import Store, totals
from gateway.subscriptions.lifecycle.lifecycle import Lifecycle
from gateway.subscriptions.table import SubscriptionTable
from mediation.model.messages import End


class Endings:
    """Ends subscriptions that others give up.

    Args:
        shared: Whether other gateways deliver to the same hosts.
        trusts: Whether an owner of subscriptions is trusted.
    """

    def __init__(
        self,
        store: Store,
        table: SubscriptionTable,
        lifecycle: Lifecycle,
        dispatchers: Dispatchers,
        probations: Probations,
        *,
        shared: bool,
        trusts: Callable[[str], bool],
    ) -> None:
        self._store = store
        self._table = table
        self._lifecycle = lifecycle
        self._dispatchers = dispatchers
        self._probations = probations
        self._shared = shared
        self._trusts = trusts
        self._tasks: set[asyncio.Task[None]] = set()

    def give_up(self, entry: Entry, reason: str) -> None:
        """End a subscription that cannot be delivered to."""
        self._spawn(self._end(entry, End.DELIVERY_FAILURE, reason))

    def cancel(self, entry: Entry, reason: str) -> None:
        """End a subscription that the gateway does not serve any longer."""
        self._spawn(self._end(entry, End.CANCELLING, reason))

    def never_agreed(self, entry: Entry, just_learnt: bool) -> None:
        """End a subscription whose host refused all attempts that it gets, unless the host has
        accepted a message of another gateway. Where that is *just_learnt*, end all of strangers at
        that host."""
        if self._shared or just_learnt:
            self._spawn(self._end_at_host(entry, just_learnt))
        else:
            self.give_up(entry, NEVER_AGREED)

    async def learn_who_agreed(self, entries: Iterable[Entry]) -> None:
        """Learn which hosts of *entries* have accepted a message: of another gateway, or before a
        restart.

        Raises:
            StoreUnavailable: The store cannot be read.
        """
        entries = list(entries)
        ids = [entry.id for entry in entries]
        counted = await self._store.submit(partial(totals.read_some, subscriptions=ids))
        for entry in entries:
            if entry.id in counted and counted[entry.id].delivered:
                self._dispatchers.scheduler.agree(entry.target.destination)

    async def close(self) -> None:
        """Leave what has not ended yet as it is."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _end(self, entry: Entry, why: End, reason: str) -> None:
        with contextlib.suppress(Refused):
            await self._lifecycle.end(entry, why=why, reason=reason)

    async def _end_at_host(self, entry: Entry, just_learnt: bool) -> None:
        host, name = entry.target.host, entry.target.destination
        with contextlib.suppress(Refused):
            there = [one for one in self._table.entries if one.target.host == host]
            if self._shared:
                await self.learn_who_agreed(there)
            for one in there if just_learnt else [entry]:
                trusted = self._trusts(one.subscription.owner)
                if not (trusted or self._probations.has_agreed(name)):
                    self.give_up(one, NEVER_AGREED)
                    await asyncio.sleep(0)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.add(task := asyncio.get_running_loop().create_task(work))
        task.add_done_callback(self._tasks.discard)
