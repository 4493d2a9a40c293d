"""The room that keeps which certificates owners showed: over a restart, and for all gateways of the
store; and that asks whether one was revoked, whenever a list has changed."""

import asyncio
import contextlib
import time
from collections.abc import Iterable
from functools import partial

from gateway.rooms import Room, Work
from gateway.security.identify import Identification
from gateway.store import Store, StoreUnavailable, answered_in_time, shown_certificates

LEARN = 1.0
"""Seconds between two looks at what other gateways were shown, and until what is shown is kept."""
TIDY = 3600.0
"""Seconds between two looks at what is too old."""
KEPT = 30 * 86400.0
"""Seconds for which what was shown is kept of whoever has no subscription."""


class ShownCertificatesRoom(Room):
    """Writes and learns what owners showed, and withdraws what is revoked.

    Args:
        shared: Whether other gateways use the store.
    """

    def __init__(self, store: Store, identification: Identification, *, shared: bool) -> None:
        self._store = store
        self._identification = identification
        self._shown = identification.shown_certificates
        self._shared = shared
        self._learnt = 0.0
        self._lists_changed = asyncio.Event()

    async def start(self) -> None:
        loop = asyncio.get_running_loop()

        def changed() -> None:
            with contextlib.suppress(RuntimeError):  # The loop is closed.
                loop.call_soon_threadsafe(self._lists_changed.set)

        self._identification.certificates_changed = changed
        await self._learn()
        await self._withdraw()

    def works(self) -> Iterable[Work]:
        return self._run, self._follow_lists

    async def close(self) -> None:
        self._identification.certificates_changed = lambda: None
        await answered_in_time(self._write())

    async def _follow_lists(self) -> None:
        while True:
            await self._lists_changed.wait()
            self._lists_changed.clear()
            await self._withdraw()

    async def _withdraw(self) -> None:
        # There may be a hundred thousand of them.
        shown = self._shown.counting()
        revoked = await asyncio.to_thread(self._identification.revoked_of, shown)
        self._identification.withdraw_certificates(revoked)

    async def _run(self) -> None:
        tidied = 0.0
        while True:
            await asyncio.sleep(LEARN)
            try:
                await self._write()
                if self._shared:
                    await self._learn()
                if time.monotonic() - tidied > TIDY:
                    before = time.time() - KEPT
                    await self._store.submit(partial(shown_certificates.delete_old, before=before))
                    tidied = time.monotonic()
            except StoreUnavailable:
                continue  # What is known holds; the store says in the log that it is gone.

    async def _write(self) -> None:
        """Write what has changed.

        Raises:
            StoreUnavailable: It cannot be; it is written later.
        """
        changes = self._shown.take_changes()
        if not changes:
            return
        try:
            await self._store.submit(partial(shown_certificates.write, shown=changes))
        except BaseException:
            self._shown.put_back(changes)
            raise

    async def _learn(self) -> None:
        query = partial(shown_certificates.learn, since=self._learnt)
        found, self._learnt = await self._store.submit(query)
        self._identification.forget_grants(self._shown.learn(found))
