"""Refuses what another site's page has somebody's browser send (CSRF): a form of the console, and
any change by the administration's JSON, to which a browser adds credentials that it has."""

from urllib.parse import urlsplit

from fastapi import HTTPException, Request

_SAME = frozenset({"same-origin", "none"})


async def refuse_other_origins(request: Request) -> None:
    """Let through what a page of the gateway sends, and programs that are no browsers.

    A browser says of each request where it is from: ``Sec-Fetch-Site`` (Fetch Metadata), those
    before 2020 only ``Origin`` (RFC 6454). Pages of other sites can set neither.

    Raises:
        HTTPException: 403: it is from another site's page.
    """
    site = request.headers.get("sec-fetch-site")
    origin = request.headers.get("origin")
    if site is not None:
        same = site in _SAME
    else:
        same = origin is None or _host_of(origin) == request.headers.get("host")
    if not same:
        raise HTTPException(403, "This is from another site's page: open the console itself.")


def _host_of(origin: str) -> str | None:
    """Return the host and port of *origin*; None where it cannot be read."""
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return None
