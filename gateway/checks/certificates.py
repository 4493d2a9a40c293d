"""The certificates that are shown, and the files that what is sent is verified with."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from gateway.checks.findings import Finding, fail, ok, warn
from gateway.egress import ConsumerOptions
from gateway.egress.credential_kinds import X509, SecretUnusable
from gateway.security.certificates import validity_of
from gateway.security.tls import TlsError, client_context, server_context
from gateway.security.ws_security_files import WsSecurityFile, WsSecurityFileUnusable
from gateway.settings.settings import Settings
from mediation.ws_security import read_decryption_keys, read_key_and_certificate, read_trust

SOON = 14
"""Days before its end at which a certificate should be renewed."""


def check_tls(settings: Settings) -> Iterator[Finding]:
    """Check the certificate that the listeners show."""
    try:
        server_context(settings)
    except TlsError as error:
        yield fail("TLS", f"{error}; correct it")
        return
    if settings.tls_certificate is not None:
        rows = [("", settings.tls_certificate)]
        rows += [(f"{row.name}: ", row.certificate) for row in settings.tls_names]
        renew = "renew it"
        yield from (judge("TLS", begin, path, renew) for begin, path in rows)


def check_egress(settings: Settings) -> Iterator[Finding]:
    """Check the certificates and the secrets that consumers are shown."""
    try:
        client_context(
            ca=settings.egress_ca, certificate=settings.egress_certificate, key=settings.egress_key
        )
        ConsumerOptions(settings.consumers, ca=settings.egress_ca)
    except (TlsError, SecretUnusable) as error:
        yield fail("egress", f"{error}; correct it")
        return
    inside = "named in egress_allow" if settings.egress_allow else "refused: egress_allow is empty"
    loopback = ", except on loopback" if settings.on_loopback else ""
    yield ok("egress", f"consumers at private addresses are {inside}{loopback}")
    shown = [("", settings.egress_certificate)]
    shown += [(f"consumers: {row.address}: ", row.client_certificate) for row in settings.consumers]
    shown += [
        (f"consumers: {row.address}: credential: ", row.credential.certificate)
        for row in settings.consumers
        if isinstance(row.credential, X509)
    ]
    renew = "renew it"
    yield from (judge("egress", begin, path, renew) for begin, path in shown if path is not None)


def check_ws_security(settings: Settings) -> Iterator[Finding]:
    """Check the files of signed and encrypted messages, if there are any."""
    said = settings.ws_security
    try:
        if said.signers is not None:
            WsSecurityFile("signers", said.signers, read_trust)
        if said.key is not None:
            WsSecurityFile("key", said.key, read_decryption_keys)
        if said.signing_key is not None:
            WsSecurityFile("signing_key", said.signing_key, read_key_and_certificate)
    except WsSecurityFileUnusable as error:
        yield fail("WS-Security", f"{error}; correct it")
        return
    for path in (said.signers, said.signing_key):
        if path is not None:
            yield judge("WS-Security", "", path, "renew it")


def judge(what: str, begin: str, path: Path, renew: str) -> Finding:
    """Check how long the certificate in *path*, which can be used, is valid."""
    validity, now = validity_of(path), datetime.now(UTC)
    since, until, days = validity.since, validity.until, validity.days_left(now)
    if now < since:
        return fail(what, f"{begin}{path} is valid from {since:%Y-%m-%d} only; see the clock")
    if until <= now:
        return fail(what, f"{begin}{path} expired on {until:%Y-%m-%d}; {renew}")
    text = f"{begin}{path} is valid for {days} days"
    return warn(what, f"{text} more; {renew}") if days < SOON else ok(what, text)
