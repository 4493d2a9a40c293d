"""Room on the store's disk that publications leave free.

What was accepted must be settled, held, moved and forgotten, which takes room first, even where it
makes some. So the disk is never filled by publishers: they are refused with 503 before. The journal
of `embedded:` keeps such a reserve of its own.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path

from gateway.store.outages import StoreUnavailable

MOST, LEAST = 64 * 2**20, 16 * 2**20
SHARE = 8
"""By default the reserve is so great a part of the disk, from `LEAST` to `MOST`. The logs ahead of
the databases take some MiB each; of a disk that is tiny it is half."""
ASKED = 1.0
"""Seconds for which the disk is not asked again."""


class Reserve:
    """The reserve of an SQLite store.

    Args:
        folder: The folder of the database; None for a server, whose disk is its own.
        octets: Bytes that are left free; None for `reserve_of` the disk.
        inside: Bytes that are free within the database's file.
    """

    def __init__(
        self,
        folder: Path | None,
        octets: int | None = None,
        *,
        inside: Callable[[], int] = lambda: 0,
    ) -> None:
        self._folder = folder
        self._octets = octets
        self._inside = inside
        self._room = 0
        self._asked = float("-inf")

    def take(self, octets: int) -> None:
        """Count so many bytes of a publication.

        Raises:
            StoreUnavailable: They would leave less than the reserve.
        """
        if self._folder is None:
            return
        now = time.monotonic()
        if now - self._asked > ASKED or self._room < octets:
            self._room = self._measure(self._folder)
            self._asked = now
        if self._room < octets:
            raise StoreUnavailable("The store's disk is nearly full.")
        self._room -= octets

    def _measure(self, folder: Path) -> int:
        try:
            whole, free = size_and_free(folder)
        except OSError as error:
            raise StoreUnavailable from error
        reserve = reserve_of(whole) if self._octets is None else self._octets
        return free + self._inside() - reserve


def size_and_free(folder: Path) -> tuple[int, int]:
    """The bytes of the disk that *folder* is on, and those of them that may be written.

    Raises:
        OSError: The disk cannot be asked.
    """
    disk = os.statvfs(folder)
    return disk.f_blocks * disk.f_frsize, disk.f_bavail * disk.f_frsize


def reserve_of(whole: int) -> int:
    """The bytes that a disk of so many bytes keeps free by default."""
    return max(min(MOST, whole // SHARE), min(LEAST, whole // 2))
