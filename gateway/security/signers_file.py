"""The file of the setting ``ws_security.signers``: whose signatures on messages count; read again
when it changes."""

import asyncio
from pathlib import Path

import structlog

from filters import Reason, Refused
from gateway.security.file_watch import FileWatch
from mediation.ws_security import Trust, read_trust

_log = structlog.get_logger("dragoman.ws-security")


class SignersUnusable(Refused):
    """The file cannot be used; the text names it."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(Reason.MESSAGE_INVALID, f"ws_security.signers: {path} {why}")


class SignersFile:
    """Reads the file at *path*.

    Raises:
        SignersUnusable: It cannot be read, or has something that cannot be used.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._watch = FileWatch([path])
        self.trust = _load(path)

    async def watch(self) -> None:
        """Read the file again each time that it has changed. One that cannot be used is logged, and
        what was read before stays."""
        while True:
            await self._watch.changes()
            try:
                self.trust = await asyncio.to_thread(_load, self._path)
            except SignersUnusable as unusable:
                _log.error("ws-security.file-unusable", why=unusable.text)
            else:
                _log.info("ws-security.read", file=str(self._path))


def _load(path: Path) -> Trust:
    try:
        return read_trust(path.read_bytes())
    except OSError as error:
        raise SignersUnusable(path, f"cannot be read ({error.strerror})") from error
    except ValueError as error:
        raise SignersUnusable(path, f"cannot be used: {error}") from error
