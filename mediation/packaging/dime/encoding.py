"""Messages written."""

import re

from mediation.model.versions import Soap
from mediation.packaging.dime.messages import DimeMessage
from mediation.packaging.dime.records import (
    BEGIN,
    CHUNK,
    END,
    HEADER,
    TYPE_BY_SOAP,
    VERSION_1,
    TypeFormat,
)

_ABSOLUTE_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


class Encoder:
    """Writes messages. The defaults are the narrowest form, the only one that all peers read.

    Args:
        chunk: Octets after which a payload goes on in another record; None: never.
        closing: Whether an empty record ends the message.
    """

    def __init__(self, *, chunk: int | None = None, closing: bool = False) -> None:
        self._chunk = chunk
        self._closing = closing

    def encode(self, message: DimeMessage) -> bytes:
        """The octets of *message*: always a multiple of 4.

        Raises:
            ValueError: An id or a type of more than 65,535 octets.
        """
        kind, type_ = TypeFormat.UNKNOWN, b""
        if message.soap is not None:
            kind, type_ = TypeFormat.ABSOLUTE_URI, TYPE_BY_SOAP[message.soap]
        payloads = [(kind, message.id, type_, message.envelope)]
        for attachment in message.attachments:
            kind, type_ = _format_of(attachment.media_type), _octets(attachment.media_type)
            payloads.append((kind, _octets(attachment.content_id), type_, attachment.content))
        if self._closing:
            payloads.append((TypeFormat.NONE, b"", b"", b""))
        pieces: list[bytes] = []
        for number, (kind, id_, type_, data) in enumerate(payloads):
            flags = BEGIN if number == 0 else 0
            last = END if number == len(payloads) - 1 else 0
            if self._chunk is not None and len(data) > self._chunk:
                for start in range(0, len(data) - self._chunk, self._chunk):
                    part = data[start : start + self._chunk]
                    pieces += _record(flags | CHUNK, kind, id_, type_, part)
                    flags, kind, id_, type_ = 0, TypeFormat.UNCHANGED, b"", b""
                data = data[start + self._chunk :]
            pieces += _record(flags | last, kind, id_, type_, data)
        return b"".join(pieces)


def encode_plain(soap: Soap, envelope: bytes, id_: bytes = b"") -> bytes:
    """Encode an envelope without attachments as `Encoder` does, but faster, for it is sent the
    most. *id_* has at most 65,535 octets."""
    size, id_size = len(envelope), len(id_)
    octet, format_, options, type_size = _PLAIN[soap]
    head = HEADER.pack(octet, format_, options, id_size, type_size, size)
    named = (head, id_, _PADDING[-id_size & 3])
    return b"".join((*named, _TYPE_PADDED[soap], envelope, _PADDING[-size & 3]))


_PADDING = tuple(bytes(size) for size in range(4))
_PLAIN = {
    soap: (VERSION_1 | BEGIN | END, TypeFormat.ABSOLUTE_URI << 4, 0, len(type_))
    for soap, type_ in TYPE_BY_SOAP.items()
}
_TYPE_PADDED = {soap: type_ + bytes(-len(type_) & 3) for soap, type_ in TYPE_BY_SOAP.items()}


def _record(flags: int, kind: int, id_: bytes, type_: bytes, data: bytes) -> list[bytes]:
    """The octets of a record, in pieces.

    Raises:
        ValueError: *id_* or *type_* is longer than its length field can say.
    """
    if len(id_) > 0xFFFF or len(type_) > 0xFFFF:
        raise ValueError("an id or a type of more than 65,535 octets")
    head = HEADER.pack(VERSION_1 | flags, kind << 4, 0, len(id_), len(type_), len(data))
    return [head, id_, _pad(id_), type_, _pad(type_), data, _pad(data)]


def _pad(octets: bytes) -> bytes:
    return bytes(-len(octets) & 3)


def _format_of(type_: str) -> TypeFormat:
    if not type_:
        return TypeFormat.UNKNOWN
    return TypeFormat.ABSOLUTE_URI if _ABSOLUTE_URI.match(type_) else TypeFormat.MEDIA_TYPE


def _octets(text: str) -> bytes:
    """Encode an id or a type as the decoder read it; text beyond Latin-1 came from elsewhere."""
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        return text.encode()
