"""X.509 certificates as somebody shows them: whatever is wrong with one is a `ValueError`.

`cryptography` raises eight kinds of exceptions, three of which are plain ones, when it reads a
certificate, and some when its parts are read.
"""

from typing import TypeVar

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm

V = TypeVar("V", bound=x509.ExtensionType)

UNREADABLE_CERTIFICATE = (
    ValueError, TypeError, UnsupportedAlgorithm, x509.InvalidVersion, x509.DuplicateExtension,
    x509.UnsupportedGeneralNameType,
)  # fmt: skip
"""What `cryptography` raises for certificates that are none, also when their parts are read."""


def read_certificate(der: bytes) -> x509.Certificate:
    """Read a certificate in DER.

    Raises:
        ValueError: It is none.
    """
    try:
        return x509.load_der_x509_certificate(der)
    except UNREADABLE_CERTIFICATE as error:
        raise ValueError(str(error)) from error


def read_certificates(pem: bytes) -> list[x509.Certificate]:
    """Read the certificates in PEM.

    Raises:
        ValueError: There is none, or one that cannot be read.
    """
    try:
        return x509.load_pem_x509_certificates(pem)
    except UNREADABLE_CERTIFICATE as error:
        raise ValueError(str(error)) from error


def subject_of(der: bytes) -> str:
    """The subject of a certificate in DER, in the form of RFC 4514.

    Raises:
        ValueError: It is none, or its subject cannot be read.
    """
    try:
        return read_certificate(der).subject.rfc4514_string()
    except UNREADABLE_CERTIFICATE as error:
        raise ValueError(str(error)) from error


def extension_of(certificate: x509.Certificate, kind: type[V]) -> V | None:
    """The extension of a *kind*; None where there is none.

    Raises:
        ValueError: The extensions cannot be read.
    """
    try:
        return certificate.extensions.get_extension_for_class(kind).value
    except x509.ExtensionNotFound:
        return None
    except UNREADABLE_CERTIFICATE as error:
        raise ValueError(str(error)) from error
