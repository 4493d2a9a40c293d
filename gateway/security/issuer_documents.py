"""Documents that issuers of tokens, whom an operator named, have at their URLs: discovery, keys."""

import json
from collections.abc import Mapping
from typing import Any, Protocol
from urllib.parse import urlencode, urlsplit

from gateway.model.hosts import is_loopback

MAX_ANSWER = 2**20
_DISCOVERY = "/.well-known/openid-configuration"


class Ask(Protocol):
    """Sends one request over HTTP, a POST where it has a *body*, and returns the body of a
    successful answer, at most `MAX_ANSWER` bytes. It follows no redirects.

    Raises:
        OSError: There is none.
    """

    async def __call__(
        self, url: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> bytes: ...


class IssuerDocuments:
    """Reads what issuers publish."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    async def discover(self, issuer: str) -> dict[str, Any]:
        """What *issuer* says of itself (OpenID Connect Discovery 1.0, section 4).

        Raises:
            OSError: It cannot be had.
            ValueError: It is no JSON, no URL, or speaks of another issuer.
        """
        found = await self.fetch(issuer.rstrip("/") + _DISCOVERY)
        if not isinstance(found, dict) or found.get("issuer") != issuer:
            named = found.get("issuer") if isinstance(found, dict) else None
            raise ValueError(f"discovery speaks of another issuer, {named!r}")
        return found

    async def fetch(self, url: str, headers: Mapping[str, str] | None = None) -> Any:
        """The JSON at *url*, asked for with *headers*.

        Raises:
            OSError: It cannot be had.
            ValueError: It is no JSON, or no URL.
        """
        return parse_json(await self._ask(_checked(url), None, headers))

    async def send_form(self, url: str, form: dict[str, str], headers: dict[str, str]) -> Any:
        """The JSON that is answered to a *form*.

        Raises:
            OSError: There is none.
            ValueError: It is no JSON, or *url* no URL.
        """
        sent = {"Content-Type": "application/x-www-form-urlencoded", **headers}
        return parse_json(await self._ask(_checked(url), urlencode(form).encode(), sent))


def parse_json(octets: bytes) -> Any:
    """The value of *octets*.

    Raises:
        ValueError: They are no JSON, or too deep.
    """
    try:
        return json.loads(octets)
    except RecursionError as error:
        raise ValueError("its JSON is too deep") from error


def is_private(url: str) -> bool:
    """Return True if nobody in between reads or writes what is exchanged with *url*: it is of
    HTTPS, or of this machine."""
    try:
        host = urlsplit(url).hostname
    except ValueError:
        return False
    if not host:
        return False
    return url.startswith("https://") or (url.startswith("http://") and is_loopback(host))


def _checked(url: str) -> str:
    if not is_private(url):
        raise ValueError(f"{url[:200]} is not a URL of https, which it must be but on this machine")
    return url
