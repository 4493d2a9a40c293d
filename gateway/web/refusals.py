"""Refusals as HTTP says them, to programs that speak no SOAP."""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from math import ceil
from typing import Any

from starlette.types import Scope

from filters import Reason, Refused
from gateway.http import HttpSettings, request_of
from gateway.security.identify import Identification

_STATUS = {
    Reason.INTERNAL: 500,
    Reason.UNAVAILABLE: 503,
    Reason.SUBSCRIPTION_UNKNOWN: 404,
    Reason.RESOURCE_UNKNOWN: 404,
    Reason.TOO_LARGE: 413,
    Reason.MEDIA_TYPE: 415,
    Reason.ENCODING: 415,
    Reason.RATE: 429,
    Reason.QUOTA: 403,
    Reason.NOT_IDENTIFIED: 401,
    Reason.NOT_ALLOWED: 403,
    Reason.MAILBOX_UNKNOWN: 404,
    Reason.MAILBOX_FULL: 503,
    Reason.SOURCE_UNKNOWN: 404,
}
"""All others are 400."""
PROBLEM = "application/problem+json"
"""The media type of `problem`."""


def status_of(refused: Refused) -> int:
    return _STATUS.get(refused.reason, 400)


def challenges_of(
    refused: Refused, scope: Scope, identification: Identification, settings: HttpSettings
) -> Sequence[str]:
    """The values of a field ``WWW-Authenticate`` each, where *scope* takes credentials."""
    if status_of(refused) != 401:
        return ()
    return identification.challenges(request_of(scope, settings))


def headers_of(refused: Refused) -> dict[str, str]:
    """``Retry-After``, where it may be tried again."""
    retry_after = refused.retry_after
    if retry_after is None and status_of(refused) == 503:
        retry_after = 2.0
    return {} if retry_after is None else {"Retry-After": str(max(1, ceil(retry_after)))}


def problem(status: int, detail: str, reason: str | None = None) -> dict[str, Any]:
    """What is wrong with a request, in the form of RFC 9457."""
    title = HTTPStatus(status).phrase
    said = {"type": "about:blank", "title": title, "status": status, "detail": detail}
    return said if reason is None else {**said, "reason": reason}


_REFUSED = {
    "description": "It cannot be done; `detail` says why, and what to do.",
    "content": {
        PROBLEM: {
            "schema": {"type": "object"},
            "example": problem(404, "There is no such subscription.", "subscription-unknown"),
        }
    },
}
REFUSALS: Mapping[int | str, dict[str, Any]] = {"4XX": _REFUSED, "503": _REFUSED}
"""How OpenAPI describes the refusals of a router."""
