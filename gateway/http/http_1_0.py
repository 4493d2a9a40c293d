"""Answers of unknown length to HTTP/1.0, which knows no chunks: the connection's end is theirs.

RFC 9112, "Transfer-Encoding": a server must not send one unless the request is HTTP/1.1 or later.
uvicorn sends chunks whatever the request is.
"""

import sys

from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle


def unchunked(app: ASGIApp, cycle: RequestResponseCycle) -> ASGIApp:
    """*app*, whose answer *cycle* writes as it is; its connection must not be kept."""

    async def answering(scope: Scope, receive: Receive, send: Send) -> None:
        until_closed = False

        async def write(message: Message) -> None:
            nonlocal until_closed
            if message["type"] == "http.response.start":
                names = {name.lower() for name, _ in message.get("headers", ())}
                until_closed = b"content-length" not in names
                if until_closed:
                    cycle.chunked_encoding = False
                    cycle.expected_content_length = sys.maxsize
            elif until_closed and not message.get("more_body", False):
                cycle.expected_content_length = len(message.get("body", b""))
            await send(message)

        await app(scope, receive, write)

    return answering
