"""``ds:KeyInfo`` of a signature: the signer's certificate, in the message or by a name.

"X.509 Certificate Token Profile Version 1.1.1", section 3.2.
"""

import base64
import hashlib
from collections.abc import Callable
from typing import Protocol

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from lxml import etree

from filters import Reason
from mediation import names
from mediation.certificates import extension_of
from mediation.model.errors import MediationError
from mediation.soap.envelopes import elements, text_of
from mediation.ws_security.errors import invalid
from mediation.ws_security.header import (
    SecuredEnvelope,
    elements_by_id,
    octets_in,
    reference_id,
)

MAX_CERTIFICATES = 4
"""Of a signer, and of authorities between it and one that is trusted."""
_D, _S = f"{{{names.DSIG}}}", f"{{{names.WSSE}}}"
_X509 = f"{names.WSS_X509}X509v3"
TOKEN_REFERENCE = f"{_S}SecurityTokenReference"


def write_token_reference(certificate: x509.Certificate) -> bytes:
    """Write a SecurityTokenReference to *certificate*, by its thumbprint: it holds in messages that
    bring the certificate themselves, under whatever id."""
    thumbprint = base64.b64encode(thumbprint_of(certificate)).decode()
    return (
        f'<wsse:SecurityTokenReference xmlns:wsse="{names.WSSE}">'
        f'<wsse:KeyIdentifier ValueType="{names.WSS_THUMBPRINT}"'
        f' EncodingType="{names.WSS_BASE_64}">{thumbprint}</wsse:KeyIdentifier>'
        "</wsse:SecurityTokenReference>"
    ).encode()


class KnownCertificates(Protocol):
    """Certificates that a message may name without bringing them."""

    def find(self, fits: Callable[[x509.Certificate], bool]) -> bytes | None:
        """The certificate (DER) that *fits*, or None."""


def certificates_of(
    info: etree._Element, secured: SecuredEnvelope, trust: KnownCertificates
) -> tuple[bytes, ...]:
    """The certificates (DER) that *info* brings or names, the signer's first.

    Raises:
        MediationError: ``TOKEN_INVALID``, ``TOKEN_UNSUPPORTED``, ``TOKEN_UNAVAILABLE``.
    """
    named = _single(info)
    if named.tag == TOKEN_REFERENCE:
        return _certificates_at(named, secured, trust)
    if named.tag == f"{_D}X509Data":
        return _of_data(named, trust)
    raise _unsupported("The signature names its key in a way that is not taken.")


def refers_to(
    reference: etree._Element, certificate: x509.Certificate, secured: SecuredEnvelope
) -> bool:
    """Return whether *reference*, a SecurityTokenReference anywhere in the envelope, refers to
    *certificate*."""
    try:
        found = _certificates_at(reference, secured, _One(certificate))
    except MediationError:
        return False
    return found[0] == certificate.public_bytes(Encoding.DER)


class _One:
    """One certificate alone is known."""

    def __init__(self, certificate: x509.Certificate) -> None:
        self._certificate = certificate

    def find(self, fits: Callable[[x509.Certificate], bool]) -> bytes | None:
        one = self._certificate
        return one.public_bytes(Encoding.DER) if fits(one) else None


def _certificates_at(
    reference: etree._Element, secured: SecuredEnvelope, trust: KnownCertificates
) -> tuple[bytes, ...]:
    named = _single(reference)
    if named.tag == f"{_S}Reference":
        return (_token_at(named, secured),)
    if named.tag == f"{_S}KeyIdentifier":
        return (_of_identifier(named, trust),)
    if named.tag == f"{_D}X509Data":
        return _of_data(named, trust)
    raise _unsupported("The signature names its key in a way that is not taken.")


def _single(parent: etree._Element) -> etree._Element:
    found = elements(parent)
    if len(found) != 1:
        raise invalid("the key of the signature is named in no way, or in several")
    return found[0]


def _token_at(reference: etree._Element, secured: SecuredEnvelope) -> bytes:
    id = reference_id(reference.get("URI"))
    token = elements_by_id(secured.root, [id])[id]
    if token.getparent() is not secured.security or token.tag != f"{_S}BinarySecurityToken":
        raise invalid("the token of the signature is not a BinarySecurityToken of its header")
    if token.get("ValueType", "") != _X509 or token.get("EncodingType") not in (
        None,
        names.WSS_BASE_64,
    ):
        raise _unsupported("The token of the signature is not one X.509 certificate in Base64.")
    return octets_in(token)


def _of_identifier(identifier: etree._Element, trust: KnownCertificates) -> bytes:
    kind, value = identifier.get("ValueType", ""), octets_in(identifier)
    if kind == _X509:
        return value
    if kind == f"{names.WSS_X509}X509SubjectKeyIdentifier":
        return _known(trust, lambda one: subject_key_of(one) == value)
    if kind == names.WSS_THUMBPRINT:
        return _known(trust, lambda one: thumbprint_of(one) == value)
    raise _unsupported("The signature names its certificate in a way that is not taken.")


def _of_data(data: etree._Element, trust: KnownCertificates) -> tuple[bytes, ...]:
    found = elements(data)
    certificates = [octets_in(one) for one in found if one.tag == f"{_D}X509Certificate"]
    if certificates:
        if len(certificates) > MAX_CERTIFICATES:
            raise invalid(f"there are more than {MAX_CERTIFICATES} certificates")
        return tuple(certificates)
    if len(found) == 1 and found[0].tag == f"{_D}X509IssuerSerial":
        return (_of_serial(found[0], trust),)
    raise _unsupported("The signature names its certificate in a way that is not taken.")


def _of_serial(serial: etree._Element, trust: KnownCertificates) -> bytes:
    texts = {one.tag: text_of(one) for one in elements(serial)}
    try:
        number = int(texts.get(f"{_D}X509SerialNumber", "")[:100])
        issuer = x509.Name.from_rfc4514_string(texts.get(f"{_D}X509IssuerName", ""))
    except (ValueError, KeyError):
        raise invalid("X509IssuerSerial names no certificate") from None
    return _known(trust, lambda one: one.serial_number == number and one.issuer == issuer)


def _known(trust: KnownCertificates, fits: Callable[[x509.Certificate], bool]) -> bytes:
    found = trust.find(fits)
    if found is None:
        raise MediationError(
            Reason.TOKEN_UNAVAILABLE,
            "The certificate that the signature names is not known here: send it in a "
            "BinarySecurityToken.",
        )
    return found


def subject_key_of(certificate: x509.Certificate) -> bytes | None:
    """The SubjectKeyIdentifier of *certificate*; None where it has none."""
    try:
        found = extension_of(certificate, x509.SubjectKeyIdentifier)
    except ValueError:
        return None
    return found.key_identifier if found is not None else None


def thumbprint_of(certificate: x509.Certificate) -> bytes:
    """The SHA-1 of *certificate*, by which it is found, and nothing else is decided."""
    return hashlib.sha1(certificate.public_bytes(Encoding.DER), usedforsecurity=False).digest()


def _unsupported(text: str) -> MediationError:
    return MediationError(Reason.TOKEN_UNSUPPORTED, text)
