"""Payloads of what is not XML: the one element that holds the data of any media type.

A notification's payload is one XML element in UTF-8. What is not such an element becomes the text
of one, so that it can be stored, matched and sent like any other, and be had back as it was:

    <data xmlns="urn:dragoman:data:1" content-type="application/json">{"n": 1}</data>
    <data xmlns="urn:dragoman:data:1" content-type="image/png" encoding="base64">iVBORw0K</data>
    <data xmlns="urn:dragoman:data:1" content-type="text/csv" content-encoding="br"
          encoding="base64">...</data>             data in an encoding that nobody knew here
    <data xmlns="urn:dragoman:data:1"/>            an event that has no data
"""

import re
from base64 import b64decode, b64encode
from dataclasses import dataclass, replace
from html import escape

from lxml import etree

from filters import DocumentLimits, Refused, in_utf_8, parse_document
from filters.documents import DEFAULT_LIMITS, parse_own
from mediation.names import DRAGOMAN_DATA
from mediation.packaging.mime import charset_in

MAX_MEDIA_TYPE = 255
UNTYPED = "application/octet-stream"
_NOT_IN_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_TAG = f"{{{DRAGOMAN_DATA}}}data"
_START = re.compile(
    rb'<data xmlns="%b"(?: content-type="([^"<&\x00-\x1f]*+)"'
    rb'(?: content-encoding="([^"<&\x00-\x1f]*+)")?(?: encoding="base64")?)?(?:/>|>)'
    % DRAGOMAN_DATA.encode()
)
NO_DATA = f'<data xmlns="{DRAGOMAN_DATA}"/>'.encode()


@dataclass(frozen=True, slots=True)
class Data:
    """Data of a media type; both None where an event has none. ``encoding`` names the codings that
    its content is in, "" where it is in none."""

    media_type: str | None
    content: bytes | None
    encoding: str = ""


def is_plain(
    body: bytes, names: set[str] | None = None, limits: DocumentLimits = DEFAULT_LIMITS
) -> bool:
    """Return True if *body* is a valid payload within *limits*: one element in UTF-8, and nothing
    around it.

    *names* collects the names in it, as in `parse_document`.
    """
    if not (body.startswith(b"<") and body[1:2] not in (b"?", b"!") and body.endswith(b">")):
        return False
    try:
        root = parse_document(body, limits=limits, names=names)
    except Refused:
        return False
    return root.getnext() is None


def payload_of(body: bytes, media_type: str | None) -> tuple[bytes, bool]:
    """Make a payload of *body*. Returns it, and True if it had to be wrapped.

    XML with a declaration, comments around the root element or another encoding is not wrapped.
    """
    try:
        return xml_payload(body, media_type), False
    except Refused:
        return wrap(body, media_type), True


def xml_payload(
    body: bytes,
    media_type: str | None,
    names: set[str] | None = None,
    limits: DocumentLimits = DEFAULT_LIMITS,
) -> bytes:
    """Make a payload of *body*, an XML document; *names* and *limits* as in `is_plain`.

    Raises:
        Refused: *body* is not an XML document, or beyond the limits.
    """
    octets = in_utf_8(body, charset_in(media_type) if media_type else None)
    if is_plain(octets, names, limits):
        return octets
    root = parse_document(octets, limits=limits, names=names)
    return etree.tostring(root, encoding="unicode", with_tail=False).encode()


def wrap(body: bytes, media_type: str | None, coded: str = "") -> bytes:
    """Make a payload of data of *media_type*, which is in the codings *coded*, "" for none; in
    base64 if XML cannot hold it as text."""
    encoding = ""
    try:
        if coded:
            raise ValueError
        text = body.decode()
        if _NOT_IN_XML.search(text) or "\r" in text:  # XML reads a carriage return as a line end.
            raise ValueError
    except ValueError:
        text = b64encode(body).decode()
        encoding = ' encoding="base64"'
    named = escape(_NOT_IN_XML.sub("", media_type or UNTYPED)[:MAX_MEDIA_TYPE])
    if coded:
        coded = escape(_NOT_IN_XML.sub("", coded)[:MAX_MEDIA_TYPE])
        encoding = f' content-encoding="{coded}"{encoding}'
    start = f'<data xmlns="{DRAGOMAN_DATA}" content-type="{named}"{encoding}>'
    return f"{start}{escape(text, False)}</data>".encode()


def described(payload: bytes) -> Data | None:
    """Describe *payload* as `unwrap` does, but without its content: it is empty where there is
    one."""
    start = _START.match(payload)
    if start is None or not payload.startswith(b"</data>", payload.find(b"<", start.end())):
        found = unwrap(payload)
        return found if found is None or not found.content else replace(found, content=b"")
    if start[1] is None:
        return Data(None, None)
    return Data(start[1].decode(), b"", (start[2] or b"").decode())


def unwrap(payload: bytes) -> Data | None:
    """The data in *payload*, which `wrap` or `NO_DATA` made; None where it is XML of its own."""
    if payload[:5] != b"<data" or DRAGOMAN_DATA.encode() not in payload[:200]:
        return None
    try:
        root = parse_own(payload)
        if root.tag != _TAG or len(root):
            return None
        media_type, text = root.get("content-type"), root.text or ""
        if media_type is None:
            return Data(None, None)
        coded = root.get("content-encoding", "")
        if root.get("encoding") == "base64":
            return Data(media_type, b64decode(text, validate=True), coded)
        return Data(media_type, text.encode(), coded)
    except (ValueError, etree.XMLSyntaxError):
        return None
