"""Asks the JSON administration from within, as the one who asks for a page.

A page shows what ``/api/v1`` answers, and a button does what a request there does: the same
handlers, the same rights, nothing that only a browser could see.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from fastapi import HTTPException, Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from gateway.http import REQUEST, request_of
from gateway.web.dependencies import ASKING
from gateway.web.session_cookies import IN_CONSOLE

ROOT = "/api/v1"
_OF_THE_FORM = frozenset({b"content-length", b"content-type", b"transfer-encoding"})


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer of the administration.

    Attributes:
        value: Its JSON; None where it is none.
    """

    status: int
    value: Any

    @property
    def succeeded(self) -> bool:
        return 200 <= self.status < 300

    @property
    def refusal(self) -> str:
        """Why it was refused, in a sentence."""
        detail = self.value.get("detail") if isinstance(self.value, dict) else None
        if isinstance(detail, list):  # FastAPI's list of what is wrong with a request.
            detail = "; ".join(str(one.get("msg", one)) for one in detail)
        return str(detail or f"The administration answered {self.status}.")


async def ask(
    request: Request,
    method: str,
    path: str,
    query: Mapping[str, object] | None = None,
    body: object = None,
) -> Answer:
    """Ask the administration for *path*, which begins behind `ROOT`, as the sender of *request*."""
    content = b"" if body is None else json.dumps(body).encode()
    status, parts = 0, []
    sent = False

    async def receive() -> Message:
        nonlocal sent
        if sent:
            return {"type": "http.disconnect"}
        sent = True
        return {"type": "http.request", "body": content, "more_body": False}

    async def send(message: Message) -> None:
        nonlocal status
        if message["type"] == "http.response.start":
            status = message["status"]
        elif message["type"] == "http.response.body":
            parts.append(message.get("body", b""))

    scope = _scope(request, method, path, query or {}, content)
    await request.app(scope, receive, send)
    return Answer(status, _json(b"".join(parts)))


class PassedOn(Response):
    """The administration's answer to a GET of *path* as the sender of *request*, with its query, as
    it comes: of a stream that has no end."""

    def __init__(self, request: Request, path: str) -> None:
        super().__init__()
        self._app = request.app
        self._scope = _scope(request, "GET", path, {}, b"")
        self._scope["query_string"] = request.scope["query_string"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(self._scope, receive, send)


def _json(answered: bytes) -> Any:
    """The JSON of an answer; None where it has none, as one that the server itself refuses."""
    try:
        return json.loads(answered)
    except ValueError:
        return None


def _scope(
    request: Request, method: str, path: str, query: Mapping[str, object], content: bytes
) -> Scope:
    """The scope of a request of the same sender, over the same connection."""
    headers = [pair for pair in request.scope["headers"] if pair[0] not in _OF_THE_FORM]
    headers.append((b"content-length", str(len(content)).encode()))
    if content:
        headers.append((b"content-type", b"application/json"))
    given = {
        name: str(value).lower() if isinstance(value, bool) else value
        for name, value in query.items()
        if value not in ("", None, [])
    }
    kept = {
        name: request.scope[name]
        for name in ("type", "asgi", "http_version", "scheme", "client", "server", "extensions")
        if name in request.scope
    }
    return {
        **kept,
        IN_CONSOLE: True,
        # Its credentials are of the request of the page, and may count once.
        REQUEST: request_of(request.scope, request.app.state.given[ASKING].http),
        "method": method,
        "path": ROOT + path,
        "raw_path": quote(ROOT + path).encode(),
        "root_path": "",
        "query_string": urlencode(given, doseq=True).encode(),
        "headers": headers,
        "state": {},
    }


def segment(text: str) -> str:
    """Return *text* as one segment of a path.

    Raises:
        HTTPException: 404: it is none, so that nothing has it as its id.
    """
    if not text or "/" in text:
        raise HTTPException(404, "There is no such thing.")
    return text
