"""A copy of an SQLite store beside it, made before its schema is migrated.

Migrations go forward only. Who has to go back to an older Dragoman stops the gateway and puts the
copy in the store's place. There is one: an older one goes when a newer one is whole.
"""

import contextlib
import os
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from filters import Reason, Refused
from gateway.atomic_files import sync_folder


def copy_beside(path: Path, revision: str) -> Path:
    """Copy the database in *path*, whose schema is *revision*; the file of the copy.

    The copy is there whole or not at all, for its owner alone, and on the disk.

    Raises:
        Refused: There is no room for it, or it cannot be written.
    """
    copy = copy_of(path, revision)
    part = copy.with_suffix(".part")
    try:
        part.unlink(missing_ok=True)  # A copy that was killed has taken the room.
        _check_room(path)
        with _created(part) as descriptor:
            _copy(path, part)
            os.fsync(descriptor)
        part.replace(copy)
        sync_folder(path.parent)
    except (OSError, sqlite3.Error) as error:
        with contextlib.suppress(OSError):
            part.unlink()
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise Refused(
            Reason.UNAVAILABLE,
            f"The store cannot be copied before its migration: {why}; see that {path.parent} can "
            f"be written and has {_size(path) >> 20} MiB free.",
        ) from error
    for other in path.parent.glob(f"{path.stem}-schema-????{path.suffix}"):
        if other != copy:
            other.unlink()
    return copy


def copy_of(path: Path, revision: str) -> Path:
    """The file of the copy of the database in *path*, of schema *revision*."""
    return path.with_name(f"{path.stem}-schema-{revision}{path.suffix}")


def _size(path: Path) -> int:
    log = Path(f"{path}-wal")
    return path.stat().st_size + (log.stat().st_size if log.exists() else 0)


def _check_room(path: Path) -> None:
    free = shutil.disk_usage(path.parent).free
    if free < _size(path):
        raise OSError(0, f"{free >> 20} MiB are free")


@contextlib.contextmanager
def _created(part: Path) -> Iterator[int]:
    descriptor = os.open(part, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _copy(path: Path, part: Path) -> None:
    with (
        contextlib.closing(sqlite3.connect(path)) as source,
        contextlib.closing(sqlite3.connect(part)) as target,
    ):
        target.execute("PRAGMA synchronous=OFF")  # It is synchronised as a whole.
        source.backup(target)
