"""A connection to a STOMP broker: opening, heart-beats, receipts, errors.

stomp.py's protocol makes, escapes and reads all frames. Their bytes go through the event loop of
the gateway, because stomp.py's own connections have two threads each, and block the writer when the
broker does not read.
"""

import asyncio
import math
import ssl
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Self, cast

from adapters.broker.prefetch import HELD
from adapters.broker.reconnecting import Lost
from adapters.stomp.frames import (
    Frame,
    FrameError,
    FrameTransport,
    Protocol12,
    calculate_heartbeats,
)

OPENING = 15.0
ANSWER = 15.0
"""Seconds that the broker gets to open a connection, and to answer a request."""
STALLED = 2.5
"""Seconds without a byte of the frame that is being read after which its end is looked for
elsewhere, if so many pass once more: brokers write a frame in one go."""
SILENT = 3
"""Heart-beats that may be missing: the grace of a broker that is late."""
MAX_TEXT = 200
LINE_ENDS = b"\r\n"
ENDED = "the broker ended the connection"


@dataclass(frozen=True, slots=True)
class Address:
    """The broker's host and port, and our credentials. ``heartbeat`` is in seconds;
    ``certified`` is the name that its certificate must have, "" where that is the host's."""

    host: str
    port: int
    tls: ssl.SSLContext | None = None
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    vhost: str = "/"
    heartbeat: float = 20.0
    certified: str = ""


class Refused(Lost):
    """The broker sent an ERROR that names nothing that was asked. ``kind`` is its exception, if it
    says so, and ``words`` what it says."""

    by_peer = True

    def __init__(self, text: str, kind: str = "") -> None:
        super().__init__(f"the broker refused: {text or 'it gives no reason'}")
        self.words = text
        self.kind = kind


class Declined(Lost):
    """The broker answered a request with an ERROR. ``kind`` is its exception, if it says so."""

    by_peer = True

    def __init__(self, text: str, kind: str = "") -> None:
        super().__init__(text)
        self.kind = kind


class Connection(asyncio.Protocol):
    """An open connection. ``closed`` is done with the reason when it has ended; ``server`` is the
    name and version that the broker sends; ``on_message`` is called with each MESSAGE, and why it
    is not whole, "" of one that is; ``time`` is the event loop's clock."""

    def __init__(self, heartbeat: float, vhost: str) -> None:
        self._loop = asyncio.get_running_loop()
        self.time = self._loop.time
        self._heartbeat = round(heartbeat * 1000)
        self.closed: asyncio.Future[Lost] = self._loop.create_future()
        self.server = ""
        self.on_message: Callable[[Frame, str], None] = lambda _frame, _fault: None
        self.offended = False
        """True if it ended for what the broker sent: no STOMP, or an ERROR without a request."""
        self._transport: asyncio.Transport | None = None
        self._connected: asyncio.Future[None] = self._loop.create_future()
        self._out: list[bytes] = []
        self._frames = FrameTransport(self._out.append, self._take, vhost)
        # ActiveMQ makes a bytes message of what has a content-length; heart-beats are sent here.
        self._stomp = Protocol12(self._frames, auto_content_length=False)
        self._flushing = False
        self._held = 0
        """Frames that wait to be sent together."""
        self._holding: asyncio.TimerHandle | None = None
        self._asked: dict[str, asyncio.Future[None]] = {}
        self._number = 0
        self._timer: asyncio.TimerHandle | None = None
        self._heard = False
        self._silence = 0
        self._stall: asyncio.TimerHandle | None = None
        self._moved = True
        """True if more than heart-beats came since the frame that is being read was looked at."""
        self._still = False
        """True if nothing had come when it was looked at last."""

    @classmethod
    async def open(cls, address: Address, client_id: str | None = None) -> Self:
        """Connect. A broker lets one connection have *client_id*.

        Raises:
            Lost: It failed; the text says why, without a password.
        """
        connection = cls(address.heartbeat, address.vhost)
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(OPENING):
                await loop.create_connection(
                    lambda: connection,
                    address.host,
                    address.port,
                    ssl=address.tls,
                    server_hostname=(address.certified or None) if address.tls else None,
                )
                connection._connect(address, client_id)
                await connection._connected
        except BaseException as exc:
            connection._end("the connection was given up")
            raise _lost(exc) from exc
        return connection

    def send(self, command: str, headers: Mapping[str, str], body: bytes = b"") -> None:
        """Send a frame. All frames of one turn of the event loop are written together."""
        self._stomp.send_frame(command, dict(headers), body)  # stomp.py escapes them in place.
        self._flush_soon()

    def send_later(self, command: str, headers: Mapping[str, str], many: int) -> None:
        """Send a frame with the next one that `send` gets, or when *many* wait, or within `HELD`:
        a write and a wake-up for each would cost both sides more than the frame."""
        self._stomp.send_frame(command, dict(headers))
        self._held += 1
        if self._held >= many:
            self._flush_soon()
        elif self._holding is None:
            self._holding = self._loop.call_later(HELD, self._flush_held)

    def expect(self) -> tuple[str, asyncio.Future[None]]:
        """Return a receipt to ask for, and a future that is done when it comes, or raises
        `Lost`."""
        self._number += 1
        receipt = f"r{self._number}"
        answer: asyncio.Future[None] = self._loop.create_future()
        if self.closed.done():
            answer.set_exception(self.closed.result().anew())
        else:
            self._asked[receipt] = answer
        return receipt, answer

    async def ask(self, command: str, headers: Mapping[str, str]) -> None:
        """Send a frame and wait for its receipt.

        Raises:
            Declined: The broker answered that it will not.
            Lost: The connection has ended, or the broker did not answer in time.
        """
        receipt, answer = self.expect()
        self.send(command, {**headers, "receipt": receipt})
        try:
            async with asyncio.timeout(ANSWER):
                await answer
        except TimeoutError:
            raise Lost(f"the broker did not answer within {ANSWER:.0f} s") from None
        finally:
            self._asked.pop(receipt, None)

    @property
    def unfinished(self) -> Mapping[str, str]:
        """As `FrameTransport.unfinished`."""
        return self._frames.unfinished

    async def close(self, seconds: float) -> None:
        """Close when the broker has read all that was sent; after *seconds*, at once."""
        if not self.closed.done():
            receipt, answer = self.expect()
            self.send("DISCONNECT", {"receipt": receipt})
            await asyncio.wait([answer], timeout=seconds)
            if answer.done():
                answer.exception()
        self._end("the connection was closed")

    # ------------------------------------------------------------------- called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's has another base.

    def data_received(self, data: bytes) -> None:
        self._heard = True
        self._moved = self._moved or bool(data.strip(LINE_ENDS))
        self._feed(data)
        if self._stall is None and self._frames.in_body:
            self._moved = True
            self._watch_stall()

    def connection_lost(self, exc: Exception | None) -> None:
        lost = Lost(str(_lost(exc)) if exc else ENDED)
        lost.by_peer = True
        self._end(lost)

    # ------------------------------------------------------------------------------------ frames

    def _connect(self, address: Address, client_id: str | None) -> None:
        headers = {"heart-beat": f"{self._heartbeat},{self._heartbeat}"}
        if client_id is not None:
            headers["client-id"] = client_id
        self._stomp.connect(
            address.user, address.password, headers=headers, with_connect_command=True
        )
        self._flush_soon()

    def _feed(self, data: bytes) -> None:
        try:
            self._frames.feed(data)
        except FrameError as exc:
            self._end_for(f"the broker sent something that is not STOMP: {exc}")

    def _watch_stall(self) -> None:
        self._still, self._moved = not self._moved, False
        self._stall = self._loop.call_later(STALLED, self._look_at_stall)

    def _look_at_stall(self) -> None:
        """Wait for the end of a body no longer if nothing has come twice in a row: once may be a
        pause of our own process."""
        self._stall = None
        if self.closed.done() or not self._frames.in_body:
            return
        if self._still and not self._moved:
            try:
                self._frames.stop_waiting()
            except FrameError as exc:
                self._end_for(f"the broker sent something that is not STOMP: {exc}")
                return
        self._watch_stall()

    def disbelieve(self, messages: Collection[str]) -> None:
        """Do not believe the ``content-length`` of the messages with these ids."""
        self._frames.disbelieved = messages

    def _take(self, frame: Frame, fault: str) -> None:
        headers: Mapping[str, str] = frame.headers
        match frame.cmd:
            case "MESSAGE":
                self.on_message(frame, fault)
            case "RECEIPT":
                answer = self._asked.pop(headers.get("receipt-id", ""), None)
                if answer is not None and not answer.done():
                    answer.set_result(None)
            case "ERROR":
                body: str = frame.body.decode(errors="replace")
                text = (headers.get("message") or body).strip().partition("\n")[0][:MAX_TEXT]
                kind = body.partition(":")[0][:MAX_TEXT]
                asked = self._asked.pop(headers.get("receipt-id", ""), None)
                if asked is None:
                    self._end_for(Refused(text, kind))
                elif not asked.done():
                    asked.set_exception(Declined(text, kind))
                    asked.exception()  # As in `_end`.
            case "CONNECTED" if not self._connected.done():
                self.server = headers.get("server", "")
                self._start_heart(headers.get("heart-beat", "0,0"))
                self._connected.set_result(None)
            case command:
                self._end_for(f"the broker sent a frame {command[:20]!r}")

    def _end_for(self, why: str | Lost) -> None:
        """End the connection for what the broker sent."""
        self.offended = not self.closed.done()
        self._end(why)

    def _flush_soon(self) -> None:
        if not self._flushing:
            self._flushing = True
            self._loop.call_soon(self._flush)

    def _flush_held(self) -> None:
        self._holding = None
        if self._held:
            self._flush()

    def _flush(self) -> None:
        self._flushing = False
        self._held = 0
        out = b"".join(self._out)
        self._out.clear()
        if out and self._transport is not None and not self._transport.is_closing():
            self._transport.write(out)

    # ------------------------------------------------------------------------------- heart-beats

    def _start_heart(self, offered: str) -> None:
        """Begin as agreed (STOMP 1.2, "Heart-beating"): the first number is how often the broker
        sends, the second how often it wants to hear, in milliseconds; 0 is never."""
        try:
            theirs = offered.replace(" ", "").split(",")
            beat, hear = calculate_heartbeats(theirs, (self._heartbeat, self._heartbeat))
        except ValueError:
            beat = hear = 0
        if hear or beat:
            # Twice as often as agreed, so that none is late.
            tick = min(filter(None, (hear, beat))) / 2000
            allowed = SILENT * hear / 1000 / tick if hear else math.inf
            self._timer = self._loop.call_later(tick, self._beat, tick, bool(beat), allowed)

    def _beat(self, tick: float, send: bool, allowed: float) -> None:
        """Send a heart-beat, and end a connection that is silent. Ticks without a byte are counted,
        not seconds: after a pause of our own process, bytes that came meanwhile are read first."""
        self._silence = 0 if self._heard else self._silence + 1
        self._heard = False
        if self._silence > allowed:
            self._end("the broker was silent for too long")
            return
        if send:
            self._frames.transmit(Frame(None))  # stomp.py's heart-beat.
            self._flush_soon()
        self._timer = self._loop.call_later(tick, self._beat, tick, send, allowed)

    def _end(self, why: str | Lost) -> None:
        if self.closed.done():
            return
        lost = Lost(why) if isinstance(why, str) else why
        self.closed.set_result(lost)
        for timer in (self._timer, self._holding, self._stall):
            if timer is not None:
                timer.cancel()
        if self._transport is not None:
            self._transport.abort()
        for answer in (self._connected, *self._asked.values()):
            if not answer.done():
                answer.set_exception(lost.anew())
                answer.exception()  # Marks it as retrieved: there may be no waiter.
        self._asked.clear()


def _lost(reason: BaseException) -> BaseException:
    """Turn a failure of the connection into a `Lost` of one line; other exceptions are returned as
    they are."""
    if isinstance(reason, Lost) or not isinstance(reason, Exception):
        return reason
    if isinstance(reason, TimeoutError) and not reason.strerror:
        return Lost(f"no answer within {OPENING:.0f} s")
    if isinstance(reason, ssl.SSLError):
        return Lost(f"TLS: {reason}")
    if isinstance(reason, OSError):
        return Lost(reason.strerror or str(reason))
    return reason
