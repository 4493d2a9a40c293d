"""Hourly housekeeping: old rows and old state are removed."""

import asyncio
import contextlib
import time
from collections.abc import Iterable

from sqlalchemy import Connection

from filters import Refused
from gateway.delivery import Dispatchers, WorkSharing
from gateway.rooms import Room, Work
from gateway.store import Store, dead_letters, replicas, spool
from gateway.subscriptions.dead_letters import DeadLetters

PURGE_EVERY = 3600.0
"""Seconds."""


class HousekeepingRoom(Room):
    """Forgets what is old; in the store one gateway of several does."""

    def __init__(
        self, store: Store, letters: DeadLetters, dispatchers: Dispatchers, sharing: WorkSharing
    ) -> None:
        self._store = store
        self._letters = letters
        self._dispatchers = dispatchers
        self._sharing = sharing

    def works(self) -> Iterable[Work]:
        return (self._keep_house,)

    async def _keep_house(self) -> None:
        while True:
            await asyncio.sleep(PURGE_EVERY)
            if self._sharing.keeps_house:
                with contextlib.suppress(Refused):
                    await self._letters.purge_old()
                    await self._store.submit(_purge_old)
            self._dispatchers.clear_old()


def _purge_old(connection: Connection) -> None:
    spool.purge(connection, before=time.time() - dead_letters.KEPT)
    replicas.prune(connection)
