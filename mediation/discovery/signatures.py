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
from dataclasses import dataclass, field
from datetime import datetime

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.verification import (
    Criticality,
    ExtensionPolicy,
    Policy,
    PolicyBuilder,
    Store,
    VerificationError,
)

from mediation.discovery.credentials import serves, usage_of
from mediation.discovery.errors import SignatureRefused
from mediation.discovery.identifiers import Role, identifier_of
from mediation.discovery.reading import Received
from mediation.discovery.values import Element
from mediation.discovery.xml_signature import Method, XmlSignature

MOST_CHAINS = 4096
"""The most chains of certificates that a verifier remembers; then it forgets all."""


def fingerprint_of(certificate: x509.Certificate) -> str:
    """The SHA-256 of a certificate, in hexadecimal digits."""
    return hashlib.sha256(certificate.public_bytes(Encoding.DER)).hexdigest()


@dataclass(frozen=True)
class Anchors:
    """Whom to believe: authorities, and certificates by their fingerprints.

    Args:
        fingerprints: SHA-256 in hexadecimal digits, with or without colons.

    Raises:
        ValueError: A fingerprint is none.
    """

    authorities: tuple[x509.Certificate, ...] = ()
    fingerprints: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        plain = frozenset(word.replace(":", "").lower() for word in self.fingerprints)
        for word in plain:
            if len(word) != 64 or not set(word) <= set("0123456789abcdef"):
                raise ValueError(f"{word!r} is not a SHA-256 in 64 hexadecimal digits")
        object.__setattr__(self, "fingerprints", plain)


@dataclass(frozen=True)
class Trust:
    """The anchors of nodes and of entities, and identifiers that are refused all the same.

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
                if _key_of(one) == _key_of(other) or _issued(one, other) or _issued(other, one):
                    raise ValueError(
                        "an authority for nodes is one for entities, too, or certified by one: "
                        f"{one.subject.rfc4514_string()}, {other.subject.rfc4514_string()}"
                    )

    def anchors(self, role: Role) -> Anchors:
        return self.nodes if role is Role.NODE else self.entities


@dataclass(frozen=True, slots=True)
class Signer:
    """The signer of a message: the identifier that its key gives, and its certificate."""

    identifier: str
    role: Role
    certificate: x509.Certificate


class Verifier:
    """Tells who signed messages.

    It remembers chains of certificates that led to an anchor, for as long as all of them are valid:
    an entity signs many messages with the same. What strangers send leads to none.
    """

    def __init__(self, trust: Trust, *, most: int = MOST_CHAINS) -> None:
        self.trust = trust
        self._most = most
        self._chains: dict[tuple[Role, tuple[bytes, ...]], _Chain] = {}
        self._stores = {
            role: Store(list(authorities))
            for role in Role
            if (authorities := trust.anchors(role).authorities)
        }

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

    def _signer(self, certificates: tuple[bytes, ...], role: Role, now: datetime) -> Signer:
        known = self._chains.get((role, certificates))
        if known is not None and known.begins <= now <= known.ends:
            return known.signer
        try:
            chain = self._chain(certificates, role, now)
            leaf = chain[0]
            if not serves(leaf.public_key()):
                raise SignatureRefused("The signer's key is of a kind or size that does not serve.")
            signer = Signer(identifier_of(leaf, role), role, leaf)
        except (ValueError, UnsupportedAlgorithm):
            raise SignatureRefused("A certificate of the signature cannot be read.") from None
        if len(self._chains) >= self._most:
            self._chains.clear()
        self._chains[role, certificates] = _Chain(
            signer,
            max(one.not_valid_before_utc for one in chain),
            min(one.not_valid_after_utc for one in chain),
        )
        return signer

    def _chain(
        self, certificates: tuple[bytes, ...], role: Role, now: datetime
    ) -> list[x509.Certificate]:
        """The certificates from the signer's to an anchor.

        Raises:
            SignatureRefused: They lead to none.
            ValueError, UnsupportedAlgorithm: One cannot be read.
        """
        leaf, *others = [x509.load_der_x509_certificate(octets) for octets in certificates]
        chain = chain_to_anchor(
            leaf, others, self.trust.anchors(role), self._stores.get(role), now=now
        )
        if len(chain) == 1 and fingerprint_of(leaf) in self.trust.anchors(role).fingerprints:
            return chain
        # One authority may have certified the other through authorities that only the chain shows.
        if any(self._is_anchor_of_others(one, role) for one in chain):
            raise SignatureRefused("The certificate leads to an anchor of the other role, too.")
        return chain

    def _is_anchor_of_others(self, certificate: x509.Certificate, role: Role) -> bool:
        """Return True if *certificate*, or another with its key, is an anchor of another role."""
        others = [self.trust.anchors(each) for each in Role if each is not role]
        return any(
            fingerprint_of(certificate) in each.fingerprints
            or _key_of(certificate) in map(_key_of, each.authorities)
            for each in others
        )


@dataclass(frozen=True, slots=True)
class _Chain:
    signer: Signer
    begins: datetime
    ends: datetime


def chain_to_anchor(
    leaf: x509.Certificate,
    others: list[x509.Certificate],
    anchors: Anchors,
    store: Store | None,
    *,
    now: datetime,
) -> list[x509.Certificate]:
    """The certificates from that of a signer, *leaf*, to one of *anchors*.

    Args:
        others: What came with it, to build the chain of.
        store: Made of the authorities of *anchors*; None: there are none.

    Raises:
        SignatureRefused: They lead to none, or one is not valid at *now*.
        ValueError: The certificate is not one for signatures.
    """
    if fingerprint_of(leaf) in anchors.fingerprints:
        if not leaf.not_valid_before_utc <= now <= leaf.not_valid_after_utc:
            raise SignatureRefused("The certificate is not valid at this time.")
        _check_usage(None, leaf, usage_of(leaf))
        return [leaf]
    if store is None:
        raise SignatureRefused("The certificate leads to no anchor.")
    if len({one.subject.public_bytes() for one in others}) < len(others):
        raise SignatureRefused("Two of its authorities have one name.")  # All ways would be tried.
    builder = PolicyBuilder().store(store).time(now)
    builder = builder.extension_policies(ee_policy=_SIGNER, ca_policy=_AUTHORITY)
    try:
        return builder.build_client_verifier().verify(leaf, others).chain
    except VerificationError as error:
        raise SignatureRefused(
            "The certificate leads to no anchor, or is not valid at this time.",
            value=str(error)[:200],
        ) from None


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
            key.verify(_der(signature.value, key), signature.signed_info, _ECDSA)
        else:
            return False
    except (InvalidSignature, ValueError):
        return False
    return True


_PADDING = PKCS1v15()
_HASH = SHA256()
_ECDSA = ec.ECDSA(_HASH)


def _der(value: bytes, key: ec.EllipticCurvePublicKey) -> bytes:
    """The two numbers of an ECDSA signature, which XML Signature writes one behind the other."""
    length = (key.key_size + 7) // 8
    if len(value) != 2 * length:
        raise ValueError("not two numbers of the length of the key")
    return encode_dss_signature(
        int.from_bytes(value[:length], "big"), int.from_bytes(value[length:], "big")
    )


def _key_of(certificate: x509.Certificate) -> bytes:
    return certificate.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def _issued(one: x509.Certificate, other: x509.Certificate) -> bool:
    """Return True if *one* certified *other*."""
    try:
        other.verify_directly_issued_by(one)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return True


def read_authorities(pem: bytes) -> tuple[x509.Certificate, ...]:
    """Read certificates of authorities in PEM.

    Raises:
        ValueError: *pem* has no certificate, or one that cannot be read.
    """
    return tuple(x509.load_pem_x509_certificates(pem))


def read_anchors(pem: bytes) -> Anchors:
    """Read whom certificates in PEM let one believe: whoever an authority among them certified, and
    the holder of any other.

    Raises:
        ValueError: *pem* has no certificate, or one that cannot be read.
    """
    known = read_authorities(pem)
    authorities = tuple(one for one in known if _is_authority(one))
    alone = frozenset(fingerprint_of(one) for one in known if one not in authorities)
    return Anchors(authorities, alone)


def _is_authority(certificate: x509.Certificate) -> bool:
    try:
        found = certificate.extensions.get_extension_for_class(x509.BasicConstraints)
    except (
        x509.DuplicateExtension,
        x509.ExtensionNotFound,
        x509.UnsupportedGeneralNameType,
        ValueError,
    ):
        return False
    return found.value.ca
