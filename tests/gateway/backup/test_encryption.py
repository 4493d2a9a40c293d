"""Encrypted streams: what comes back, and what anybody does to them in between."""

import io

import pytest

from gateway.backup import encryption
from gateway.backup.encryption import CHUNK, MAGIC, TAG, DecryptingReader, EncryptingWriter
from gateway.backup.errors import BackupError

PASSPHRASE = "Schlüssel zum Keller"
HEADER = len(MAGIC) + encryption.HEADER.size
SIZES = (0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK, 3 * CHUNK + 7)


@pytest.fixture(autouse=True)
def cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key takes a millisecond instead of half a second; readers go by the header."""
    monkeypatch.setattr(encryption, "COST", 8)


def encrypted(clear: bytes) -> bytes:
    target = io.BytesIO()
    writer = EncryptingWriter(target, PASSPHRASE)
    for begin in range(0, len(clear), 50_001):
        writer.write(clear[begin : begin + 50_001])
    writer.finish()
    return target.getvalue()


def decrypted(data: bytes, passphrase: str = PASSPHRASE) -> bytes:
    file = io.BytesIO(data)
    assert file.read(len(MAGIC)) == MAGIC
    reader = DecryptingReader(file, passphrase)
    return b"".join(iter(lambda: reader.read(70_000), b""))


def clear_text(size: int) -> bytes:
    return bytes(number % 251 for number in range(size))


@pytest.mark.parametrize("size", SIZES)
def test_what_was_written_is_read(size: int) -> None:
    clear = clear_text(size)
    data = encrypted(clear)
    assert decrypted(data) == clear
    assert clear[:16] not in data or size < 16
    assert encrypted(clear) != data  # Another salt each time.


@pytest.mark.parametrize("size", SIZES)
def test_what_is_cut_off_is_refused(size: int) -> None:
    data = encrypted(clear_text(size))
    boundaries = range(HEADER, len(data), CHUNK + TAG)
    for length in {
        *boundaries,
        *(one + 1 for one in boundaries),
        len(MAGIC),
        HEADER - 1,
        len(data) - 1,
    }:
        if length < len(data):
            with pytest.raises(BackupError):
                decrypted(data[:length])


def test_what_is_changed_is_refused() -> None:
    data = encrypted(clear_text(2 * CHUNK + 5))
    for place in (*range(len(MAGIC), HEADER), HEADER, HEADER + CHUNK, len(data) - 1):
        changed = bytearray(data)
        changed[place] ^= 1
        with pytest.raises(BackupError):
            decrypted(bytes(changed))


def test_chunks_in_another_order_are_refused() -> None:
    data = encrypted(clear_text(3 * CHUNK + 5))
    first, second = HEADER + CHUNK + TAG, HEADER + 2 * (CHUNK + TAG)
    for other in (
        data[:HEADER] + data[first:second] + data[HEADER:first] + data[second:],
        data[:first] + data[second:],
        data + data[HEADER:first],
    ):
        with pytest.raises(BackupError, match="damaged"):
            decrypted(other)


def test_a_wrong_passphrase_is_said() -> None:
    with pytest.raises(BackupError, match=r"^The passphrase is wrong, or the backup is damaged\.$"):
        decrypted(encrypted(b"x"), "another")


def test_a_header_that_asks_for_a_long_derivation_is_refused() -> None:
    data = bytearray(encrypted(b"x"))
    data[len(MAGIC)] = 40
    with pytest.raises(BackupError, match="another key derivation"):
        decrypted(bytes(data))
