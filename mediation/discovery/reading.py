"""Messages of topic discovery, from bytes to values.

    bytes -> element -> signature cut out -> canonical form -> value
                             |                    |
                             |                    +-- what was signed: its digest is checked
                             +-- what signs it

A value is made of the very bytes that a signature covers, so that nobody can sign one thing and
show another. The rules of the schema (`mediation/schemas/tdn-1.xsd`) are code here, because
strangers send these messages at a high rate, with the bounds that the schema does not say.
"""

from dataclasses import dataclass
from typing import Generic, TypeVar
from uuid import UUID

from lxml import etree

from filters import DocumentLimits, parse_document
from filters.charsets import require_utf_8
from filters.documents import parse_own
from mediation import names
from mediation.discovery.elements import CARRIERS, ELEMENTS
from mediation.discovery.errors import Malformed
from mediation.discovery.values import (
    ID_PREFIXES,
    MAX_RESPONSE,
    Element,
    EncryptedAdvertisement,
    TopicAdvertisement,
)
from mediation.discovery.xml_fields import canonical, uuid
from mediation.discovery.xml_signature import XmlSignature, cut_signature
from mediation.soap.envelopes import local_name

_Value = TypeVar("_Value", bound=Element)
_Value_co = TypeVar("_Value_co", bound=Element, covariant=True)


@dataclass(frozen=True, slots=True)
class Received(Generic[_Value_co]):
    """A document of topic discovery, read.

    Attributes:
        octets: As it came.
        signed: Its element in exclusive canonical form without its own signature: what *value* is
            made of, and what a signature has to cover.
        id: Its ID; empty where it has none, as an Authorization.
        signature: What is said to sign it; None: nothing does. Whether it does,
            `mediation.discovery.signatures` tells.
    """

    value: _Value_co
    octets: bytes
    signed: bytes
    id: str
    signature: XmlSignature | None


def read(octets: bytes) -> Received[Element]:
    """Read a document of topic discovery.

    Raises:
        Refused: It is not XML, has a document type or an instruction, or is too large or complex.
        SignatureRefused: Its signature has another shape than the one that there is.
        Malformed: It is not a message of topic discovery, or breaks the schema or a bound.
    """
    require_utf_8(octets)
    return _read(parse_document(octets, limits=_LIMITS), octets)


def _read(root: etree._Element, octets: bytes) -> Received[Element]:
    known = ELEMENTS.get(root.tag)
    if known is None:
        raise Malformed(
            "The document is not a message of topic discovery.", value=str(root.tag)[:200]
        )
    if len(octets) > known.most:
        raise Malformed(f"{local_name(root)} is larger than {known.most} bytes.")
    signature = cut_signature(root) if known.prefix else None
    signed = canonical(root)
    value = known.read(_whole(signed))
    return Received(value, octets, signed, root.get("ID", ""), signature)


def read_as(kind: type[_Value], octets: bytes) -> Received[_Value]:
    """Read a document that has to be a *kind*; else as `read`.

    Raises:
        Malformed: Also where it is another.
    """
    received = read(octets)
    if not isinstance(received.value, kind):
        raise Malformed(f"The document is not of the type {kind.__name__}.")
    return received  # type: ignore[return-value]  # Its value has just been looked at.


def read_carried(octets: bytes) -> Received[TopicAdvertisement | EncryptedAdvertisement]:
    """Read the advertisement that a value carries; else as `read_advertisement`. Its bytes were
    part of a document that has been read, which had no document type and kept the limits."""
    return _advertisement_in(_read(parse_own(octets), octets))


def topic_id_of(octets: bytes) -> UUID:
    """The topic of a SignedTopicAdvertisement that a response carries. The rest of it is not read:
    it may still be none.

    Raises:
        Malformed: It names no topic.
    """
    root = parse_own(octets)  # As for `read_carried`.
    if root.tag != f"{{{names.TDN}}}SignedTopicAdvertisement":
        raise Malformed("The document is not a SignedTopicAdvertisement.")
    found: list[etree._Element] = _TOPIC_ID(root)  # type: ignore[assignment]
    if len(found) != 1:
        raise Malformed("An advertisement lacks its TopicId.")
    return uuid(found[0])


_TOPIC_ID = etree.XPath(
    "(tdn:TopicAdvertisement | tdn:EncryptedAdvertisement)/tdn:TopicId",
    namespaces={"tdn": names.TDN},
)


def read_advertisement(octets: bytes) -> Received[TopicAdvertisement | EncryptedAdvertisement]:
    """Read an advertisement, encrypted or not; else as `read_as`."""
    return _advertisement_in(read(octets))


def _advertisement_in(
    received: Received[Element],
) -> Received[TopicAdvertisement | EncryptedAdvertisement]:
    if not isinstance(received.value, TopicAdvertisement | EncryptedAdvertisement):
        raise Malformed("The document is not the advertisement of a topic.")
    return received  # type: ignore[return-value]  # As above.


_LIMITS = DocumentLimits(octets=MAX_RESPONSE)
_IDS = etree.XPath(
    "//@*[local-name() = 'ID' or local-name() = 'Id' or local-name() = 'id']", smart_strings=True
)

_LIKE_IDS = (b'ID="', b'Id="', b'id="')
"""The text before the values of such attributes in canonical form."""


def _whole(signed: bytes) -> etree._Element:
    """Parse what was signed, and refuse IDs where there may be none: one that looks like that of a
    signed element, in a document within the descriptors, or twice.

    Other toolkits take attributes ``Id``, ``id`` and ``xml:id`` for IDs, too.
    """
    root = parse_own(signed)
    if "ID" in root.attrib and sum(map(signed.count, _LIKE_IDS)) == 1:
        return root  # It is that of the root, as most are.
    seen = set()
    found: list[etree._ElementUnicodeResult] = _IDS(root)  # type: ignore[assignment]
    for value in found:
        if value.strip().startswith(ID_PREFIXES):
            owner = value.getparent()
            if value in seen or owner is None or not _may_have_id(owner, value):
                raise Malformed(
                    "An ID is repeated, or stands where IDs are not allowed.", value=value[:100]
                )
            seen.add(value)
    return root


def _may_have_id(owner: etree._Element, value: str) -> bool:
    """Return True if *owner* is signed, as far up as its document goes."""
    known = ELEMENTS.get(owner.tag)
    if known is None or not known.prefix or owner.get("ID") != value:
        return False
    above = [element.tag for element in owner.iterancestors()]
    return all(tag in CARRIERS for tag in above)
