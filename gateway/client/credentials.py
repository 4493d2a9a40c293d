"""What says who we are in requests over HTTP: `Credentials`."""

import base64
from dataclasses import dataclass, field
from typing import Self
from urllib.parse import urlsplit

from gateway.client.errors import GatewayError

_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Credentials:
    """Credentials for one gateway. They are sent to its own scheme, host and port alone: an address
    that it gives out may be somebody else's.

    Attributes:
        authorization: The value of the field ``Authorization``.
    """

    authorization: str = field(repr=False)

    @classmethod
    def of_key(cls, key: str) -> Self:
        """Those of an API key, or of another bearer token (RFC 6750).

        Raises:
            GatewayError: It has characters that no key has.
        """
        if not key.isascii() or not key.isprintable() or not key or " " in key:
            raise GatewayError("the API key has characters that no key has; is it whole?")
        return cls(f"Bearer {key}")

    @classmethod
    def of_password(cls, user: str, password: str) -> Self:
        """Those of a user and a password (RFC 7617).

        Raises:
            GatewayError: The user's name has a colon.
        """
        if ":" in user:
            raise GatewayError("a user's name has no colon")
        return cls("Basic " + base64.b64encode(f"{user}:{password}".encode()).decode())


def same_origin(url: str, other: str) -> bool:
    """Return True if both URLs have one scheme, host and port."""
    return _origin(url) == _origin(other)


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    scheme = parts.scheme.lower()
    return scheme, parts.hostname, parts.port or _PORTS.get(scheme)
