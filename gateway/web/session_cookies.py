"""The cookie of a session of the console, which is of use there alone."""

from starlette.types import Scope

COOKIE = "__Host-dragoman"
"""The cookie of a session: for this host alone, over HTTPS or on loopback, out of reach of scripts
(RFC 6265bis, section 4.1.3.2)."""
IN_CONSOLE = "dragoman.console"
"""A member of the scope of requests that the console itself makes of the administration."""


def session_token(scope: Scope) -> str | None:
    """The token of the session that a request of the console has; None where it has none, or is of
    another kind: a cookie proves nothing to the JSON administration itself, where a page of another
    site could have a browser send it."""
    if not (scope["path"].startswith("/console") or scope.get(IN_CONSOLE)):
        return None
    for name, value in scope["headers"]:
        if name == b"cookie":
            for pair in value.split(b";"):
                key, _, token = pair.strip().partition(b"=")
                if key == COOKIE.encode():
                    return str(token, "latin-1")
    return None
