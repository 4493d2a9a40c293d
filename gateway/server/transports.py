"""Makes the transports: Dragoman's own, and those of other packages that the settings enable."""

import asyncio
import ssl
from collections.abc import Iterable, Mapping
from functools import partial
from ipaddress import ip_address
from urllib.parse import urlsplit

import structlog

from filters import Reason
from gateway.egress import (
    AddressPolicy,
    AddressRefused,
    ClientLimits,
    ConsumerOptions,
    Dialer,
    HttpTransport,
    Proxy,
    Request,
    Schemes,
    Target,
    Transport,
    TransportByScheme,
    parse_target,
)
from gateway.egress.credential_kinds import ClientCredentials
from gateway.egress.mail import MailTransport
from gateway.egress.plugins import (
    GuardedTransport,
    TransportError,
    load_transport,
    transport_samples,
)
from gateway.egress.signed_replies import ReplyChecks
from gateway.egress.soap_tcp_transport import Handler, SoapTcpTransport
from gateway.mailboxes.mailboxes import Mailboxes
from gateway.mailboxes.transport import SCHEME, MailboxTransport
from gateway.observing.samples import Sample
from gateway.parsing import Parsing
from gateway.rooms import Room, Work
from gateway.security.audit import Audit
from gateway.security.file_watch import FileWatch
from gateway.security.tls import Names, TlsError, client_context
from gateway.server.peers import Peers
from gateway.settings.settings import Settings

MAIL = "mailto"
GOT = "gave us a receipt"
"""What a record of the audit log did that has what a consumer signed."""
_log = structlog.get_logger("dragoman")
PATIENT = ClientLimits(exchange=40.0, body=2**20, connections=1000)
"""Limits of requests whose answers are waited for: the events that are pulled."""


class TransportRoom(Room):
    """The transports, and the threads that parse and write messages.

    Args:
        answer: Takes what consumers send on the connections of SOAP.TCP that are opened to them.
        audit: Keeps what consumers sign of what they got.

    Attributes:
        schemes: The addresses that may be sent to.
        options: What consumers need.

    Raises:
        TlsError: A file that the settings name cannot be used.
        TransportError: A transport of another package cannot be used.
    """

    def __init__(
        self,
        settings: Settings,
        peers: Peers,
        mailboxes: Mailboxes,
        parsing: Parsing,
        answer: Handler,
        audit: Audit,
    ) -> None:
        self.parsing = parsing
        self.policy = peers.policy
        self._settings = settings
        named = (settings.egress_ca, settings.egress_certificate, settings.egress_key)
        self._certificates = FileWatch(path for path in named if path is not None)
        self._dialer = dialer = _dialer(settings, peers.policy)
        http = HttpTransport(dialer)
        self._soap_tcp = SoapTcpTransport(dialer, handler=answer, parsing=parsing)
        guarded, strangers = _guarded(settings, peers.policy)
        self._guarded = tuple(guarded.values())
        transports: dict[str, Transport] = {
            "http": http,
            "https": http,
            "soap.tcp": self._soap_tcp,
            "soap.tcps": self._soap_tcp,
            SCHEME: MailboxTransport(mailboxes),
            **guarded,
        }
        self.by_scheme = TransportByScheme(
            transports,
            dialer,
            HttpTransport(dialer, limits=PATIENT),
            endpoints=_endpoints(settings),
            parsing=parsing,
            replies=ReplyChecks(parsing, partial(_keep_receipt, audit)),
        )
        self.schemes = Schemes(
            peers.policy,
            guarded,
            strangers=strangers,
            trusts=peers.identification.trusts_owner,
        )
        self.options = dialer.options

    def works(self) -> Iterable[Work]:
        return self.options.watch, self._watch_certificates

    async def _watch_certificates(self) -> None:
        """Show consumers the certificate that is in the files, and trust whom these name, whenever
        they change; connections that there are stay."""
        while True:
            await self._certificates.changes()
            try:
                self._dialer.use_tls(await asyncio.to_thread(_tls, self._settings))
            except TlsError as error:
                _log.error("tls.not-renewed", why=error.text)
            else:
                _log.info("tls.renewed", consumers=True)

    def metrics(self) -> Iterable[Sample]:
        yield from self._soap_tcp.metrics()
        yield from transport_samples(self._guarded)

    def drain(self) -> None:
        self.parsing.drain()

    async def close(self) -> None:
        await self.by_scheme.close()
        self.parsing.close()


def _guarded(
    settings: Settings, policy: AddressPolicy
) -> tuple[Mapping[str, GuardedTransport], frozenset[str]]:
    """The transports with bounds around them, by scheme, and the schemes open to strangers."""

    def may_reach(target: Target, address: str) -> bool:
        try:
            policy.check_ip(ip_address(address), target)
        except (AddressRefused, ValueError):
            return False
        return True

    made: dict[str, GuardedTransport] = {}
    strangers = {row.scheme for row in settings.transports if row.strangers}
    for row in settings.transports:
        if row.scheme in made or row.scheme == SCHEME:
            raise TransportError(Reason.INTERNAL, f"transports: {row.scheme}: has two rows")
        made[row.scheme] = GuardedTransport(
            load_transport(row, may_reach),
            row.scheme,
            timeout=row.timeout,
            at_a_time=row.at_a_time,
        )
    mail = settings.mail
    if mail is not None:
        tls = client_context(ca=mail.ca, names=Names("", "", "mail.ca"))
        made[MAIL] = GuardedTransport(
            MailTransport(mail, tls), MAIL, timeout=mail.timeout, at_a_time=mail.at_a_time
        )
        if mail.strangers:
            strangers.add(MAIL)
    return made, frozenset(strangers)


def transport_to_self(settings: Settings, peers: Peers) -> TransportByScheme:
    """The transport of requests to this gateway itself, over HTTP, for what acts in it as a client:
    it goes through no proxy, and leads to no other host. Requests for other ports of these hosts
    must not be given to it."""
    hosts = {urlsplit(one).hostname or "" for one in peers.bases}
    dialer = Dialer(
        AddressPolicy(allow=hosts, loopback=True), tls=client_context(ca=settings.egress_ca)
    )
    http = HttpTransport(dialer)
    patient = HttpTransport(dialer, limits=PATIENT)
    return TransportByScheme({"http": http, "https": http}, dialer, patient)


def _endpoints(settings: Settings) -> TransportByScheme | None:
    """The transport of requests to the authorization servers that the settings name, which may be
    inside; it leads to no other host. None where they name none."""
    rows = (row.credential for row in settings.consumers)
    hosts = {parse_target(row.token_url).host for row in rows if isinstance(row, ClientCredentials)}
    if not hosts:
        return None
    proxy = settings.egress_proxy
    dialer = Dialer(
        AddressPolicy(allow=hosts, loopback=True),
        tls=client_context(ca=settings.egress_ca),
        proxy=Proxy.parse(proxy.get_secret_value()) if proxy else None,
    )
    http = HttpTransport(dialer)
    return TransportByScheme({"http": http, "https": http}, dialer)


def _tls(settings: Settings) -> ssl.SSLContext:
    """The context of connections to consumers.

    Raises:
        TlsError: A file that the settings name cannot be used.
    """
    return client_context(
        ca=settings.egress_ca, certificate=settings.egress_certificate, key=settings.egress_key
    )


def _dialer(settings: Settings, policy: AddressPolicy) -> Dialer:
    proxy = settings.egress_proxy
    return Dialer(
        policy,
        tls=_tls(settings),
        options=ConsumerOptions(settings.consumers, ca=settings.egress_ca),
        proxy=Proxy.parse(proxy.get_secret_value()) if proxy else None,
    )


async def _keep_receipt(audit: Audit, request: Request, subject: str, octets: bytes) -> None:
    """Have the audit log keep what a consumer signed.

    Raises:
        AuditUnusable: It cannot.
    """
    who, message_id = f"cert:{subject}", request.message_id or ""
    await audit.keep(who, request.target.host, GOT, message_id, octets)
