"""Checks of a service of WS-Management that knows who asks by Negotiate: what keeps it from being a
source of the gateway."""

import asyncio
from collections.abc import Iterator
from urllib.parse import urlsplit

from gateway.checks.findings import Finding, fail, ok, warn
from gateway.egress import (
    AddressPolicy,
    AddressRefused,
    Answer,
    ClientLimits,
    Dialer,
    HttpTransport,
    Request,
    SendFailed,
    parse_target,
)
from gateway.sources.negotiation import INSTALL, NegotiationFailed, is_installed, negotiate
from mediation.model.versions import Soap
from mediation.soap.envelopes import http_headers

SECONDS = 10.0
"""Of each request."""
IDENTIFY = (
    f'<s:Envelope xmlns:s="{Soap.V1_2.value}"><s:Header/><s:Body><i:Identify '
    'xmlns:i="http://schemas.dmtf.org/wbem/wsman/identity/1/wsmanidentity.xsd"/></s:Body>'
    "</s:Envelope>"
).encode()
"""WS-Management 1.0 (DSP0226), section 11: who the service is; nothing is changed there."""


def check_service(url: str, user: str, password: str) -> Iterator[Finding]:
    """Ask the service at *url* who it is, as *user*."""
    if not is_installed():
        yield fail("negotiate", f"pyspnego is not installed: {INSTALL}")
        return
    if not url.startswith("https://"):
        yield warn(
            "address",
            "over http everybody on the way reads the events, and Windows refuses what its session "
            "does not encrypt: use https, at port 5986",
        )
    yield asyncio.run(_identify(url, user, password))


async def _identify(url: str, user: str, password: str) -> Finding:
    host = urlsplit(url).hostname or ""
    try:
        target = parse_target(url)
    except AddressRefused as refused:
        return fail("address", refused.text)
    limits = ClientLimits(connections=1, exchange=SECONDS)
    dialer = Dialer(AddressPolicy(allow=[host], loopback=True))
    transport = HttpTransport(dialer, limits=limits)
    request = Request(target, IDENTIFY, http_headers(Soap.V1_2, ""), soap=Soap.V1_2)
    try:
        answer = await negotiate(transport.send, request, user, password)
    except NegotiationFailed as failed:
        return fail("password", str(failed))
    except SendFailed as failed:
        return fail("service", f"{host} does not answer: {failed.detail}")
    finally:
        await transport.close()
        dialer.close()
    return _judge(answer, user, url)


def _judge(answer: Answer, user: str, url: str) -> Finding:
    match answer.status:
        case 200:
            return ok("service", f"it answers to the user {user!r}")
        case 401:
            return fail(
                "password",
                f"it refused the user {user!r}, or the password; a user of a domain is written "
                "DOMAIN\\user or user@domain",
            )
        case 403:
            return fail("rights", f"it knows the user {user!r}, who may not ask it")
        case 404:
            return fail("address", f"nothing is at {urlsplit(url).path}: mostly it is /wsman")
        case status:
            return fail("service", f"it answered {status} to Identify")
