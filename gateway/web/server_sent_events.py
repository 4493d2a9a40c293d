"""Server-Sent Events: the response that they go in, and how each is written (WHATWG HTML,
"Server-sent events").

    bytes in the response    what they do
    -----------------------  ---------------------------------------------------------------
    retry: 2000              says after how many milliseconds to come again
    id, event, data          an event; the browser sends the id of the last one when it comes again
    :                        nothing: the connection is alive
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias

from starlette.types import Send

Awaited: TypeAlias = Callable[[], Coroutine[Any, Any, None]]
"""Begins to wait for something."""

HEARTBEAT = 15.0
"""Seconds without an event after which a heartbeat is sent: nginx, for one, cuts a response that is
silent for a minute."""
RETRY = 2000
"""Milliseconds after which a reader whose connection broke comes again."""
_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]


def write_event(data: str, *, event: str, id: int | str | None = None) -> bytes:
    """Write an event; *data* is one line, as JSON is."""
    head = "" if id is None else f"id: {id}\n"
    return f"{head}event: {event}\ndata: {data}\n\n".encode()


def write_retry(milliseconds: int) -> bytes:
    """Write after how many *milliseconds* a reader is to come again."""
    return f"retry: {milliseconds}\n\n".encode()


class EventWriter:
    """Writes events into one response, whose end is `end`."""

    def __init__(self, send: Send) -> None:
        self._send = send

    async def start(self) -> None:
        """Begin the response."""
        await self._send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
        await self.write(write_retry(RETRY))

    async def write(self, events: bytes) -> None:
        """Send *events*, written already: some at once are one write to the socket."""
        await self._send({"type": "http.response.body", "body": events, "more_body": True})

    async def beat(self) -> None:
        """Send a heartbeat."""
        await self.write(b":\n\n")

    async def end(self) -> None:
        """End the response."""
        await self._send({"type": "http.response.body", "body": b""})


async def until_first(*awaited: Awaited) -> None:
    """Return when the first of *awaited* has happened: a response without an end ends then."""
    tasks = [asyncio.ensure_future(one()) for one in awaited]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
