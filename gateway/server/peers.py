"""Peers of the gateway: which networks it trusts, where it may send, at which addresses it is
reached and listens."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gateway.egress import AddressPolicy, Proxy
from gateway.model.host_decisions import HostDecisions
from gateway.model.hosts import host_and_port
from gateway.security.identify import Identification
from gateway.security.networks import Networks, networks
from gateway.server.addresses import own_addresses, own_bases
from gateway.server.issuer_requests import IssuerRequests
from gateway.settings.settings import Settings
from gateway.settings.values import port_ranges

if TYPE_CHECKING:  # Imported where there is such a file.
    from gateway.identities.file import IdentitiesFile
    from gateway.security.revoked_certificates import RevokedCertificates
    from gateway.security.sessions import Sessions

LOOPBACK = ("127.0.0.0/8", "::1")


@dataclass(frozen=True, slots=True)
class Listening:
    """The addresses on which the process listens.

    Attributes:
        own: The host and port.
        admin: Those of the administration's own listener, where it has one.
        tcp_ports: The ports of SOAP.TCP, by scheme.
        clients: What is revoked of the certificates that clients show in TLS; None: they show none.
    """

    own: tuple[str, int]
    admin: tuple[str, int] | None = None
    tcp_ports: Mapping[str, int] = field(default_factory=dict)
    clients: "RevokedCertificates | None" = None


@dataclass(frozen=True, slots=True)
class Peers:
    """Trusted networks, and the addresses of the gateway: ``base`` is its URL without a slash at
    the end, ``bases`` are all at which it is reached."""

    trusted: Networks
    identification: Identification
    identities: "IdentitiesFile | None"
    sessions: "Sessions | None"
    base: str
    policy: AddressPolicy
    decisions: HostDecisions
    bases: frozenset[str]

    @property
    def producer(self) -> str:
        """The gateway's own address, for events without a producer reference."""
        return f"{self.base}/soap"

    @property
    def base_here(self) -> str:
        """A URL at which the gateway reaches itself: ``base``, or where that is of no host
        (``0.0.0.0``), one of loopback."""
        if self.base in self.bases:
            return self.base
        return min((one for one in self.bases if "://127.0.0.1:" in one), default=self.base)


def peers_of(settings: Settings, listening: Listening) -> Peers:
    """The peers that *settings* trust and allow.

    Raises:
        IdentitiesUnusable: The file of identities cannot be used.
    """
    trusted = settings.trusted
    if trusted is None:
        trusted = LOOPBACK if settings.on_loopback else ()
    own, tcp_ports = listening.own, listening.tcp_ports.values()
    decisions = HostDecisions()
    policy = AddressPolicy(
        allow=settings.egress_allow,
        loopback=settings.on_loopback,
        own=own_addresses(settings, own, admin=listening.admin, tcp_ports=tcp_ports),
        deliver_to_self=settings.deliver_to_self,
        schemes=settings.egress_schemes,
        ports=port_ranges(settings.egress_ports),
        forbid=settings.egress_forbidden,
        decisions=decisions,
    )
    base = settings.public_url or f"{settings.web_scheme}://{host_and_port(*own)}"
    known = networks(trusted)
    bases = own_bases(settings, own, listening.tcp_ports)
    identification, file, sessions = _identification(known, settings, listening.clients)
    return Peers(known, identification, file, sessions, base.rstrip("/"), policy, decisions, bases)


def _identification(
    trusted: Networks, settings: Settings, clients: "RevokedCertificates | None"
) -> tuple[Identification, "IdentitiesFile | None", "Sessions | None"]:
    path = settings.identities
    if path is None:
        return Identification(trusted), None, None
    from gateway.identities.file import IdentitiesFile
    from gateway.security.authentication import Authentication
    from gateway.security.issuer_documents import IssuerDocuments
    from gateway.security.openid_login import OpenIdLogin
    from gateway.security.sessions import Sessions

    file = IdentitiesFile(path)
    proxy = settings.egress_proxy
    ask = IssuerRequests(
        settings.egress_ca, Proxy.parse(proxy.get_secret_value()) if proxy else None
    )
    authentication = Authentication(file.identities, path, IssuerDocuments(ask), clients)
    identification = Identification(trusted, authentication=authentication)
    openid = OpenIdLogin(authentication, path.parent)
    return identification, file, Sessions(authentication, openid)
