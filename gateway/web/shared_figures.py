"""Figures of all gateways that use one store: each writes its own there now and then, and reads
those of the others when somebody asks."""

import asyncio
import contextlib
from abc import ABC, abstractmethod
from functools import partial
from typing import ClassVar

from gateway.store import Store, StoreUnavailable, replica_figures
from gateway.store.replica_figures import KEPT, Figures


class SharedFigures(ABC):
    """Figures of one kind.

    Args:
        replica: The name of this gateway.
        shared: Whether others use the store; else nothing is written.
    """

    figures: ClassVar[Figures]
    every: ClassVar[float]
    """Seconds from one writing to the next: so old are the others' figures at most."""
    within: ClassVar[float] = KEPT
    """Seconds after which the figures of a gateway that says nothing more are left out."""

    def __init__(self, store: Store, replica: str, *, shared: bool) -> None:
        self._store = store
        self._replica = replica
        self._shared = shared

    @abstractmethod
    async def text_of_own(self) -> str:
        """The figures of this gateway, as they are written."""

    async def run(self) -> None:
        """Write the figures of this gateway every so many seconds, for ever."""
        if not self._shared:
            await asyncio.Event().wait()
        while True:
            await asyncio.sleep(self.every)
            with contextlib.suppress(StoreUnavailable):
                await self.write()

    async def write(self) -> None:
        """Write the figures of this gateway.

        Raises:
            StoreUnavailable: The store takes nothing.
        """
        written = await self.text_of_own()
        write = partial(
            replica_figures.write, figures=self.figures, replica=self._replica, written=written
        )
        await self._store.submit(write)

    async def texts_of_others(self) -> list[str]:
        """What each other gateway wrote; nothing where none uses the store.

        Raises:
            StoreUnavailable: The store cannot be read.
        """
        if not self._shared:
            return []
        read = partial(
            replica_figures.of_others,
            figures=self.figures,
            replica=self._replica,
            within=self.within,
        )
        return await self._store.submit(read)
