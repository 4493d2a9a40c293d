"""A whole request and its answer, whichever way they go.

An application of ASGI may say beforehand how it answers requests with a certain head: it has a
method ``prepare`` beside its ``__call__``. Where that gives an `Answering`, the server hands over
the body without ASGI's channels, messages and layers; nearly all of what publishers send goes so.
The answer is the same, to the octet.
"""

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol, TypeAlias, cast

from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.http.delivered import was_delivered

WHOLE = 64 * 1024
"""Octets of a body that is handed over without ASGI, at most."""
Headers: TypeAlias = Sequence[tuple[bytes, bytes]]


class Exchange(Protocol):
    """A request that was read to its end, and where its answer goes."""

    async def respond(self, status: int, headers: Headers, body: bytes) -> None:
        """Answer; *headers* have names in lower case, and do not say the length."""

    async def delivered(self, seconds: float) -> bool:
        """Whether the peer has all of the answer after *seconds* at most."""

    async def gone(self) -> None:
        """Return when the peer has gone."""


Answering: TypeAlias = Callable[[bytes, Exchange], Coroutine[Any, Any, None]]
"""Answers the request with a body of `WHOLE` octets at most."""
Prepare: TypeAlias = Callable[[Scope], Answering | None]
"""How requests with the head of a scope are answered; None where ASGI alone can tell. What it gives
serves further requests of the same connection, with the same head but for their length."""


def prepare_of(app: ASGIApp) -> Prepare | None:
    """How *app* prepares; None where it does not."""
    return cast(Prepare | None, getattr(app, "prepare", None))


class AsgiExchange:
    """The way through ASGI."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._scope = scope
        self._receive = receive
        self._send = send

    async def respond(self, status: int, headers: Headers, body: bytes) -> None:
        length = (b"content-length", str(len(body)).encode())
        await self._send(
            {"type": "http.response.start", "status": status, "headers": [*headers, length]}
        )
        await self._send({"type": "http.response.body", "body": body})

    async def delivered(self, seconds: float) -> bool:
        return await was_delivered(self._scope, seconds)

    async def gone(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
