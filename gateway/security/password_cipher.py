"""Encrypts passwords that are said to others, or that a digest is made of, so that a hash will not
do: Fernet, AES-128 in CBC mode with HMAC-SHA-256.

The key is in a file of its own, so whoever has a copy of the store, or of the file of identities,
has no password.
"""

import contextlib
import secrets
from functools import cached_property
from pathlib import Path

from cryptography.fernet import Fernet, InvalidToken
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from filters import Reason, Refused
from gateway.atomic_files import create_file


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
                create_file(self._path, Fernet.generate_key())
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

    def derive(self, purpose: bytes) -> bytes | None:
        """Return a key for *purpose*, which all gateways have that have the file; None where there
        is no such file, or no key in it."""
        try:
            _ = self._fernet
            key = self._path.read_bytes().strip()
        except (OSError, Refused):
            return None
        return HKDF(SHA256(), length=32, salt=None, info=purpose).derive(key)

    def make_decoy(self) -> str:
        """Return a password of chance, encrypted: to be decrypted where a user has none, so that it
        takes as long. `derive` says whether there is a key for it."""
        return self._fernet.encrypt(secrets.token_hex(8).encode()).decode()

    @cached_property
    def _fernet(self) -> Fernet:
        try:
            return Fernet(self._path.read_bytes().strip())
        except ValueError:
            text = f"The key {self._path} is none that Dragoman made."
            raise Refused(Reason.UNAVAILABLE, text) from None
