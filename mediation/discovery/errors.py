"""Errors in messages of topic discovery."""

from enum import Enum

from filters import Reason
from mediation.model.errors import MediationError


class Fault(Enum):
    """A reason that a Refusal gives. The value is its word on the wire."""

    UNAUTHENTICATED = "unauthenticated"
    UNAUTHORIZED = "unauthorized"
    MALFORMED = "malformed"
    UNSUPPORTED_DIALECT = "unsupported-dialect"
    INVALID_QUERY = "invalid-query"
    UNSUPPORTED_SYNOPSIS = "unsupported-synopsis"
    LIMIT = "limit"


class DiscoveryError(MediationError):
    """A message of topic discovery that is not taken.

    Attributes:
        fault: What a Refusal says of it, where one is sent at all.
    """

    fault = Fault.MALFORMED

    def __init__(self, text: str, *, value: str = "") -> None:
        super().__init__(Reason.MESSAGE_INVALID, text, value=value)


class Malformed(DiscoveryError):
    """It breaks the schema or a bound."""


class SynopsisRefused(DiscoveryError):
    """A placeholder into which no UUID can be put, or a synopsis that comes of no placeholder."""

    fault = Fault.UNSUPPORTED_SYNOPSIS


class SignatureRefused(DiscoveryError):
    """It has no signature that counts, or another's."""

    fault = Fault.UNAUTHENTICATED


class DecryptionFailed(DiscoveryError):
    """An encrypted message that says nothing to us. There is one text for all causes."""

    fault = Fault.UNAUTHENTICATED

    def __init__(self) -> None:
        super().__init__("The encrypted message cannot be read.")


class Untimely(DiscoveryError):
    """It is over, not yet issued, lives too long, or came before."""

    fault = Fault.UNAUTHENTICATED


class Mismatch(DiscoveryError):
    """Two parts of it, or it and what it answers, do not belong together."""

    fault = Fault.UNAUTHORIZED


class Crowded(DiscoveryError):
    """It may be right, and there is no room to tell."""

    fault = Fault.LIMIT
