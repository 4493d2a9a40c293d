"""Refuses what another site's page has somebody's browser send (CSRF): a form of the console, any
change by the administration's JSON, to which a browser adds credentials that it has, and events,
which a gateway takes that the page itself cannot reach."""

from urllib.parse import urlsplit

from fastapi import HTTPException, Request
from starlette.datastructures import Headers
from starlette.types import Scope

from gateway.web.session_cookies import IN_CONSOLE, session_token

ELSEWHERE = "This is from another site's page: open the console itself."
UNSAID = (
    "This does not say which site's page it is from: send Sec-Fetch-Site or Origin with the cookie "
    "of a session, as browsers do."
)
_SAME = frozenset({"same-origin", "none"})


async def refuse_other_origins(request: Request) -> None:
    """Let through what a page of the gateway sends, and programs that are no browsers; a change
    within a session of the console only where it says that it is from such a page: browsers that
    keep its cookie do.

    Raises:
        HTTPException: 403: it is from another site's page.
    """
    scope = request.scope
    if is_of_another_site(scope):
        raise HTTPException(403, ELSEWHERE)
    if scope["method"] in ("GET", "HEAD") or scope.get(IN_CONSOLE):
        return  # What the console asks of the administration it was itself asked, and let through.
    said = {"sec-fetch-site", "origin"}.intersection(request.headers)
    if not said and session_token(scope) is not None:
        raise HTTPException(403, UNSAID)


def is_of_another_site(scope: Scope) -> bool:
    """Whether another site's page had a browser send the request.

    A browser says of each request where it is from: ``Sec-Fetch-Site`` (Fetch Metadata), those
    before 2020 only ``Origin`` (RFC 6454). Pages of other sites can set neither.
    """
    headers = Headers(scope=scope)
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site is not None:
        return site not in _SAME
    return origin is not None and _host_of(origin) != headers.get("host")


def _host_of(origin: str) -> str | None:
    """Return the host and port of *origin*; None where it cannot be read."""
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return None
