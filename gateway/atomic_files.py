"""Writes files whole or not at all, and onto the disk: who reads one, also after a crash, sees it
as it was before or as it is after."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path


def create_file(path: Path, octets: bytes) -> None:
    """Make the file *path*, for its owner alone.

    Raises:
        FileExistsError: There is one; it stays as it is.
        OSError: It cannot be written.
    """
    if path.exists():
        raise FileExistsError(path)
    with _beside(path, octets) as fresh:
        os.link(fresh, path)  # Unlike a rename it replaces nothing.
    sync_folder(path.parent)


def replace_file(path: Path, octets: bytes) -> None:
    """Put *octets* into the place of the file *path*, whose owner and mode stay. Where *path* is a
    link, that stays, too.

    Raises:
        OSError: There is none, or it cannot be written.
    """
    path = path.resolve()
    found = path.stat()
    with _beside(path, octets, found) as fresh:
        fresh.replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Have the names of files in *folder* on the disk.

    Raises:
        OSError: They cannot be written.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _beside(path: Path, octets: bytes, like: os.stat_result | None = None) -> Iterator[Path]:
    """A file beside *path* with *octets*, which are on the disk; it is gone afterwards."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}.new")
    fresh.unlink(missing_ok=True)  # Of a process that was killed.
    try:
        with open(fresh, "xb", opener=_for_owner) as file:
            if like is not None:
                with contextlib.suppress(PermissionError):
                    os.fchown(file.fileno(), like.st_uid, like.st_gid)
                os.fchmod(file.fileno(), like.st_mode & 0o777)
            file.write(octets)
            file.flush()
            os.fsync(file.fileno())
        yield fresh
    finally:
        fresh.unlink(missing_ok=True)


def _for_owner(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
