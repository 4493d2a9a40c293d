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
        self._watch.watch_only(self._files())

    async def watch(self, use: Callable[[], Awaitable[None]]) -> None:
        """Call *use* each time that the file has changed, and been read, or that the certificates
        of an authority have, which *use* reads. A file that cannot be used is logged, and what was
        read before stays."""
        while True:
            changed = await self._watch.changes()
            if self.path in changed:
                try:
                    self.identities = await asyncio.to_thread(load_identities, self.path)
                except IdentitiesUnusable as unusable:
                    _log.error("identity.file-unusable", why=str(unusable))
                    if changed == {self.path}:
                        continue
                await asyncio.to_thread(self._watch.watch_only, self._files())
            await use()
            _log.info(
                "identity.read",
                users=len(self.identities.users),
                keys=len(self.identities.keys),
                rules=len(self.identities.rights),
            )

    def _files(self) -> list[Path]:
        """The file itself, and those that it names of authorities."""
        return [self.path, *(self.path.parent / row.file for row in self.identities.authorities)]
