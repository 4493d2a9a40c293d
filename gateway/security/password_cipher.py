"""Encrypts passwords that are said to others, or that a digest is made of, so that a hash will not
do: Fernet, AES-128 in CBC mode with HMAC-SHA-256.

The key is in a file of its own, so whoever has a copy of the store, or of the file of identities,
has no password.
"""

import contextlib
import os
from functools import cached_property
from pathlib import Path

from cryptography.fernet import Fernet, InvalidToken

from filters import Reason, Refused


class PasswordCipher:
    """Encrypts and decrypts with the key in a file.

    Args:
        path: The file; it is made when the first password is encrypted.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def encrypt(self, password: str) -> str:
        """Encrypt *password*. It may write the key to the disk: call it in a thread.

        Raises:
            Refused: There is no key, and none can be made.
        """
        try:
            with contextlib.suppress(FileExistsError):
                _make(self._path)
            return self._fernet.encrypt(password.encode()).decode()
        except OSError as error:
            text = f"The key {self._path} cannot be written: {error.strerror}."
            raise Refused(Reason.UNAVAILABLE, text) from error

    def decrypt(self, sealed: str) -> str:
        """Decrypt what `encrypt` returned.

        Raises:
            Refused: There is no key here, or another one.
        """
        try:
            return self._fernet.decrypt(sealed).decode()
        except (OSError, InvalidToken, ValueError):
            text = f"Its password was not encrypted with the key {self._path}: add it again."
            raise Refused(Reason.NOT_ALLOWED, text) from None

    @cached_property
    def _fernet(self) -> Fernet:
        try:
            return Fernet(self._path.read_bytes().strip())
        except ValueError:
            text = f"The key {self._path} is none that Dragoman made."
            raise Refused(Reason.UNAVAILABLE, text) from None


def _make(path: Path) -> None:
    """Make a key, whole or not at all.

    Raises:
        FileExistsError: There is one.
    """
    if path.exists():
        raise FileExistsError(path)
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(Fernet.generate_key())
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(fresh, path)
    finally:
        fresh.unlink()
