"""Documents of issuers of tokens over HTTP, in bounded size and time: an operator named them."""

import json
from typing import Any
from urllib.parse import urlencode
from urllib.request import HTTPRedirectHandler, ProxyHandler, Request, build_opener

TIMEOUT = 5.0
"""Seconds without a byte."""
MAX_ANSWER = 2**20
_DISCOVERY = "/.well-known/openid-configuration"


class _NoRedirects(HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def discover(issuer: str) -> dict[str, Any]:
    """What *issuer* says of itself (OpenID Connect Discovery 1.0, section 4).

    Raises:
        OSError: It cannot be had.
        ValueError: It is no JSON, no URL, or speaks of another issuer.
    """
    found = fetch(issuer.rstrip("/") + _DISCOVERY)
    if not isinstance(found, dict) or found.get("issuer") != issuer:
        named = found.get("issuer") if isinstance(found, dict) else None
        raise ValueError(f"discovery speaks of another issuer, {named!r}")
    return found


def fetch(url: str) -> Any:
    """The JSON at *url*.

    Raises:
        OSError: It cannot be had.
        ValueError: It is no JSON, or no URL.
    """
    return _answer_of(Request(_checked(url)))


def send_form(url: str, form: dict[str, str], headers: dict[str, str]) -> Any:
    """The JSON that is answered to a *form*.

    Raises:
        OSError: There is none; an HTTPError has the status.
        ValueError: It is no JSON, or *url* no URL.
    """
    body = urlencode(form).encode()
    sent = {"Content-Type": "application/x-www-form-urlencoded", **headers}
    return _answer_of(Request(_checked(url), body, sent))


def _checked(url: str) -> str:
    if not url.startswith(("https://", "http://")):
        raise ValueError(f"{url} is no URL of HTTP")
    return url


def _answer_of(request: Request) -> Any:
    opener = build_opener(_NoRedirects, ProxyHandler({}))
    with opener.open(request, timeout=TIMEOUT) as answer:
        return json.loads(answer.read(MAX_ANSWER))
