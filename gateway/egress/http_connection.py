"""A connection to a consumer over HTTP: a request out, an answer in, as often as both agree.

            connected
                |
                v      send()        answered, both sides keep it
        +---- idle ----------> busy ------------------------+
        |       ^                |                          |
        |       +----------------|--------------------------+
        |                        |
        v                        v
     closed <--------------------+   answered, last time; refused; late; cut off

Octets that come while it is idle close it: they are no answer to anything. What the strict parser
refuses is read once more, leniently (`odd_answers`); such a connection is not used again.
"""

import asyncio
import re
from typing import cast

import httptools

from gateway.egress.causes import cut_words, seconds_words
from gateway.egress.client_limits import KEPT_HEADERS, ClientLimits, keep_header
from gateway.egress.odd_answers import MalformedAnswer, OddAnswer, long_body
from gateway.egress.transport import GIVEN_UP, Answer, FailureKind, SendFailed, Told

_SHORT_STATUS = re.compile(rb"\A(HTTP/1\.[01] )(0|20)(?=[ \r])")
_KNOWN_SHORT = frozenset({0, 20})
"""Statuses with too few digits, by which wseventsink acknowledges deliveries of WS-Management."""
_KNOWN = 1024
"""Octets of an answer that is recognised when it comes again."""
UNTIL_CLOSED = 2.0
"""Seconds of silence that end the body of an answer without a length, whose end is that of the
connection: many who write such an answer forget to close. What has come by then is the answer."""
_JOINED = 64 * 1024
"""Octets of a body that is written together with its head: several buffers are dearer than that."""


class Cut(SendFailed):
    """The connection ended before one octet of the answer came."""

    def __init__(self, failure: Exception | None = None, *, first_of_tls: bool = False) -> None:
        super().__init__(FailureKind.RESET, cut_words(failure, first_of_tls=first_of_tls))


class Connection(asyncio.Protocol):
    """The protocol of one connection.

    It times the answer, bounds it, and closes itself whenever it could not carry another
    request.
    """

    def __init__(self, limits: ClientLimits, loop: asyncio.AbstractEventLoop) -> None:
        self._limits = limits
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._told: Told | None = None
        """Waits for an answer."""
        self._deadline = self._latest = 0.0
        self._clock: asyncio.TimerHandle | None = None
        """Rings at a deadline, this or an earlier one: to set it for each answer is dear."""
        self._known: tuple[bytes, Answer] = (b"", Answer(0))
        """An answer that came before, and how it was read."""
        self._came: list[bytes] = []
        """Of an answer that is not complete."""
        self._odd: OddAnswer | None = None
        """Reads an answer that the parser refused."""
        self.idle_since = 0.0
        self._secure = False
        self._first = True
        """No answer has come yet."""
        self._reset()

    def _reset(self) -> None:
        """Begin an answer."""
        if self._came:
            self._came = []
        self._octets: int = 0
        self._head_octets: int = 0
        self._fields: int = 0
        self._interim: int = 0
        self._status: int = 0
        self._headers: dict[str, str] = {}
        self._body: list[bytes] = []
        self._body_octets: int = 0
        self._headed: bool = False  # the head of the final answer is complete
        self._whole: bool = False  # and so is the answer
        self._last: bool = False  # nothing more can come over this connection
        self._until_closed: bool = True  # no length was said
        self._declared: int = 0  # the length that was said

    @property
    def open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    @property
    def peer(self) -> str:
        """The address on the other side."""
        name = self._transport.get_extra_info("peername") if self._transport is not None else None
        return str(name[0]) if name else ""

    @property
    def reusable(self) -> bool:
        return self._told is None and self.open

    def send(self, head: bytes, body: bytes, deadline: float, told: Told) -> None:
        """Send one request; *told* hears the answer, or why there is none, in a later turn of the
        loop, or at once where the connection is closed.

        Args:
            deadline: The loop's time by which the answer must be complete.
        """
        if self._transport is None or self._transport.is_closing():
            told(Cut())
            return
        if self._octets:
            self._reset()
            self._first = False
        self._told = told
        self._deadline = self._latest = deadline
        if self._clock is None or self._clock.when() > deadline:
            self._set_clock()
        if len(body) <= _JOINED:
            self._transport.write(head + body)
        else:
            self._transport.writelines((head, body))

    def close(self) -> None:
        """Close it now; an exchange under way fails."""
        self._fail(FailureKind.RESET, GIVEN_UP)

    # Called by the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none by class
        self._secure = transport.get_extra_info("ssl_object") is not None

    def data_received(self, data: bytes) -> None:
        if self._told is None:
            self._drop()
            return
        if data == self._known[0] and not self._octets:
            # The parser stands where it stood before: it would say the same.
            self._finish(self._known[1])
            return
        if not self._octets and not data[9:12].isdigit():
            data = _SHORT_STATUS.sub(_padded, data, count=1)
        limit = self._limits.head + self._limits.body
        if self._octets + len(data) > limit:
            data = data[: limit + 1 - self._octets]
        self._octets += len(data)
        if self._odd is not None:
            self._read_oddly(data)
            return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            # An octet after a whole answer is an error too, but of a later one.
            if not self._whole:
                self._read_oddly(data)
                return
            self._last = True
        if self._whole:
            answer = self._answer()
            if self._octets == len(data) <= _KNOWN:
                self._known = (data, answer)
            self._finish(answer)
        elif self._octets > (limit if self._headed else self._limits.head):
            self._read_oddly(data)
        else:
            self._came.append(data)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._told is None:
            self._drop()
        elif self._headed and self._until_closed and exc is None:
            self._finish(self._answer())
        elif self._octets == 0:
            self._settle(Cut(exc, first_of_tls=self._first and self._secure))
        else:
            if exc is None:
                self._read_oddly(b"", ended=True)
            self._fail(FailureKind.RESET, "the connection was closed in the middle of the answer")

    # Called by the parser.

    def on_message_begin(self) -> None:
        if self._whole:
            self._last = True
            raise ValueError("octets after the answer")

    def on_status(self, octets: bytes) -> None:
        self._count(len(octets))

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(len(name) + len(value) + 4)
        self._fields += 1
        if self._fields > self._limits.fields:
            raise ValueError("it has too many header fields")
        name = name.lower()
        if name == b"content-length":
            self._until_closed = False
            self._declared = int(value)  # The parser lets no other value come so far.
        elif name == b"transfer-encoding" and value.lower().endswith(b"chunked"):
            self._until_closed = False
        elif name in KEPT_HEADERS and not self._headed:
            keep_header(self._headers, name, value)

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status == 101 or not (100 <= status <= 599 or status in _KNOWN_SHORT):
            raise ValueError("the number is not a status of an answer")
        if 100 <= status < 200:
            return
        self._status = status
        self._headed = True
        if self._declared > self._limits.body and status not in (204, 304):
            raise ValueError("it says that it is too long")
        if status in (204, 304):
            self._until_closed = False
        elif status in (202, 205) and self._until_closed:
            # By the letter the body lasts until the consumer closes, and many forget to:
            # what these have to say is said. Such a connection carries nothing else.
            self._whole = self._last = True
        elif self._until_closed:
            self._wait_for_end()

    def on_body(self, octets: bytes) -> None:
        self._body.append(octets)
        self._body_octets += len(octets)
        if self._until_closed:
            self._wait_for_end()
        if self._body_octets > self._limits.body:
            raise ValueError("it is too long")

    def on_message_complete(self) -> None:
        if not self._headed:
            self._interim += 1
            if self._interim > self._limits.interim:
                raise ValueError("it has too many interim answers")
            self._headers.clear()
            self._until_closed = True
            self._declared = 0
            return
        self._whole = True
        self._last = self._last or not self._parser.should_keep_alive()

    # Leaned on by the rest.

    def _read_oddly(self, data: bytes, *, ended: bool = False) -> None:
        """Read an answer leniently, from its beginning; *data* is what comes now."""
        if self._odd is None:
            self._odd = OddAnswer(self._limits)
            data = b"".join([*self._came, data])
        odd, self._last = self._odd, True
        try:
            odd.feed(data)
            if ended:
                odd.end()
        except MalformedAnswer as malformed:
            self._status = odd.status
            self._fail(FailureKind.ANSWER, str(malformed))
            return
        self._status = odd.status
        if odd.whole:
            self._finish(Answer(odd.status, odd.body, odd.headers))
        elif self._octets > self._limits.head + self._limits.body:
            self._fail(FailureKind.ANSWER, long_body(odd.status, self._limits.body))

    def _count(self, octets: int) -> None:
        self._head_octets += octets
        if self._head_octets > self._limits.head:
            raise ValueError("its head is too long")

    def _wait_for_end(self) -> None:
        """Wait for more of a body that lasts until the connection ends."""
        self._deadline = min(self._latest, self._loop.time() + UNTIL_CLOSED)
        self._set_clock()

    def _set_clock(self) -> None:
        if self._clock is not None:
            self._clock.cancel()
        self._clock = self._loop.call_at(self._deadline, self._ring)

    def _ring(self) -> None:
        self._clock = None
        if self._told is None:
            return
        if self._loop.time() < self._deadline:
            self._set_clock()
        elif self._deadline < self._latest:
            self._last = True
            self._finish(self._answer())
        else:
            got = "the answer was not whole" if self._octets else "no answer"
            self._fail(FailureKind.TIMEOUT, f"{got} within {seconds_words(self._limits.exchange)}")

    def _answer(self) -> Answer:
        return Answer(self._status, b"".join(self._body), self._headers)

    def _finish(self, answer: Answer) -> None:
        # An answer to half a request: the other half is still on its way out.
        if self._transport is None or self._last or self._transport.get_write_buffer_size():
            self._drop()
        self._settle(answer)

    def _fail(self, kind: FailureKind, why: str) -> None:
        self._drop()
        self._settle(SendFailed(kind, why, status=self._status or None))

    def _settle(self, outcome: Answer | SendFailed) -> None:
        told, self._told = self._told, None
        if told is not None:
            told(outcome)

    def _drop(self) -> None:
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None
        if self._transport is not None:
            self._transport.abort()
            self._transport = None
        # It and its parser hold each other until Python looks for circles: what it read would stay
        # as long, 300 MiB after 600 answers that were too long.
        self._came, self._body, self._odd = [], [], None


def _padded(found: re.Match[bytes]) -> bytes:
    return found[1] + found[2].rjust(3, b"0")
