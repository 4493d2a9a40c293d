"""API keys: ``drg_`` and 256 random bits, of which only a hash is kept."""

import hashlib
import secrets

PREFIX = "drg_"
ID_LENGTH = 12


def new_api_key() -> str:
    """Return a new key; it is shown once."""
    return PREFIX + secrets.token_urlsafe(32)


def hash_api_key(key: str) -> str:
    """Return the hash by which a key is kept and found. It has 256 random bits: unlike a password,
    nobody finds it by trying, so that one pass of SHA-256 will do."""
    return "sha256:" + hashlib.sha256(key.encode()).hexdigest()


def api_key_id(hashed: str) -> str:
    """Return the id of a key, for lists and logs."""
    return hashed.removeprefix("sha256:")[:ID_LENGTH]
