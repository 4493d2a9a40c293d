"""The ASGI application: FastAPI for people and programs, the SOAP endpoint beside it."""

from math import ceil
from typing import TYPE_CHECKING

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, RedirectResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from filters import Reason, Refused
from gateway.doors import MESSAGE_BOXES, door_at
from gateway.http import Answering, HostMiddleware
from gateway.web.api import api_routes
from gateway.web.health import health_routes
from gateway.web.mailboxes import mailbox_routes
from gateway.web.soap import SoapEndpoint

if TYPE_CHECKING:
    from gateway.service import Gateway

_STATUS = {
    Reason.UNAVAILABLE: 503,
    Reason.SUBSCRIPTION_UNKNOWN: 404,
    Reason.TOO_LARGE: 413,
    Reason.RATE: 429,
    Reason.QUOTA: 403,
    Reason.MAILBOX_UNKNOWN: 404,
}
_SOAP_PATHS = frozenset({"/soap", "/soap/", "/soap/topic", "/subscriptions", "/pullpoints"})
_SOAP_PREFIXES = ("/soap/topic/", "/subscriptions/", "/pullpoints/")
API_BODY = 2**20
"""Octets that a request to the administration may have."""


class _Dispatch:
    """Hands SOAP's paths to its endpoint, all others to FastAPI."""

    def __init__(self, soap: SoapEndpoint, rest: ASGIApp) -> None:
        self._soap = soap
        self._rest = rest

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and _is_for_soap(scope):
            await self._soap(scope, receive, send)
        else:
            await self._rest(scope, receive, send)

    def prepare(self, scope: Scope) -> Answering | None:
        """How the SOAP endpoint answers; None for what is not for it."""
        return self._soap.prepare(scope) if _is_for_soap(scope) else None


def _is_for_soap(scope: Scope) -> bool:
    path = scope["path"]
    return path in _SOAP_PATHS or path.startswith(_SOAP_PREFIXES) or _is_door(scope)


def _is_door(scope: Scope) -> bool:
    """Whether SOAP messages come to this path of a mailbox; the other methods are JSON's."""
    door = door_at(scope["path"])
    return door is not None and (door.kind in MESSAGE_BOXES or scope["method"] == "POST")


def make_app(gateway: "Gateway") -> ASGIApp:
    """The application that serves *gateway*."""
    api = FastAPI(
        title="Dragoman",
        summary="WS-Eventing and WS-Notification in front of a message system.",
        redoc_url=None,
        max_body_size=API_BODY,
    )
    api.include_router(health_routes(gateway))
    api.include_router(api_routes(gateway))
    api.include_router(mailbox_routes(gateway))

    @api.exception_handler(Refused)
    async def refused(_: Request, error: Exception) -> JSONResponse:
        reason = error.reason if isinstance(error, Refused) else Reason.INTERNAL
        status = _STATUS.get(reason, 500 if reason is Reason.INTERNAL else 400)
        retry_after = error.retry_after if isinstance(error, Refused) else None
        if retry_after is None and status == 503:
            retry_after = 2.0
        headers = {} if retry_after is None else {"Retry-After": str(max(1, ceil(retry_after)))}
        return JSONResponse({"detail": str(error), "reason": reason.value}, status, headers)

    @api.get("/", include_in_schema=False)
    async def root() -> RedirectResponse:
        return RedirectResponse("/docs")

    return HostMiddleware(_Dispatch(gateway.endpoint, api), gateway.http_settings)
