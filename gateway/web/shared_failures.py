"""Failing consumers of all gateways that use one store."""

import json
from collections.abc import Awaitable, Callable
from dataclasses import astuple

from gateway.store import Store
from gateway.store.replica_figures import Figures
from gateway.web.failing_consumers import FailingConsumers, FailingHost
from gateway.web.shared_figures import SharedFigures


class SharedFailures(SharedFigures):
    """The failing consumers of each gateway; other arguments as `SharedFigures`.

    Args:
        look: Groups those of this gateway.
    """

    figures = Figures.FAILURES
    every = 10.0
    within = 60.0
    """Then others deliver for the subscriptions of one that says nothing more."""

    def __init__(
        self,
        store: Store,
        look: Callable[[], Awaitable[FailingConsumers]],
        replica: str,
        *,
        shared: bool,
    ) -> None:
        super().__init__(store, replica, shared=shared)
        self._look = look

    async def text_of_own(self) -> str:
        own = await self._look()
        return json.dumps([own.subscriptions, own.hosts, [astuple(one) for one in own.first]])

    async def own(self) -> FailingConsumers:
        """Those of this gateway."""
        return await self._look()

    async def of_others(self) -> list[FailingConsumers]:
        """Those of each other gateway.

        Raises:
            StoreUnavailable: The store cannot be read.
        """
        return [_read(one) for one in await self.texts_of_others()]


def _read(written: str) -> FailingConsumers:
    subscriptions, hosts, first = json.loads(written)
    return FailingConsumers(subscriptions, hosts, [FailingHost(*one) for one in first])
