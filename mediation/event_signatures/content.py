"""The bytes of an event's payload that are signed, and the header that says the rest of it."""

import hashlib
import re
from base64 import urlsafe_b64encode
from collections.abc import Iterable
from dataclasses import dataclass

from lxml import etree

from filters import Reason
from filters.documents import parse_document
from mediation.model.errors import MediationError
from mediation.packaging.data import unwrap

TYPE = "event+jws"
"""The ``typ`` of the header: no signature made for anything else is taken for one of an event."""
XML = "xml"
"""The ``cty`` of XML."""
MOST_PREFIXES = 64
"""Prefixes that the header of a signature names."""
DEFAULT = "#default"
"""The default namespace among prefixes (Exclusive XML Canonicalization 1.0, section 3)."""
_DECLARED = re.compile(rb"\sxmlns(?::([A-Za-z_\x80-\xff][\w.\x80-\xff-]*))?\s*=")


@dataclass(frozen=True, slots=True)
class Content:
    """The content of an event.

    Attributes:
        octets: Those of its data, or the XML as it was written.
        media_type: None of XML, and of no data.
        is_xml: It is XML.
    """

    octets: bytes
    media_type: str | None
    is_xml: bool


def content_of(payload: bytes) -> Content:
    """The content of a payload: XML, or data that is not XML in the element that holds it."""
    data = unwrap(payload)
    if data is None:
        return Content(payload, None, is_xml=True)
    return Content(data.content or b"", data.media_type, is_xml=False)


def canonical_content(octets: bytes, prefixes: Iterable[str] | None) -> bytes:
    """Return the bytes of content that are signed: of data those that it has.

    XML may be declared other prefixes and be written anew on its way, so its bytes are those of
    Exclusive XML Canonicalization 1.0, without comments, with *prefixes* in the PrefixList. These
    are the ones that its publisher declared: texts and values may use them (``xsi:type="t:a"``),
    so nobody may bind them to something else. What envelopes declare besides changes nothing.

    Args:
        prefixes: None: it is not XML.

    Raises:
        Refused: It is to be XML, and cannot be read, or has no canonical form.
    """
    if prefixes is None:
        return octets
    root = parse_document(octets)
    try:
        written: bytes = etree.tostring(
            root,
            method="c14n",
            exclusive=True,
            with_comments=False,
            inclusive_ns_prefixes=list(prefixes),
        )
    except etree.C14NError:
        text = "A namespace of the signed event is a relative URI: there is no canonical form."
        raise MediationError(Reason.MESSAGE_INVALID, text) from None
    return written


def prefixes_in(octets: bytes) -> list[str]:
    """Return the prefixes that XML declares.

    Raises:
        MediationError: ``TOO_COMPLEX``: there are more than a signature can name.
    """
    found = {(name[1] or DEFAULT.encode()).decode() for name in _DECLARED.finditer(octets)}
    if len(found) > MOST_PREFIXES:
        raise MediationError(
            Reason.TOO_COMPLEX, f"A signed event declares {MOST_PREFIXES} prefixes at most."
        )
    return sorted(found)


def digest_of(content: bytes) -> str:
    """The SHA-256 of an attachment, in base64url without padding."""
    return urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
