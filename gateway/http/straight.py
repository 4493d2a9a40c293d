"""The straight way of a request: from the octets to who answers it, and back in one write.

What a publisher sends on a kept connection has the same head each time, but for the length of its
body. The parser reads it once; octets that repeat it would lead the parser to the same result, and
need not pass it again.
"""

import asyncio
import logging
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Protocol, cast

from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HEADER_RE, HEADER_VALUE_RE, STATUS_LINE
from uvicorn.server import ServerState

from gateway.http.delivered import Connection, has_delivered
from gateway.http.exchange import WHOLE, Answering, Headers

_log = logging.getLogger("uvicorn.error")
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]+)\r\n", re.IGNORECASE)
_DIGITS = len(str(WHOLE))
_LONGEST = 2048
"""Octets of a head that is remembered as long as its connection is there."""
_HEADS = 4
"""That are."""


class KnownHeads:
    """The heads that a connection's requests had, and the request that is coming with one of them.

    Attributes:
        left: Octets that are still to come of that request.
    """

    __slots__ = ("_answering", "_begin", "_heads", "_octets", "left")

    def __init__(self) -> None:
        self._heads: list[_Head] = []
        self._octets: bytes | bytearray = b""
        self._begin = 0
        self._answering: Answering | None = None
        self.left = 0

    def learn(self, octets: bytes, answering: Answering) -> None:
        """Know the head again that *octets* begin with, which the parser read; *answering* serves
        all that have it."""
        end = octets.find(b"\r\n\r\n") + 4
        length = _LENGTH.search(octets, 0, end)
        # The parser passes over line breaks in front of a request.
        if length is not None and octets.startswith(b"POST ") and end <= _LONGEST:
            self._heads.insert(0, _Head(octets[:end], length, answering))
            del self._heads[_HEADS:]

    def begin(self, octets: bytes) -> bool:
        """Whether *octets* are a request with a known head, or the begin of one up to some point of
        its body; it is under way then."""
        for head in self._heads:
            begin, length = head.find(octets)
            if begin:
                left = begin + length - len(octets)
                if left < 0:
                    return False
                self._begin = begin
                self._answering = head.answering
                self._octets = bytearray(octets) if left else octets
                self.left = left
                return True
        return False

    def go_on(self, octets: bytes) -> bool:
        """Whether *octets* belong to the request under way, all of them."""
        if len(octets) > self.left:
            return False
        self._octets += octets
        self.left -= len(octets)
        return True

    @property
    def body(self) -> int:
        """Octets that have come of the body of the request under way."""
        return len(self._octets) - self._begin

    def take(self) -> tuple[Answering, bytes]:
        """Who answers the request, which is complete, and its body."""
        answering = cast(Answering, self._answering)
        return answering, self.give_up()[self._begin :]

    def give_up(self) -> bytes:
        """The octets of the request under way, which is no longer, so that the parser can have
        them; empty when there is none."""
        octets, self._octets = self._octets, b""
        self.left = 0
        self._answering = None
        return bytes(octets)


class _Head:
    """The head of requests, of any length.

    Args:
        octets: Of one, from the method to the empty line.
        length: Where the digits of its length are in it.
    """

    __slots__ = ("_from", "_front", "_rest", "answering")

    def __init__(self, octets: bytes, length: re.Match[bytes], answering: Answering) -> None:
        self._front = octets[: length.start(1)]
        self._rest = octets[length.end(1) :]
        self._from = len(self._front)
        self.answering = answering

    def find(self, octets: bytes) -> tuple[int, int]:
        """Where the body begins in *octets*, and its length; zeros if the head is another."""
        if octets.startswith(self._front):
            end = octets.find(b"\r", self._from, self._from + _DIGITS + 1)
            digits = octets[self._from : end]
            if end > 0 and digits.isdigit() and octets.startswith(self._rest, end):
                length = int(digits)
                if length <= WHOLE:
                    return end + len(self._rest), length
        return 0, 0


class Server(Connection, Protocol):
    """The connection of an exchange."""

    transport: asyncio.Transport
    flow: FlowControl
    server_state: ServerState

    def on_response_complete(self) -> None: ...


class StraightExchange:
    """One request on its straight way.

    To the protocol, which asks what is under way, it looks like uvicorn's cycle of a request.
    """

    __slots__ = (
        "_connection",
        "_left",
        "disconnected",
        "keep_alive",
        "response_complete",
        "response_started",
    )
    waiting_for_100_continue = False

    def __init__(self, connection: Server, keep_alive: bool) -> None:
        self._connection = connection
        self._left: asyncio.Event | None = None
        self.keep_alive = keep_alive
        self.disconnected = False
        self.response_started = False
        self.response_complete = False

    @property
    def message_event(self) -> "StraightExchange":
        """What is set when the peer has gone, or was answered."""
        return self

    def set(self) -> None:
        if self._left is not None:
            self._left.set()

    async def run(self, answering: Answering, body: bytes) -> None:
        """Have the request answered. What fails is logged and answered with 500, as by uvicorn."""
        tasks = self._connection.server_state.tasks
        error: BaseException | None = None
        try:
            await answering(body, self)
        except BaseException as exc:
            error = exc
        if error is not None or not (self.response_complete or self.disconnected):
            await self._fail(error)
        # Sooner than a callback of the task would.
        tasks.discard(cast("asyncio.Task[None]", asyncio.current_task()))

    async def _fail(self, error: BaseException | None) -> None:
        _log.error("Exception where a request is answered", exc_info=error)
        if self.response_complete:
            self._connection.transport.close()
        else:
            self.keep_alive = False
            await self.respond(500, _FAILED, b"Internal Server Error")

    async def respond(self, status: int, headers: Headers, body: bytes) -> None:
        connection = self._connection
        if connection.flow.write_paused and not self.disconnected:
            await connection.flow.drain()
        if self.disconnected:
            return
        head = _head(status, tuple(connection.server_state.default_headers), tuple(headers))
        close = b"" if self.keep_alive else b"connection: close\r\n"
        connection.transport.write(
            b"%bcontent-length: %d\r\n%b\r\n%b" % (head, len(body), close, body)
        )
        self.response_started = self.response_complete = True
        self.set()
        if not self.keep_alive:
            connection.transport.close()
        connection.on_response_complete()

    async def delivered(self, seconds: float) -> bool:
        return await has_delivered(self._connection, seconds)

    async def gone(self) -> None:
        if not self.disconnected and not self.response_complete:
            self._connection.flow.resume_reading()  # Who leaves is noticed where it is read.
            self._left = asyncio.Event()
            await self._left.wait()


_FAILED = ((b"content-type", b"text/plain; charset=utf-8"),)


@lru_cache(maxsize=64)
def _head(status: int, *parts: Sequence[tuple[bytes, bytes]]) -> bytes:
    """The status line and the header fields in *parts*.

    Raises:
        RuntimeError: A field is none; as uvicorn does.
    """
    lines = [STATUS_LINE[status]]
    for name, value in (field for part in parts for field in part):
        if HEADER_RE.search(name) or HEADER_VALUE_RE.search(value):
            raise RuntimeError("Invalid HTTP header.")
        lines += [name, b": ", value, b"\r\n"]
    return b"".join(lines)
