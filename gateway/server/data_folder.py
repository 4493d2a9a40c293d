"""Who may read what is on disk: keys of subscriptions and mailboxes are capabilities, and messages
are their senders' and readers' alone."""

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

UMASK = 0o077
"""Of a process that serves: what it makes is its user's alone."""
OTHERS = stat.S_IRWXG | stat.S_IRWXO
_OURS = ("*.db", "*.db-wal", "*.db-shm", "*.db-journal", "lock", "replica")
"""What lies in a data folder."""


def make_private(folder: Path) -> None:
    """Make *folder*, or take what others may do in it from it and from our files in it, where they
    are this user's. A folder that holds more than our data, such as a home, keeps its own mode."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for path in _readable(folder):
        with contextlib.suppress(OSError):
            if path.stat().st_uid == os.geteuid() and not (path == folder and _is_shared(folder)):
                path.chmod(stat.S_IMODE(path.stat().st_mode) & ~OTHERS)


def readable_by_others(folder: Path) -> list[Path]:
    """The data folder and its files, as far as another user of this machine can read them."""
    if not folder.is_dir() or not folder.stat().st_mode & OTHERS:
        return []
    return list(_readable(folder))


def _readable(folder: Path) -> Iterator[Path]:
    for path in (folder, *(path for pattern in _OURS for path in sorted(folder.glob(pattern)))):
        with contextlib.suppress(OSError):
            if not path.is_symlink() and path.stat().st_mode & OTHERS:
                yield path


def _is_shared(folder: Path) -> bool:
    """Whether *folder* is plainly not ours alone."""
    there = folder.resolve()
    return there in (Path("/"), Path.cwd(), Path.home()) or bool(
        there.stat().st_mode & stat.S_ISVTX
    )
