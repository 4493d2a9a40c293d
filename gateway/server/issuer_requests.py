"""Requests to the issuers of tokens that the file of identities names: on the way, and with the
trust, of all that is sent (``egress_proxy``, ``egress_ca``), but wherever an issuer is."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gateway.egress import (
    AddressPolicy,
    AddressRefused,
    Dialer,
    HttpTransport,
    Proxy,
    Request,
    SendFailed,
    parse_target,
)
from gateway.egress.client_limits import ClientLimits
from gateway.security.issuer_documents import MAX_ANSWER
from gateway.security.tls import TlsError, client_context

ANYWHERE = ("0.0.0.0/0", "::/0")
LIMITS = ClientLimits(exchange=10.0, body=MAX_ANSWER)


@dataclass(frozen=True, slots=True)
class IssuerRequests:
    """Asks issuers (`gateway.security.issuer_documents.Ask`); no connection is kept: keys are read
    once an hour.

    Attributes:
        ca: The only authorities trusted; those of the system when None.
    """

    ca: Path | None = None
    proxy: Proxy | None = None

    async def __call__(
        self, url: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> bytes:
        try:
            target = parse_target(url)
            tls = await asyncio.to_thread(client_context, ca=self.ca)
        except (AddressRefused, TlsError) as refused:
            raise OSError(refused.text) from refused
        policy = AddressPolicy(allow=ANYWHERE, loopback=True)
        dialer = Dialer(policy, tls=tls, proxy=self.proxy)
        transport = HttpTransport(dialer, limits=LIMITS)
        request = Request(
            target,
            body or b"",
            (("Accept", "application/json"),),
            method="GET" if body is None else "POST",
            soap=None,
            own_headers=tuple((headers or {}).items()),
        )
        try:
            answer = await transport.send(request)
        except SendFailed as failed:
            raise OSError(failed.detail) from failed
        finally:
            await transport.close()
            dialer.close()
        if not 200 <= answer.status < 300:
            raise OSError(f"{target.authority} answered {answer.status}")
        return answer.body
