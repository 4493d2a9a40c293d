"""What programs that know no Dragoman put into a broker, as notifications.

A notification's payload is one XML element in UTF-8. Of a native message that is asked, never
demanded: what is no such element becomes the text of one,
``<data xmlns="urn:dragoman:data:1" content-type="application/json">``, in base64 where it is no
text of XML. So there is no message that nobody can take, and that comes again for ever.
"""

import re
from base64 import b64encode
from html import escape

from lxml import etree

from filters import Refused, parse_document
from mediation.names import DRAGOMAN_DATA

MAX_MEDIA_TYPE = 255
_NOT_IN_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_CHARSET = re.compile(r';\s*charset="?([A-Za-z0-9._-]{1,40})', re.IGNORECASE)
UNTYPED = "application/octet-stream"


def is_plain(body: bytes) -> bool:
    """Whether *body* is what a payload must be: one element in UTF-8, and nothing around it."""
    if not (body.startswith(b"<") and body[1:2] not in (b"?", b"!") and body.endswith(b">")):
        return False
    try:
        root = parse_document(body)
    except Refused:
        return False
    return root.getnext() is None


def payload_of(body: bytes, media_type: str | None) -> tuple[bytes, bool]:
    """*body* as a payload, and whether it had to be wrapped.

    A declaration, comments around the root element and another encoding are XML all the same.
    """
    if is_plain(body):
        return body, False
    charset = _CHARSET.search(media_type or "")
    try:
        root = parse_document(body, charset=charset[1] if charset else None)
    except Refused:
        return _wrap(body, media_type), True
    return etree.tostring(root, encoding="unicode", with_tail=False).encode(), False


def _wrap(body: bytes, media_type: str | None) -> bytes:
    encoding = ""
    try:
        text = body.decode()
        if _NOT_IN_XML.search(text) or "\r" in text:  # XML reads a carriage return as a line end.
            raise ValueError
    except ValueError:
        text = b64encode(body).decode()
        encoding = ' encoding="base64"'
    named = escape(_NOT_IN_XML.sub("", media_type or UNTYPED)[:MAX_MEDIA_TYPE])
    start = f'<data xmlns="{DRAGOMAN_DATA}" content-type="{named}"{encoding}>'
    return f"{start}{escape(text, False)}</data>".encode()
