"""New connections: resolve, check, connect, check again, and only then TLS.

Every transport dials through this, so that the policy is asked about each address that is
connected to, whatever is spoken over it.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Protocol, TypeAlias, TypeVar, cast

from gateway.egress.addresses import AddressRefused, Target
from gateway.egress.causes import (
    certificate_words,
    handshake_words,
    name_words,
    seconds_words,
    system_words,
    tells_more,
)
from gateway.egress.client_limits import ClientLimits
from gateway.egress.consumer_options import PLAIN, ConsumerOptions, Options
from gateway.egress.policy import AddressPolicy
from gateway.egress.proxy import Proxy, TunnelRefused
from gateway.egress.resolver import Resolver, SystemResolver
from gateway.egress.transport import FailureKind, SendFailed
from gateway.model.hosts import IPAddress, hosts_behind
from gateway.security.tls import client_context

P = TypeVar("P", bound=asyncio.BaseProtocol)

TLS_SCHEMES = frozenset({"https", "soap.tcps"})

_MAX_ADDRESSES = 8
"""Addresses of one name that are tried; all of them are checked."""


class Kept(Protocol):
    """A connection that is kept for the next message."""

    @property
    def peer(self) -> str:
        """The address on the other side."""


@dataclass(frozen=True, slots=True)
class Detour:
    """The key of connections that are made by the options of a consumer.

    Attributes:
        goal: What is connected to.
        host: The consumer's own.
        certified: The certificate of the row is shown on it, where that has one: a connection that
            is the owner's is never used for somebody else.
        tls: The context of the one producer for which the connection is; None: that of the options.
    """

    goal: tuple[str, str, int]
    host: str
    options: Options
    certified: bool = True
    tls: ssl.SSLContext | None = None


Route: TypeAlias = Detour | tuple[str, str, int]
"""The key by which connections are kept and shared: mostly scheme, host and port."""


class Dialer:
    """Makes connections to addresses that strangers named.

    Args:
        policy: Asked about every address, on every connection.
        resolver: The system's, when not given.
        tls: A context that verifies; the default trusts what the system trusts.
        options: What consumers need: where to connect instead, another context.
        proxy: What connects us instead. Names are then its to resolve and to judge, addresses
            are judged here all the same; one that is set in the environment means nothing.
    """

    def __init__(
        self,
        policy: AddressPolicy,
        *,
        resolver: Resolver | None = None,
        limits: ClientLimits | None = None,
        tls: ssl.SSLContext | None = None,
        options: ConsumerOptions | None = None,
        proxy: Proxy | None = None,
    ) -> None:
        self._policy = policy
        self._resolver = resolver or SystemResolver()
        self._limits = limits or ClientLimits()
        self._tls = tls or client_context()
        self._proxy = proxy
        self._loop = asyncio.get_running_loop()
        self.options = options or ConsumerOptions()

    def route(
        self, target: Target, owner: str | None = None, tls: ssl.SSLContext | None = None
    ) -> Route:
        """The key by which connections for *target* may be kept and shared, for what is sent for a
        subscription of *owner*, None: for none; with *tls*, where that has a context of its own."""
        options = self.options.of(target)
        if options is PLAIN and tls is None:
            return target.destination
        goal, certified = (options.via or target).destination, options.shows_certificate(owner)
        return Detour(goal, target.host, options, certified, tls)

    def proxy_of(self, target: Target) -> Proxy | None:
        """The proxy that a connection for *target* speaks HTTP with, and not through."""
        if self._proxy is None or target.scheme != "http" or self.options.of(target).via:
            return None
        return self._proxy

    def may_use(self, connection: Kept, route: Route) -> bool:
        """Whether *connection* of a *route*, whose address was judged when it was made, may be used
        again: operators may have forbidden the host, also one that is reached by way of another
        (``via``), or the address since. Asked twice for each delivery."""
        forbidden = self._policy.decisions.forbidden
        if not forbidden:
            return True
        if (route.host if isinstance(route, Detour) else route[1]) in forbidden:
            return False
        return self._proxy is not None or hosts_behind(connection.peer).isdisjoint(forbidden)

    async def connect(
        self,
        target: Target,
        deadline: float,
        factory: Callable[[], P],
        owner: str | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> P:
        """A connection for *target*, with TLS where its scheme asks for it.

        Args:
            owner: Of the subscription for which it is, as in `route`.
            tls: The context of its own for TLS; None: that of the options, or of everybody.
            deadline: The loop's time by which it must be there, TLS handshake included; the
                limits for resolving and connecting end it earlier.
            factory: Makes the protocol of the connection.

        Raises:
            SendFailed: There is none. Only what the policy forbids does not count as
                `SendFailed.connecting`.
        """
        options = self.options.of(target)
        goal = options.via or target
        if options.via is not None:  # Else it is judged where it is connected to.
            self._check_named(target)
        sock = await self._socket(goal, target, deadline)
        if goal.scheme not in TLS_SCHEMES:
            return await self._plain(sock, factory)
        tls = tls or options.tls_for(owner) or self._tls
        name = options.server_name or target.host
        end = min(deadline, self._loop.time() + self._limits.connect)
        try:
            return await self._shake_hands(sock, tls, name, end, factory)
        except TimeoutError as exc:
            text = f"no TLS handshake within {seconds_words(self._limits.connect)}"
            raise SendFailed(FailureKind.TIMEOUT, text, connecting=True) from exc
        except ssl.SSLCertVerificationError as exc:
            shown = await self._look(goal, target, name, end) if tells_more(exc) else None
            text = certificate_words(exc, goal.authority, name, shown)
            raise SendFailed(FailureKind.TLS, text, connecting=True) from exc
        except OSError as exc:
            raise SendFailed(FailureKind.TLS, handshake_words(exc), connecting=True) from exc

    def use_tls(self, tls: ssl.SSLContext) -> None:
        """Make connections with *tls* from now on, but where options have another context."""
        self._tls = tls

    def close(self) -> None:
        """Let go of the resolver."""
        self._resolver.close()

    async def _plain(self, sock: socket.socket, factory: Callable[[], P]) -> P:
        try:
            _, protocol = await self._loop.create_connection(factory, sock=sock)
        except OSError as exc:
            raise SendFailed(FailureKind.CONNECT, system_words(exc), connecting=True) from exc
        return protocol

    async def _shake_hands(
        self,
        sock: socket.socket,
        tls: ssl.SSLContext,
        name: str,
        end: float,
        factory: Callable[[], P],
    ) -> P:
        async with asyncio.timeout_at(end):
            _, protocol = await self._loop.create_connection(
                factory, sock=sock, ssl=tls, server_hostname=name
            )
            return protocol

    async def _look(self, goal: Target, target: Target, name: str, end: float) -> bytes | None:
        """The certificate (DER) that *goal* shows, over a connection of its own, on which nothing
        is sent: OpenSSL does not say what was wrong with one that it did not accept."""
        anybody = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        anybody.check_hostname = False
        anybody.verify_mode = ssl.CERT_NONE
        try:
            sock = await self._socket(goal, target, end)
            looking = await self._shake_hands(sock, anybody, name, end, _Looking)
        except (OSError, SendFailed):  # TimeoutError is one
            return None
        return looking.certificate

    async def _socket(self, goal: Target, target: Target, deadline: float) -> socket.socket:
        if self._proxy is None:
            return await self._reach(goal, deadline)
        return await self._reach_through(self._proxy, goal, target, deadline)

    def _check_named(self, target: Target) -> None:
        try:
            self._policy.check(target)
        except AddressRefused as exc:
            raise forbidden(exc) from exc

    async def _reach(self, goal: Target, deadline: float) -> socket.socket:
        """A socket connected to *goal* itself."""
        try:
            self._policy.check(goal)
            addresses = await self._addresses(goal.host, goal.literal, deadline)
            for address in addresses:
                self._policy.check_ip(address, goal)
            return await self._open(
                addresses, goal.port, deadline, lambda peer: self._policy.check_ip(peer, goal)
            )
        except AddressRefused as exc:
            raise forbidden(exc) from exc

    async def _reach_through(
        self, proxy: Proxy, goal: Target, target: Target, deadline: float
    ) -> socket.socket:
        """A socket connected to *proxy*, and through it to *goal* where it is a tunnel."""
        self._check_named(goal)
        try:
            addresses = await self._addresses(proxy.host, _literal(proxy.host), deadline)
            sock = await self._open(addresses, proxy.port, deadline, lambda _: None)
        except SendFailed as exc:
            raise SendFailed(exc.kind, f"egress_proxy: {exc.detail}", connecting=True) from exc
        if self.proxy_of(target) is not None:
            return sock
        # The proxy resolves and connects meanwhile, and has the time that we would have had.
        end = self._loop.time() + self._limits.resolve + self._limits.connect
        try:
            async with asyncio.timeout_at(min(deadline, end)):
                await proxy.tunnel(sock, goal)
        except TimeoutError as exc:
            sock.close()
            text = "egress_proxy: the proxy made no connection in time"
            raise SendFailed(FailureKind.TIMEOUT, text, connecting=True) from exc
        except TunnelRefused as exc:
            sock.close()
            text = f"egress_proxy: {exc}"
            raise SendFailed(FailureKind.CONNECT, text, connecting=True) from exc
        except OSError as exc:
            sock.close()
            text = f"egress_proxy: {system_words(exc)}"
            raise SendFailed(FailureKind.CONNECT, text, connecting=True) from exc
        except BaseException:
            sock.close()
            raise
        return sock

    async def _addresses(
        self, host: str, literal: IPAddress | None, deadline: float
    ) -> Sequence[IPAddress]:
        """Resolve *host* to all its addresses."""
        if literal is not None:
            return [literal]
        try:
            async with asyncio.timeout_at(min(deadline, self._loop.time() + self._limits.resolve)):
                addresses = await self._resolver.resolve(host)
        except TimeoutError as exc:
            text = f"{host} was not looked up within {seconds_words(self._limits.resolve)}"
            raise SendFailed(FailureKind.NAME, text, connecting=True) from exc
        except OSError as exc:
            raise SendFailed(FailureKind.NAME, name_words(host, exc), connecting=True) from exc
        if not addresses:
            raise SendFailed(FailureKind.NAME, name_words(host, None), connecting=True)
        return addresses

    async def _open(
        self,
        addresses: Sequence[IPAddress],
        port: int,
        deadline: float,
        check: Callable[[IPAddress], None],
    ) -> socket.socket:
        """A socket connected to the first of *addresses* that answers; *check* judges the peer.

        They share the time: each gets an equal part of what its predecessors left.
        """
        addresses = addresses[:_MAX_ADDRESSES]
        end = min(deadline, self._loop.time() + self._limits.connect)
        failure: OSError = OSError()
        for tried, address in enumerate(addresses):
            now = self._loop.time()
            part = now + (end - now) / (len(addresses) - tried)
            try:
                async with asyncio.timeout_at(part):
                    return await self._open_one(address, port, check)
            except OSError as exc:
                failure = exc.with_traceback(None)
        if isinstance(failure, TimeoutError) and failure.errno is None:
            text = f"no connection within {seconds_words(self._limits.connect)}"
            raise SendFailed(FailureKind.TIMEOUT, text, connecting=True) from failure
        late = isinstance(failure, TimeoutError)
        kind = FailureKind.TIMEOUT if late else FailureKind.CONNECT
        raise SendFailed(kind, system_words(failure), connecting=True) from failure

    async def _open_one(
        self, address: IPAddress, port: int, check: Callable[[IPAddress], None]
    ) -> socket.socket:
        family = socket.AF_INET if address.version == 4 else socket.AF_INET6
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            sock.setblocking(False)
            await self._loop.sock_connect(sock, (str(address), port))
            check(ip_address(sock.getpeername()[0]))
        except BaseException:
            sock.close()
            raise
        return sock


def forbidden(refused: AddressRefused) -> SendFailed:
    """The failure of what the policy does not allow, with the setting that would."""
    mend = f" ({refused.allowed_by})" if refused.allowed_by else ""
    return SendFailed(FailureKind.FORBIDDEN, f"{FailureKind.FORBIDDEN.value}{mend}")


class _Looking(asyncio.Protocol):
    """Takes the certificate of a peer, and says nothing to it."""

    certificate: bytes | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        tls = transport.get_extra_info("ssl_object")
        self.certificate = tls.getpeercert(binary_form=True) if tls is not None else None
        cast(asyncio.Transport, transport).abort()  # uvloop's is none by class


def _literal(host: str) -> IPAddress | None:
    try:
        return ip_address(host)
    except ValueError:
        return None
