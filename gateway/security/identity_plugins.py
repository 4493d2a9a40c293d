"""Credentials that other packages verify: entry points of the group ``dragoman.identity``.

A package that is installed verifies nothing by that: a row ``[[verifiers]]`` of the file of
identities names it. Its entry point is a function that gets the row's ``settings``, and returns a
`CredentialVerifier`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Any, Protocol

ENTRY_POINT_GROUP = "dragoman.identity"
DEADLINE = 10.0
"""Seconds that one has to verify a request."""


@dataclass(frozen=True, slots=True)
class VerifiedUser:
    """Whom a request's credentials prove.

    Attributes:
        name: That of ``user:NAME`` in rules; printable, not empty.
        roles: Roles beside those that the file of identities gives the user.
    """

    name: str
    roles: frozenset[str] = frozenset()


class CredentialsRefused(Exception):
    """A request's credentials prove nothing. Why is for the log alone."""


class CredentialVerifier(Protocol):
    """Verifies credentials of one kind, for requests over HTTP."""

    async def verify(self, headers: Mapping[str, str], address: str) -> VerifiedUser | None:
        """Return whom the *headers* of a request prove, by their names in lower case, which came
        from the network *address*; None where they have no credentials of this kind. It is asked
        for each request, in the event loop: it must not block, and remembers for itself.

        Raises:
            CredentialsRefused: They prove nothing.
            Exception: They cannot be verified now; the peer may ask again.
        """


MakeVerifier = Callable[[Mapping[str, Any]], CredentialVerifier]


def make_verifier(name: str, settings: Mapping[str, Any]) -> CredentialVerifier:
    """Make the verifier of the entry point called *name*.

    Raises:
        ValueError: There is none, it cannot be loaded, or it does not accept *settings*.
    """
    found = [point for point in entry_points(group=ENTRY_POINT_GROUP) if point.name == name]
    if not found:
        raise ValueError(f"no package verifies credentials as {name!r}")
    try:
        verifier: CredentialVerifier = found[0].load()(settings)
    except Exception as error:  # Whatever a module of others does.
        raise ValueError(f"{name!r} cannot be used: {type(error).__name__}: {error}") from error
    if not callable(getattr(verifier, "verify", None)):
        raise ValueError(f"{name!r} cannot be used: what it returns has no verify()")
    return verifier
