"""Readers that wait until a message is in their mailbox."""

import asyncio
from itertools import islice

from filters import Reason, Refused

WAITING = 4096
"""Readers that may wait at a time."""


class WaitingReaders:
    """The readers that wait, by the keys of their mailboxes; the length is their number."""

    def __init__(self) -> None:
        self._waiting: dict[str, set[asyncio.Future[None]]] = {}
        self._number = 0
        self._sent_away = False

    def __len__(self) -> int:
        return self._number

    @property
    def keys(self) -> list[str]:
        """The keys of the mailboxes at which somebody waits."""
        return list(self._waiting)

    @property
    def sent_away(self) -> bool:
        """Return whether the gateway stops: readers wait no longer."""
        return self._sent_away

    def add(self, key: str) -> asyncio.Future[None]:
        """Register a reader at the mailbox with this key. The future is done when the reader has to
        look again; the caller must `remove` it.

        Raises:
            Refused: ``UNAVAILABLE``: too many wait.
        """
        if self._number >= WAITING:
            raise Refused(Reason.UNAVAILABLE, "Too many readers wait.")
        self._number += 1
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(key, set()).add(waiter)
        return waiter

    def remove(self, key: str, waiter: asyncio.Future[None]) -> None:
        """Wait no more."""
        self._number -= 1
        waiter.cancel()
        waiting = self._waiting.get(key)
        if waiting is not None:
            waiting.discard(waiter)
            if not waiting:
                del self._waiting[key]

    def wake(self, key: str, number: int | None = None) -> None:
        """Let *number* of the readers that wait look again, or all. More than there are messages
        would find nothing, and keep the store busy."""
        waiting = self._waiting.get(key, set())
        for waiter in list(islice(waiting, number)):
            waiting.discard(waiter)
            if not waiter.done():
                waiter.set_result(None)
        if not waiting:
            self._waiting.pop(key, None)

    def send_away(self) -> None:
        """Let all look once more, and have nobody wait from now on."""
        self._sent_away = True
        for key in self.keys:
            self.wake(key)
