"""Authorities that certify users: who shows a certificate that one issued, directly or by others,
has the rights of a rule with ``ca:NAME``.

A name in a certificate says nothing, since any authority may write it: what counts is that the
authority's key signed it. The authority is known to the store by that key, too, so that what one
with another key certifies under the same names is another's.
"""

import hashlib
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.verification import (
    Criticality,
    ExtensionPolicy,
    Policy,
    PolicyBuilder,
    Store,
    VerificationError,
)

from mediation.certificate_chains import has_issued, is_authority
from mediation.certificates import (
    UNREADABLE_CERTIFICATE,
    read_certificate,
    read_certificates,
)

MOST = 8
"""The most certificates of an authority's file: its own, and those between it and users."""


@dataclass(frozen=True)
class CertificateAuthority:
    """An authority. What it has revoked, `CertificateProofs` asks.

    Attributes:
        key_id: 32 hexadecimal digits of the SHA-256 of its key.
        between: Authorities that it has certified, which certify users.
    """

    name: str
    key_id: str
    certificate: x509.Certificate
    between: tuple[x509.Certificate, ...] = ()

    def certifies(self, leaf: x509.Certificate, now: datetime) -> bool:
        """Return True if *leaf*, which is valid at *now*, was issued by it or by one of those
        between."""
        builder = PolicyBuilder().store(Store([self.certificate])).time(now)
        builder = builder.extension_policies(
            ee_policy=ExtensionPolicy.permit_all(), ca_policy=_AUTHORITY
        )
        try:
            builder.build_client_verifier().verify(leaf, list(self.between))
        except VerificationError:
            return False
        return True


def read_authority(name: str, pem: bytes) -> CertificateAuthority:
    """Read an authority: PEM, its own certificate first, then those between it and users.

    Raises:
        ValueError: *pem* has none, or too many.
    """
    first, *between = read_certificates(pem)
    if len(between) >= MOST:
        raise ValueError(f"it has more than {MOST} certificates")
    return CertificateAuthority(name, _key_id(first), first, tuple(between))


def roots_in(files: Iterable[Path]) -> frozenset[str]:
    """Return the keys, as `CertificateAuthority.key_id`, of the authorities in *files* of PEM that
    none of the others has certified. What cannot be read has none."""
    authorities: dict[str, x509.Certificate] = {}
    for path in files:
        with suppress(OSError, ValueError):
            found = read_certificates(path.read_bytes())
            authorities |= {_key_id(one): one for one in found if is_authority(one)}
    return frozenset(
        key
        for key, one in authorities.items()
        if not any(has_issued(other, one) for id_, other in authorities.items() if id_ != key)
    )


def _key_id(certificate: x509.Certificate) -> str:
    try:
        key = certificate.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    except UNREADABLE_CERTIFICATE as error:
        raise ValueError(f"its key cannot be read: {error}") from error
    return hashlib.sha256(key).hexdigest()[:32]


def certified_by(
    certificate: bytes, authorities: Iterable[CertificateAuthority]
) -> tuple[CertificateAuthority, ...]:
    """Return those of *authorities* that issued *certificate* (DER), which need not be one."""
    try:
        leaf = read_certificate(certificate)
        now = datetime.now(UTC)
        return tuple(one for one in authorities if one.certifies(leaf, now))
    except UNREADABLE_CERTIFICATE:
        return ()


def _check_authority(
    _policy: Policy, _certificate: x509.Certificate, found: x509.BasicConstraints
) -> None:
    if not found.ca:
        raise ValueError("the certificate is not one of an authority")


def _check_usage(
    _policy: Policy, _certificate: x509.Certificate, found: x509.KeyUsage | None
) -> None:
    if found is not None and not found.key_cert_sign:
        raise ValueError("the certificate is not one that signs others")


# Private authorities often say little: what is asked for is that they are authorities.
_AUTHORITY = (
    ExtensionPolicy.permit_all()
    .require_present(x509.BasicConstraints, Criticality.AGNOSTIC, _check_authority)
    .may_be_present(x509.KeyUsage, Criticality.AGNOSTIC, _check_usage)
)
