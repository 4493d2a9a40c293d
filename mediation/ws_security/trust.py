"""Whose signatures count: certificates that an authority of the operator issued, or that the
operator has named one by one."""

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.verification import (
    Criticality,
    ExtensionPolicy,
    Policy,
    VerificationError,
)

from filters import Reason
from mediation.certificate_chains import (
    ChainBuilder,
    ValidChains,
    check_keys,
    is_authority,
    is_valid,
)
from mediation.certificates import UNREADABLE_CERTIFICATE, read_certificate, read_certificates
from mediation.model.errors import MediationError
from mediation.revocation_lists import (
    NO_REVOCATIONS,
    CertificateRevoked,
    Revocations,
    read_revocations,
)
from mediation.ws_security.errors import failed


class Trust:
    """Authorities, signers that are trusted by themselves, and certificates that are revoked.

    Args:
        certificates: Those of authorities count for all that these issue, others for themselves.
        revocations: What authorities among them have revoked.

    Raises:
        ValueError: There is no certificate.
    """

    def __init__(
        self, certificates: Sequence[x509.Certificate], revocations: Revocations = NO_REVOCATIONS
    ) -> None:
        if not certificates:
            raise ValueError("it has no certificate")
        authorities = [one for one in certificates if is_authority(one)]
        self._known = [one for one in certificates if one not in authorities]
        self._octets = {_der(one) for one in self._known}
        self._chains = ChainBuilder(authorities, signer=_SIGNER, authority=_AUTHORITY)
        self.revocations = revocations
        self._known_chains: ValidChains[tuple[bytes, ...], x509.Certificate] = ValidChains(
            next_due=revocations.next_due
        )

    def find(self, fits: Callable[[x509.Certificate], bool]) -> bytes | None:
        """The certificate (DER), among those that are named one by one, that *fits*."""
        return next((_der(one) for one in self._known if fits(one)), None)

    def check(self, certificates: tuple[bytes, ...], now: datetime) -> x509.Certificate:
        """The signer's certificate, the first of *certificates* (DER); intermediates follow.

        Raises:
            MediationError: ``CERTIFICATE_REFUSED``: it cannot be read, or serves for no signature;
                ``SIGNATURE_REFUSED``: nobody that is trusted issued it, it is revoked, or not
                valid *now*.
        """
        return self._known_chains.learn(certificates, now, partial(self._learn, certificates, now))

    def _learn(
        self, certificates: Sequence[bytes], now: datetime
    ) -> tuple[x509.Certificate, Sequence[x509.Certificate]]:
        """The signer's certificate, and its chain."""
        try:
            chain = self._chain([read_certificate(one) for one in certificates], now)
            self.revocations.check(chain, now)
        except CertificateRevoked as revoked:
            raise failed(str(revoked)) from None
        except UNREADABLE_CERTIFICATE:
            raise _refused("it cannot be read") from None
        return chain[0], chain

    def _chain(
        self, certificates: Sequence[x509.Certificate], now: datetime
    ) -> list[x509.Certificate]:
        leaf, *others = certificates
        try:
            check_keys(certificates)
            if _der(leaf) not in self._octets:
                return self._chains.build(leaf, others, now)
        except VerificationError:
            raise failed(
                "nobody who is trusted here issued the certificate for signatures, or it is not "
                "valid at this time"
            ) from None
        except ValueError as error:
            raise _refused(str(error)) from None
        if not is_valid(leaf, now):
            raise failed("the certificate is not valid at this time")
        return [leaf]


def read_trust(pem: bytes) -> Trust:
    """Read certificates, and lists of those that are revoked, in PEM.

    Raises:
        ValueError: Something in it cannot be read, or as `Trust` and `read_revocations`.
    """
    try:
        certificates = read_certificates(pem)
        return Trust(certificates, read_revocations(pem, certificates))
    except UnsupportedAlgorithm as error:
        raise ValueError(str(error)) from error


def _refused(why: str) -> MediationError:
    return MediationError(
        Reason.CERTIFICATE_REFUSED, f"The certificate of the signature is not accepted: {why}."
    )


def _der(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(Encoding.DER)


def _check_signer(
    _policy: Policy | None, _certificate: x509.Certificate, usage: x509.KeyUsage | None
) -> None:
    if usage is not None and not (usage.digital_signature or usage.content_commitment):
        raise ValueError("the certificate is not one for signatures")


def _check_authority(
    _policy: Policy | None, _certificate: x509.Certificate, basic: x509.BasicConstraints | None
) -> None:
    if basic is None or not basic.ca:
        raise ValueError("the certificate is not one of an authority")


def _check_issuing(
    _policy: Policy | None, _certificate: x509.Certificate, usage: x509.KeyUsage | None
) -> None:
    if usage is not None and not usage.key_cert_sign:
        raise ValueError("the certificate is not one for issuing")


_SIGNER = ExtensionPolicy.permit_all().may_be_present(
    x509.KeyUsage, Criticality.AGNOSTIC, _check_signer
)
"""Of a signer's certificate: its alternative names and extended usages say nothing here."""
_AUTHORITY = (
    ExtensionPolicy.permit_all()
    .require_present(x509.BasicConstraints, Criticality.AGNOSTIC, _check_authority)
    .may_be_present(x509.KeyUsage, Criticality.AGNOSTIC, _check_issuing)
)
"""Of authorities: private ones often leave out what those of the web must have."""
