"""A stream encrypted with a passphrase: scrypt (RFC 7914) and AES-256-GCM in chunks.

    magic, log2 of scrypt's N, r, p, salt (16 bytes), prefix of nonces (7 bytes)
    chunks of 64 KiB, each with its tag of 16 bytes; the last one is shorter, or empty

The nonce of a chunk is the prefix, its number (4 bytes) and whether it is the last (1 byte), so
that chunks cannot be exchanged, left out or cut off (STREAM, Hoang et al. 2015). The header is
authenticated with each chunk.
"""

import os
import struct
from typing import Protocol

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from gateway.backup.errors import BackupError

MAGIC = b"dragoman backup, encrypted 1\n"
HEADER = struct.Struct("!BBB16s7s")
COST, BLOCKS, PARALLEL = 17, 8, 1
"""scrypt's parameters: 128 MiB and half a second for each guess."""
MOST_COST = 20
CHUNK = 64 * 2**10
TAG = 16
MOST_CHUNKS = 2**32 - 1
"""Chunks of one stream: 256 TiB."""


class Readable(Protocol):
    """What bytes are read from."""

    def read(self, size: int, /) -> bytes: ...


class Writable(Protocol):
    """What bytes are written to."""

    def write(self, data: bytes, /) -> object: ...


class EncryptingWriter:
    """Encrypts what is written to it; nothing is whole before `finish`."""

    def __init__(self, file: Writable, passphrase: str) -> None:
        self._file = file
        salt, self._prefix = os.urandom(16), os.urandom(7)
        self._header = MAGIC + HEADER.pack(COST, BLOCKS, PARALLEL, salt, self._prefix)
        self._cipher = _cipher(passphrase, salt, COST, BLOCKS, PARALLEL)
        self._number = 0
        self._kept = bytearray()
        file.write(self._header)

    def write(self, data: bytes, /) -> int:
        self._kept += data
        while len(self._kept) >= CHUNK:
            self._write_chunk(bytes(self._kept[:CHUNK]), last=False)
            del self._kept[:CHUNK]
        return len(data)

    def finish(self) -> None:
        """Write the last chunk."""
        self._write_chunk(bytes(self._kept), last=True)
        self._kept.clear()

    def _write_chunk(self, data: bytes, *, last: bool) -> None:
        nonce = _nonce(self._prefix, self._number, last=last)
        self._file.write(self._cipher.encrypt(nonce, data, self._header))
        self._number += 1


class DecryptingReader:
    """Reads what an `EncryptingWriter` wrote to *file*, of which `MAGIC` was read.

    Raises:
        BackupError: The passphrase is wrong, or a byte is.
    """

    def __init__(self, file: Readable, passphrase: str) -> None:
        self._file = file
        header = read_exactly(file, HEADER.size)
        if len(header) < HEADER.size:
            raise BackupError("The backup is cut off.")
        cost, blocks, parallel, salt, self._prefix = HEADER.unpack(header)
        if cost > MOST_COST or blocks != BLOCKS or parallel != PARALLEL:
            raise BackupError("The backup is damaged: its header asks for another key derivation.")
        self._header = MAGIC + header
        self._cipher = _cipher(passphrase, salt, cost, blocks, parallel)
        self._number = 0
        self._last = False
        self._clear = b""

    def read(self, size: int, /) -> bytes:
        """Return *size* bytes, fewer at the end alone."""
        parts = []
        while size > 0 and (self._clear or not self._last):
            if not self._clear:
                self._clear = self._read_chunk()
            parts.append(self._clear[:size])
            self._clear = self._clear[size:]
            size -= len(parts[-1])
        return b"".join(parts)

    def _read_chunk(self) -> bytes:
        data = read_exactly(self._file, CHUNK + TAG)
        self._last = len(data) < CHUNK + TAG
        nonce = _nonce(self._prefix, self._number, last=self._last)
        try:
            clear = self._cipher.decrypt(nonce, data, self._header)
        except InvalidTag as error:
            raise BackupError(self._why_not()) from error
        self._number += 1
        return clear

    def _why_not(self) -> str:
        if self._number == 0:
            return "The passphrase is wrong, or the backup is damaged."
        where = self._number * (CHUNK + TAG)
        return f"The backup is damaged or cut off, about {where} bytes from its beginning."


def read_exactly(file: Readable, size: int) -> bytes:
    """Read *size* bytes, fewer at the end of *file* alone."""
    parts = []
    while size > 0 and (part := file.read(size)):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _cipher(passphrase: str, salt: bytes, cost: int, blocks: int, parallel: int) -> AESGCM:
    derive = Scrypt(salt=salt, length=32, n=1 << cost, r=blocks, p=parallel).derive
    return AESGCM(derive(passphrase.encode()))


def _nonce(prefix: bytes, number: int, *, last: bool) -> bytes:
    if number > MOST_CHUNKS:
        raise BackupError("The backup has more than 256 TiB.")
    return prefix + struct.pack("!IB", number, last)
