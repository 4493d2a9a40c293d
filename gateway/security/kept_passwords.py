"""Passwords that are kept so that they can be read: those of users who prove them by a digest.

A digest of WS-Security is computed of the password itself (UsernameToken Profile 1.1.1, section
3.1), so that a hash of it will not do. It is encrypted (Fernet: AES-128 in CBC mode, HMAC-SHA-256),
by a key in a file of its own beside the file of identities: ``identities.toml.key``.
"""

import os
from pathlib import Path

from cryptography.fernet import Fernet, InvalidToken

from gateway.security.identities import IdentitiesUnusable


def key_file(identities: Path) -> Path:
    """The file of the key, beside the file of *identities*."""
    return identities.with_name(identities.name + ".key")


def make_key(identities: Path) -> None:
    """Make the key, for its owner alone, where there is none.

    Raises:
        IdentitiesUnusable: It cannot be written.
    """
    path = key_file(identities)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return
    except OSError as error:
        raise IdentitiesUnusable(path, str(error.strerror or error)) from error
    with os.fdopen(descriptor, "wb") as file:
        file.write(Fernet.generate_key())
        file.flush()
        os.fsync(file.fileno())


class KeptPasswords:
    """Encrypts and decrypts passwords by the key beside the file of *identities*."""

    def __init__(self, identities: Path) -> None:
        self._path = key_file(identities)

    def encrypt(self, password: str) -> str:
        """Return *password* as the file of identities keeps it.

        Raises:
            IdentitiesUnusable: There is no key, or it is none.
        """
        return self._fernet().encrypt(password.encode()).decode()

    def decrypt(self, kept: str) -> str:
        """Return the password that is *kept*.

        Raises:
            IdentitiesUnusable: There is no key, or it is another one.
        """
        try:
            return self._fernet().decrypt(kept.encode()).decode()
        except InvalidToken as error:
            raise IdentitiesUnusable(self._path, "it is not the key of that password") from error

    def _fernet(self) -> Fernet:
        try:
            return Fernet(self._path.read_bytes().strip())
        except OSError as error:
            raise IdentitiesUnusable(self._path, str(error.strerror or error)) from error
        except ValueError as error:
            raise IdentitiesUnusable(self._path, "it is no key of Fernet") from error
