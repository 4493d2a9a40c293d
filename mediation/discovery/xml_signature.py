"""One signature, taken apart: the one shape of XML Signature that topic discovery has.

    Signature
      SignedInfo
        CanonicalizationMethod        exclusive, without prefixes
        SignatureMethod               RSA or ECDSA, with SHA-256
        Reference URI="#ID"           one
          Transforms
            Transform                 enveloped signature
            Transform                 exclusive canonicalization, without prefixes
          DigestMethod                SHA-256
          DigestValue
      SignatureValue
      KeyInfo
        X509Data
          X509Certificate             the signer's, then intermediates

Whatever else XML Signature could say (other references, transforms, keys by value or by name,
objects) is not a signature here, so nothing of it has to be decided. See
https://www.w3.org/TR/xmldsig-core1/.
"""

import base64
import binascii
import re
from dataclasses import dataclass
from enum import Enum

from lxml import etree

from mediation import names
from mediation.discovery.errors import Malformed, SignatureRefused
from mediation.discovery.xml_fields import Children, canonical, text

MAX_CERTIFICATES = 8
"""The most certificates that a signature brings."""
SIGNATURE = f"{{{names.DSIG}}}Signature"
_BLANKS = b" \t\r\n"


class Method(Enum):
    """A way to sign. The value is its URI."""

    RSA_SHA256 = names.DSIG_RSA_SHA256
    ECDSA_SHA256 = names.DSIG_ECDSA_SHA256


@dataclass(frozen=True, slots=True)
class XmlSignature:
    """The content of a signature, before it is verified.

    Attributes:
        signed_info: In canonical form: what the key signed.
        reference: The ID of the element that it is for.
        digest: The SHA-256 of that element in canonical form, without this signature.
        certificates: In DER, the signer's first.
    """

    method: Method
    signed_info: bytes
    reference: str
    digest: bytes
    value: bytes
    certificates: tuple[bytes, ...]


def cut_signature(element: etree._Element) -> XmlSignature | None:
    """Take the signature of *element* out of it; None where there is none.

    Raises:
        SignatureRefused: There are several, it is not the last child, or it has another shape.
    """
    found = element.findall(SIGNATURE)
    if not found:
        return None
    if len(found) > 1:
        raise SignatureRefused("The element has several signatures of its own.")
    [signature] = found
    if next(signature.itersiblings(etree.Element), None) is not None:
        raise SignatureRefused("The signature is not the last element of what it signs.")
    try:
        taken = _read_plain(canonical(signature)) or _read(signature)
    except Malformed as error:
        raise SignatureRefused(f"The signature has another shape: {error.text}") from None
    _remove(element, signature)
    return taken


def _read_plain(octets: bytes) -> XmlSignature | None:
    """Read a signature in canonical form that has nothing that it need not have, not even blanks
    between its elements: most are so, and are read three times as quickly; else None.

    Raises:
        Malformed: It has other content than it may have.
    """
    found = _PLAIN.fullmatch(octets)
    if found is None:
        return None
    info, method, reference, digest, value, certificates = found.groups()
    several = _CERTIFICATE.findall(certificates)
    if len(several) > MAX_CERTIFICATES:
        return None
    return XmlSignature(
        Method(method.decode()),
        # By itself it declares the prefix, as Signature does for it.
        b'<ds:SignedInfo xmlns:ds="%b">%b</ds:SignedInfo>' % (names.DSIG.encode(), info),
        reference.decode(),
        decode_base64(digest.decode()),
        decode_base64(value.decode()),
        tuple(decode_base64(one.decode()) for one in several),
    )


def _plain() -> bytes:
    """The pattern of such a signature."""
    word = "[A-Za-z0-9+/= \\t\\n]+"
    methods = "|".join(re.escape(method.value) for method in Method)

    def empty(name: str, algorithm: str) -> str:
        return f'<ds:{name} Algorithm="{algorithm}"></ds:{name}>'

    transforms = "".join(
        empty("Transform", re.escape(one)) for one in (names.DSIG_ENVELOPED, names.EXCLUSIVE_C14N)
    )
    info = (
        f"{empty('CanonicalizationMethod', re.escape(names.EXCLUSIVE_C14N))}"
        f"{empty('SignatureMethod', f'({methods})')}"
        f'<ds:Reference URI="#([A-Za-z0-9._-]+)"><ds:Transforms>{transforms}</ds:Transforms>'
        f"{empty('DigestMethod', re.escape(names.XENC_SHA256))}"
        f"<ds:DigestValue>({word})</ds:DigestValue></ds:Reference>"
    )
    certificates = f"(?:<ds:X509Certificate>{word}</ds:X509Certificate>)+"
    return (
        f'<ds:Signature xmlns:ds="{re.escape(names.DSIG)}"><ds:SignedInfo>({info})</ds:SignedInfo>'
        f"<ds:SignatureValue>({word})</ds:SignatureValue>"
        f"<ds:KeyInfo><ds:X509Data>({certificates})</ds:X509Data></ds:KeyInfo></ds:Signature>"
    ).encode()


_PLAIN = re.compile(_plain())
_CERTIFICATE = re.compile(b"<ds:X509Certificate>([^<]+)<")


def _read(signature: etree._Element) -> XmlSignature:
    parts = Children(signature)
    signed_info = _one(parts, "SignedInfo")
    value = _octets(_one(parts, "SignatureValue"))
    key_info = _one(parts, "KeyInfo")
    parts.end()

    parts = Children(signed_info)
    _algorithm(_one(parts, "CanonicalizationMethod"), names.EXCLUSIVE_C14N)
    method = _method(_one(parts, "SignatureMethod"))
    reference = _one(parts, "Reference")
    parts.end()

    parts = Children(reference, "URI")
    transforms = Children(_one(parts, "Transforms"))
    _algorithm(_one(parts, "DigestMethod"), names.XENC_SHA256)
    digest = _octets(_one(parts, "DigestValue"))
    parts.end()
    _algorithm(_one(transforms, "Transform"), names.DSIG_ENVELOPED)
    _algorithm(_one(transforms, "Transform"), names.EXCLUSIVE_C14N)
    transforms.end()
    uri = reference.get("URI", "")
    if not uri.startswith("#"):
        raise Malformed("it refers to something else than an element of its document.")

    parts = Children(key_info)
    data = Children(_one(parts, "X509Data"))
    parts.end()
    certificates = [_octets(_one(data, "X509Certificate"))]
    while (further := data.take(f"{{{names.DSIG}}}X509Certificate")) is not None:
        certificates.append(_octets(further))
    data.end()
    if len(certificates) > MAX_CERTIFICATES:
        raise Malformed(f"it has more than {MAX_CERTIFICATES} certificates.")
    return XmlSignature(method, canonical(signed_info), uri[1:], digest, value, tuple(certificates))


def _one(parts: Children, name: str) -> etree._Element:
    child = parts.take(f"{{{names.DSIG}}}{name}")
    if child is None:
        raise Malformed(f"{name} is missing or out of place.")
    return child


def _algorithm(element: etree._Element, wanted: str) -> None:
    parts = Children(element, "Algorithm")
    parts.end()
    if element.get("Algorithm") != wanted:
        raise Malformed("it asks for another algorithm.", value=element.get("Algorithm", "")[:200])


def _method(element: etree._Element) -> Method:
    parts = Children(element, "Algorithm")
    parts.end()
    try:
        return Method(element.get("Algorithm"))
    except ValueError:
        raise Malformed("it is made with another algorithm.") from None


def _octets(element: etree._Element) -> bytes:
    return decode_base64(text(element))


def decode_base64(word: str) -> bytes:
    """Read base64 with blanks in it.

    Raises:
        Malformed: It is not base64.
    """
    try:
        return base64.b64decode(word.encode("ascii").translate(None, _BLANKS), validate=True)
    except (binascii.Error, ValueError):
        raise Malformed("A value is not base64.") from None


def _remove(element: etree._Element, signature: etree._Element) -> None:
    """Take *signature* out, but leave the blanks behind it: they are signed."""
    tail, before = signature.tail, signature.getprevious()
    if tail:
        if before is None:
            element.text = (element.text or "") + tail
        else:
            before.tail = (before.tail or "") + tail
    signature.tail = None
    element.remove(signature)
