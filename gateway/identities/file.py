"""The file of identities as it is now: read again when it changes."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import structlog

from gateway.security.file_watch import FileWatch
from gateway.security.identities import IdentitiesUnusable, load_identities

_log = structlog.get_logger("dragoman.identity")


class IdentitiesFile:
    """Reads the file at *path*.

    Raises:
        IdentitiesUnusable: It cannot be read, or says what cannot be.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._watch = FileWatch([path])
        self.identities = load_identities(path)

    async def watch(self, use: Callable[[], Awaitable[None]]) -> None:
        """Call *use* each time that the file has changed, and been read. One that cannot be used is
        logged, and what was read before stays."""
        while True:
            await self._watch.changes()
            try:
                self.identities = await asyncio.to_thread(load_identities, self.path)
            except IdentitiesUnusable as unusable:
                _log.error("identity.file-unusable", why=str(unusable))
                continue
            await use()
            _log.info(
                "identity.read",
                users=len(self.identities.users),
                keys=len(self.identities.keys),
                rules=len(self.identities.rights),
            )
