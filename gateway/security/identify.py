"""The one place where principals are made: of what a transport knows of the sender.

Without a file of identities only the network address counts, and every principal of a transport is
anonymous: a stranger, or trusted because of the network that it is in; all have all rights. With
one, the credentials of a request, else the certificate that its sender showed in TLS, say who it
is (`gateway.security.authentication`), and the rules what it may do.

A transport identifies before the envelope is read, because the principal decides where the message
may be parsed, and who pays for it.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from filters import Reason, Refused, Topic
from gateway.model.shown_certificates import ShownCertificate
from gateway.security.http_digest import HttpRequest
from gateway.security.networks import Networks
from gateway.security.principals import (
    ANONYMOUS,
    BROKER,
    OF_NAMED,
    OF_STRANGERS,
    OF_TRUSTED,
    USER,
    Identity,
    Principal,
    address_of,
    name_in_tenant,
    owner_in,
    side_of,
    tenant_of,
)
from gateway.security.rights import (
    ALL_GRANTS,
    ALL_RIGHTS,
    NOBODY_IN_PARTICULAR,
    Grants,
    Policy,
    Right,
)
from gateway.security.shown_certificates import ShownCertificates
from gateway.security.tenant_quotas import Tenants
from gateway.security.token_roles import RolesOfTokens
from mediation.names import PUBLISHER

if TYPE_CHECKING:  # Its libraries take 0.1 s to import, which a gateway without identities saves.
    from gateway.security.authentication import Authentication
    from gateway.security.certificate_proofs import CertificateProofs
    from gateway.security.identities import Identities
    from mediation.revocation_lists import Revocations

CHALLENGE = 'Bearer realm="dragoman", Basic realm="dragoman", charset="UTF-8"'
"""The value of ``WWW-Authenticate``: how a sender may say who it is (RFC 9110, section 11.6.1).
Where users keep passwords for digests, `Identification.challenges` has more."""
_REMEMBERED = 4096
"""Addresses whose principals are kept: each event of a publisher has the same."""

OPERATOR = Principal("", "operator", "urn:dragoman:operator", OF_TRUSTED)
"""The operator, who is not told apart from whoever reaches the administration."""

GATEWAY = Principal("", "gateway", "urn:dragoman:gateway", OF_TRUSTED)
"""The gateway itself, in the audit log: it ends what expires, and what cannot be delivered to."""


@dataclass(frozen=True, slots=True)
class TransportFacts:
    """What a transport knows of a sender, gathered once.

    Attributes:
        address: Its network address: of the proxy's client, where a proxy of ours is trusted.
        proxied: A proxy of ours dialled there, and anybody may stand behind it.
        certificate: The certificate that it showed in TLS, in DER.
        headers: The fields of its request; none where the transport has none.
        request: Its method and target; None where the transport is not HTTP.
    """

    address: str
    proxied: bool = False
    certificate: bytes | None = None
    headers: Iterable[tuple[bytes, bytes]] = ()
    request: HttpRequest | None = None


class Identification:
    """Tells who sends a request.

    Args:
        trusted: Networks whose peers are trusted: no quotas bind them.
        rights: The rights that everybody has, where no *authentication* says who is who.
    """

    def __init__(
        self,
        trusted: Networks | None = None,
        rights: frozenset[Right] = ALL_RIGHTS,
        authentication: "Authentication | None" = None,
    ) -> None:
        self._trusted = trusted or Networks()
        self._rights = rights
        self.authentication = authentication
        self.tenants = Tenants()
        if authentication is not None:
            self.tenants.use(authentication.identities.quotas)
        self.changes = 0
        """How often the file of identities has changed."""
        self._known: dict[tuple[str, Identity | None], Principal] = {}
        self.roles_of_tokens = RolesOfTokens()
        """What users showed last: what they subscribed to is delivered by it."""
        self.shown_certificates = ShownCertificates()
        """What owners showed last: whether what they subscribed to is delivered goes by it."""
        self.revoked_signers: Callable[[], Revocations] | None = None
        """What is revoked of the certificates of those who sign messages; None: nobody does."""
        self.certificates_changed: Callable[[], None] = lambda: None
        """Called when other certificates may be revoked than before."""
        self.keep_roles: Callable[[], Awaitable[None]] | None = None
        """Writes them where they are there after a restart; None: nowhere."""
        self._grants: dict[str, Grants] = {}
        """Those of owners of subscriptions, who are asked for with each event. It is replaced, not
        emptied: another thread that began by the former rules ends with the former dictionary."""

    @property
    def required(self) -> bool:
        """Whether rules say who may do what."""
        return self.authentication is not None

    @property
    def failed(self) -> Mapping[str, int]:
        """How many credentials proved nothing, by their kind."""
        return self.authentication.failed if self.authentication is not None else {}

    def challenges(self, request: HttpRequest) -> Sequence[str]:
        """How the sender of *request*, which is answered 401, may say who it is: the values of a
        field ``WWW-Authenticate`` each. Those of Digest come first, because clients exist that look
        at the first field alone (aiohttp)."""
        if self.authentication is None:
            return (CHALLENGE,)
        return (*self.authentication.challenges(stale=request.stale), CHALLENGE)

    def challenge_empty(self, principal: Principal) -> None:
        """Have *principal*, who sent an empty body where that cannot be right, say who it is: curl,
        and what is made with libcurl, sends none before it has the challenge of Digest.

        Raises:
            Refused: ``NOT_IDENTIFIED``: it is anonymous, and could answer one.
        """
        if self.authentication is None or not principal.owner.startswith(ANONYMOUS):
            return
        if self.authentication.takes_digests:
            raise Refused(Reason.NOT_IDENTIFIED, "Say who you are: the body is empty.")

    def read_certificates(self, identities: "Identities") -> "CertificateProofs | None":
        """Read the files that *identities* name, for `use`; in any thread."""
        known = self.authentication
        return known.read_certificates(identities) if known is not None else None

    def use(
        self, identities: "Identities", certificates: "CertificateProofs | None" = None
    ) -> None:
        """Go by *identities* from now on.

        Args:
            certificates: What was read of their files; None: these are read now.
        """
        if self.authentication is not None:
            self.authentication.use(identities, certificates)
            self.tenants.use(identities.quotas)
        self.changes += 1
        self._known.clear()
        self._grants = {}
        self.certificates_changed()

    def revoked_of(self, shown: Iterable[ShownCertificate]) -> list[ShownCertificate]:
        """Return those *shown* that are revoked now; in any thread."""
        if self.authentication is None:
            return []
        certificates, ask = self.authentication.certificates, self.revoked_signers
        signers = None if ask is None else ask()

        def is_revoked(numbers: str) -> bool:
            if certificates.is_revoked(numbers):
                return True
            return signers is not None and any(map(signers.is_named, numbers.split()))

        return [one for one in shown if is_revoked(one.numbers)]

    def withdraw_certificates(self, revoked: Iterable[ShownCertificate]) -> None:
        """Have *revoked* prove nobody: also to whoever is identified again when something changes,
        as are readers of streams."""
        self.changes += 1
        self.forget_grants(self.shown_certificates.withdraw(revoked))

    async def identify(self, facts: TransportFacts) -> Principal:
        """The principal of *facts*.

        Raises:
            NotIdentified: Its credentials prove nothing.
            Refused: ``RATE``, ``UNAVAILABLE``: they are not verified now.
        """
        if self.authentication is None:
            return self.of_connection(facts)
        identity = await self.authentication.of_headers(facts.headers, facts.address, facts.request)
        if identity is None:
            return self.of_connection(facts)
        principal = self.principal_of(identity, facts)
        await self.save_roles(principal)
        return principal

    def counts(self, certificate: bytes) -> bool:
        """Return False where a *certificate* (DER), which somebody else has verified, is revoked,
        or may be, or cannot be read."""
        return self.authentication is None or self.authentication.certificates.counts(certificate)

    async def save_roles(self, principal: Principal) -> None:
        """Wait until the roles that a token said of *principal* are in the store: before it
        subscribes, for what is answered outlives a crash."""
        if self.keep_roles is not None and self.roles_of_tokens.is_unsaved(principal.owner):
            await self.keep_roles()

    def of_connection(self, facts: TransportFacts) -> Principal:
        """The principal of a connection: by its certificate and its address alone."""
        if facts.proxied:
            return self._anonymous(facts.address, trusted=False)
        identity = None
        if self.authentication is not None and facts.certificate is not None:
            identity = self.authentication.of_certificate(facts.certificate)
        return self.principal_of(identity, facts)

    def principal_of(self, identity: Identity | None, facts: TransportFacts) -> Principal:
        """The principal whose *identity* was proved, or an anonymous one, at the address of
        *facts*."""
        if identity is not None and identity.issuer:
            self._show_roles(identity)  # Each time: another token may have been the last.
        if identity is not None and identity.certificate:
            owner = owner_in(identity.tenant, identity.owner)
            if self.shown_certificates.show(owner, identity.certificate):
                self.forget_grants([owner])
        key = (facts.address, identity)
        principal = self._known.get(key)
        if principal is None:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            trusted = facts.address in self._trusted
            if identity is None or self.authentication is None:
                principal = self._anonymous(facts.address, trusted=trusted)
            else:
                policy = self.authentication.identities.policy
                principal = self._named(facts.address, identity, policy, trusted=trusted)
            self._known[key] = principal
        return principal

    def _anonymous(self, address: str, *, trusted: bool) -> Principal:
        if self.authentication is None:
            return anonymous(address, trusted=trusted, rights=self._rights)
        grants = self.authentication.identities.policy.grants([NOBODY_IN_PARTICULAR])
        found = anonymous(address, trusted=trusted, rights=grants.rights)
        guarded = Right.OPERATE not in grants.rights
        return replace(found, grants=grants, limits=replace(found.limits, guarded=guarded))

    def _named(
        self, address: str, identity: Identity, policy: Policy, *, trusted: bool
    ) -> Principal:
        """A principal with a name. Who may operate speaks for the gateway's operator; for others
        the network decides whether quotas bind them, as it does for strangers. Who is in a tenant
        speaks for that alone, wherever it is."""
        owner = owner_in(identity.tenant, identity.owner)
        grants = policy.grants(identity.names)
        rights = grants.rights & identity.rights
        operates = Right.OPERATE in rights and not identity.tenant
        limits = OF_TRUSTED if operates or (trusted and not identity.tenant) else OF_NAMED
        return Principal(
            address,
            owner,
            scope_of(owner),
            replace(limits, guarded=not operates),
            rights,
            name=identity.owner.partition(":")[2],
            tenant=identity.tenant,
            grants=grants,
            quotas=self.tenants.get(identity.tenant),
        )

    def _show_roles(self, identity: Identity) -> None:
        """Go by the roles that the token of *identity* said, for what its user subscribed to."""
        owner = owner_in(identity.tenant, identity.owner)
        shown, days = identity.shown, identity.roles_days
        if self.roles_of_tokens.show(owner, identity.issuer, shown, days, identity.issued):
            self.forget_grants([owner])

    def forget_grants(self, owners: Iterable[str]) -> None:
        """Ask anew what the rules grant *owners*: their roles have changed."""
        grants = dict(self._grants)  # In one step: threads add to it meanwhile.
        for owner in owners:
            grants.pop(owner, None)
        self._grants = grants

    def grants_of(self, owner: str) -> Grants:
        """What the rules grant *owner*, of a subscription, now; asked in any thread. The roles of a
        user are those of the file, and those that its last token said."""
        if self.authentication is None or owner == OPERATOR.owner:
            return ALL_GRANTS
        remembered = self._grants  # Before the rules are read.
        found = remembered.get(owner)
        if found is None:
            if len(remembered) >= _REMEMBERED:
                remembered.clear()
            policy = self.authentication.identities.policy
            found = policy.grants(self._names_of(owner, self.authentication))
            remembered[owner] = found
        return found

    def may_receive(self, owner: str, topic: Topic | None) -> bool:
        """Return whether *owner*, of a subscription, may get what is published on *topic*."""
        return self.grants_of(owner).allows(Right.SUBSCRIBE, topic)

    def may_read(self, owner: str, about: str) -> bool:
        """Return whether *owner*, of a subscription, may be told of what happens to what *about*
        owns; empty: to the gateway. What is of tenants is for operators alone."""
        if tenant_of(owner):
            return False
        if not self.required:
            return self.trusts_owner(owner)
        rights = self.grants_of(owner).rights
        return Right.OPERATE in rights or (Right.READ in rights and not tenant_of(about))

    def _names_of(self, owner: str, authentication: "Authentication") -> frozenset[str]:
        if owner.startswith(ANONYMOUS):
            return frozenset({NOBODY_IN_PARTICULAR})
        tenant, name = tenant_of(owner), name_in_tenant(owner)
        if name.startswith(BROKER):
            return Identity(name, tenant=tenant).names
        if name.startswith(USER) and not authentication.can_be_proved(
            name.removeprefix(USER), tenant
        ):
            return frozenset()  # It was removed: rules that still name it grant nobody anything.
        revoked = self.shown_certificates.is_revoked(owner)
        if revoked and not name.startswith(USER):
            return frozenset()  # It has no other credential.
        roles = authentication.roles_of(name, tenant)
        shown = self.roles_of_tokens.find(owner)
        if shown is not None and authentication.has_issuer(shown.issuer):
            roles |= shown.roles
        authorities = frozenset[str]() if revoked else authentication.authorities_of(name, tenant)
        return Identity(name, roles, tenant=tenant, authorities=authorities).names

    def trusts_owner(self, owner: str) -> bool:
        """Return whether *owner*, of a subscription or a mailbox, is a trusted principal."""
        if owner.startswith(ANONYMOUS) or not self.required:
            return address_of(owner) in self._trusted
        return not tenant_of(owner) and Right.OPERATE in self.grants_of(owner).rights


def anonymous(address: str, *, trusted: bool, rights: frozenset[Right] = ALL_RIGHTS) -> Principal:
    """The principal that has no name but its network address: of a stranger, what `side_of` makes
    of it."""
    name = address if trusted else side_of(address)
    limits = OF_TRUSTED if trusted else OF_STRANGERS
    return Principal(address, ANONYMOUS + name, PUBLISHER + name, limits, rights)


def scope_of(owner: str) -> str:
    """Return the scope of the ids of what *owner* publishes.

    A number sign divides it from what the owner says besides (a channel, the source of a
    CloudEvent). In the name itself it is escaped: else who is called ``bank#alarms`` would have the
    ids of ``bank`` at the channel ``alarms``, and what that sends there be taken for repetitions.
    """
    return PUBLISHER + owner.replace("%", "%25").replace("#", "%23")


def producer_of(address: str, owner: str) -> Principal:
    """The principal of events that the gateway itself fetched at *address*, where *owner* had it
    subscribe."""
    return Principal(address, owner, "", OF_TRUSTED)


def without_limits(principal: Principal) -> Principal:
    """*principal* where an operator speaks for it: bound by no limits of its own. An operator of a
    tenant is bound by them."""
    return principal if principal.tenant else replace(principal, limits=OF_TRUSTED)


def publishing_as(principal: Principal, source: str) -> Principal:
    """*principal* with another scope of the ids of what it publishes."""
    return replace(principal, source=source)
