"""New connections: resolve, check, connect, check again, and only then TLS.

Every transport dials through this, so that the policy is asked about each address that is
connected to, whatever is spoken over it.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable, Sequence
from ipaddress import ip_address
from typing import TypeVar

from gateway.egress.addresses import AddressRefused, IPAddress, Target
from gateway.egress.connection import ClientLimits
from gateway.egress.policy import AddressPolicy
from gateway.egress.resolver import Resolver, SystemResolver
from gateway.egress.transport import FailureKind, SendFailed

P = TypeVar("P", bound=asyncio.BaseProtocol)

TLS_SCHEMES = frozenset({"https", "soap.tcps"})

_MAX_ADDRESSES = 8
"""Addresses of one name that are tried; all of them are checked."""


class Dialer:
    """Makes connections to addresses that strangers named.

    Args:
        policy: Asked about every address, on every connection.
        resolver: The system's, when not given.
        tls: A context that verifies; the default trusts what the system trusts.
    """

    def __init__(
        self,
        policy: AddressPolicy,
        *,
        resolver: Resolver | None = None,
        limits: ClientLimits | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._policy = policy
        self._resolver = resolver or SystemResolver()
        self._limits = limits or ClientLimits()
        self._tls = tls or ssl.create_default_context()
        self._loop = asyncio.get_running_loop()

    async def connect(self, target: Target, deadline: float, factory: Callable[[], P]) -> P:
        """A connection to *target*, with TLS where its scheme asks for it.

        Args:
            deadline: The loop's time by which it must be there, TLS handshake included; the
                limits for resolving and connecting end it earlier.
            factory: Makes the protocol of the connection.

        Raises:
            SendFailed: There is none. Only what the policy forbids does not count as
                `SendFailed.connecting`.
        """
        addresses = await self._addresses(target, deadline)
        sock = await self._open(addresses, target, deadline)
        tls = self._tls if target.scheme in TLS_SCHEMES else None
        try:
            async with asyncio.timeout_at(min(deadline, self._loop.time() + self._limits.connect)):
                _, protocol = await self._loop.create_connection(
                    factory, sock=sock, ssl=tls, server_hostname=target.host if tls else None
                )
        except TimeoutError as exc:
            raise SendFailed(FailureKind.TIMEOUT, connecting=True) from exc
        except OSError as exc:  # ssl.SSLError is one
            raise SendFailed(FailureKind.TLS, connecting=True) from exc
        return protocol

    def close(self) -> None:
        """Let go of the resolver."""
        self._resolver.close()

    async def _addresses(self, target: Target, deadline: float) -> Sequence[IPAddress]:
        """All addresses of *target*, each of them allowed."""
        try:
            self._policy.check(target)
            literal = target.literal
            if literal is not None:
                return [literal]
            async with asyncio.timeout_at(min(deadline, self._loop.time() + self._limits.resolve)):
                addresses = await self._resolver.resolve(target.host)
            for address in addresses:
                self._policy.check_ip(address, target)
        except AddressRefused as exc:
            raise SendFailed(FailureKind.FORBIDDEN) from exc
        except OSError as exc:  # TimeoutError is one
            raise SendFailed(FailureKind.NAME, connecting=True) from exc
        if not addresses:
            raise SendFailed(FailureKind.NAME, connecting=True)
        return addresses[:_MAX_ADDRESSES]

    async def _open(
        self, addresses: Sequence[IPAddress], target: Target, deadline: float
    ) -> socket.socket:
        """A socket connected to the first of *addresses* that answers.

        They share the time: each gets an equal part of what its predecessors left.
        """
        end = min(deadline, self._loop.time() + self._limits.connect)
        failure: OSError = OSError()
        for tried, address in enumerate(addresses):
            now = self._loop.time()
            part = now + (end - now) / (len(addresses) - tried)
            try:
                async with asyncio.timeout_at(part):
                    return await self._open_one(address, target)
            except OSError as exc:
                failure = exc
        late = isinstance(failure, TimeoutError)
        kind = FailureKind.TIMEOUT if late else FailureKind.CONNECT
        raise SendFailed(kind, connecting=True) from failure

    async def _open_one(self, address: IPAddress, target: Target) -> socket.socket:
        family = socket.AF_INET if address.version == 4 else socket.AF_INET6
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            sock.setblocking(False)
            await self._loop.sock_connect(sock, (str(address), target.port))
            self._policy.check_ip(ip_address(sock.getpeername()[0]), target)
        except AddressRefused as exc:
            sock.close()
            raise SendFailed(FailureKind.FORBIDDEN) from exc
        except BaseException:
            sock.close()
            raise
        return sock
