"""The listeners of SOAP.TCP, and answers on connections that we opened ourselves."""

import asyncio
import socket
import ssl
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

from filters import DocumentLimits
from filters.documents import DEFAULT_LIMITS
from gateway.http import ConnectionGate
from gateway.http.limits import ATTACHMENTS
from gateway.model.hosts import host_and_port
from gateway.observing.samples import Sample
from gateway.parsing import Parsing
from gateway.security.identify import Identification, TransportFacts
from gateway.security.principals import Principal
from gateway.settings.settings import Settings
from gateway.soap.service import SoapService
from gateway.soap.tcp_listener import SoapTcpServer, listener_samples
from gateway.tcp import SoapTcpConnection, TcpLimits
from mediation.packaging.dime import DimeLimits, DimeMessage


class SoapTcpListeners:
    """Makes listeners, and stops them.

    Args:
        base: The gateway's own URL.
        admit_body: As of `SoapTcpServer`.
    """

    def __init__(
        self,
        settings: Settings,
        service: SoapService,
        parsing: Parsing,
        gate: ConnectionGate,
        identification: Identification,
        *,
        base: str,
        documents: DocumentLimits = DEFAULT_LIMITS,
        admit_body: Callable[[Principal, int], None] = lambda *_: None,
    ) -> None:
        self._admit_body = admit_body
        self._settings = settings
        self._service = service
        self._parsing = parsing
        self._gate = gate
        self._identification = identification
        self._base = base
        self._documents = documents
        self.servers: list[SoapTcpServer] = []

    async def listen(
        self, sock: socket.socket, scheme: str, tls: ssl.SSLContext | None = None
    ) -> None:
        """Serve *sock*."""
        host = self._settings.soap_tcp_host or urlsplit(self._base).hostname or ""
        server = self._server(f"{scheme}://{host_and_port(host, sock.getsockname()[1])}")
        await server.start([sock], tls)
        self.servers.append(server)

    async def respond(
        self, connection: SoapTcpConnection, message: DimeMessage, gone: asyncio.Event
    ) -> None:
        """Answer what a consumer sent on a connection that we opened to it."""
        server = self.servers[0] if self.servers else self._server(self._base)
        proxied = self._settings.egress_proxy is not None
        facts = TransportFacts(connection.peer, proxied=proxied)
        principal = self._identification.of_connection(facts)
        await server.respond(connection, message, principal, gone)

    def drain(self) -> None:
        """Take no connection and no message more."""
        for server in self.servers:
            server.drain()

    async def close(self, seconds: float) -> None:
        """End all connections; what is under way gets *seconds*."""
        await asyncio.gather(*(server.close(seconds) for server in self.servers))

    def metrics(self) -> Iterator[Sample]:
        """The numbers of all listeners together."""
        return listener_samples(self.servers)

    def _server(self, base: str) -> SoapTcpServer:
        return SoapTcpServer(
            self._service,
            self._parsing,
            gate=self._gate,
            identification=self._identification,
            base=base,
            limits=_limits_of(self._documents),
            documents=self._documents,
            admit_body=self._admit_body,
        )


def _limits_of(documents: DocumentLimits) -> TcpLimits:
    most = documents.octets
    return TcpLimits(dime=DimeLimits(message=most + ATTACHMENTS, envelope=most))
