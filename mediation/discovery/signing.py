"""Signing, for which signxml is needed, of the extra ``discovery``; checking needs none of it.

A response with the topics that were found may be a hundred times as large as other messages, and
signxml parses and writes what it signs three times. What is written here is in canonical form, so
a response is hashed as it is, and its signature is put together; tests compare it with signxml's.
"""

import base64
import hashlib
import importlib.util
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding
from lxml import etree

from filters.documents import parse_own
from filters.extras import how_to_install
from mediation import names
from mediation.discovery.credentials import Credentials
from mediation.discovery.errors import Crowded
from mediation.discovery.values import MAX_MESSAGE, MAX_RESPONSE, Signable, TopicDiscoveryResponse
from mediation.discovery.writing import write
from mediation.discovery.xml_fields import attribute, canonical
from mediation.xml_security import method_of, sign_octets

if TYPE_CHECKING:
    from signxml.signer import XMLSigner


def can_sign() -> bool:
    """Return True if signxml is installed."""
    return importlib.util.find_spec("signxml") is not None


def sign(value: Signable, credentials: Credentials) -> bytes:
    """Write *value* with a signature of *credentials*, as its last element.

    Raises:
        Crowded: It would be larger than a message may be.
        Malformed, ValueError: As `write`.
        ModuleNotFoundError: signxml is not installed.
    """
    written = write(value)
    if isinstance(value, TopicDiscoveryResponse):
        octets, most = (
            sign_canonical(written, f"m-{value.head.message_id}", credentials),
            MAX_RESPONSE,
        )
    else:
        octets, most = _sign(written, credentials), MAX_MESSAGE
    if len(octets) > most:
        raise Crowded(f"The {type(value).__name__} is larger than {most} bytes.")
    return octets


def _sign(written: bytes, credentials: Credentials) -> bytes:
    element = parse_own(written)
    signed: etree._Element = _signer(credentials).sign(
        element,
        key=credentials.key,
        cert=list(credentials.certificates),
        reference_uri=element.get("ID"),
        id_attribute="ID",
    )
    return canonical(signed)


def sign_canonical(octets: bytes, id: str, credentials: Credentials) -> bytes:
    """Put a signature into a document in exclusive canonical form, without comments, as its last
    element: byte for byte what signxml makes of it.

    Args:
        id: The ``ID`` of its root element, which has content.
    """
    digest = base64.b64encode(hashlib.sha256(octets).digest()).decode()
    info = (
        f"{_empty('CanonicalizationMethod', names.EXCLUSIVE_C14N)}"
        f"{_empty('SignatureMethod', method_of(credentials.key))}"
        f"<ds:Reference{attribute('URI', f'#{id}')}><ds:Transforms>"
        f"{_empty('Transform', names.DSIG_ENVELOPED)}{_empty('Transform', names.EXCLUSIVE_C14N)}"
        f"</ds:Transforms>{_empty('DigestMethod', names.XENC_SHA256)}"
        f"<ds:DigestValue>{digest}</ds:DigestValue></ds:Reference></ds:SignedInfo>"
    )
    # By itself, SignedInfo declares the prefix; within Signature that does.
    value = sign_octets(credentials.key, f'<ds:SignedInfo xmlns:ds="{names.DSIG}">{info}'.encode())
    certificates = "".join(
        f"<ds:X509Certificate>{_base64_of(one)}</ds:X509Certificate>"
        for one in credentials.certificates
    )
    content, closing, name = octets.rpartition(b"</")
    signature = (
        f'<ds:Signature xmlns:ds="{names.DSIG}"><ds:SignedInfo>{info}'
        f"<ds:SignatureValue>{base64.b64encode(value).decode()}</ds:SignatureValue>"
        f"<ds:KeyInfo><ds:X509Data>{certificates}</ds:X509Data></ds:KeyInfo></ds:Signature>"
    )
    return b"".join((content, signature.encode(), closing, name))


def _empty(name: str, algorithm: str) -> str:
    return f"<ds:{name}{attribute('Algorithm', algorithm)}></ds:{name}>"


def _base64_of(certificate: x509.Certificate) -> str:
    """As in PEM, without its first and last line."""
    lines = certificate.public_bytes(Encoding.PEM).decode().splitlines(keepends=True)
    return "".join(lines[1:-1])


def _signer(credentials: Credentials) -> "XMLSigner":
    if not can_sign():
        raise ModuleNotFoundError(
            f"signing messages needs signxml: {how_to_install('discovery')}", name="signxml"
        )
    from signxml.algorithms import DigestAlgorithm, SignatureConstructionMethod, SignatureMethod
    from signxml.signer import XMLSigner

    return XMLSigner(
        method=SignatureConstructionMethod.enveloped,
        signature_algorithm=(
            SignatureMethod.RSA_SHA256
            if isinstance(credentials.key, rsa.RSAPrivateKey)
            else SignatureMethod.ECDSA_SHA256
        ),
        digest_algorithm=DigestAlgorithm.SHA256,
        c14n_algorithm=names.EXCLUSIVE_C14N,
    )
