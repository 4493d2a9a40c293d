"""Media types (RFC 9110, "Media Type"), as SOAP's bindings use them."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gateway.http.refusal import HttpRefusal

SOAP_MEDIA_TYPES = frozenset({"text/xml", "application/soap+xml", "application/xml"})
CHARSETS = frozenset({"utf-8", "utf-16", "utf-16le", "utf-16be", "us-ascii"})

_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_TYPE = re.compile(rf"[ \t]*({_TOKEN}/{_TOKEN})[ \t]*")
# Many toolkits leave action=http://... without its quotation marks, so any run will do.
_PARAMETER = re.compile(
    rf";[ \t]*(?:({_TOKEN})=(?:\"((?:[^\"\\\x00-\x08\x0a-\x1f\x7f]|\\[\t\x20-\x7e])*)\""
    r"|([^\s;\",\x00-\x1f\x7f]+))[ \t]*)?"
)
_MAX_OCTETS = 4096
_MAX_PARAMETERS = 16


@dataclass(frozen=True, slots=True)
class MediaType:
    """A media type; its name and those of its parameters are in lower case."""

    name: str
    parameters: Mapping[str, str] = field(default_factory=dict)

    @property
    def charset(self) -> str | None:
        """In lower case; None when not said."""
        charset = self.parameters.get("charset")
        return None if charset is None else charset.lower()

    @property
    def action(self) -> str | None:
        """SOAP 1.2's action parameter (RFC 3902)."""
        return self.parameters.get("action")


def parse_media_type(text: str) -> MediaType:
    """Read a Content-Type header's value.

    Raises:
        HttpRefusal: 415; it is none, or has one parameter twice.
    """
    head = _TYPE.match(text)
    if head is None or len(text) > _MAX_OCTETS:
        raise _unsupported()
    parameters: dict[str, str] = {}
    position = head.end()
    while position < len(text):
        found = _PARAMETER.match(text, position)
        if found is None or len(parameters) >= _MAX_PARAMETERS:
            raise _unsupported()
        position = found.end()
        name, quoted, plain = found.groups()
        if name is None:
            continue
        name = name.lower()
        if name in parameters:
            raise _unsupported()
        parameters[name] = plain if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
    return MediaType(head[1].lower(), parameters)


def content_type(headers: Iterable[tuple[bytes, bytes]]) -> MediaType:
    """The media type of a request with these ASGI headers.

    Raises:
        HttpRefusal: 415; there is none, there are two, or it cannot be read.
    """
    values = [value for name, value in headers if name == b"content-type"]
    if len(values) != 1:
        raise _unsupported()
    return parse_media_type(values[0].decode("latin-1"))


def soap_media_type(headers: Iterable[tuple[bytes, bytes]]) -> MediaType:
    """The media type of a request to a SOAP endpoint.

    Raises:
        HttpRefusal: 415; it is none that a SOAP envelope comes in, or in a charset other
            than UTF-8 and UTF-16.
    """
    media_type = content_type(headers)
    if media_type.name not in SOAP_MEDIA_TYPES:
        raise _unsupported()
    if media_type.charset is not None and media_type.charset not in CHARSETS:
        raise _unsupported()
    return media_type


def _unsupported() -> HttpRefusal:
    accepted = ", ".join(sorted(SOAP_MEDIA_TYPES))
    return HttpRefusal(415, "The media type is not supported.", {"Accept-Post": accepted})
