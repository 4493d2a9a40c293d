"""Rates of the last hour, of all gateways that use one store."""

import json
from collections.abc import Sequence
from dataclasses import astuple

from gateway.observing.rates import Rate, Rates, merge
from gateway.store import Store
from gateway.store.replica_figures import Figures
from gateway.web.shared_figures import SharedFigures


class SharedRates(SharedFigures):
    """The rates of the last hour; arguments as `SharedFigures`."""

    figures = Figures.RATES
    every = 30.0

    def __init__(self, store: Store, rates: Rates, replica: str, *, shared: bool) -> None:
        super().__init__(store, replica, shared=shared)
        self._rates = rates

    async def text_of_own(self) -> str:
        return json.dumps([astuple(one) for one in self._rates.last_hour()])

    async def last_hour(self) -> Sequence[Rate]:
        """The rates of all gateways together, the oldest first.

        Raises:
            StoreUnavailable: The store cannot be read.
        """
        own = self._rates.last_hour()
        others = await self.texts_of_others()
        if not others:
            return own
        return merge([own, *([Rate(*one) for one in json.loads(each)] for each in others)])
