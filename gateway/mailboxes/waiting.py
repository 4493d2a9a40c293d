"""Readers that wait until a message is in their mailbox."""

import asyncio
from collections import Counter
from itertools import islice

from filters import Reason, Refused
from gateway.security.shares import who_makes_room

WAITING = 4096
"""Readers that may wait at a time. Where all places are taken, the owner of mailboxes, and the
tenant, with the most readers has one sent away for another."""


class WaitingReaders:
    """The readers that wait, by the keys of their mailboxes; the length is their number."""

    def __init__(self) -> None:
        self._waiting: dict[str, set[asyncio.Future[None]]] = {}
        self._of: dict[str, dict[asyncio.Future[None], str]] = {}
        """By owner: those that wait, the first first, with the keys of their mailboxes."""
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

    def add(self, key: str, owner: str) -> asyncio.Future[None]:
        """Register a reader at the mailbox of *owner* with this key. The future is done when the
        reader has to look again; the caller must `remove` it.

        Raises:
            Refused: ``UNAVAILABLE``: too many wait, and none of others has more.
        """
        if self._number >= WAITING:
            self._make_room(owner)
        self._number += 1
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(key, set()).add(waiter)
        self._of.setdefault(owner, {})[waiter] = key
        return waiter

    def _make_room(self, owner: str) -> None:
        """Have a reader of whoever has the most look again: then it finds no place.

        Raises:
            Refused: That is *owner*.
        """
        numbers = Counter({each: len(its) for each, its in self._of.items()})
        numbers[owner] += 1
        most = who_makes_room(numbers, owner)
        if most == owner:
            raise Refused(Reason.UNAVAILABLE, "Too many readers wait.")
        waiter, key = next(iter(self._of[most].items()))
        self._forget(key, most, waiter)
        if not waiter.done():
            waiter.set_result(None)

    def _forget(self, key: str, owner: str, waiter: asyncio.Future[None]) -> None:
        waiting = self._waiting.get(key)
        if waiting is not None:
            waiting.discard(waiter)
            if not waiting:
                del self._waiting[key]
        its = self._of.get(owner, {})
        if its.pop(waiter, None) is not None:
            self._number -= 1
            if not its:
                del self._of[owner]

    def remove(self, key: str, owner: str, waiter: asyncio.Future[None]) -> None:
        """Wait no more."""
        waiter.cancel()
        self._forget(key, owner, waiter)

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
