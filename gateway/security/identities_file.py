"""The file of identities as it is now: read again when it changes."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import structlog

from gateway.security.identities import Identities, IdentitiesUnusable, load_identities

EVERY = 0.5
"""Seconds between two looks: a right that is withdrawn ends deliveries within a second."""
_log = structlog.get_logger("dragoman.identity")


class IdentitiesFile:
    """Reads the file at *path*.

    Raises:
        IdentitiesUnusable: It cannot be read, or says what cannot be.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._state = _state(path)
        self.identities = load_identities(path)

    async def watch(self, use: Callable[[Identities], None]) -> None:
        """Hand what the file says to *use* each time that it has changed. A file that cannot be
        used is logged, and what was read before stays."""
        while True:
            await asyncio.sleep(EVERY)
            state = await asyncio.to_thread(_state, self.path)
            if state == self._state:
                continue
            self._state = state
            try:
                self.identities = await asyncio.to_thread(load_identities, self.path)
            except IdentitiesUnusable as unusable:
                _log.error("identity.file-unusable", why=str(unusable))
                continue
            use(self.identities)
            _log.info(
                "identity.read",
                users=len(self.identities.users),
                keys=len(self.identities.keys),
                rules=len(self.identities.rights),
            )


def _state(path: Path) -> tuple[int, ...] | None:
    """What changes when the file does; None where there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
