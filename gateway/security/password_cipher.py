"""Encrypts passwords that are said to others, or that a digest is made of, so that a hash will not
do: Fernet, AES-128 in CBC mode with HMAC-SHA-256.

The key is in a file of its own, so whoever has a copy of the store, or of the file of identities,
has no password.
"""

import contextlib
from functools import cached_property
from pathlib import Path

from cryptography.fernet import Fernet, InvalidToken

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

    @cached_property
    def _fernet(self) -> Fernet:
        try:
            return Fernet(self._path.read_bytes().strip())
        except ValueError:
            text = f"The key {self._path} is none that Dragoman made."
            raise Refused(Reason.UNAVAILABLE, text) from None
