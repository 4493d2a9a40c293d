"""Errors of JSON requests, in plain sentences: which field, and what it must be."""

import re
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any

from fastapi import HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from starlette.types import Message, Receive, Scope, Send

from filters import Refused
from gateway.http import HttpRefusal, content_type
from gateway.settings.validation_texts import wanted
from gateway.store import answered_in_time
from gateway.web.refusals import PROBLEM, problem
from mediation.packaging.json_text import read_json

AT_ONCE = 5
"""Fields that one answer names."""
LONGEST_NAME = 60
"""Characters of a field's name that are repeated."""
_JSON = "application/json"
_HALF = re.compile("[\ud800-\udfff]")


class JsonRoute(APIRoute):
    """A route whose body is JSON that has one reading, of the media type of JSON, and whose texts
    are such as can be kept and shown: without U+0000 and halves of characters. One that waits for
    the store too long is answered 503."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        has_body = self.body_field is not None

        async def strictly(request: Request) -> Response:
            if has_body:
                request = StrictRequest(request.scope, request.receive)
                _check_media_type(request)
            return await answered_in_time(handle(request))

        return strictly

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Have a body that is too large refused as all else is: Starlette says so in plain text."""
        refused = False

        async def send_problem(message: Message) -> None:
            nonlocal refused
            if refused:
                return
            refused = message["type"] == "http.response.start" and message["status"] == 413
            if not refused:
                return await send(message)
            said = problem(413, "The body is larger than may be sent here.")
            return await JSONResponse(said, 413, media_type=PROBLEM)(scope, receive, send)

        await super().handle(scope, receive, send_problem)


class StrictRequest(Request):
    """A request whose body is JSON that has one reading. It is read once."""

    _value: Any
    _is_read = False

    async def json(self) -> Any:
        if not self._is_read:
            try:
                value = read_json(await self.body())
            except Refused as refused:
                raise HTTPException(400, refused.text) from None
            check_texts(value)
            self._value, self._is_read = value, True
        return self._value


def check_texts(value: Any) -> None:
    """Look at all names and texts of a JSON document.

    Raises:
        HTTPException: 422 for a lone surrogate and U+0000.
    """
    left = [value]
    while left:
        one = left.pop()
        if isinstance(one, dict):
            left += one.keys()
            left += one.values()
        elif isinstance(one, list):
            left += one
        elif isinstance(one, str):
            if "\0" in one:
                raise HTTPException(422, "The body has the character U+0000, which is not allowed.")
            if _HALF.search(one):
                raise HTTPException(422, "The body has half a character (a lone surrogate).")


def _check_media_type(request: Request) -> None:
    length, coding = (request.headers.get(name) for name in ("content-length", "transfer-encoding"))
    if length == "0" or length is coding is None:
        return  # What is missing is said of the body.
    try:
        media_type = content_type(request.scope["headers"])
    except HttpRefusal:
        media_type = None
    if media_type is None or media_type.name != _JSON:
        raise HTTPException(415, f"Send {_JSON}.", {"Accept": _JSON})


def explain_invalid(error: Exception) -> str:
    """Say in one sentence what is wrong with a request, as FastAPI's `RequestValidationError` has
    it; never what was sent, which may be anything, and need not have a form in JSON."""
    if not isinstance(error, RequestValidationError):  # pragma: no cover
        raise TypeError(error)
    return explain(error.errors(), error.body)


def explain(errors: Iterable[Mapping[str, Any]], body: object = None) -> str:
    """Say what is wrong, ``field: what it must be``, with all ways in which a field would be right.

    Args:
        body: The request's, to tell its fields from what pydantic calls the members of a union.
    """
    fields: dict[str, list[str]] = {}
    for error in errors:
        name = _field(error["loc"], body, missing=error["type"] == "missing")
        text = wanted(error)
        if text not in fields.setdefault(name, []):
            fields[name].append(text)
    said = [f"{name}: {', or '.join(texts)}" for name, texts in fields.items()]
    more = f"; and {len(said) - AT_ONCE} more" if len(said) > AT_ONCE else ""
    return "; ".join(said[:AT_ONCE]) + more + "."


def _field(location: Sequence[str | int], body: object, *, missing: bool) -> str:
    """The field at pydantic's *location*, whose first part is where the request has it."""
    where, path = location[0], location[1:]
    if where != "body":
        return str(path[0]) if path else str(where)
    name, value = "", body
    for part in path:
        if isinstance(value, dict) and isinstance(part, str) and (missing or part in value):
            name, value = f"{name}.{_shown(part)}" if name else _shown(part), value.get(part)
        elif isinstance(value, list) and isinstance(part, int) and part < len(value):
            name, value = f"{name}[{part}]", value[part]
        else:
            break
    return name or "the body"


def _shown(name: str) -> str:
    """*name*, which a stranger chose, so that it can stand in a sentence."""
    shown = name if name.isprintable() else ascii(name)[1:-1]
    return shown if len(shown) <= LONGEST_NAME else shown[:LONGEST_NAME] + "..."
