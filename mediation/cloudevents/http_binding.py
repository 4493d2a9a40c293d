"""Events in messages of HTTP (HTTP Protocol Binding for CloudEvents 1.0.2): which mode a message is
in, and attributes in headers."""

import re
from collections.abc import Iterable
from functools import lru_cache
from urllib.parse import quote, unquote_to_bytes, urlsplit

from filters import Reason, in_utf_8
from filters.charsets import charset_named
from mediation.cloudevents.events import CloudEvent, read_attributes, text_of
from mediation.cloudevents.json_format import read_batch, read_event
from mediation.model.errors import MediationError
from mediation.packaging.mime import MimeError, charset_in, parse_media_type

STRUCTURED = "application/cloudevents+json"
BATCH = "application/cloudevents-batch+json"
MOST_IN_BATCH = 500
"""Events of one message."""
ORIGIN_HEADER = "WebHook-Request-Origin"
"""The header in which a sender names itself (HTTP 1.1 Web Hooks for Event Delivery, section 4)."""
CALLBACK_HEADER = "WebHook-Request-Callback"
"""The header in which it says where consumers agree later than they are asked."""
_PREFIX = "ce-"
_PREFIX_OCTETS = _PREFIX.encode()
_PLAIN = "".join(map(chr, range(0x21, 0x7F))).replace('"', "").replace("%", "")
"""The characters that a header's value has as they are (section 3.1.3.2)."""
_QUOTED = re.compile(r'"([^"\\]*+(?:\\.[^"\\]*+)*)"')
_CLOSED = re.compile(r'[^"]*+(?:"[^"\\]*+(?:\\.[^"\\]*+)*"[^"]*+)*')
"""A text all of whose quotes are closed. To look for quoted strings where one is not would begin
anew at every quote in it."""


def read_message(
    headers: Iterable[tuple[bytes, bytes]], body: bytes, *, most: int = MOST_IN_BATCH
) -> tuple[CloudEvent, ...]:
    """Read the events in a message of HTTP, in any mode.

    Args:
        headers: Names in lower case.
        most: Events that a batch may have.

    Raises:
        Refused: ``MEDIA_TYPE``, ``ENCODING``: a format, or a charset, that is not read here.
            ``MESSAGE_INVALID``, ``TOO_LARGE``: it has no event, or one that breaks the rules.
    """
    headers = list(headers)
    content_type = _content_type(headers)
    mode = _mode_of(content_type or "")
    if mode is None:
        return (_read_binary(headers, content_type, body),)
    if mode not in (STRUCTURED, BATCH):
        raise MediationError(Reason.MEDIA_TYPE, f"Events are read as {STRUCTURED} and {BATCH}.")
    if not (body.startswith((b"{", b"[")) and _is_utf_8(content_type or "")):
        body = in_utf_8(body, charset_in(content_type or ""))
    return (read_event(body),) if mode == STRUCTURED else read_batch(body, most)


def is_event(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Return whether a message with these headers says that it is a CloudEvent."""
    return any(
        name == b"ce-specversion"
        or (name == b"content-type" and is_of_events(value.decode("latin-1")))
        for name, value in headers
    )


def is_of_events(media_type: str) -> bool:
    """Return whether a message with this content type is read as events (section 3, "Content
    Mode"): data of such a type cannot be sent in binary mode."""
    return media_type.strip().lower().startswith("application/cloudevents")


def origin_of(address: str) -> str:
    """The name of the gateway at *address*, a URL, as its consumers are told it."""
    return urlsplit(address).hostname or "dragoman"


def write_headers(event: CloudEvent) -> tuple[tuple[str, str], ...]:
    """Write the headers of *event* in binary mode, but for ``Content-Type``."""
    attributes = dict(event.attributes)
    attributes.pop("datacontenttype", None)
    texts = [value if isinstance(value, str) else text_of(value) for value in attributes.values()]
    if not _is_plain("".join(texts)):
        texts = [encode_value(text) for text in texts]
    return tuple(zip(_header_names(tuple(attributes)), texts, strict=True))


@lru_cache(maxsize=256)
def _header_names(names: tuple[str, ...]) -> tuple[str, ...]:
    """The headers of attributes of these names."""
    return tuple(_PREFIX + name for name in names)


def encode_value(text: str) -> str:
    """Percent-encode an attribute for a header (section 3.1.3.2)."""
    return text if _is_plain(text) else quote(text, safe=_PLAIN)


def _is_plain(text: str) -> bool:
    """Return whether all signs are of `_PLAIN`."""
    plain = text.isascii() and text.isprintable()  # Much quicker than to look for each.
    return plain and not (" " in text or '"' in text or "%" in text)


def decode_value(value: bytes) -> str:
    """Read an attribute from a header: quoted strings first, then what is percent-encoded.

    Raises:
        MediationError: ``MESSAGE_INVALID``: it is not UTF-8, or a quote is not closed.
    """
    try:
        text = value.decode().strip()
        if '"' not in text and "%" not in text:
            return text
        if '"' in text:
            if not _CLOSED.fullmatch(text):
                raise ValueError
            text = _QUOTED.sub(lambda found: re.sub(r"\\(.)", r"\1", found[1]), text)
        return unquote_to_bytes(text).decode()
    except ValueError:
        raise MediationError(
            Reason.MESSAGE_INVALID, "The value of a header cannot be read."
        ) from None


def _read_binary(
    headers: list[tuple[bytes, bytes]], content_type: str | None, body: bytes
) -> CloudEvent:
    attributes: list[tuple[str, object]] = []
    for raw, value in headers:
        if not raw.startswith(_PREFIX_OCTETS):
            continue
        name = raw[len(_PREFIX_OCTETS) :].decode("latin-1")
        if name == "datacontenttype":
            raise MediationError(
                Reason.MESSAGE_INVALID, "The media type of the data is said by Content-Type alone."
            )
        attributes.append((name, decode_value(value)))
    if content_type is not None:
        attributes.append(("datacontenttype", content_type))
    return CloudEvent(read_attributes(attributes), body or None)


def _content_type(headers: list[tuple[bytes, bytes]]) -> str | None:
    values = [value for name, value in headers if name == b"content-type"]
    if len(values) > 1:
        raise MediationError(Reason.MEDIA_TYPE, "The message has two content types.")
    return values[0].decode("latin-1").strip() or None if values else None


@lru_cache(maxsize=64)
def _mode_of(content_type: str) -> str | None:
    """The media type of a message that has its events within; empty of one that is not read here.
    None: it is in binary mode."""
    if not is_of_events(content_type):
        return None
    try:
        return parse_media_type(content_type).name
    except MimeError:
        return ""


@lru_cache(maxsize=64)
def _is_utf_8(content_type: str) -> bool:
    charset = charset_in(content_type)
    return charset is None or charset_named(charset) == "UTF-8"
