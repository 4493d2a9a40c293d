"""The room that keeps the roles that tokens said: over a restart, and for all gateways of the
store."""

import asyncio
import time
from collections.abc import Iterable
from contextlib import suppress
from functools import partial

from gateway.rooms import Room, Work
from gateway.security.identify import Identification
from gateway.store import Store, StoreUnavailable, token_roles

LEARN = 1.0
"""Seconds between two looks at what other gateways were shown."""
PATIENCE = 5.0
"""Seconds that whoever shows a token waits for the store."""
TIDY = 60.0
"""Seconds between two looks at what is too old."""


class TokenRolesRoom(Room):
    """Writes and learns what users showed.

    Args:
        shared: Whether other gateways use the store.
    """

    def __init__(self, store: Store, identification: Identification, *, shared: bool) -> None:
        self._store = store
        self._identification = identification
        self._roles = identification.roles_of_tokens
        self._shared = shared
        self._learnt = 0.0
        self._writing = asyncio.Lock()

    async def start(self) -> None:
        await self._learn()
        self._identification.keep_roles = self.keep

    def works(self) -> Iterable[Work]:
        return (self._run,)

    async def close(self) -> None:
        await self.keep()

    async def keep(self) -> None:
        """Write what was shown, so that it is there after a restart. Where that cannot be it is
        tried again later: nobody is refused for it."""
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE), self._writing:
                await self._write()

    async def _write(self) -> None:
        """Write what no other request has written before it was this one's turn."""
        changes = self._roles.take_changes()
        if not changes:
            return
        try:
            await self._store.submit(partial(token_roles.write, shown=changes))
            self._roles.note_kept(changes)
        except StoreUnavailable:
            pass
        finally:  # Whoever shows a token may hang up meanwhile.
            self._roles.put_back(changes)

    async def _run(self) -> None:
        tidied = 0.0
        while True:
            await asyncio.sleep(LEARN)
            await self.keep()
            try:
                if self._shared:
                    await self._learn()
                if time.monotonic() - tidied > TIDY:
                    tidied = time.monotonic()
                    self._identification.forget_grants(self._roles.forget_old())
                    await self._store.submit(partial(token_roles.delete_old, before=time.time()))
            except StoreUnavailable:
                continue  # What is known holds; the store says in the log that it is gone.

    async def _learn(self) -> None:
        found, self._learnt = await self._store.submit(
            partial(token_roles.learn, since=self._learnt)
        )
        self._identification.forget_grants(self._roles.learn(found))
