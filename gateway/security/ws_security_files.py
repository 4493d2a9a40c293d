"""The files of the table ``ws_security``, each read again when it changes: whose signatures count,
and the key that decrypts."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

import structlog

from filters import Reason, Refused
from gateway.security.file_watch import FileWatch

T = TypeVar("T")
_log = structlog.get_logger("dragoman.ws-security")


class WsSecurityFileUnusable(Refused):
    """A file cannot be used; the text names it, and its setting."""

    def __init__(self, setting: str, path: Path, why: str) -> None:
        super().__init__(Reason.MESSAGE_INVALID, f"ws_security.{setting}: {path} {why}")


class WsSecurityFile(Generic[T]):
    """Reads the file of a *setting*.

    Args:
        read: Reads what is in it, in PEM; ValueError says that it cannot be used.

    Attributes:
        content: What was read last.
        changed: Called when it was read again.

    Raises:
        WsSecurityFileUnusable: It cannot be read, or has something that cannot be used.
    """

    def __init__(self, setting: str, path: Path, read: Callable[[bytes], T]) -> None:
        self._setting = setting
        self._path = path
        self._read = read
        self._watch = FileWatch([path])
        self.content = self._load()
        self.changed: Callable[[], None] = lambda: None

    async def watch(self) -> None:
        """Read the file again each time that it has changed. One that cannot be used is logged, and
        what was read before stays."""
        while True:
            await self._watch.changes()
            try:
                self.content = await asyncio.to_thread(self._load)
            except WsSecurityFileUnusable as unusable:
                _log.error("ws-security.file-unusable", why=unusable.text)
            else:
                _log.info("ws-security.read", file=str(self._path))
                self.changed()

    def _load(self) -> T:
        try:
            return self._read(self._path.read_bytes())
        except OSError as error:
            why = f"cannot be read ({error.strerror})"
            raise WsSecurityFileUnusable(self._setting, self._path, why) from error
        except ValueError as error:
            why = f"cannot be used: {error}"
            raise WsSecurityFileUnusable(self._setting, self._path, why) from None
