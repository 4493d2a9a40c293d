"""A connection of SOAP.TCP, whoever opened it: messages in, messages out, in any order.

There is one clock, and it is set only when the octets that came do not complete a message:

    from                            to                                 at most
    ------------------------------  ---------------------------------  ---------------------
    the first octet of a record     the end of its type                head_time
    the first octet of a message    the last of its data               message_time; after
                                                                       grace at rate
    the first octet left unread     all of it read                     write_time

While we do not read, the sender is not late. What is idle has neither clock nor decoder.
"""

import asyncio
from collections.abc import Callable
from typing import cast

from gateway.tcp.acknowledging import Acknowledgements, Fate
from gateway.tcp.limits import TcpLimits
from gateway.tcp.loops import OfEachLoop
from mediation.model.versions import Soap
from mediation.packaging.dime import Decoder, DimeError, DimeMessage, Phase


class _Flusher:
    """Writes what was given to the connections of a loop in one of its turns: of several messages
    for one connection one call of the system (uvloop makes one for each write)."""

    def __init__(self) -> None:
        self._full: list[SoapTcpConnection] = []

    def add(self, connection: "SoapTcpConnection") -> None:
        if not self._full:
            asyncio.get_running_loop().call_soon(self._flush)
        self._full.append(connection)

    def _flush(self) -> None:
        full, self._full = self._full, []
        for connection in full:
            connection.flush()


_flusher_of = OfEachLoop(_Flusher)


class SoapTcpConnection(asyncio.Protocol):
    """The part of a connection that both sides share. A subclass defines what is done with a
    message (`message_received`) and with octets that are none (`broken`), and calls `processed`
    after each message.
    """

    __slots__ = (
        "_aborted",
        "_acknowledgements",
        "_before",
        "_begun",
        "_clock",
        "_decoder",
        "_ended",
        "_flusher",
        "_full",
        "_full_octets",
        "_head",
        "_held",
        "_last",
        "_loop",
        "_lost",
        "_octets",
        "_processing",
        "_transport",
        "_writing",
        "limits",
    )

    def __init__(self, limits: TcpLimits, loop: asyncio.AbstractEventLoop) -> None:
        self.limits = limits
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._decoder: Decoder | None = None
        self._acknowledgements: Acknowledgements | None = None
        self._clock: asyncio.TimerHandle | None = None
        self._writing: asyncio.TimerHandle | None = None
        self._before = 0  # octets that came before the decoder was made
        self._octets = 0  # of the message under way
        self._begun = 0.0  # when it began
        self._head: tuple[int, float] | None = None  # the record whose head is under way, since
        self._flusher = _flusher_of(loop)
        self._full: list[bytes] | None = None  # what is to be written in this turn of the loop
        self._full_octets = 0
        self._processing = 0
        self._held = False  # nothing is read until what is processed has become less
        self._last = b""  # what is written before it is closed
        self._ended = False  # nothing more comes
        self._lost = False
        self._aborted = False  # by us: nothing of it counts any more

    # For subclasses.

    def message_received(self, message: DimeMessage) -> None:
        """Process *message*, and call `processed` afterwards."""
        raise NotImplementedError

    def message_begun(self, soap: Soap | None, octets: int) -> None:
        """Called when a message has come in part: its version, where its first record says one, and
        the bytes of data that it announces. `end_with` ends it."""

    def broken(self, why: str, detail: str) -> None:
        """Called when the connection is ended, because the peer sent what cannot be read, or too
        slowly."""

    def idle_changed(self) -> None:
        """Called when `idle` may have changed."""

    # What is known of it.

    @property
    def peer(self) -> str:
        """The address on the other side."""
        name = self._transport.get_extra_info("peername") if self._transport is not None else None
        return str(name[0]) if name else ""

    @property
    def local(self) -> str:
        """The address on our side."""
        name = self._transport.get_extra_info("sockname") if self._transport is not None else None
        return str(name[0]) if name else ""

    @property
    def certificate(self) -> bytes | None:
        """The certificate of a client that connected by TLS, in DER, which was verified; None where
        it showed none, or we are the client."""
        tls = self._transport.get_extra_info("ssl_object") if self._transport is not None else None
        if tls is None or not tls.server_side:
            return None
        shown: bytes | None = tls.getpeercert(binary_form=True)
        return shown

    @property
    def open(self) -> bool:
        """Whether the connection can be written to."""
        transport = self._transport
        return transport is not None and not self._lost and not transport.is_closing()

    @property
    def idle(self) -> bool:
        """Whether no message is under way, in or out."""
        return (
            not self._processing
            and (self._decoder is None or self._decoder.phase is Phase.QUIET)
            and (self._acknowledgements is None or not self._acknowledgements.waiting)
        )

    @property
    def begun(self) -> bool:
        """Whether the peer has sent a whole record head of the message under way."""
        decoder = self._decoder
        return bool(self._processing) or (decoder is not None and decoder.records > 0)

    @property
    def unwritten(self) -> int:
        """Octets that the system has not taken yet."""
        if self._transport is None:
            return 0
        return self._transport.get_write_buffer_size() + self._full_octets

    # What is done with it.

    def write(self, octets: bytes) -> bool:
        """Write *octets*, whole messages. Returns False where the connection is closed."""
        transport = self._transport
        if transport is None or not self.open:
            return False
        size = len(octets)
        if transport.get_write_buffer_size() + self._full_octets + size > self.limits.queue:
            self.broken("unread", "the peer does not read what is written to it")
            self.abort()
            return False
        if self._full is None:
            self._full = [octets]
            self._flusher.add(self)
        else:
            self._full.append(octets)
        self._full_octets += size
        if self._acknowledgements is not None:
            self._acknowledgements.wrote(size)
        return True

    def flush(self) -> None:
        """Give the system all that `write` collected in this turn of the loop."""
        full = self._full
        if full is None:
            return
        self._full = None
        self._full_octets = 0
        if self._acknowledgements is not None:
            self._acknowledgements.flushed()
        if self._transport is not None and not self._lost:
            self._transport.write(full[0] if len(full) == 1 else b"".join(full))

    def acknowledged(self, seconds: float) -> asyncio.Future[Fate]:
        """The fate of all that was written until now, known in *seconds* at the latest."""
        acknowledgements = self._asking()
        if acknowledgements is not None:
            return acknowledgements.wait(seconds)
        lost: asyncio.Future[Fate] = self._loop.create_future()
        lost.set_result(Fate.LOST)
        return lost

    def tell(self, seconds: float, settle: Callable[[Fate], None]) -> None:
        """As `acknowledged`, but call *settle* with the fate, never before this returns."""
        acknowledgements = self._asking()
        if acknowledgements is not None:
            acknowledgements.tell(seconds, settle)
        else:
            self._loop.call_soon(settle, Fate.LOST)

    def _asking(self) -> Acknowledgements | None:
        if self._transport is None or not self.open:
            return None
        if self._acknowledgements is None:
            self.flush()
            self._acknowledgements = Acknowledgements(self._transport, self._loop)
        return self._acknowledgements

    def processed(self) -> None:
        """Count one received message as processed, and read on if reading waited for that."""
        self._processing -= 1
        if self._held and self._processing < self.limits.processing:
            self._held = False
            self._begun = self._loop.time()
            self._decode()
            if not self._held and self._ended:
                self._check_end()
            elif not self._held and self._transport is not None and self.open:
                self._transport.resume_reading()
        self.finish_if_ended()
        if not self._processing:
            self.idle_changed()

    def close(self) -> None:
        """Close the connection once everything is written."""
        self.flush()
        if self._transport is not None:
            self._transport.close()

    def end_with(self, octets: bytes) -> None:
        """Keep nothing of what comes from now on; answer what came, write *octets*, and close."""
        self._ended = True
        self._decoder = None
        self._last = octets
        if self._transport is not None and self._processing:
            self._transport.pause_reading()
        self.finish_if_ended()
        self.idle_changed()

    def abort(self) -> None:
        """Close the connection at once, and process nothing more of what came."""
        self._aborted = True
        if self._transport is not None:
            self._transport.abort()

    # Called by the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none by class

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost = self._ended = True
        self._full = None
        for timer in (self._clock, self._writing):
            if timer is not None:
                timer.cancel()
        self._clock = self._writing = None
        if exc is not None or not self._held or self._aborted:
            self._decoder = None  # else what came before an orderly end is still to be taken
        if self._acknowledgements is not None:
            self._acknowledgements.lose()

    def data_received(self, data: bytes) -> None:
        if self._ended or not self.open:
            self._discard(len(data))
            return
        if self._acknowledgements is not None:
            self._acknowledgements.heard()
        if self._decoder is None:
            self._decoder = Decoder(self.limits.dime)
            self._begun = self._loop.time()
            self._octets = 0
        self._octets += len(data)
        self._decoder.feed(data)
        if not self._held:
            self._decode()

    def eof_received(self) -> bool:
        """Write the answers that are due before the end (the peer may close its side first)."""
        self.flush()  # The transport is closed when this returns, and takes nothing after that.
        self._ended = True
        if self._held:
            return self._can_half_close()
        self._check_end()
        return bool(self._processing) and self._can_half_close()

    def pause_writing(self) -> None:
        if self._writing is None:
            self._writing = self._loop.call_later(self.limits.write_time, self._unread)

    def resume_writing(self) -> None:
        if self._writing is not None:
            self._writing.cancel()
            self._writing = None

    # Reading.

    def _decode(self) -> None:
        """Hand out the messages that have come, as many as may be processed."""
        decoder = self._decoder
        if decoder is None:
            return
        completed = False
        try:
            for message in decoder:
                completed = True
                self._processing += 1
                self.message_received(message)
                if self._aborted or self._decoder is None:
                    return
                if self._processing >= self.limits.processing:
                    self._hold()
                    return
        except DimeError as error:
            self._stop_reading(error.reason.name.lower(), self._where(error))
            return
        self._tend(decoder, completed)

    def _hold(self) -> None:
        self._held = True
        if self._transport is not None:
            self._transport.pause_reading()
        self.idle_changed()

    def _tend(self, decoder: Decoder, completed: bool) -> None:
        """Set the clock to what the octets have led to."""
        phase = decoder.phase
        if phase is Phase.QUIET:
            self._head = None
            if decoder.empty:
                self._before += decoder.offset
                self._decoder = None
        elif not self._ended:
            now = self._loop.time()
            if completed:
                self._begun = now
                self._octets = 0
                self._head = None
            if phase is not Phase.HEAD:
                self._head = None
            elif self._head is None or self._head[0] != decoder.records:
                self._head = decoder.records, now
            if decoder.records:
                self.message_begun(decoder.soap, decoder.announced)
            if self._clock is None:
                wait = min(self.limits.head_time, self.limits.grace, self.limits.message_time)
                self._clock = self._loop.call_later(wait, self._strike)
        self.idle_changed()

    def _strike(self) -> None:
        """See whether the message under way is late; the clock of one that came is left to run."""
        self._clock = None
        decoder = self._decoder
        if decoder is None or decoder.phase is Phase.QUIET or self._ended:
            return
        limits, now = self.limits, self._loop.time()
        if self._held:
            self._begun, self._head = now, None
        took = now - self._begun
        if (
            took >= limits.message_time
            or (self._head is not None and now - self._head[1] >= limits.head_time)
            or (took >= limits.grace and self._octets < limits.rate * took)
        ):
            self.broken("late", f"{self._octets} octets of a message in {took:.0f} s")
            self.abort()
            return
        ends = [
            self._begun + limits.message_time,
            max(self._begun + limits.grace, now + limits.grace / 5),
        ]
        if self._head is not None:
            ends.append(self._head[1] + limits.head_time)
        self._clock = self._loop.call_later(max(min(ends) - now, 0.001), self._strike)

    # The end.

    def _stop_reading(self, why: str, detail: str) -> None:
        """Answer what was understood, and close."""
        self.broken(why, detail)
        self._ended = True
        self._decoder = None
        if self._transport is not None and self._processing:
            self._transport.pause_reading()
        self.finish_if_ended()

    def _check_end(self) -> None:
        """The end came when everything that it followed was read."""
        if self._decoder is not None:
            try:
                self._decoder.eof()
            except DimeError as error:
                self.broken(error.reason.name.lower(), self._where(error))
            self._decoder = None

    def _where(self, error: DimeError) -> str:
        return f"{error.reason.value}, at octet {self._before + error.offset}"

    def _can_half_close(self) -> bool:
        """Whether we may write after the peer's last octet; asyncio's TLS cannot."""
        return self._transport is not None and self._transport.can_write_eof()

    def finish_if_ended(self) -> None:
        """Close it, if nothing more comes and nothing is due."""
        if self._ended and not self._held and not self._processing:
            if self._last:
                self._linger()
            else:
                self.close()

    def _linger(self) -> None:
        """Write what is left to say, and throw away what still comes until the peer closes: a
        system that closes a socket with unread bytes resets it, and the peer reads nothing."""
        last, self._last = self._last, b""
        transport = self._transport
        if transport is None or not self.write(last):
            return
        self.flush()
        transport.resume_reading()
        if self._can_half_close():
            transport.write_eof()
        if self._clock is not None:
            self._clock.cancel()
        self._octets = 0
        self._clock = self._loop.call_later(self.limits.linger, self.abort)

    def _discard(self, octets: int) -> None:
        """Count bytes that come after the end; more than a message has are no rest of one."""
        self._octets += octets
        if self._octets > self.limits.dime.message:
            self.abort()

    def _unread(self) -> None:
        self._writing = None
        self.broken("unread", "the peer does not read what is written to it")
        self.abort()
