"""Failing consumers of all gateways that use one store: each writes there which fail at it, and
reads those of the others when somebody asks."""

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable
from dataclasses import astuple
from functools import partial

from gateway.store import Store, StoreUnavailable, replica_figures
from gateway.store.replica_figures import Figures
from gateway.web.failing_consumers import FailingConsumers, FailingHost

EVERY = 10.0
"""Seconds from one writing to the next: so old are the others' failures at most."""
FRESH = 60.0
"""Seconds after which the failures of a gateway that says nothing more are left out: others deliver
for its subscriptions by then."""


class SharedFailures:
    """The failing consumers of all gateways.

    Args:
        look: Groups those of this gateway.
        replica: The name of this gateway.
        shared: Whether others use the store; else nothing is written.
    """

    def __init__(
        self,
        store: Store,
        look: Callable[[], Awaitable[FailingConsumers]],
        replica: str,
        *,
        shared: bool,
    ) -> None:
        self._store = store
        self._look = look
        self._replica = replica
        self._shared = shared

    async def run(self) -> None:
        """Write the failing consumers of this gateway every `EVERY` seconds, for ever."""
        if not self._shared:
            await asyncio.Event().wait()
        while True:
            await asyncio.sleep(EVERY)
            with contextlib.suppress(StoreUnavailable):
                await self.write()

    async def write(self) -> None:
        """Write the failing consumers of this gateway.

        Raises:
            StoreUnavailable: The store takes nothing.
        """
        own = await self._look()
        written = json.dumps([own.subscriptions, own.hosts, [astuple(one) for one in own.first]])
        await self._store.submit(
            partial(
                replica_figures.write,
                figures=Figures.FAILURES,
                replica=self._replica,
                written=written,
            )
        )

    async def own(self) -> FailingConsumers:
        """Those of this gateway."""
        return await self._look()

    async def of_others(self) -> list[FailingConsumers]:
        """Those of each other gateway.

        Raises:
            StoreUnavailable: The store cannot be read.
        """
        if not self._shared:
            return []
        read = partial(
            replica_figures.of_others,
            figures=Figures.FAILURES,
            replica=self._replica,
            within=FRESH,
        )
        return [_read(one) for one in await self._store.submit(read)]


def _read(written: str) -> FailingConsumers:
    subscriptions, hosts, first = json.loads(written)
    return FailingConsumers(subscriptions, hosts, [FailingHost(*one) for one in first])
