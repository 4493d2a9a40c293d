"""The gateways that use one store: each has a name and a number, and gives signs of life."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from filters import Reason, Refused
from gateway.store import Store, StoreUnavailable, replicas

LEASE = 6.0
"""Seconds without a sign of life after which a gateway, or its hold of a partition, is over."""
RENEW = 1.5
"""Seconds from one sign of life to the next."""


class StoreInUse(Refused):
    """Another gateway has the store, and the messaging system cannot be shared."""


async def enter(store: Store, replica: str, *, alone: bool) -> int:
    """Make this gateway one of those that use *store*; its number.

    Raises:
        StoreInUse: It must be *alone*, and is not.
    """

    def operation(connection: Connection) -> tuple[int, bool]:
        others = set(replicas.alive(connection, lease=LEASE)) - {replica}
        if alone and others:
            return 0, False
        return replicas.register(connection, replica), True

    number, welcome = await store.submit(operation)
    if not welcome:
        raise StoreInUse(
            Reason.UNAVAILABLE,
            "Another Dragoman uses the store, and the messaging system is for one alone.",
        )
    return number


async def leave(store: Store, replica: str) -> None:
    """Be gone for the other gateways, if the store can be written."""
    with suppress(StoreUnavailable):
        await store.submit(partial(replicas.unregister, replica=replica))


@asynccontextmanager
async def kept_alive(renewing: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Have *renewing*, which goes on for ever, give signs of life as long as the block runs.

    What ends in a stop may take longer than a lease lasts (`LEASE`): without them another gateway
    would take up what this one still delivers.
    """
    task = asyncio.create_task(renewing)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait((task,))
        if not task.cancelled():
            task.result()


def replica_name(folder: Path) -> str:
    """The name of the gateway with its data in *folder*, made when it first starts: started again
    it takes its own place."""
    path = folder / "replica"
    with suppress(OSError):
        if name := path.read_text().strip():
            return name
    name = secrets.token_hex(6)
    path.write_text(name + "\n")
    return name
