"""The data folder: for one process at a time, and for its user alone.

Keys of subscriptions and mailboxes are capabilities, and messages are their senders' and readers'
alone, so nobody else on the machine may read what lies there.
"""

import contextlib
import fcntl
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from filters import Reason, Refused

UMASK = 0o077
"""The umask of a process that serves: nobody else reads its files."""
OTHERS = stat.S_IRWXG | stat.S_IRWXO
_OURS = ("*.db", "*.db-wal", "*.db-shm", "*.db-journal", "lock", "replica", "source.key")
"""The names of our files in a data folder."""
RESTORING = "restoring"
"""The name of a file that is in a data folder while a backup is being restored into it."""
LOCK_TAKEN = 75
"""The exit code of a process that finds its data folder in use (EX_TEMPFAIL)."""


class DataInUse(Refused):
    """Another process has the data folder."""


class FolderLock:
    """The lock of a data folder; whoever has it serves from there.

    Args:
        descriptor: The file that is locked.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor

    def write_address(self, address: str) -> None:
        """Write where this gateway listens into the file, for `dragoman doctor`."""
        if self._descriptor is not None:
            with contextlib.suppress(OSError):  # A full disk: the file is no less a lock.
                os.ftruncate(self._descriptor, 0)
                os.pwrite(self._descriptor, f"{address}\n".encode(), 0)

    def release(self) -> None:
        """Let another process have the folder."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def lock(folder: Path, *, unfinished: bool = False) -> FolderLock:
    """Lock *folder*, which is made where it does not exist.

    Args:
        unfinished: Also where a backup was restored into it, and not to its end.

    Raises:
        DataInUse: Another process has it.
        Refused: It cannot be written to, or holds half of a backup.
    """
    try:
        make_private(folder)
        descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise Refused(
            Reason.UNAVAILABLE, f"Cannot write to the data folder {folder}: {error.strerror}."
        ) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        raise DataInUse(
            Reason.UNAVAILABLE, f"Another Dragoman uses the data folder {folder}."
        ) from error
    locked = FolderLock(descriptor)
    if not unfinished and (folder / RESTORING).exists():
        locked.release()
        raise Refused(
            Reason.UNAVAILABLE,
            f"A backup was restored into the data folder {folder}, and not to its end: run "
            "dragoman restore again.",
        )
    return locked


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
