"""Making a backup of a gateway, which may run."""

import contextlib
import fcntl
import hashlib
import io
import os
import shutil
import sqlite3
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, cast

from gateway.atomic_files import sync_folder
from gateway.backup.encryption import EncryptingWriter, Writable
from gateway.backup.errors import BackupError
from gateway.backup.manifest import NAME, File, Manifest
from gateway.backup.snapshots import copy, snapshots
from gateway.security.audit_chain import open_files, segments

BUFFER = 2**20
SPARE = 32 * 2**20
"""Bytes that have to be free beside the copies of the databases."""


@dataclass(frozen=True, slots=True)
class Sources:
    """What is backed up. None, and a file that is not there, is left out.

    Attributes:
        store: The SQLite file.
        data: Further files of the data folder.
        settings: Files from elsewhere, by the names that they get.
        audit: The newest file of the audit log, whose segments lie beside it.
    """

    store: Path | None
    journal: Path | None
    data: tuple[Path, ...]
    settings: dict[str, Path]
    audit: Path | None = None


def write_backup(
    sources: Sources, target: Path | None, temporary: Path, passphrase: str | None
) -> Manifest:
    """Write a backup of *sources* to *target*, whole or not at all.

    Args:
        target: The file; None is standard output.
        temporary: The folder in which copies of the databases lie meanwhile.

    Raises:
        BackupError: It cannot be made.
    """
    try:
        _check_room(sources, temporary)
        with tempfile.TemporaryDirectory(prefix="dragoman-backup-", dir=temporary) as folder:
            manifest, paths = _collect(sources, Path(folder))
            with _opened(target) as file:
                _write(manifest, paths, file, passphrase)
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        raise BackupError(
            f"The backup cannot be written: {error.strerror or error}{where}."
        ) from error
    return manifest


def _check_room(sources: Sources, temporary: Path) -> None:
    log = [] if sources.audit is None else [sources.audit, *segments(sources.audit)]
    copied = (sources.store, sources.journal, *log)
    needed = SPARE + sum(path.stat().st_size for path in copied if path and path.exists())
    free = shutil.disk_usage(temporary).free
    if free < needed:
        raise BackupError(
            f"{free >> 20} MiB are free in {temporary}, and copies of the databases and the audit "
            f"log need {needed >> 20} MiB there for a while; choose another folder with "
            "--temporary."
        )


def _collect(sources: Sources, folder: Path) -> tuple[Manifest, dict[str, Path]]:
    """Copy everything into *folder*; the files by their names in the backup."""
    journal = sources.journal if sources.journal and sources.journal.exists() else None
    store = sources.store if sources.store and sources.store.exists() else None
    stores = {} if store is None else {"store.db": store}
    paths: dict[str, Path] = {}
    with snapshots(journal, stores) as opened:
        moment = datetime.now(UTC).isoformat(timespec="milliseconds")
        for name, snapshot in opened.items():
            paths[f"data/{name}"] = folder / name
            copy(snapshot, folder / name)
    given = {f"data/{path.name}": path for path in sources.data}
    given |= {f"settings/{name}": path for name, path in sources.settings.items()}
    for number, (name, path) in enumerate(given.items()):
        if path.is_file():
            paths[name] = folder / str(number)
            shutil.copyfile(path, paths[name])
    if sources.audit is not None and sources.audit.is_file():
        paths |= _copy_audit_log(sources.audit, folder)
    files = tuple(_described(name, path) for name, path in paths.items())
    schema, oldest = _schemas(paths.get("data/store.db"))
    journal_copy = paths.get("data/journal.db")
    version = None if journal_copy is None else _read(journal_copy, "PRAGMA user_version")
    return Manifest(moment, schema, oldest, version, files), paths


def _copy_audit_log(path: Path, folder: Path) -> dict[str, Path]:
    """Copy the files of the audit log at *path* to *folder*; return them by their names."""
    copies: dict[str, Path] = {}
    for place, file in open_files(path):
        copies[f"data/{place.name}"] = folder / place.name
        with (folder / place.name).open("xb") as target:
            # The last line may be under way: half of it would be no record.
            target.writelines(line for line in file if line.endswith(b"\n"))
    return copies


def _described(name: str, path: Path) -> File:
    with path.open("rb") as file:
        return File(name, path.stat().st_size, hashlib.file_digest(file, "sha256").hexdigest())


def _schemas(store: Path | None) -> tuple[str | None, str | None]:
    """The schema of a store, and the oldest whose programs can use it."""
    if store is None:
        return None, None
    schema = _read(store, "SELECT version_num FROM alembic_version")
    oldest = _read(store, "SELECT version FROM versions WHERE name = 'oldest_schema'")
    return str(schema), None if oldest is None else f"{oldest:04d}"


def _read(path: Path, query: str) -> Any:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        found = connection.execute(query).fetchone()
    return None if found is None else found[0]


@contextlib.contextmanager
def _opened(target: Path | None) -> Iterator[Writable]:
    """What is written to. A file appears when it is whole and on the disk, for its owner alone."""
    if target is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    part = target.with_name(f".{target.name}.part")
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT, 0o600)
    with os.fdopen(descriptor, "wb", buffering=BUFFER) as file:
        _lock(descriptor, part, target)
        try:
            file.truncate()
            yield file
            file.flush()
            os.fsync(descriptor)
            part.replace(target)
        except BaseException:
            part.unlink(missing_ok=True)
            raise
    sync_folder(target.absolute().parent)


def _lock(descriptor: int, part: Path, target: Path) -> None:
    """Lock *part*, so that two backups to one file do not write into each other."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        ours = part.exists() and os.path.samestat(os.fstat(descriptor), part.stat())
    except BlockingIOError:
        ours = False
    if not ours:
        raise BackupError(f"Another backup writes {target} now: wait for its end.")


def _write(
    manifest: Manifest, paths: dict[str, Path], file: Writable, passphrase: str | None
) -> None:
    encrypting = None if passphrase is None else EncryptingWriter(file, passphrase)
    stream = cast("IO[bytes]", encrypting or file)  # It is written to, and nothing else.
    with tarfile.open(fileobj=stream, mode="w|", bufsize=BUFFER) as tar:
        text = manifest.to_json()
        tar.addfile(_member(NAME, len(text)), io.BytesIO(text))
        for one in manifest.files:
            with paths[one.name].open("rb") as content:
                tar.addfile(_member(one.name, one.bytes), content)
    if encrypting is not None:
        encrypting.finish()


def _member(name: str, size: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.size, member.mode = size, 0o600
    member.mtime = int(datetime.now(UTC).timestamp())
    return member
