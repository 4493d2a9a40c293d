"""Principals: who sends a request, what it may do, and which limits bind it.

Owners, by which the store knows principals, have a scheme: ``anonymous:ADDRESS``, ``user:NAME``,
``cert:SUBJECT``, ``ca:KEYS:SUBJECT`` (of whom authorities with these keys have certified, that a
rule may name). The operator's own, of before, is ``operator``. Those in a tenant have its name in
front: ``tenant:acme:user:NAME``; all others belong to the default tenant, which has no name.
"""

from dataclasses import dataclass, field
from functools import lru_cache
from ipaddress import IPv6Address, IPv6Network, ip_address

from gateway.model.hosts import unmapped
from gateway.security.rights import ALL_GRANTS, ALL_RIGHTS, EVERYBODY, Grants, Right
from gateway.security.tenant_quotas import TenantQuotas
from mediation.tenants import OWNER as TENANT


@lru_cache(maxsize=4096)
def side_of(address: str) -> str:
    """The unit that counts as one stranger: an IPv4 address, or the /64 network of an IPv6 address,
    for whoever has one IPv6 address has the 2**64 of its network.

    An IPv4-mapped address is the IPv4 address in it; a text that is no address stays as it is.
    """
    try:
        ip = unmapped(ip_address(address))
    except ValueError:
        return address
    if isinstance(ip, IPv6Address):
        return str(IPv6Network((int(ip), 64), strict=False))
    return str(ip)


ANONYMOUS = "anonymous:"
"""The scheme of owners without a name: a network address follows."""

USER = "user:"
"""The scheme of owners who are users: of the file of identities, of the store, of an issuer."""

CERTIFIED = "ca:"
"""The scheme of owners whom authorities have certified: the identifiers of their keys follow, with
commas, then the subject. Another authority that certifies the same subject makes another owner."""

BROKER = "broker:"
"""The scheme of owners that a broker names: its user's name follows."""


def issued_by(authority: str, name: str) -> str:
    """The name in rules of whom has the *name* ``cert:SUBJECT`` by a certificate of *authority*."""
    return f"{CERTIFIED}{authority}/{name}"


def owner_in(tenant: str, owner: str) -> str:
    """The name under which the store keeps what *owner* makes in *tenant*."""
    return f"{TENANT}{tenant}:{owner}" if tenant else owner


@lru_cache(maxsize=4096)
def tenant_of(owner: str) -> str:
    """The tenant that an owner is in; empty for the default tenant."""
    return owner.removeprefix(TENANT).partition(":")[0] if owner.startswith(TENANT) else ""


def name_in_tenant(owner: str) -> str:
    """An owner without the name of its tenant: ``user:NAME``."""
    return owner.split(":", 2)[2] if owner.startswith(TENANT) else owner


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits that bind a principal, beside those over all.

    Attributes:
        quotas: It has rates and quotas of its own.
        leases: Its leases are at most as long as the longest.
        reply_addresses: Answers are sent only to hosts that have accepted messages before.
        guarded: It speaks for itself alone: protected topics are closed to it without a proof, and
            it is not told settings. Without this it speaks for the gateway's operator.
    """

    quotas: bool
    leases: bool
    reply_addresses: bool
    guarded: bool


OF_STRANGERS = Limits(quotas=True, leases=True, reply_addresses=True, guarded=True)
OF_TRUSTED = Limits(quotas=False, leases=False, reply_addresses=False, guarded=False)
OF_NAMED = Limits(quotas=True, leases=True, reply_addresses=False, guarded=True)
"""Of who has a name, and comes from a network that is not trusted: what it does is its own."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Whom credentials prove, and how far they go.

    Attributes:
        owner: ``user:NAME``, ``cert:SUBJECT`` or ``ca:KEYS:SUBJECT``.
        roles: What the file and the token say.
        rights: The most that these credentials allow; the rules say what is left of that.
        until: When they must be verified again at the latest, in seconds since 1970.
        tenant: The tenant that it belongs to; empty for the default tenant.
        issuer: Of the token that proved it; empty where another credential did.
        shown: The roles that this token said.
        roles_days: Days for which these count for what it has subscribed to.
        issued: When this token was issued, in seconds since 1970; 0 where it does not say so.
        certificate: The numbers of the certificate that proved it, and of those above, with spaces;
            empty where another credential did.
    """

    owner: str
    roles: frozenset[str] = frozenset()
    rights: frozenset[Right] = ALL_RIGHTS
    until: float = float("inf")
    tenant: str = ""
    issuer: str = ""
    shown: frozenset[str] = frozenset()
    roles_days: int = 0
    authorities: frozenset[str] = frozenset()
    """The names of those that have certified it."""
    issued: float = field(default=0.0, compare=False)
    certificate: str = ""

    @property
    def names(self) -> frozenset[str]:
        """The names by which rules speak of it; those by which rules of its tenant do, too."""
        names = {self.owner, *(f"role:{role}" for role in self.roles)}
        names |= {f"{CERTIFIED}{name}" for name in self.authorities}
        if self.owner.startswith(CERTIFIED) and self.owner.count(":") > 1:
            subject = f"cert:{self.owner.split(':', 2)[2]}"
            names |= {subject, *(issued_by(name, subject) for name in self.authorities)}
        if self.tenant:
            names |= {owner_in(self.tenant, name) for name in (*names, EVERYBODY)}
        return frozenset(names)


@dataclass(frozen=True, slots=True)
class Principal:
    """The sender of a request; `gateway.security.identify` makes it.

    Attributes:
        address: Its network address, for logs.
        owner: The name under which the store keeps what it makes; quotas count by it.
        source: The scope of the ids of what it publishes.
        name: The name that it proved; empty where it proved none.
        tenant: The tenant that it belongs to; empty for the default tenant.
        quotas: Those of its tenant; None of the default one.
        rights: What it may do somewhere; *grants* says on which topics.
    """

    address: str
    owner: str
    source: str
    limits: Limits
    rights: frozenset[Right] = ALL_RIGHTS
    name: str = ""
    tenant: str = ""
    grants: Grants = ALL_GRANTS
    quotas: TenantQuotas | None = field(default=None, compare=False)

    @property
    def stranger(self) -> str | None:
        """The owner to whom is charged what it costs; None where it has no quotas."""
        return self.owner if self.limits.quotas else None

    def reaches(self, owner: str) -> bool:
        """Return whether it may know of what *owner* has: what is in another tenant is, to all but
        the default tenant's operators, as if it did not exist."""
        tenant = tenant_of(owner)
        return tenant == self.tenant or (not self.tenant and Right.OPERATE in self.rights)

    def may_send_to(self, owner: str) -> bool:
        """Return whether it may send to an address that *owner* has given out: who has no name, and
        has the address, may."""
        return not self.name or self.reaches(owner)


def address_of(owner: str) -> str:
    """The network address of an owner, or the network of a stranger."""
    return owner.removeprefix(ANONYMOUS)
