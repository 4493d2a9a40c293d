"""A listener of SOAP.TCP on a service that does what a test asks, raw peers, and consumers."""

import asyncio
import contextlib
import re
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Self, TypeAlias

from gateway.egress import AddressPolicy, ClientLimits, Dialer, parse_target
from gateway.egress.soap_tcp_transport import Handler, SoapTcpTransport
from gateway.egress.transport import Request
from gateway.exchange import Inbound, Reply
from gateway.http import ConnectionGate, HttpLimits
from gateway.parsing import Parsing
from gateway.security.identify import Identification
from gateway.security.networks import networks
from gateway.soap.tcp_listener import SoapTcpServer
from gateway.tcp import TcpLimits
from mediation.model.requests import Rejected
from mediation.model.versions import Soap
from mediation.packaging.dime import Decoder, DimeMessage, Encoder
from tests.rigs.waiting import until as until

DEADLINE = 60.0


def envelope(text: str, soap: Soap = Soap.V1_1, *, id_: str = "") -> bytes:
    header = f'<m:MessageID xmlns:m="{WSA}">{id_}</m:MessageID>' if id_ else ""
    return (
        f'<s:Envelope xmlns:s="{soap.value}"><s:Header>{header}</s:Header>'
        f"<s:Body><text>{text}</text></s:Body></s:Envelope>"
    ).encode()


WSA = "http://www.w3.org/2005/08/addressing"


def message(text: str, soap: Soap = Soap.V1_1, *, filling: int = 0) -> bytes:
    """The octets of a message whose event is *text*."""
    return Encoder().encode(DimeMessage(soap, envelope(text + "x" * filling, soap)))


def text_of(octets: bytes) -> str:
    found = re.search(rb"<text>([^<x]*)", octets)
    return found[1].decode() if found else ""


@dataclass
class Talk:
    """A service whose words are the events' own: it echoes them, waits for them to be released,
    or does what else they say."""

    arrived: list[Inbound] = field(default_factory=list)
    releases: dict[str, asyncio.Event] = field(default_factory=dict)
    handed_over: list[bool] = field(default_factory=list)
    went: list[str] = field(default_factory=list)
    """Waits that ended because their peer had gone."""
    working: int = 0
    most: int = 0
    came: asyncio.Event = field(default_factory=asyncio.Event)

    async def handle(self, inbound: Inbound) -> Reply:
        self.arrived.append(inbound)
        self.came.set()
        self.working += 1
        self.most = max(self.most, self.working)
        try:
            return await self._say(inbound, text_of(inbound.octets))
        finally:
            self.working -= 1

    async def _say(self, inbound: Inbound, word: str) -> Reply:
        soap = inbound.declared or inbound.hint
        if word == "one-way":
            return Reply(status=202, soap=soap)
        if word == "unrelated":
            return Reply(status=500, soap=soap, body=envelope("a fault", soap), expected=False)
        if word == "large":
            return Reply(status=200, soap=soap, body=envelope("large" + "x" * 1_000_000, soap))
        if word == "take":
            return Reply(
                status=200, soap=soap, body=envelope("taken", soap), handed_over=self._handed_over
            )
        if word == "poll":
            assert inbound.gone is not None
            await inbound.gone()
            self.went.append(word)
        if word.startswith("wait"):
            await self.releases.setdefault(word, asyncio.Event()).wait()
        return Reply(status=200, soap=soap, body=envelope(word, soap))

    async def _handed_over(self, whole: bool) -> None:
        self.handed_over.append(whole)
        self.came.set()

    def refuse(self, rejected: Rejected, sender: object) -> Reply:
        return Reply(
            status=500, soap=rejected.context.soap, body=envelope("refused", rejected.context.soap)
        )

    async def refuse_signed(self, rejected: Rejected, sender: object) -> Reply:
        return self.refuse(rejected, sender)

    def release(self, word: str) -> None:
        self.releases.setdefault(word, asyncio.Event()).set()

    def has_taken(self, count: int) -> bool:
        """Whether exactly *count* messages have arrived."""
        return len(self.arrived) == count


class RawPeer:
    """A peer that sends any octets, and reads messages."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._decoder = Decoder()
        self._messages: list[DimeMessage] = []

    @classmethod
    async def connect(
        cls, port: int, *, tls: ssl.SSLContext | None = None, source: str = "127.0.0.1"
    ) -> Self:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1",
            port,
            local_addr=(source, 0),
            ssl=tls,
            server_hostname="localhost" if tls else None,
        )
        return cls(reader, writer)

    async def send(self, octets: bytes) -> None:
        self.writer.write(octets)
        await self.writer.drain()

    async def receive(self) -> DimeMessage:
        """The next message, soon; EOFError at the end of the stream."""
        async with asyncio.timeout(DEADLINE):
            return await self.next_message()

    async def next_message(self) -> DimeMessage:
        """The next message; EOFError at the end of the stream."""
        while not self._messages:
            data = await self.reader.read(65536)
            if not data:
                self._decoder.eof()
                raise EOFError
            self._messages += self._decoder.feed(data)
        return self._messages.pop(0)

    async def ask(self, text: str, soap: Soap = Soap.V1_1) -> str:
        await self.send(message(text, soap))
        return text_of((await self.receive()).envelope)

    async def ended(self) -> bytes:
        """What comes until the connection ends, by a reset or in order."""
        octets = b""
        async with asyncio.timeout(DEADLINE):
            with contextlib.suppress(ConnectionError):
                while data := await self.reader.read(65536):
                    octets += data
        return octets

    async def reset(self) -> None:
        """End it by a reset, as a peer does that died."""
        sock = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.writer.transport.abort()
        with contextlib.suppress(ConnectionError, OSError):
            await self.writer.wait_closed()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        self.writer.close()
        with contextlib.suppress(ConnectionError, OSError):
            await self.writer.wait_closed()


@dataclass
class Listening:
    """A server that listens."""

    server: SoapTcpServer
    talk: Talk
    port: int
    peers: list[RawPeer] = field(default_factory=list)

    async def peer(
        self, *, tls: ssl.SSLContext | None = None, source: str = "127.0.0.1"
    ) -> RawPeer:
        peer = await RawPeer.connect(self.port, tls=tls, source=source)
        self.peers.append(peer)
        return peer

    async def refused(self, octets: bytes, why: str) -> bytes:
        """What is answered to *octets* before the connection ends for the reason *why*."""
        before = self.server.refused[why]
        peer = await self.peer()
        with contextlib.suppress(ConnectionError):
            await peer.send(octets)
        answer = await peer.ended()
        assert self.server.refused[why] == before + 1, self.server.refused
        return answer


@contextlib.asynccontextmanager
async def listening(
    limits: TcpLimits | None = None,
    *,
    admits: HttpLimits | None = None,
    trusted: tuple[str, ...] = (),
    tls: ssl.SSLContext | None = None,
) -> AsyncIterator[Listening]:
    """A server for as long as the body runs; then it must have ended every connection."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind(("127.0.0.1", 0))
    talk, parsing = Talk(), Parsing()
    gate = ConnectionGate(admits or HttpLimits(), networks(trusted))
    port = sock.getsockname()[1]
    server = SoapTcpServer(
        talk,
        parsing,
        gate=gate,
        identification=Identification(networks(trusted)),
        base=f"soap.tcp://127.0.0.1:{port}",
        limits=limits,
    )
    await server.start([sock], tls)
    run = Listening(server, talk, port)
    try:
        yield run
    finally:
        for release in talk.releases.values():
            release.set()
        for peer in run.peers:
            await peer.close()
        await server.close(10.0)
        parsing.close()
        await until(lambda: not server.connections)
        assert not gate.connections


# What the gateway sends to.

Serve: TypeAlias = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class ScriptedConsumer:
    """A consumer that does with a connection what a test says."""

    port: int = 0
    peers: list[RawPeer] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    messages: list[DimeMessage] = field(default_factory=list)
    scheme: str = "soap.tcp"
    host: str = "127.0.0.1"
    reads: bool = True

    def request(self, text: str, *, filling: int = 0, soap: Soap = Soap.V1_1) -> Request:
        target = parse_target(f"{self.scheme}://{self.host}:{self.port}/consumer")
        return Request(target, envelope(text + "x" * filling, soap), (), soap=soap)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = RawPeer(reader, writer)
        self.peers.append(peer)
        if not self.reads:
            return
        with contextlib.suppress(EOFError, ConnectionError):
            while True:
                message = await peer.next_message()
                self.messages.append(message)
                self.texts.append(text_of(message.envelope))
        await peer.close()


@contextlib.asynccontextmanager
async def consuming(
    serve: Serve | None = None, *, reads: bool = True, tls: ssl.SSLContext | None = None
) -> AsyncIterator[ScriptedConsumer]:
    consumer = ScriptedConsumer(reads=reads)
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
    sock.bind(("127.0.0.1", 0))
    server = await asyncio.start_server(serve or consumer.serve, sock=sock, ssl=tls)
    consumer.port = sock.getsockname()[1]
    if tls is not None:
        consumer.scheme, consumer.host = "soap.tcps", "localhost"
    try:
        yield consumer
    finally:
        server.close()
        for peer in consumer.peers:
            await peer.close()


@contextlib.asynccontextmanager
async def transporting(
    limits: ClientLimits | None = None,
    handler: Handler | None = None,
    tls: ssl.SSLContext | None = None,
    policy: AddressPolicy | None = None,
) -> AsyncIterator[SoapTcpTransport]:
    dialer = Dialer(policy or AddressPolicy(loopback=True), limits=limits, tls=tls)
    transport = SoapTcpTransport(dialer, limits=limits, handler=handler)
    try:
        yield transport
    finally:
        await transport.close()
        dialer.close()
        await until(lambda: transport.connections == 0)
