"""Hourly housekeeping: old rows and old state are removed."""

import asyncio
import contextlib
import time

from sqlalchemy import Connection

from filters import Refused
from gateway.delivery import Dispatchers, WorkSharing
from gateway.store import Store, dead_letters, replicas, spool
from gateway.subscriptions.dead_letters import DeadLetters

PURGE_EVERY = 3600.0
"""Seconds."""


async def keep_house(
    store: Store, letters: DeadLetters, dispatchers: Dispatchers, sharing: WorkSharing
) -> None:
    """Forget what is old, for ever; in the store one gateway of several does."""
    while True:
        await asyncio.sleep(PURGE_EVERY)
        if sharing.keeps_house:
            with contextlib.suppress(Refused):
                await letters.purge_old()
                await store.submit(_purge_old)
        dispatchers.clear_old()


def _purge_old(connection: Connection) -> None:
    spool.purge(connection, before=time.time() - dead_letters.KEPT)
    replicas.prune(connection)
