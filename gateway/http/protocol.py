"""uvicorn's HTTP/1.1 protocol, hardened against strangers.

uvicorn with httptools bounds neither the head nor any time, and serves what it should
refuse. This adds the bounds of `HttpLimits` and one clock a connection:

    phase   from                               to                   at most
    ------  ---------------------------------  -------------------  -------------------------
    HEAD    accept, or the first octet after   the end of the head  head_time
            an answer
    BODY    the end of the head                the end of the body  body_time; after
                                                                    body_grace at body_rate
    QUIET   the end of the body                the first octet      uvicorn's keep-alive, from
            after the answer                                        the end of the answer

The clock is set only when the octets that came in do not complete a request: one that
comes in one piece costs no timer. While we do not read, the sender is not late.

Beyond its public ``http=`` option this leans on some inner names of uvicorn, each of which
tests/gateway/http/test_uvicorn.py names; that is why its version has an upper bound.
"""

import asyncio
import json
import re
import socket
import ssl
from enum import Enum
from functools import partial
from http import HTTPStatus
from typing import Any, cast

import httptools
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from gateway.http.acknowledged_bytes import CONNECTION
from gateway.http.gate import ConnectionGate
from gateway.http.handshakes import Handshaking
from gateway.http.head_checks import HeadRefused, check_head, unreadable
from gateway.http.http_1_0 import unchunked
from gateway.http.limits import HttpLimits
from gateway.http.lingering import LingeringTransport

_BARE_LINES = re.compile(rb"[A-Z]{1,10} [^ \r\n]+ HTTP/1\.0\n")
"""The request line of HTTP/1.0, which begins a connection, with a bare line feed at its end."""
_MAX_PIPELINE = 16
"""Requests that may wait for the answer to one before them. uvicorn bounds them by memory alone: it
pauses reading, but parses on what one read brought, which may be thousands of small requests."""
_OVERHEAD = 8
"""Octets of chunk framing that one octet of a body may have, beyond the first 64 KiB. A chunk of
one octet has five of framing (``1 CRLF x CRLF``); extensions of chunks, which nobody reads, have no
bound of their own."""


_PROBLEMS_BELOW = (b"/api/", b"/events", b"/mailboxes", b"/xregistry")
"""Paths whose refusals are JSON, as those of their routes are."""


class _Phase(Enum):
    QUIET = "quiet"
    HEAD = "head"
    BODY = "body"


def hardened(
    limits: HttpLimits, gate: ConnectionGate, tls: ssl.SSLContext | None = None
) -> type[asyncio.Protocol]:
    """The protocol for ``uvicorn.Config(http=...)``, with *limits* behind *gate*; with *tls* behind
    a handshake, which uvicorn then must know nothing of."""
    protocol = partial(HardenedProtocol, limits=limits, gate=gate)
    if tls is None:
        return cast(type[asyncio.Protocol], protocol)

    def handshaking(
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> asyncio.Protocol:
        make = partial(protocol, config, server_state, app_state, _loop)
        return Handshaking(tls, gate, make, cast(set[asyncio.Protocol], server_state.connections))

    return cast(type[asyncio.Protocol], handshaking)


class HardenedProtocol(HttpToolsProtocol):
    """A connection of a stranger.

    Args:
        limits: Bounds of what it may cost.
        gate: Where it is admitted and counted; one for all connections of the process.

    Attributes:
        endless: As of `Connection`.
    """

    endless = False

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        limits: HttpLimits,
        gate: ConnectionGate,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._limits = limits
        self._gate = gate
        self._phase = _Phase.QUIET
        self._clock: asyncio.TimerHandle | None = None
        self._clocked: _Phase | None = None
        self._interval = 0.0
        self._writing: asyncio.TimerHandle | None = None
        self._leaving: asyncio.TimerHandle | None = None
        self._lost: bool | None = None
        self._running: RequestResponseCycle | None = None
        self._refusal = HTTPStatus.BAD_REQUEST
        self._begun = 0.0
        self._messages = 0
        self._bare_lines = False
        """The lines of the head end without a carriage return, as small programs write them; then
        the connection has one request, behind which nothing could hide."""
        self._wire = 0
        self._head = 0
        self._fields = 0
        self._body = 0

    # The connection.

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._wrapped = LingeringTransport(
            transport, self._limits.linger_time, self._limits.linger_octets
        )
        super().connection_made(cast(asyncio.Transport, self._wrapped))
        address = self.client[0] if self.client else ""
        if not self._gate.admit(self, address):
            self.evict()
            return
        if self._gate.trusts(address):
            self.timeout_keep_alive = max(self._limits.keep_alive_trusted, self.timeout_keep_alive)
        self._set_clock(_Phase.HEAD, self._limits.head_time)

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost = exc is not None or self._wrapped.aborted
        self._gate.leave(self)
        self._stop_clock()
        for timer in (self._writing, self._leaving):
            if timer is not None:
                timer.cancel()
        self._wrapped.stop()
        for cycle, _ in self.pipeline:
            cycle.disconnected = True
        if self._running is not None:
            self._running.disconnected = True
            self._running.message_event.set()
        super().connection_lost(exc)
        self._unset_keepalive_if_required()

    def evict(self) -> None:
        self._wrapped.abort()

    # Asked by `was_delivered` and `client_certificate`.

    @property
    def lost(self) -> bool | None:
        return self._lost

    @property
    def unwritten(self) -> int:
        return self._wrapped.get_write_buffer_size()

    @property
    def socket(self) -> socket.socket | None:
        return cast("socket.socket | None", self.transport.get_extra_info("socket"))

    @property
    def certificate(self) -> bytes | None:
        tls = cast("ssl.SSLObject | None", self.transport.get_extra_info("ssl_object"))
        return None if tls is None else tls.getpeercert(binary_form=True)

    def data_received(self, data: bytes) -> None:
        if self._wrapped.is_closing():
            self._wrapped.discard(len(data))
            return
        # The parser tells of fields and body, not of half a line or of chunk framing. So octets of
        # the wire are counted beside it, from where the phase began (`_check_wire`).
        before, messages = self._phase, self._messages
        if not messages and before is _Phase.QUIET and _BARE_LINES.match(data):
            self._bare_lines = True
            # The end of the request line takes both.
            self.parser.set_dangerous_leniencies(
                lenient_optional_cr_before_lf=True, lenient_optional_lf_after_cr=True
            )
        self._parse(data)
        if self._wrapped.is_closing():
            return
        if self._messages == messages:
            self._wire = self._wire + len(data) if self._phase is before else 0
        else:
            # A new message began in *data*. How much of it was in front of that message is not
            # known; only a first message after an answer is sure to begin with it. The clock of
            # the former phase is void, `_adjust_clock` sets that of the new one.
            self._stop_clock()
            self._wire = len(data) if before is _Phase.QUIET and self._messages == 1 else 0
        self._check_wire()
        self._adjust_clock()

    def _parse(self, octets: bytes) -> None:
        """Have *octets* parsed. An upgrade is ignored (RFC 9110, "Upgrade"): the parser leaves off
        behind a head that asks for one, so it gets that head again, without the request."""
        self._unset_keepalive_if_required()
        while octets:
            try:
                self.parser.feed_data(octets)
            except httptools.HttpParserUpgrade as upgrade:
                octets = self._head_without_upgrade() + octets[upgrade.args[0] :]
                # The one that left off takes nothing more where the connection is to be closed.
                self.parser = httptools.HttpRequestParser(self)
                self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
            except httptools.HttpParserCallbackError:
                self._refuse(self._refusal)
                return
            except httptools.HttpParserError as error:
                self._refuse(self._refusal, unreadable(str(error)))
                return
            else:
                return

    def _head_without_upgrade(self) -> bytes:
        """The head that was just parsed, for another pass."""
        self._messages -= 1
        version = self.parser.get_http_version().encode()
        lines = [b"%b %b HTTP/%b" % (self.parser.get_method(), self.url, version)]
        lines += [b"%b: %b" % field for field in self.headers if field[0] != b"upgrade"]
        return b"\r\n".join([*lines, b"", b""])

    def eof_received(self) -> bool | None:  # type: ignore[override]
        """Answer a whole request even so: a client may end its side when it has sent one. Without
        an answer in a moment it counts as gone, for a closed connection looks the same."""
        if self._wrapped.lingering:
            self._wrapped.abort()
        elif self.endless and self._at_work():
            return None  # Who wants more of a stream of events keeps its side open.
        elif self._phase is _Phase.QUIET and self._at_work() and self._wrapped.can_write_eof():
            # Returning True keeps our side open. No further request can come, so the answer to the
            # last one that came ends the connection.
            self.cycle.keep_alive = False
            self._leaving = self.loop.call_later(self._limits.linger_time, self._leave)
            return True
        return None

    def _leave(self) -> None:
        running = self._running
        if running is None or running.response_complete:
            return
        if not running.response_started or not self._wrapped.get_write_buffer_size():
            # No answer yet, or one without an end of its own: a stream of events.
            self.transport.close()

    # Called by the parser.

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._phase = _Phase.HEAD
        self._messages += 1
        self._wrapped.receiving = True
        self._head = self._fields = self._body = 0
        if len(self.pipeline) >= _MAX_PIPELINE or (self._bare_lines and self._messages > 1):
            raise self._refused(HTTPStatus.BAD_REQUEST)

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        if len(self.url) > self._limits.request_line:
            raise self._refused(HTTPStatus.REQUEST_URI_TOO_LONG)
        self._head += len(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._head += len(name) + len(value) + 4
        self._fields += 1
        if self._head > self._limits.head or self._fields > self._limits.fields:
            raise self._refused(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        if self._phase is not _Phase.HEAD:
            return  # A trailer, which nobody may take for a header.
        name = name.lower()
        if name == b"expect" and value.lower() == b"100-continue":
            self.expect_100_continue = True
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        try:
            self.url = check_head(self.parser.get_http_version(), self.url, self.headers)
        except HeadRefused as refused:
            raise self._refused(refused.status) from None
        if self.parser.get_http_version() == "1.0":
            # RFC 9110, "Expect": such a client reads no interim answer.
            self.expect_100_continue = False
        if self.parser.should_upgrade():
            if self.parser.get_method() == b"CONNECT":
                raise self._refused(HTTPStatus.BAD_REQUEST)
            return  # Nothing but the head is parsed, and that comes once more.
        super().on_headers_complete()
        if self._bare_lines:
            self.cycle.keep_alive = False
        self._phase = _Phase.BODY
        self._gate.serve(self)

    def on_body(self, body: bytes) -> None:
        self._body += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        if self.parser.should_upgrade():
            return
        self._phase = _Phase.QUIET
        self._wrapped.receiving = False
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._phase is _Phase.BODY and self.cycle.response_complete:
            # Answered before its body was read (a refusal): the rest of the body would be taken for
            # the next request. Closing lingers, so the peer reads the answer.
            self.transport.close()
        elif self.cycle.response_complete:
            self._gate.wait(self)
        if self._wrapped.get_write_buffer_size():
            self._await_reader()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._await_reader()

    # Refusals.

    def _refused(self, status: HTTPStatus) -> HeadRefused:
        """The error to raise in a callback of the parser, which stops there. httptools raises an
        error of its own instead, so the status is kept here for `_parse`."""
        self._refusal = status
        return HeadRefused(status)

    def _refuse(self, status: HTTPStatus, why: str = "") -> None:
        """Answer with *status*, unless that would be a second answer, and close; *why* is a
        sentence."""
        self._stop_clock()
        self._wrapped.receiving = True
        self.pipeline.clear()
        if self._at_work():
            running = cast(RequestResponseCycle, self._running)
            if self._phase is not _Phase.BODY or running is not self.cycle:
                # A request before this one is being answered: an answer now would be taken for
                # its own. That answer is the last, and this request gets none.
                running.keep_alive = False
                self.flow.pause_reading()
                return
            # The request whose body is refused runs already: the application hears that the peer
            # has gone, and the refusal is the answer, unless half of another is written.
            running.disconnected = True
            running.message_event.set()
            if running.response_started:
                self._wrapped.abort()
                return
        media_type, body = _written_refusal(getattr(self, "url", b""), status, why)
        self.transport.write(
            b"HTTP/1.1 %d %b\r\ncontent-type: %b\r\n"
            b"content-length: %d\r\nconnection: close\r\n\r\n%b"
            % (status, status.phrase.encode(), media_type, len(body), body)
        )
        self.transport.close()

    def _at_work(self) -> bool:
        """Whether a request is being answered."""
        return self._running is not None and not self._running.response_complete

    def _check_wire(self) -> None:
        """Refuse a message with too many octets that the parser swallows without a callback: half a
        field, or extensions of chunks."""
        if self._phase is _Phase.HEAD and self._wire > self._limits.head:
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        elif self._phase is _Phase.BODY and self._wire > _OVERHEAD * self._body + 65536:
            self._refuse(HTTPStatus.BAD_REQUEST)

    # The clock.

    def _adjust_clock(self) -> None:
        """Set the clock to the phase that the octets have led to."""
        if self._wrapped.is_closing():
            return
        if self._phase is _Phase.BODY:
            if self._clocked is not _Phase.BODY:
                self._begun = self.loop.time()
                grace = min(self._limits.body_grace, self._limits.body_time)
                self._set_clock(_Phase.BODY, grace)
        elif self._phase is _Phase.QUIET and self._at_work():
            self._stop_clock()
        elif self._clocked is not _Phase.HEAD:
            # Also when quiet: line breaks before a request are octets, and no request.
            self._set_clock(_Phase.HEAD, self._limits.head_time)

    def _set_clock(self, phase: _Phase, seconds: float) -> None:
        self._stop_clock()
        self._clocked = phase
        self._interval = seconds
        self._clock = self.loop.call_later(seconds, self._strike)

    def _stop_clock(self) -> None:
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None
            self._clocked = None

    def _strike(self) -> None:
        phase, self._clocked, self._clock = self._clocked, None, None
        running = self._running
        if self.flow.read_paused or (running is not None and running.waiting_for_100_continue):
            # The sender waits for us: this interval does not count against its rate.
            self._begun += self._interval
            self._set_clock(_Phase(phase), self._interval)
        elif phase is _Phase.HEAD:
            # No word: a peer that is slow with its head (Slowloris) gets no answer to keep open.
            self._wrapped.abort()
        else:
            took = self.loop.time() - self._begun
            left = self._limits.body_time - took
            if left <= 0 or self._body < self._limits.body_rate * took:
                self._refuse(HTTPStatus.REQUEST_TIMEOUT)
            else:
                self._set_clock(_Phase.BODY, min(left, self._limits.body_grace / 5))

    def _await_reader(self) -> None:
        self._gate.note_unread(self)
        if self._writing is None:
            self._writing = self.loop.call_later(self._limits.write_time, self._check_reader)

    def _check_reader(self) -> None:
        self._writing = None
        if self._wrapped.get_write_buffer_size():
            self._wrapped.abort()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        # uvicorn's `cycle` is that of the newest request; with pipelining an older one is answered.
        self._running, self.endless = cycle, False
        scope = cast(dict[str, Any], cycle.scope)
        scope.setdefault("extensions", {})[CONNECTION] = self
        if scope["http_version"] == "1.0":
            app = unchunked(app, cycle)
        super()._start_asgi_task(cycle, app)


def _written_refusal(url: bytes, status: HTTPStatus, why: str) -> tuple[bytes, bytes]:
    """The media type and the body of a refusal: for programs that speak JSON a problem of RFC
    9457, for all others a sentence."""
    detail = f"{status.phrase}.{' ' if why else ''}{why}"
    if not url.startswith(_PROBLEMS_BELOW):
        return b"text/plain; charset=utf-8", f"{detail}\n".encode()
    problem = {"type": "about:blank", "title": status.phrase, "status": status, "detail": detail}
    return b"application/problem+json", json.dumps(problem).encode()
