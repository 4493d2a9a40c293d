"""Watches files that are read again when they change: identities, certificates, secrets."""

import asyncio
from collections.abc import Iterable
from pathlib import Path

EVERY = 0.5
"""Seconds between two looks: a right that is withdrawn ends deliveries within a second."""
SETTLED = 0.1
"""Seconds in which no file may have changed before they are read: who writes into a file, and does
not replace it, may be in the middle."""
MOST_LOOKS = 10
"""Looks at files that never settle."""
State = tuple[int, ...] | None
"""Time, size and number of a file; None where there is none."""


class FileWatch:
    """Says which of *paths* have changed. Make it before the files are read: then no change is
    missed. Links are followed, so a volume of Kubernetes that is exchanged as a whole is noticed.
    """

    def __init__(self, paths: Iterable[Path]) -> None:
        self._states = {path: _state(path) for path in paths}

    def watch_only(self, paths: Iterable[Path]) -> None:
        """Watch *paths* from now on; of those that are watched already no change is missed."""
        self._states = {
            path: self._states[path] if path in self._states else _state(path) for path in paths
        }

    async def changes(self, every: float = EVERY) -> frozenset[Path]:
        """Wait until files have changed, and change no more, and return which."""
        changed: frozenset[Path] = frozenset()
        while not changed:
            await asyncio.sleep(every)
            changed = await asyncio.to_thread(self._look)
        for _look in range(MOST_LOOKS):
            await asyncio.sleep(SETTLED)
            more = await asyncio.to_thread(self._look)
            if not more:
                break
            changed |= more
        return changed

    def _look(self) -> frozenset[Path]:
        now = {path: _state(path) for path in self._states}
        changed = frozenset(path for path in now if now[path] != self._states[path])
        self._states = now
        return changed


def _state(path: Path) -> State:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
