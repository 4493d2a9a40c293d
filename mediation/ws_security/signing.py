"""Sign an envelope: its Body, a Timestamp, and every header block.

What is signed of our own is written in canonical form, so `ds:SignedInfo` is signed as it stands;
libxml2 canonicalises the rest.
"""

import base64
import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    load_pem_private_key,
)
from lxml import etree

from filters import Refused
from filters.charsets import require_utf_8
from filters.documents import parse_own
from mediation import names
from mediation.certificates import read_certificates
from mediation.model.errors import MediationError
from mediation.model.expiry import format_seconds
from mediation.public_keys import is_usable_key, subject_public_key_info
from mediation.soap.envelopes import elements, soap_of
from mediation.ws_security.header import MAX_PREFIXES, SECURITY, canonical, set_id
from mediation.xml_security import PrivateKey, method_of, sign_octets

LIFETIME = timedelta(minutes=5)
"""How long a message of ours is valid."""


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A private key, and its certificate.

    Raises:
        ValueError: The key is another's, or one that does not serve.
    """

    key: PrivateKey
    certificate: x509.Certificate

    def __post_init__(self) -> None:
        mine, certified = self.key.public_key(), self.certificate.public_key()
        if subject_public_key_info(mine) != subject_public_key_info(certified):
            raise ValueError("the key is not that of the certificate")
        if not is_usable_key(mine):
            raise ValueError(
                "the key is neither RSA of 2048 bits and more, nor on a curve P-256, P-384 or P-521"
            )


def read_signing_key(key: bytes, certificate: bytes) -> SigningKey:
    """Read a key and its certificate, each in PEM.

    Raises:
        ValueError: They cannot be read, the key needs a password, or as `SigningKey`.
    """
    try:
        private = load_pem_private_key(key, None)
    except (TypeError, ValueError, UnsupportedAlgorithm) as error:
        raise ValueError("the key cannot be read: write it in PEM, without a password") from error
    if not isinstance(private, PrivateKey):
        raise ValueError("the key is neither RSA nor on an elliptic curve")
    return SigningKey(private, read_certificates(certificate)[0])


def read_key_and_certificate(pem: bytes) -> SigningKey:
    """Read a key and its certificate from one text in PEM, as `read_signing_key`."""
    found = _KEY.search(pem)
    if found is None:
        raise ValueError("it has no key in PEM")
    return read_signing_key(found[0], pem)


_KEY = re.compile(rb"-----BEGIN ([A-Z ]{0,32}PRIVATE KEY)-----[^-]*-----END \1-----")


def sign_envelope(envelope: bytes, signer: SigningKey, *, unique: str, now: datetime) -> bytes:
    """Sign *envelope*, which is our own.

    Args:
        unique: Letters and digits that no element's id begins with.

    Raises:
        ValueError: It is no envelope in UTF-8, or has no canonical form.
    """
    try:
        require_utf_8(envelope)
        root = parse_own(envelope)
        soap = soap_of(root).value
        body = elements(root)[-1]
    except (etree.XMLSyntaxError, IndexError, Refused) as error:
        raise ValueError("it is no envelope") from error
    header = root.find(f"{{{soap}}}Header")
    if header is None:
        header = etree.Element(f"{{{soap}}}Header")
        root.insert(0, header)
    if header.find(SECURITY) is not None:
        raise ValueError("it has a Security header")
    covered = [
        (set_id(one, f"{unique}-{n}"), one) for n, one in enumerate([body, *elements(header)])
    ]
    security = parse_own(_security(signer, unique, now))
    timestamp, token = elements(security)
    # The last one: gSOAP 2.8.124 takes what follows a signed block that is last for a part of it,
    # finds the Body twice, and says that it is not signed.
    header.append(security)
    covered += [(f"{unique}-t", timestamp), (f"{unique}-x", token)]
    try:
        references = list(_references(covered))
    except MediationError as error:  # A namespace in it has a relative name.
        raise ValueError("it has no canonical form") from error
    security.append(parse_own(_signature(signer, unique, references)))
    return etree.tostring(root, encoding="UTF-8")


_MAYBE_RELATIVE = re.compile(rb"""xmlns(?::[^\s=]+)?\s*=\s*["'](?!["']|[A-Za-z][A-Za-z0-9+.-]*:)""")


def may_lack_canonical_form(envelope: bytes) -> bool:
    """Return True if *envelope*, in UTF-8, may have a namespace of a relative name: then
    `has_canonical_form` knows. It takes some microseconds."""
    return _MAYBE_RELATIVE.search(envelope) is not None


def has_canonical_form(envelope: bytes) -> bool:
    """Return True if *envelope* can be signed: what has a namespace of a relative name cannot. It
    is parsed."""
    try:
        canonical(parse_own(envelope))
    except (MediationError, etree.XMLSyntaxError):
        return False
    return True


def has_security(envelope: bytes) -> bool:
    """Return True if *envelope*, which is our own, has a Security header: `sign_envelope` adds no
    other.

    Raises:
        ValueError: It is no envelope.
    """
    if b"Security" not in envelope:
        return False
    try:
        root = parse_own(envelope)
        return root.find(f"{{{soap_of(root).value}}}Header/{SECURITY}") is not None
    except (etree.XMLSyntaxError, Refused) as error:
        raise ValueError("it is no envelope") from error


def _security(signer: SigningKey, unique: str, now: datetime) -> bytes:
    certificate = base64.b64encode(signer.certificate.public_bytes(Encoding.DER)).decode()
    return (
        f'<wsse:Security xmlns:wsse="{names.WSSE}" xmlns:wsu="{names.WSU}">'
        f'<wsu:Timestamp wsu:Id="{unique}-t"><wsu:Created>{format_seconds(now)}</wsu:Created>'
        f"<wsu:Expires>{format_seconds(now + LIFETIME)}</wsu:Expires></wsu:Timestamp>"
        f'<wsse:BinarySecurityToken EncodingType="{names.WSS_BASE_64}"'
        f' ValueType="{names.WSS_X509}X509v3" wsu:Id="{unique}-x">{certificate}'
        "</wsse:BinarySecurityToken></wsse:Security>"
    ).encode()


def _references(covered: list[tuple[str, etree._Element]]) -> Iterator[str]:
    for id, element in covered:
        prefixes = _prefixes_in(element)
        digest = base64.b64encode(hashlib.sha256(canonical(element, prefixes)).digest()).decode()
        yield (
            f'<ds:Reference URI="#{id}"><ds:Transforms>'
            f"{_transform(prefixes)}</ds:Transforms>"
            f"{_empty('DigestMethod', names.XENC_SHA256)}"
            f"<ds:DigestValue>{digest}</ds:DigestValue></ds:Reference>"
        )


def _prefixes_in(element: etree._Element) -> list[str]:
    """The prefixes in *element* that its content may use, of which no more are signed than a reader
    takes."""
    found = {prefix for prefix in element.nsmap if prefix}
    for _, (prefix, _uri) in etree.iterwalk(element, events=("start-ns",)):
        if prefix:
            found.add(prefix)
    return sorted(found)[:MAX_PREFIXES]


def _transform(prefixes: list[str]) -> str:
    named = (
        f'<ec:InclusiveNamespaces xmlns:ec="{names.EXCLUSIVE_C14N}"'
        f' PrefixList="{" ".join(prefixes)}"></ec:InclusiveNamespaces>'
    )
    return (
        f'<ds:Transform Algorithm="{names.EXCLUSIVE_C14N}">{named if prefixes else ""}'
        "</ds:Transform>"
    )


def _signature(signer: SigningKey, unique: str, references: list[str]) -> bytes:
    content = (
        f"{_empty('CanonicalizationMethod', names.EXCLUSIVE_C14N)}"
        f"{_empty('SignatureMethod', method_of(signer.key))}{''.join(references)}</ds:SignedInfo>"
    )
    signed = f'<ds:SignedInfo xmlns:ds="{names.DSIG}">{content}'
    value = base64.b64encode(sign_octets(signer.key, signed.encode())).decode()
    return (
        f'<ds:Signature xmlns:ds="{names.DSIG}"><ds:SignedInfo>{content}'
        f"<ds:SignatureValue>{value}</ds:SignatureValue><ds:KeyInfo>"
        f'<wsse:SecurityTokenReference xmlns:wsse="{names.WSSE}"><wsse:Reference URI="#{unique}-x"'
        f' ValueType="{names.WSS_X509}X509v3"/></wsse:SecurityTokenReference></ds:KeyInfo>'
        "</ds:Signature>"
    ).encode()


def _empty(name: str, algorithm: str) -> str:
    return f'<ds:{name} Algorithm="{algorithm}"></ds:{name}>'
