"""Signatures of messages (Standard Webhooks 1.0.0, "Verifying webhook authenticity").

webhook-id          the same on every attempt
webhook-timestamp   seconds since 1970, of the attempt
webhook-signature   v1,BASE64 of HMAC-SHA256 over ``id.timestamp.body``
"""

import hmac
from base64 import b64decode, b64encode
from hashlib import sha256
from typing import NewType

from filters import Reason
from mediation.model.errors import MediationError

Secret = NewType("Secret", str)
"""A secret as it is shared: ``whsec_`` and base64."""
PREFIX = "whsec_"
SHORTEST, LONGEST = 24, 64
"""Octets of a secret."""


def read_secret(text: str) -> Secret:
    """Check a secret.

    Raises:
        MediationError: ``MESSAGE_INVALID``; the text does not repeat it.
    """
    try:
        octets = b64decode(text.removeprefix(PREFIX), validate=True)
    except ValueError:
        octets = b""
    if not text.startswith(PREFIX) or not SHORTEST <= len(octets) <= LONGEST:
        raise MediationError(
            Reason.MESSAGE_INVALID,
            f"A secret is {PREFIX} and {SHORTEST} to {LONGEST} octets in base64.",
        )
    return Secret(text)


def signature(secret: Secret, id: str, at: int, body: bytes) -> tuple[tuple[str, str], ...]:
    """The headers that sign *body*, sent as message *id* at POSIX second *at*."""
    key = b64decode(secret.removeprefix(PREFIX))
    digest = hmac.digest(key, f"{id}.{at}.".encode() + body, sha256)
    return (
        ("webhook-id", id),
        ("webhook-timestamp", str(at)),
        ("webhook-signature", f"v1,{b64encode(digest).decode()}"),
    )
