"""Ids of messages, which must be unique, and keys of resources, which must be secret."""

import random
import secrets
from hashlib import sha256

_random = random.Random()
_VARIANTS = dict(zip("0123456789abcdef", "89ab" * 4, strict=True))
"""The digit with the variant's two bits, for each digit that may stand in its place."""
ID_LENGTH = 12


def new_key() -> str:
    """128 random bits, written as a UUID is: the capability of a subscription or a mailbox."""
    digits = secrets.token_hex(16)
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def public_id(key: str) -> str:
    """The id of a key for logs and lists: a prefix of its hash."""
    return sha256(key.encode()).hexdigest()[:ID_LENGTH]


def message_urn() -> str:
    """A ``urn:uuid:`` of version 4 (RFC 9562, section 5.4).

    `uuid.uuid4` asks the system each time and gives up the interpreter lock for it; that costs
    more than all the rest of an answer.
    """
    digits = _random.getrandbits(128).to_bytes(16, "big").hex()
    return (
        f"urn:uuid:{digits[:8]}-{digits[8:12]}-4{digits[13:16]}"
        f"-{_VARIANTS[digits[16]]}{digits[17:20]}-{digits[20:]}"
    )
