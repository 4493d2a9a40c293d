"""Reading a backup from its beginning to its end: each part is checked, for it may be damaged."""

import hashlib
import tarfile
from collections.abc import Callable, Iterator
from typing import IO, cast

from gateway.backup.encryption import MAGIC, DecryptingReader, Readable, read_exactly
from gateway.backup.errors import BackupError
from gateway.backup.manifest import LARGEST, NAME, File, Manifest, read_manifest

BUFFER = 2**20
NO_BACKUP = "The file is no backup of Dragoman, or its beginning is damaged."


class Backup:
    """A backup that is read once, in its order.

    Args:
        passphrase: Asked for where the backup is encrypted.

    Raises:
        BackupError: It cannot be read, or not by this version.
    """

    def __init__(self, file: Readable, passphrase: Callable[[], str]) -> None:
        begin = read_exactly(file, len(MAGIC))
        self.encrypted = begin == MAGIC
        self._stream: Readable = (
            DecryptingReader(file, passphrase()) if self.encrypted else _Joined(begin, file)
        )
        try:
            stream = cast("IO[bytes]", self._stream)  # It is read from, and nothing else.
            self._tar = tarfile.open(fileobj=stream, mode="r|", bufsize=BUFFER)  # noqa: SIM115
        except tarfile.TarError as error:
            raise BackupError(NO_BACKUP) from error
        self.manifest: Manifest = self._read_manifest()

    def files(self) -> Iterator[tuple[File, Iterator[bytes]]]:
        """Yield each file with its content, which has to be read before the next one is asked for.

        Raises:
            BackupError: A byte is wrong, or something is missing; after content was yielded, too.
        """
        for expected in self.manifest.files:
            member = self._next()
            if member is None:
                raise BackupError(f"The backup is cut off before {expected.name}.")
            if member.name != expected.name or not member.isreg() or member.size != expected.bytes:
                raise BackupError(
                    f"The backup is damaged: {member.name:.60} is not as its manifest says."
                )
            yield expected, self._content(member, expected)
        if self._next() is not None:
            raise BackupError("The backup is damaged: it has more than its manifest names.")
        while self._stream.read(BUFFER):  # An encrypted one tells at its end whether it is whole.
            pass

    def _read_manifest(self) -> Manifest:
        member = self._next()
        if member is None or member.name != NAME or not member.isreg() or member.size > LARGEST:
            raise BackupError(NO_BACKUP)
        return read_manifest(b"".join(self._parts(member)))

    def _next(self) -> tarfile.TarInfo | None:
        try:
            found: tarfile.TarInfo | None = self._tar.next()
        except tarfile.TarError as error:
            raise BackupError(f"The backup is damaged or cut off: {error}.") from error
        return found

    def _content(self, member: tarfile.TarInfo, expected: File) -> Iterator[bytes]:
        digest = hashlib.sha256()
        for part in self._parts(member):
            digest.update(part)
            yield part
        if digest.hexdigest() != expected.sha256:
            raise BackupError(f"The backup is damaged: {expected.name} is not what was backed up.")

    def _parts(self, member: tarfile.TarInfo) -> Iterator[bytes]:
        content: IO[bytes] | None = self._tar.extractfile(member)
        left = member.size
        while left > 0:
            try:
                part = b"" if content is None else content.read(min(BUFFER, left))
            except tarfile.TarError as error:
                raise BackupError(f"The backup is damaged or cut off: {error}.") from error
            if not part:
                raise BackupError(f"The backup is cut off within {member.name:.60}.")
            left -= len(part)
            yield part


class _Joined:
    """A file of which the beginning was read."""

    def __init__(self, begin: bytes, file: Readable) -> None:
        self._begin = begin
        self._file = file

    def read(self, size: int, /) -> bytes:
        if self._begin:
            part, self._begin = self._begin[:size], self._begin[size:]
            return part
        return self._file.read(size)


def verify(backup: Backup) -> None:
    """Read all of *backup*.

    Raises:
        BackupError: A byte is wrong, or something is missing.
    """
    for _, content in backup.files():
        for _ in content:
            pass
