"""Roles that tokens said their users have: a value that the store and security share."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class TokenRoles:
    """The roles that a user's last token said.

    Attributes:
        owner: The user, as the store knows it: with its tenant.
        issuer: Whose token it was.
        until: Until when they count for what the user has subscribed to, in POSIX seconds.
        issued: When that token was issued, in POSIX seconds; 0 where it does not say so.
    """

    owner: str
    issuer: str
    roles: frozenset[str]
    until: float
    issued: float = field(default=0.0, compare=False)
