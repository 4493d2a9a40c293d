"""The listener of SOAP.TCP: hands messages of strangers to the SOAP service, and its replies
back."""

import asyncio
import contextlib
import socket
import ssl
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Protocol
from urllib.parse import urlsplit

import structlog

from filters import DocumentLimits, Refused
from filters.documents import DEFAULT_LIMITS
from gateway.egress.hops import hops_of_id
from gateway.exchange import Inbound, Reply
from gateway.http import ConnectionGate, HttpLimits
from gateway.http.handshakes import Handshaking
from gateway.observing.samples import Sample, counter, counters
from gateway.parsing import SMALL, Parsing
from gateway.security.identify import Identification, TransportFacts
from gateway.security.principals import Principal
from gateway.soap.packaging import Unpacked, unpack_dime
from gateway.tcp.acknowledging import Fate
from gateway.tcp.connection import SoapTcpConnection
from gateway.tcp.limits import TcpLimits
from gateway.tcp.samples import connection_sample, fault_sample
from mediation.model.messages import Packaging
from mediation.model.requests import Context, Rejected
from mediation.model.versions import Soap
from mediation.packaging.dime import DimeMessage, Encoder, first_octets

_SWEEP = 5.0
"""Seconds between two searches for connections that have been idle for too long."""
_BEGINNINGS = (b"\x0c\x20", b"\x0d\x20", b"\x0e\x20")
_SHOWN = 16
EVERYWHERE = ("0.0.0.0", "::")
"""Addresses to listen at that are no address to reach: every address of the machine."""
_log = structlog.get_logger("dragoman.soap-tcp")


class Service(Protocol):
    """The part of `SoapService` that a transport needs."""

    async def handle(self, inbound: Inbound) -> Reply: ...

    def refuse(self, rejected: Rejected, sender: Principal) -> Reply: ...

    async def refuse_signed(self, rejected: Rejected, sender: Principal) -> Reply: ...


def listener_samples(servers: Iterable["SoapTcpServer"]) -> Iterator[Sample]:
    """The numbers of all listeners together; of none, they are 0."""
    servers = list(servers)
    refused: Counter[str] = Counter()
    for server in servers:
        refused.update(server.refused)
    yield connection_sample({"peers": sum(server.connections for server in servers)})
    yield counters(
        "soap_tcp_refused",
        "Connections of SOAP.TCP that were ended for what came on them.",
        "reason",
        refused,
    )
    yield counter(
        "soap_tcp_messages",
        "Messages that came by SOAP.TCP.",
        sum(server.messages for server in servers),
    )
    yield fault_sample(sum(server.unrelated_faults for server in servers))


class SoapTcpServer:
    """Listens for SOAP messages in DIME on TCP (``soap.tcp``), or on TLS (``soap.tcps``).

    Args:
        gate: Admits connections; a stranger's may be ended while it waits for a message.
        base: What peers call it, ``soap.tcp://host:port``: the beginning of what it tells them
            to send to. Where the host is all addresses, the one that a peer reached it at.
        admit_body: Called with the bytes that a message is known to have, before more of it is
            read, and before it is parsed; what it raises ends the connection.
    """

    def __init__(
        self,
        service: Service,
        parsing: Parsing,
        *,
        gate: ConnectionGate,
        identification: Identification,
        base: str,
        limits: TcpLimits | None = None,
        documents: DocumentLimits = DEFAULT_LIMITS,
        admit_body: Callable[[Principal, int], None] = lambda *_: None,
    ) -> None:
        self.admit_body = admit_body
        self.service = service
        self.gate = gate
        self.identification = identification
        self.base = base
        self.limits = limits or TcpLimits()
        self.refused: Counter[str] = Counter()
        """Connections that were ended, by why they were."""
        self.messages = 0
        self.unrelated_faults = 0
        """Faults for messages without an id, which only the log could be told."""
        self._parsing = parsing
        self._package_limits = HttpLimits(
            message=self.limits.dime.message,
            envelope=self.limits.dime.envelope,
            documents=documents,
        )
        self._encoder = Encoder()
        self._loop = asyncio.get_running_loop()
        self._servers: list[asyncio.Server] = []
        self._connections: set[_Connection] = set()
        self._handshakes: set[asyncio.Protocol] = set()
        self._idle: dict[_Connection, None] = {}
        self._empty = asyncio.Event()
        self._closing = False
        self._sweeping: asyncio.TimerHandle | None = None

    @property
    def connections(self) -> int:
        """The number of open connections, handshakes included."""
        return len(self._connections) + len(self._handshakes)

    async def start(
        self, sockets: Sequence[socket.socket], tls: ssl.SSLContext | None = None
    ) -> None:
        """Serve connections to *sockets*, which are bound; with TLS where there is a context."""
        make: Callable[[], asyncio.Protocol] = partial(_Connection, self, self._loop)
        if tls is not None:
            make = partial(
                Handshaking, tls, self.gate, make, self._handshakes, seconds=self.limits.handshake
            )
        for sock in sockets:
            server = await self._loop.create_server(make, sock=sock, backlog=1024)
            self._servers.append(server)
        if self._sweeping is None:
            self._sweeping = self._loop.call_later(min(_SWEEP, self.limits.idle), self._sweep)

    def drain(self) -> None:
        """Take no connection and no message more; what was taken is finished."""
        self._closing = True
        if self._sweeping is not None:
            self._sweeping.cancel()
        for server in self._servers:
            server.close()
        for handshake in list(self._handshakes):
            if isinstance(handshake, Handshaking):
                handshake.evict()
        for connection in list(self._connections):
            connection.retire()

    async def close(self, seconds: float) -> None:
        """`drain`, wait for what is under way for at most *seconds*, and end what is left."""
        self.drain()
        if self._connections:
            self._empty.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._empty.wait()
        for connection in list(self._connections):
            connection.evict()

    # For connections.

    def admit(self, connection: "_Connection", address: str) -> bool:
        if self._closing or not self.gate.admit(connection, address):
            return False
        self._connections.add(connection)
        return True

    def leave(self, connection: "_Connection") -> None:
        self.gate.leave(connection)
        self._connections.discard(connection)
        self._idle.pop(connection, None)
        if not self._connections:
            self._empty.set()

    def mark(self, connection: "_Connection", *, idle: bool) -> None:
        """Note whether *connection* is idle; the one idle longest comes first."""
        if idle:
            connection.idle_since = self._loop.time()
            self._idle[connection] = None
        else:
            self._idle.pop(connection, None)

    def refuse(self, address: str, why: str, detail: str) -> None:
        """Count and log a connection that is ended for what it sent."""
        self.refused[why] += 1
        _log.info("soap-tcp.refused", peer=address, reason=why, detail=detail)

    def fault(self, soap: Soap | None, refused: Refused, principal: Principal) -> bytes:
        """The message that tells *principal* why what it sends is not read."""
        context = Context(soap or Soap.V1_1)
        reply = self.service.refuse(Rejected(context, refused), principal)
        return self._encoder.encode(DimeMessage(reply.soap, reply.body))

    def base_at(self, host: str) -> str:
        """The base of addresses for a peer whose connection ends at our address *host*."""
        parts = urlsplit(self.base)
        if parts.hostname not in EVERYWHERE:
            return self.base
        host = host.removeprefix("::ffff:")
        return f"{parts.scheme}://{f'[{host}]' if ':' in host else host}:{parts.port}"

    async def respond(
        self,
        connection: SoapTcpConnection,
        message: DimeMessage,
        principal: Principal,
        gone: asyncio.Event,
    ) -> None:
        """Do what *message* asks for, and write what there is to say on its *connection*.

        Args:
            gone: Set when the peer has gone.
        """
        self.messages += 1
        reply = await self._reply_to(connection, message, principal, gone)
        written = bool(reply.body) and self._write(connection, reply, principal)
        if reply.handed_over is None:
            return
        has = False
        try:
            if written:
                fate = await connection.acknowledged(self.limits.acknowledged)
                has = fate is Fate.ACKNOWLEDGED
        finally:
            await reply.handed_over(has)

    def _write(self, connection: SoapTcpConnection, reply: Reply, principal: Principal) -> bool:
        if not reply.expected and reply.status >= 400:
            # A one-way message without an id: the peer could not tell what the fault is about.
            self.unrelated_faults += 1
            _log.info("soap-tcp.unanswerable", peer=principal.address, status=reply.status)
            return False
        written = connection.write(self._encoder.encode(DimeMessage(reply.soap, reply.body)))
        if isinstance(connection, _Connection) and connection.unwritten:
            self.gate.note_unread(connection)
        return written

    async def _reply_to(
        self,
        connection: SoapTcpConnection,
        message: DimeMessage,
        principal: Principal,
        gone: asyncio.Event,
    ) -> Reply:
        soap = message.soap or Soap.V1_1
        try:
            if message.packaged:
                unpacked = await self._parsing.run_parser(
                    len(message.envelope),
                    lambda learnt: unpack_dime(message, self._package_limits, learnt=learnt),
                    trusted=not principal.limits.quotas,
                    owner=principal.owner,
                )
            else:
                unpacked = unpack_dime(message, self._package_limits)
        except Rejected as rejected:
            return await self.service.refuse_signed(rejected, principal)
        except Refused as refused:
            return await self.service.refuse_signed(Rejected(Context(soap), refused), principal)
        inbound = self._inbound(unpacked, message, principal, connection, gone)
        return await self.service.handle(inbound)

    def _inbound(
        self,
        unpacked: Unpacked,
        message: DimeMessage,
        principal: Principal,
        connection: SoapTcpConnection,
        gone: asyncio.Event,
    ) -> Inbound:
        async def until_gone() -> None:
            await gone.wait()

        async def identify_again() -> Principal:
            facts = TransportFacts(principal.address, certificate=connection.certificate)
            return self.identification.of_connection(facts)

        # That its frames are DIME says nothing about what it reads at an address of HTTP.
        packaging = unpacked.packaging if unpacked.attachments else Packaging.NONE
        hops, origin, via = hops_of_id(message.id)
        return Inbound(
            octets=unpacked.envelope,
            principal=principal,
            base=self.base_at(connection.local),
            hint=unpacked.soap,
            declared=message.soap,
            action=unpacked.action,
            hops=hops,
            origin=origin,
            via=via,
            attachments=unpacked.attachments,
            packaging=packaging,
            certificate=connection.certificate,
            gone=until_gone,
            identify_again=identify_again,
        )

    def _sweep(self) -> None:
        """Close connections that have been idle for too long."""
        self._sweeping = self._loop.call_later(min(_SWEEP, self.limits.idle), self._sweep)
        past = self._loop.time() - self.limits.idle
        for connection in list(self._idle):
            if connection.idle_since > past:
                break
            del self._idle[connection]
            connection.part()


class _Connection(SoapTcpConnection):
    """A connection that a peer opened."""

    __slots__ = (
        "_address",
        "_admitted",
        "_beginning",
        "_facts",
        "_gone",
        "_large",
        "_marked_idle",
        "_retired",
        "_served",
        "_server",
        "_tasks",
        "idle_since",
    )

    def __init__(self, server: SoapTcpServer, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(server.limits, loop)
        self._server = server
        self._address = ""
        self._admitted = 0
        """Bytes of the message under way that may come."""
        self._facts = TransportFacts("")
        self._beginning: bytes | None = b""
        """The first octets, until they are known to be DIME; then None."""
        self._gone: asyncio.Event | None = None
        self._tasks: set[asyncio.Task[None]] | None = None
        self._large: asyncio.Task[None] | None = None
        """A message that is parsed in a thread. Those that came after it wait for it: a sender of
        one-way messages has only their order to say which is first."""
        self._marked_idle = False
        self._served = False
        self._retired = False
        self.idle_since = 0.0

    def evict(self) -> None:
        """Close at once, without a word."""
        self.abort()

    def part(self) -> None:
        """Close an idle connection; a peer that has not read all by now never will."""
        if self.unwritten:
            self.abort()
        else:
            self.close()

    def retire(self) -> None:
        """Read nothing more, answer what was read, and close."""
        if self.idle:
            self.close()
            return
        self._retired = self._ended = True
        if self._transport is not None and not self._held:
            self._transport.pause_reading()
        self.finish_if_ended()

    def _sender(self) -> Principal:
        """Who sends the message that is under way: what it may do can change while it is
        connected."""
        return self._server.identification.of_connection(self._facts)

    # Called by the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        peer = transport.get_extra_info("peername")
        self._address = str(peer[0]) if peer else ""
        if not self._server.admit(self, self._address):
            self.evict()
            return
        self._facts = TransportFacts(self._address, certificate=self.certificate)
        self.idle_changed()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._gone is not None:
            self._gone.set()
        self._server.leave(self)

    def data_received(self, data: bytes) -> None:
        if self._beginning is not None:
            self._beginning += data[: _SHOWN - len(self._beginning)]
            if len(self._beginning) >= 2:
                if self._beginning[:2] not in _BEGINNINGS:
                    self.broken("not-dime", f"it speaks {first_octets(self._beginning)}")
                    self.abort()
                    return
                self._beginning = None
        super().data_received(data)

    # Called by the connection.

    def message_begun(self, soap: Soap | None, octets: int) -> None:
        self._admit_body(soap, octets)

    def _admit_body(self, soap: Soap | None, octets: int) -> bool:
        """Whether so many bytes of a message may come; else the connection ends with a fault."""
        if octets <= self._admitted:
            return True
        try:
            self._server.admit_body(self._sender(), octets)
        except Refused as refused:
            self.broken(refused.reason.value, refused.text)
            self.end_with(self._server.fault(soap, refused, self._sender()))
            return False
        self._admitted = octets
        return True

    def broken(self, why: str, detail: str) -> None:
        if not self._retired:
            self._server.refuse(self._address, why, detail)

    def idle_changed(self) -> None:
        if self._lost:
            return
        idle = self.idle
        if idle is not self._marked_idle:
            self._marked_idle = idle
            self._server.mark(self, idle=idle)
        served = self.begun
        if served is not self._served:
            self._served = served
            (self._server.gate.serve if served else self._server.gate.wait)(self)

    def message_received(self, message: DimeMessage) -> None:
        if message.soap is None:
            self._processing -= 1
            self.broken("not-soap", "the first record is not a SOAP envelope")
            self.abort()
            return
        if not self._admit_body(message.soap, _size_of(message)):
            self._processing -= 1
            self.finish_if_ended()
            return
        self._admitted = 0
        if self._gone is None:
            self._gone = asyncio.Event()
        if self._tasks is None:
            self._tasks = set()
        task = self._loop.create_task(self._respond(message, self._gone, self._large))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if message.packaged or len(message.envelope) > SMALL:
            self._large = task

    async def _respond(
        self, message: DimeMessage, gone: asyncio.Event, large: asyncio.Task[None] | None
    ) -> None:
        try:
            if large is not None and not large.done():
                await asyncio.wait([large])
            await self._server.respond(self, message, self._sender(), gone)
        finally:
            if self._large is asyncio.current_task():
                self._large = None
            self.processed()


def _size_of(message: DimeMessage) -> int:
    """Bytes of the envelope and its attachments."""
    if not message.attachments:
        return len(message.envelope)
    return len(message.envelope) + sum(len(each.content) for each in message.attachments)
