"""SOAP.TCP for clients: requests and their answers on one connection, and a mini consumer."""

import asyncio
import logging
import secrets
import ssl
from collections.abc import Awaitable, Callable
from typing import Self, TypeAlias
from urllib.parse import urlsplit

from filters import Refused
from gateway.client.calling import MAX_ANSWER, TIMEOUT, Answer, shown
from gateway.client.consumer import WAITING, Read, ReceivedMessage, read_here
from gateway.client.errors import GatewayError
from gateway.model.hosts import host_and_port, host_in_url
from gateway.tcp import Fate, SoapTcpConnection, TcpLimits
from mediation.mailboxes.kept import message_id, relates_to
from mediation.model.versions import Soap
from mediation.packaging.dime import DimeLimits, DimeMessage, Encoder
from mediation.soap.answers import fault_in

PORT = 8081
"""The port of a URL that names none."""
Connect: TypeAlias = Callable[[str, Callable[[], asyncio.BaseProtocol]], Awaitable[None]]
"""Connects to a URL of SOAP.TCP, and gives the connection the protocol that a factory makes; raises
`GatewayError` or OSError."""
_log = logging.getLogger("dragoman.client")


class SoapTcpCaller:
    """Sends messages to gateways, to each on one connection that is kept.

    Args:
        timeout: Seconds for a whole exchange.
        max_answer: Octets; a longer answer ends the connection.
        tls: For ``soap.tcps``; what the system trusts, when None.
        connect: Makes the connections, instead of the system with *tls*.
    """

    def __init__(
        self,
        *,
        timeout: float = TIMEOUT,
        max_answer: int = MAX_ANSWER,
        tls: ssl.SSLContext | None = None,
        connect: Connect | None = None,
    ) -> None:
        self._timeout = timeout
        self._limits = TcpLimits(dime=DimeLimits(message=max_answer, envelope=max_answer))
        self._tls = tls
        self._connect = connect or self._connect_by_system
        self._encoder = Encoder()
        self._sessions: dict[tuple[str, str, int], _Session] = {}
        self._connecting = asyncio.Lock()

    def close(self) -> None:
        for session in self._sessions.values():
            session.close()
        self._sessions.clear()

    async def finish(self) -> None:
        """End the connections, in order: the gateway deals with what was sent before it ends them,
        and says what it refuses. With TLS they end at once.

        Raises:
            GatewayError: It refused a one-way message, or did not end a connection in order.
        """
        sessions, self._sessions = self._sessions, {}
        try:
            async with asyncio.timeout(self._timeout):
                for (scheme, host, port), session in sessions.items():
                    trouble = await session.finish()
                    if trouble:
                        raise GatewayError(f"{scheme}://{host_in_url(host)}:{port} {trouble}")
        except TimeoutError as error:
            raise GatewayError(
                f"the gateway did not end the connection within {self._timeout:g} seconds"
            ) from error
        finally:
            for session in sessions.values():
                session.close()

    async def call(self, url: str, soap: Soap, body: bytes, *, one_way: bool = False) -> Answer:
        """Send an envelope; the answer that relates to it.

        One that is *one_way* is answered with 202 as soon as the other side's system has it;
        what is said later about it is logged.

        Raises:
            GatewayError: There was no answer.
        """
        id_ = message_id(body)
        octets = self._encoder.encode(DimeMessage(soap, body))
        try:
            async with asyncio.timeout(self._timeout):
                session = await self._session(url)
                if one_way or id_ is None:
                    return await self._post(session, octets)
                answer = session.expect(id_)
                try:
                    session.write(octets)
                    message = await answer
                finally:
                    session.forget(id_)
        except TimeoutError as error:
            raise GatewayError(
                f"no answer from {shown(url)} within {self._timeout:g} seconds"
            ) from error
        except OSError as error:  # ssl.SSLError is one
            raise GatewayError(f"cannot reach {shown(url)}: {_why(error)}") from error
        status = 200 if fault_in(message.envelope) is None else 500
        return Answer(status, message.envelope, (message.soap or soap).media_type)

    async def _post(self, session: "_Session", octets: bytes) -> Answer:
        if not session.write(octets):
            raise ConnectionResetError
        if await session.acknowledged(self._timeout) is not Fate.ACKNOWLEDGED:
            raise ConnectionResetError
        return Answer(202, b"", "")

    async def _session(self, url: str) -> "_Session":
        parts = urlsplit(url)
        port = PORT if parts.port is None else parts.port
        key = (parts.scheme, parts.hostname or "", port)
        async with self._connecting:
            session = self._sessions.get(key)
            if session is None or not session.usable:
                loop = asyncio.get_running_loop()
                session = _Session(self._limits, loop)
                await self._connect(url, lambda: session)
                self._sessions[key] = session
            return session

    async def _connect_by_system(
        self, url: str, factory: Callable[[], asyncio.BaseProtocol]
    ) -> None:
        parts, tls = urlsplit(url), None
        if parts.scheme == "soap.tcps":
            tls = self._tls or ssl.create_default_context()
        port = PORT if parts.port is None else parts.port
        loop = asyncio.get_running_loop()
        await loop.create_connection(factory, parts.hostname or "", port, ssl=tls)


class _Session(SoapTcpConnection):
    """A connection to a gateway, and the requests on it that wait for their answers."""

    __slots__ = ("_over", "_pending", "_trouble")

    def __init__(self, limits: TcpLimits, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(limits, loop)
        self._pending: dict[str, asyncio.Future[DimeMessage]] = {}
        self._over: asyncio.Future[None] = loop.create_future()
        self._trouble = ""
        """The error that no request was told."""

    async def finish(self) -> str:
        """Say that nothing more is sent, and wait for the end; what went wrong, if anything did."""
        self.flush()
        if self._transport is not None and self._transport.can_write_eof():
            self._transport.write_eof()
        else:
            self.close()
        await self._over
        return self._trouble

    @property
    def usable(self) -> bool:
        return self.open and not self._ended

    def expect(self, id_: str) -> asyncio.Future[DimeMessage]:
        """The answer to the request with this message id; OSError when the connection ends."""
        answer: asyncio.Future[DimeMessage] = self._loop.create_future()
        if self.usable:
            self._pending[id_] = answer
        else:
            answer.set_exception(ConnectionResetError())
        return answer

    def forget(self, id_: str) -> None:
        self._pending.pop(id_, None)

    def eof_received(self) -> bool:
        stay = super().eof_received()
        self._fail()
        return stay

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if exc is not None:
            self._trouble = self._trouble or f"closed the connection: {_why(exc)}"
        self._fail()
        if not self._over.done():
            self._over.set_result(None)

    def broken(self, why: str, detail: str) -> None:
        self._trouble = self._trouble or f"does not speak SOAP.TCP as we do: {detail}"

    def message_received(self, message: DimeMessage) -> None:
        try:
            id_ = relates_to(message.envelope)
        except Refused:
            id_ = None
        answer = self._pending.pop(id_, None) if id_ is not None else None
        if answer is None:
            fault = fault_in(message.envelope)
            said = fault.reason or fault.code if fault is not None else "a message"
            if fault is not None:
                self._trouble = self._trouble or f"refused: {said}"
            _log.warning("from the gateway, about %s: %s", id_ or "nothing", said)
        elif not answer.done():
            answer.set_result(message)
        self.processed()

    def _fail(self) -> None:
        for answer in self._pending.values():
            if not answer.done():
                answer.set_exception(ConnectionResetError())
        self._pending.clear()


class SoapTcpConsumer:
    """Receives notifications and SubscriptionEnd on SOAP.TCP, and hands them out in their order.

    Its address has a random path, and what does not say it is thrown away. While too many
    messages wait, nothing is read.

    Args:
        host: Address to listen on.
        port: 0 chooses one.
        shown: The host in its address, where senders reach it under another one.
        waiting: Messages that may wait to be read.
        tls: Listens on TLS, with this context.
        read: Reads messages where that must not be done on the event loop.
    """

    def __init__(
        self,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        shown: str | None = None,
        waiting: int = WAITING,
        tls: ssl.SSLContext | None = None,
        limits: TcpLimits | None = None,
        read: Read = read_here,
    ) -> None:
        self._host = host
        self._port = port
        self._shown = shown or host
        self._tls = tls
        self._limits = limits or TcpLimits()
        self._read = read
        self._queue: asyncio.Queue[ReceivedMessage] = asyncio.Queue(waiting)
        self._path = f"/{secrets.token_urlsafe(12)}"
        self._server: asyncio.Server | None = None
        self._connections: set[_Incoming] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.address = ""
        """The address that notifications are sent to; known once it listens."""

    async def __aenter__(self) -> Self:
        """Listen.

        Raises:
            GatewayError: The address is in use, or not ours.
        """
        loop = asyncio.get_running_loop()
        try:
            self._server = await loop.create_server(
                lambda: _Incoming(self, self._limits, loop), self._host, self._port, ssl=self._tls
            )
        except OSError as error:
            why = (error.strerror or str(error)).rpartition(": ")[2]
            raise GatewayError(f"cannot listen on {self._host}:{self._port}: {why}") from error
        port = self._server.sockets[0].getsockname()[1]
        scheme = "soap.tcp" if self._tls is None else "soap.tcps"
        self.address = f"{scheme}://{host_and_port(self._shown, port)}{self._path}"
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.close()
            for connection in list(self._connections):
                connection.abort()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await self._server.wait_closed()

    async def receive(self) -> ReceivedMessage:
        """The next message; waits for it."""
        return await self._queue.get()

    # No generator, as in `Consumer`: a cancelled wait would close it.

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ReceivedMessage:
        return await self.receive()

    # For its connections.

    def joined(self, connection: "_Incoming") -> None:
        self._connections.add(connection)

    def left(self, connection: "_Incoming") -> None:
        self._connections.discard(connection)

    def keep(self, task: asyncio.Task[None]) -> None:
        """Cancel *task* at the end, if it still runs."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def take(self, message: DimeMessage) -> None:
        """Keep *message* until it is read."""
        octets = message.envelope
        if self._path.encode() not in octets:
            return
        try:
            received = await self._read((), octets)
        except Refused as refused:
            _log.info("refused a message: %s", refused.text)
            return
        except Exception:  # Of a `read` of the program's; its messages behind this one are good.
            _log.exception("a message could not be read, and is lost")
            return
        await self._queue.put(ReceivedMessage.of(received, octets))


class _Incoming(SoapTcpConnection):
    """A gateway's connection to a consumer; its messages are taken one after another."""

    __slots__ = ("_consumer", "_taking", "_waiting")

    def __init__(
        self, consumer: SoapTcpConsumer, limits: TcpLimits, loop: asyncio.AbstractEventLoop
    ) -> None:
        super().__init__(limits, loop)
        self._consumer = consumer
        self._waiting: list[DimeMessage] = []
        self._taking: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._consumer.joined(self)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._consumer.left(self)

    def message_received(self, message: DimeMessage) -> None:
        self._waiting.append(message)
        if self._taking is None:
            self._taking = self._loop.create_task(self._take())
            self._consumer.keep(self._taking)

    async def _take(self) -> None:
        try:
            while self._waiting:
                try:
                    await self._consumer.take(self._waiting.pop(0))
                finally:
                    self.processed()
        finally:  # Else nobody takes what comes next, which the system goes on acknowledging.
            self._taking = None


def _why(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted ({error.verify_message})"
    if isinstance(error, ConnectionRefusedError):
        return "connection refused; is the gateway running there?"
    if isinstance(error, ConnectionResetError):
        return "it closed the connection without an answer"
    words = error.strerror if isinstance(error, OSError) else None
    return words or str(error) or type(error).__name__
