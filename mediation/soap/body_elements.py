"""The element that a program puts into a body: checked once, where the program hands it over.

What a program gives becomes a part of an envelope as it is, so it has to be one element that means
the same wherever it stands, and it cannot end what it is put into.
"""

import re
from typing import TypeAlias

from lxml import etree

from filters import Reason
from filters.documents import MOST_SAID, parse_own
from mediation.model.errors import MediationError
from mediation.soap.envelopes import octets_of
from mediation.soap.payloads import payload_of

BodyContent: TypeAlias = bytes | str | etree._Element
"""One XML element, as a document or as an element of lxml; empty: nothing."""

_DECLARATION = re.compile(r"\ufeff?<\?xml[ \t\r\n][^>]*\?>")
_PLACE = re.compile(r", line \d+, column \d+$")
_INSTRUCTIONS = etree.XPath("boolean(//processing-instruction())")
_MAY_BE_DEEP = 400
"""Tags up to which no document is too deep for the parser when it stands in an envelope."""
_AROUND = (b"<e><b><d><n>", b"</n></d></b></e>")


class InvalidBody(MediationError, ValueError):
    """A body that a program gave is not one well-formed element. The text names the line and
    the column."""


class BodyElement(bytes):
    """One element in UTF-8 that declares every namespace it uses, or nothing; `body_element` makes
    it."""

    __slots__ = ()


def body_element(content: BodyContent) -> BodyElement:
    """Check what a program gives as the content of a body.

    Args:
        content: A document in any encoding that it declares, text, or an element of lxml, with
            what it uses of the namespaces around it; what is empty stays empty.

    Raises:
        InvalidBody: It is not well-formed, uses a prefix that it does not declare, or has a
            document type or a processing instruction, which SOAP forbids.
        TypeError: It is something else.
    """
    if isinstance(content, BodyElement):
        return content
    octets = _octets_of(content)
    if not octets:
        return BodyElement()
    root = _parsed(octets)
    if root.getroottree().docinfo.internalDTD is not None:
        raise InvalidBody(Reason.DTD, "the body has a document type, which SOAP forbids")
    if b"?" in octets and _INSTRUCTIONS(root):
        raise InvalidBody(
            Reason.PROCESSING_INSTRUCTION,
            "the body has a processing instruction, which SOAP forbids",
        )
    checked = octets if _stands_alone(octets) else octets_of(root)
    if checked.count(b"<") > _MAY_BE_DEEP:
        _check_depth(checked)
    return BodyElement(checked)


def detail_content(content: BodyContent) -> bytes:
    """Check what a program gives as the content of a fault's detail: any number of elements.

    Raises:
        InvalidBody: They are not as `body_element` wants one.
    """
    octets = _octets_of(content)
    # What would end the element around it would have to begin another root.
    body_element(b"<detail>" + octets + b"</detail>")
    return octets


def _octets_of(content: object) -> bytes:
    if isinstance(content, str):
        # Text has no encoding, whatever its declaration says.
        return _encoded(_DECLARATION.sub("", content, count=1))
    if isinstance(content, (bytes, bytearray, memoryview)):
        return bytes(content)
    if etree.iselement(content) and isinstance(content.tag, str):
        return payload_of(content)
    raise TypeError(f"a body is bytes, text or an element of lxml, not {type(content).__name__}")


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        line = text.count("\n", 0, error.start) + 1
        column = error.start - text.rfind("\n", 0, error.start)
        raise InvalidBody(
            Reason.ENCODING,
            f"the body, line {line}, column {column}: half of a surrogate pair",
        ) from None


def _parsed(octets: bytes) -> etree._Element:
    try:
        return parse_own(octets)
    except etree.XMLSyntaxError as error:
        words = _PLACE.sub("", " ".join(str(error.msg or "not XML").split()))[:MOST_SAID]
        line, column = error.position
        raise InvalidBody(
            Reason.NOT_XML,
            f"the body is not one well-formed element: line {line}, column {column}: {words}",
            value=words,
        ) from None


def _stands_alone(octets: bytes) -> bool:
    """Return whether a document that was parsed can be put into an envelope as it is."""
    start = octets.lstrip(b" \t\r\n")[:5]
    if not start.startswith(b"<") or start == b"<?xml" or b"\0" in octets:
        return False
    try:
        octets.decode()
    except UnicodeDecodeError:
        return False
    return True


def _check_depth(octets: bytes) -> None:
    """Refuse what is too deep for a parser only where it will stand."""
    begin, end = _AROUND
    try:
        parse_own(begin + octets + end)
    except etree.XMLSyntaxError as error:
        raise InvalidBody(
            Reason.TOO_COMPLEX, f"the body is nested too deeply: {error.msg}"
        ) from None
