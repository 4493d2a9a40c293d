"""Verify signatures: digest, signature, certificates up to an anchor, identifier.

There are two sets of anchors, for nodes and for entities, that have nothing in common: else any
entity could sign advertisements as a node. That the identifier of a key is the one that a message
names, `mediation.discovery.checks` compares.

Checking is written here for the one shape of signature that there is (`xml_signature`), on what
libxml2 canonicalises and `cryptography` verifies; tests compare it with signxml and xmlsec1.
signxml itself takes XML Signature as a whole, at more than ten times the cost of the keys: with it
a node would not take a thousand advertisements a second.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.verification import (
    Criticality,
    ExtensionPolicy,
    Policy,
    VerificationError,
)

from mediation.certificate_chains import (
    MOST_CHAINS,
    ChainBuilder,
    ValidChains,
    check_keys,
    has_issued,
    is_authority,
    is_valid,
)
from mediation.certificates import UNREADABLE_CERTIFICATE, read_certificate, read_certificates
from mediation.discovery.credentials import usage_of
from mediation.discovery.errors import SignatureRefused
from mediation.discovery.identifiers import Role, authority_of, identifier_of
from mediation.discovery.reading import Received
from mediation.discovery.values import Element
from mediation.discovery.xml_signature import Method, XmlSignature
from mediation.public_keys import subject_public_key_info
from mediation.revocation_lists import (
    NO_REVOCATIONS,
    CertificateRevoked,
    Revocations,
    read_revocations,
)
from mediation.xml_security import ecdsa_der


def fingerprint_of(certificate: x509.Certificate) -> str:
    """The SHA-256 of a certificate, in hexadecimal digits."""
    return hashlib.sha256(certificate.public_bytes(Encoding.DER)).hexdigest()


@dataclass(frozen=True)
class Anchors:
    """Whom to believe: authorities, and certificates by their fingerprints.

    Args:
        fingerprints: SHA-256 in hexadecimal digits, with or without colons.
        revocations: What the authorities have revoked.

    Raises:
        ValueError: A fingerprint is none.
    """

    authorities: tuple[x509.Certificate, ...] = ()
    fingerprints: frozenset[str] = frozenset()
    revocations: Revocations = NO_REVOCATIONS

    def __post_init__(self) -> None:
        plain = frozenset(word.replace(":", "").lower() for word in self.fingerprints)
        for word in plain:
            if len(word) != 64 or not set(word) <= set("0123456789abcdef"):
                raise ValueError(f"{word!r} is not a SHA-256 in 64 hexadecimal digits")
        object.__setattr__(self, "fingerprints", plain)


@dataclass(frozen=True)
class Trust:
    """The anchors of nodes and of entities, and identifiers, also of authorities, that are refused
    all the same.

    Raises:
        ValueError: The two sets overlap: an anchor, its key, or an authority that another of the
            other set certified. That one did so through authorities between them, only a chain
            shows: `Verifier` refuses it.
    """

    nodes: Anchors = field(default_factory=Anchors)
    entities: Anchors = field(default_factory=Anchors)
    refused: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if self.nodes.fingerprints & self.entities.fingerprints:
            raise ValueError("a certificate is trusted as a node's and as an entity's")
        for one in self.nodes.authorities:
            for other in self.entities.authorities:
                if (
                    _key_of(one) == _key_of(other)
                    or has_issued(one, other)
                    or has_issued(other, one)
                ):
                    raise ValueError(
                        "an authority for nodes is one for entities, too, or certified by one: "
                        f"{one.subject.rfc4514_string()}, {other.subject.rfc4514_string()}"
                    )

    def anchors(self, role: Role) -> Anchors:
        return self.nodes if role is Role.NODE else self.entities


@dataclass(frozen=True, slots=True)
class Signer:
    """The signer of a message: the identifier that its key gives, and its certificate.

    Attributes:
        authorities: The identifiers of those that certified it, up to an anchor.
    """

    identifier: str
    role: Role
    certificate: x509.Certificate
    authorities: frozenset[str] = frozenset()


class Verifier:
    """Tells who signed messages.

    It remembers chains of certificates that led to an anchor (`ValidChains`).
    """

    def __init__(self, trust: Trust, *, most: int = MOST_CHAINS) -> None:
        self.trust = trust
        self._known: ValidChains[tuple[Role, tuple[bytes, ...]], Signer] = ValidChains(
            most, self._next_due
        )
        self._chains = {role: chains_to(trust.anchors(role)) for role in Role}

    def verify(self, received: Received[Element], role: Role, *, now: datetime) -> Signer:
        """Check the signature of *received*, which is to be of a *role*.

        Raises:
            SignatureRefused: The signature is missing, covers something else or is wrong, its
                certificate leads to no anchor for *role* or is not valid at *now*, or its key is
                refused.
        """
        signature = received.signature
        if signature is None:
            raise SignatureRefused("The message is not signed.")
        if signature.reference != received.id:
            raise SignatureRefused("The signature covers another element.")
        if hashlib.sha256(received.signed).digest() != signature.digest:
            raise SignatureRefused("The message is not what was signed.")
        signer = self._signer(signature.certificates, role, now)
        if not _is_signed(signature, signer.certificate):
            raise SignatureRefused("The signature is wrong.")
        if signer.identifier in self.trust.refused:
            raise SignatureRefused("The signer is refused here.", value=signer.identifier)
        return signer

    def authorities_of(self, certificate: bytes, *, now: datetime) -> frozenset[str]:
        """Return the identifiers of the authorities of entities that have certified who showed a
        *certificate* (DER) by itself, as to TLS: those between are known if they are anchors."""
        try:
            return self._signer((certificate,), Role.ENTITY, now).authorities
        except SignatureRefused:
            return frozenset()

    def _signer(self, certificates: tuple[bytes, ...], role: Role, now: datetime) -> Signer:
        learn = partial(self._learn, certificates, role, now)
        return self._known.learn((role, certificates), now, learn)

    def _next_due(self, now: datetime) -> datetime | None:
        found = (self.trust.anchors(role).revocations.next_due(now) for role in Role)
        return min((one for one in found if one is not None), default=None)

    def _learn(
        self, certificates: tuple[bytes, ...], role: Role, now: datetime
    ) -> tuple[Signer, Sequence[x509.Certificate]]:
        """The signer, and the chain of its certificate."""
        try:
            chain = self._chain(certificates, role, now)
            if len(chain) > 1:
                chain += self._above(chain[-1], role, now)
                check_revoked(chain, self.trust.anchors(role), now)
            leaf, *others = chain
            authorities = frozenset(map(authority_of, others))
            check_refused(chain, self.trust.refused)
            return Signer(identifier_of(leaf, role), role, leaf, authorities), chain
        except UNREADABLE_CERTIFICATE:
            raise SignatureRefused("A certificate of the signature cannot be read.") from None

    def _chain(
        self, certificates: tuple[bytes, ...], role: Role, now: datetime
    ) -> list[x509.Certificate]:
        """The certificates from the signer's to an anchor.

        Raises:
            SignatureRefused: They lead to none.
            `UNREADABLE_CERTIFICATE`: One cannot be read.
        """
        leaf, *others = [read_certificate(octets) for octets in certificates]
        anchors = self.trust.anchors(role)
        chain = chain_to_anchor(leaf, others, anchors, self._chains[role], now=now)
        if len(chain) == 1 and fingerprint_of(leaf) in anchors.fingerprints:
            return chain
        # One authority may have certified the other through authorities that only the chain shows.
        if any(self._is_anchor_of_others(one, role) for one in chain):
            raise SignatureRefused("The certificate leads to an anchor of the other role, too.")
        return chain

    def _above(self, anchor: x509.Certificate, role: Role, now: datetime) -> list[x509.Certificate]:
        """The anchors above *anchor*, each of which certified the one before: a chain ends with the
        first, and who is certified by an authority between is by that above it, too."""
        left = [one for one in self.trust.anchors(role).authorities if is_valid(one, now)]
        above: list[x509.Certificate] = []
        while True:
            last = above[-1] if above else anchor
            left = [one for one in left if _key_of(one) != _key_of(last)]
            found = next((one for one in left if has_issued(one, last)), None)
            if found is None:
                return above
            above.append(found)

    def _is_anchor_of_others(self, certificate: x509.Certificate, role: Role) -> bool:
        """Return True if *certificate*, or another with its key, is an anchor of another role."""
        others = [self.trust.anchors(each) for each in Role if each is not role]
        return any(
            fingerprint_of(certificate) in each.fingerprints
            or _key_of(certificate) in map(_key_of, each.authorities)
            for each in others
        )


def check_refused(chain: Sequence[x509.Certificate], refused: frozenset[str]) -> None:
    """Check that no authority of *chain*, from a signer's certificate to an anchor, is one of the
    identifiers *refused*. An authority of which somebody has the key certifies whomever he likes.

    Raises:
        SignatureRefused: One is.
    """
    for one in chain[1:]:
        if (identifier := authority_of(one)) in refused:
            raise SignatureRefused("An authority of the signer is refused here.", value=identifier)


def check_revoked(chain: Sequence[x509.Certificate], anchors: Anchors, now: datetime) -> None:
    """Check that *anchors* have revoked no certificate of *chain*.

    Raises:
        SignatureRefused: They have.
    """
    try:
        anchors.revocations.check(chain, now)
    except CertificateRevoked as revoked:
        raise SignatureRefused(f"The certificate is not accepted: {revoked}.") from None


def chains_to(anchors: Anchors) -> ChainBuilder:
    """What builds chains to the authorities of *anchors*."""
    return ChainBuilder(anchors.authorities, signer=_SIGNER, authority=_AUTHORITY)


def chain_to_anchor(
    leaf: x509.Certificate,
    others: list[x509.Certificate],
    anchors: Anchors,
    chains: ChainBuilder,
    *,
    now: datetime,
) -> list[x509.Certificate]:
    """The certificates from that of a signer, *leaf*, to one of *anchors*.

    Args:
        others: What came with it, to build the chain of.
        chains: Of *anchors* (`chains_to`).

    Raises:
        SignatureRefused: They lead to none, or one is not valid at *now*, or revoked.
        ValueError: The certificate is not one for signatures.
    """
    try:
        check_keys([leaf, *others])
        if fingerprint_of(leaf) not in anchors.fingerprints:
            chain = chains.build(leaf, others, now)
            check_revoked(chain, anchors, now)
            return chain
    except VerificationError as error:
        raise SignatureRefused(
            "The certificate leads to no anchor, or is not valid at this time.",
            value=str(error)[:200],
        ) from None
    except ValueError as error:
        raise SignatureRefused(f"The certificate is not accepted: {error}.") from None
    if not is_valid(leaf, now):
        raise SignatureRefused("The certificate is not valid at this time.")
    _check_usage(None, leaf, usage_of(leaf))
    check_revoked([leaf], anchors, now)
    return [leaf]


def _check_usage(
    _policy: Policy | None, _certificate: x509.Certificate, usage: x509.KeyUsage | None
) -> None:
    if usage is None or not usage.digital_signature:
        raise ValueError("the certificate is not one for signatures")


_SIGNER = ExtensionPolicy.permit_all().require_present(
    x509.KeyUsage, Criticality.AGNOSTIC, _check_usage
)
"""Of a signer's certificate: alternative names say nothing here, the key is the name."""
_AUTHORITY = ExtensionPolicy.webpki_defaults_ca()


def _is_signed(signature: XmlSignature, certificate: x509.Certificate) -> bool:
    key = certificate.public_key()
    try:
        if signature.method is Method.RSA_SHA256 and isinstance(key, rsa.RSAPublicKey):
            key.verify(signature.value, signature.signed_info, _PADDING, _HASH)
        elif signature.method is Method.ECDSA_SHA256 and isinstance(key, ec.EllipticCurvePublicKey):
            key.verify(ecdsa_der(key, signature.value), signature.signed_info, _ECDSA)
        else:
            return False
    except (InvalidSignature, ValueError):
        return False
    return True


_PADDING = PKCS1v15()
_HASH = SHA256()
_ECDSA = ec.ECDSA(_HASH)


def _key_of(certificate: x509.Certificate) -> bytes:
    return subject_public_key_info(certificate.public_key())


def read_authorities(pem: bytes) -> tuple[x509.Certificate, ...]:
    """Read certificates of authorities in PEM.

    Raises:
        ValueError: *pem* has no certificate, or one that cannot be read.
    """
    return tuple(read_certificates(pem))


def read_anchors(pem: bytes) -> Anchors:
    """Read whom certificates in PEM let one believe: whoever an authority among them certified, and
    the holder of any other; but for those on lists of revoked certificates beside them.

    Raises:
        ValueError: *pem* has no certificate, one that cannot be read, or a list of revoked ones
            that cannot be used.
    """
    known = read_authorities(pem)
    authorities = tuple(one for one in known if is_authority(one))
    alone = frozenset(fingerprint_of(one) for one in known if one not in authorities)
    return Anchors(authorities, alone, read_revocations(pem, known))
