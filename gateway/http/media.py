"""Media types (RFC 9110, "Media Type"), as SOAP's bindings use them."""

from collections.abc import Iterable
from functools import lru_cache

from filters.charsets import charset_named, charset_refused
from gateway.http.refusal import HttpRefusal
from mediation.packaging import mime
from mediation.packaging.mime import MediaType

__all__ = [
    "DIME",
    "MULTIPART",
    "MediaType",
    "content_type",
    "parse_media_type",
    "soap_media_type",
    "unsupported",
]

MULTIPART = "multipart/related"
DIME = "application/dime"
SOAP_MEDIA_TYPES = frozenset(
    {"text/xml", "application/soap+xml", "application/xml", MULTIPART, DIME}
)


def parse_media_type(text: str) -> MediaType:
    """Read a Content-Type header's value.

    Raises:
        HttpRefusal: 415; it is none, or has one parameter twice.
    """
    try:
        return mime.parse_media_type(text)
    except mime.MimeError as error:
        raise unsupported() from error


def content_type(headers: Iterable[tuple[bytes, bytes]]) -> MediaType:
    """The media type of a request with these ASGI headers.

    Raises:
        HttpRefusal: 415; there is none, there are two, or it cannot be read.
    """
    return parse_media_type(_one_content_type(headers).decode("latin-1"))


def _one_content_type(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    values = [value for name, value in headers if name == b"content-type"]
    if len(values) != 1:
        raise unsupported()
    return values[0]


def soap_media_type(headers: Iterable[tuple[bytes, bytes]]) -> MediaType:
    """The media type of a request to a SOAP endpoint.

    Raises:
        HttpRefusal: 415; it is none that a SOAP envelope, or a package with one, comes in, or
            in a charset that is not read.
    """
    return _soap_media_type(_one_content_type(headers))


@lru_cache(maxsize=256)
def _soap_media_type(value: bytes) -> MediaType:
    media_type = parse_media_type(value.decode("latin-1"))
    if media_type.name not in SOAP_MEDIA_TYPES:
        raise unsupported()
    charset = media_type.charset
    if charset is not None and charset_named(charset) is None:
        raise HttpRefusal(415, f"The message cannot be read: {charset_refused(charset)}.")
    return media_type


def unsupported() -> HttpRefusal:
    """415, with what would do."""
    accepted = ", ".join(sorted(SOAP_MEDIA_TYPES))
    return HttpRefusal(
        415,
        f"The media type is not supported. Send one of {accepted}.",
        {"Accept-Post": accepted},
    )
