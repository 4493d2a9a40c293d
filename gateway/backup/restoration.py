"""Restoring a backup into an empty data folder.

A file, ``restoring``, is there from before the first byte until everything is on the disk. While it
is there no gateway starts with the folder; who restores again begins anew.
"""

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from gateway.atomic_files import sync_folder
from gateway.backup.errors import BackupError
from gateway.backup.reading import Backup
from gateway.server.data_folder import RESTORING, lock

SETTINGS = "restored-settings"
"""The folder within the data folder for files from elsewhere: settings, identities."""
_ALLOWED = {"lock", "lost+found"}
"""What may be in an empty data folder; the latter in one that is a volume of its own."""


def restore(backup: Backup, folder: Path) -> None:
    """Write the files of *backup* into *folder*, which holds nothing.

    Raises:
        BackupError: There is something in the folder; the backup is damaged; it cannot be written.
            The folder is empty then, as it was.
        DataInUse: A gateway runs with the folder.
    """
    with contextlib.ExitStack() as stack:
        stack.callback(lock(folder, unfinished=True).release)
        _empty(folder)
        try:
            _mark(folder)
            _write_all(backup, folder)
            (folder / RESTORING).unlink()
            sync_folder(folder)
        except BaseException as error:
            with contextlib.suppress(OSError):
                _clear(folder)
            if isinstance(error, OSError):
                text = f"The backup cannot be restored: {error.strerror or error}."
                raise BackupError(text) from error
            raise


def _empty(folder: Path) -> None:
    """See that there is nothing in *folder*; what a restore left that did not end is removed."""
    if (folder / RESTORING).exists():
        _clear(folder)
    found = sorted({path.name for path in folder.iterdir()} - _ALLOWED)
    if found:
        names = ", ".join(found[:5]) + (" ..." if len(found) > 5 else "")
        raise BackupError(
            f"The data folder {folder} is not empty ({names}); move it away, or choose another "
            "with --data."
        )


def _clear(folder: Path) -> None:
    """Remove everything, the mark last: it was there before anything else."""
    for path in folder.iterdir():
        if path.name in {*_ALLOWED, RESTORING}:
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    (folder / RESTORING).unlink(missing_ok=True)


def _mark(folder: Path) -> None:
    (folder / RESTORING).touch(mode=0o600)
    sync_folder(folder)


def _write_all(backup: Backup, folder: Path) -> None:
    for file, content in backup.files():
        kind, _, name = file.name.partition("/")
        target = folder if kind == "data" else folder / SETTINGS
        target.mkdir(mode=0o700, exist_ok=True)
        _write(target / name, content)
    if (folder / SETTINGS).exists():
        sync_folder(folder / SETTINGS)
    sync_folder(folder)


def _write(path: Path, content: Iterator[bytes]) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        for part in content:
            file.write(part)
        file.flush()
        os.fsync(descriptor)
