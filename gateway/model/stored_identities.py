"""Users, keys and rules that the store keeps: values that the store and `gateway.identities`
share."""

from dataclasses import dataclass
from enum import Enum

MOST = 10_000
"""Of each kind that are kept: to put another one in force takes 0.4 s then, in a thread."""


class IdentityKind(Enum):
    """What is kept."""

    USER = "user"
    KEY = "key"
    RULE = "rule"


@dataclass(frozen=True, slots=True)
class StoredIdentity:
    """One of them.

    Attributes:
        id: A user's name; the ids of keys and rules, as they are listed.
        user: Of a key: whose it is; else empty.
        born: Of a user what tells it from another one of its name, before or after it; of a key
            whose it is by that (`born_in_file` of a user of the file); else empty.
        row: JSON with the members that the row of the file has.
        by: The owner that kept it: ``user:NAME``.
        at: When, in POSIX seconds.
    """

    kind: IdentityKind
    id: str
    user: str
    born: str
    row: str
    by: str
    at: float


def born_in_file(tenant: str) -> str:
    """What tells a user of the file, in a *tenant*, from one that the store keeps."""
    return f"file:{tenant}"
