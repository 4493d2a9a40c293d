"""Rates of all gateways that use one store: each writes its own there now and then, and reads
those of the others when somebody asks."""

import asyncio
import contextlib
import json
from collections.abc import Sequence
from dataclasses import astuple
from functools import partial

from gateway.observing.rates import Rate, Rates, merge
from gateway.store import Store, StoreUnavailable, replica_figures
from gateway.store.replica_figures import Figures

EVERY = 30.0
"""Seconds from one writing to the next: so old are the others' rates at most."""


class SharedRates:
    """The rates of the last hour, of all gateways.

    Args:
        replica: The name of this gateway.
        shared: Whether others use the store; else nothing is written.
    """

    def __init__(self, store: Store, rates: Rates, replica: str, *, shared: bool) -> None:
        self._store = store
        self._rates = rates
        self._replica = replica
        self._shared = shared

    async def run(self) -> None:
        """Write the rates of this gateway every `EVERY` seconds, for ever."""
        if not self._shared:
            await asyncio.Event().wait()
        while True:
            await asyncio.sleep(EVERY)
            with contextlib.suppress(StoreUnavailable):
                await self.write()

    async def write(self) -> None:
        """Write the rates of this gateway.

        Raises:
            StoreUnavailable: The store takes nothing.
        """
        written = json.dumps([astuple(one) for one in self._rates.last_hour()])
        await self._store.submit(
            partial(
                replica_figures.write,
                figures=Figures.RATES,
                replica=self._replica,
                written=written,
            )
        )

    async def last_hour(self) -> Sequence[Rate]:
        """The rates of all gateways together, the oldest first.

        Raises:
            StoreUnavailable: The store cannot be read.
        """
        own = self._rates.last_hour()
        if not self._shared:
            return own
        read = partial(replica_figures.of_others, figures=Figures.RATES, replica=self._replica)
        others = await self._store.submit(read)
        return merge([own, *([Rate(*one) for one in json.loads(each)] for each in others)])
