"""DIME messages, as draft-nielsen-dime-02 lays them out, and SOAP in them as WSE sends it.

     0        1        2        3
    +--------+--------+--------+--------+
    |VVVVVBEC|TTTTRRRR| options length  |   V version, B begin, E end, C chunk,
    +--------+--------+--------+--------+   T type format, R reserved
    |    id length    |   type length   |
    +--------+--------+--------+--------+
    |            data length            |
    +--------+--------+--------+--------+
    | options, id, type, data: each padded to a multiple of 4

One SOAP message is one DIME message: the first record has the envelope, its TYPE the
envelope's namespace; further records are attachments (WS-Attachments, 2002).

After an error the position in the stream is lost: nothing here looks for the next header.
"""

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum, IntEnum

from mediation.model.messages import Attachment
from mediation.model.versions import Soap

_HEADER = struct.Struct(">BBHHHI")
_BEGIN, _END, _CHUNK = 4, 2, 1
_VERSION_1 = 1 << 3
_BLANK = b" \t\r\n"
_JUDGED = 64
"""Octets of a first record within which it begins as an envelope or as a MIME package."""
_ABSOLUTE_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_SOAP_BY_TYPE = {soap.value.encode(): soap for soap in Soap}
_TYPE_BY_SOAP = {soap: octets for octets, soap in _SOAP_BY_TYPE.items()}


class TypeFormat(IntEnum):
    """The meaning of TYPE (section 3.2.5). 5 to 15 are reserved, and read as UNKNOWN."""

    UNCHANGED = 0
    MEDIA_TYPE = 1
    ABSOLUTE_URI = 2
    UNKNOWN = 3
    NONE = 4


class DimeReason(Enum):
    """Reasons why octets are no DIME message, or exceed the limits."""

    VERSION = "the version is not 1"
    RESERVED = "the reserved bits are not 0"
    BEGIN_MISSING = "the first record does not begin the message"
    BEGIN_AGAIN = "a later record begins a message"
    CHUNK_AT_END = "a chunk with more to come ends the message"
    TYPE_FORMAT = "the type format is not the one of its place"
    TYPE_LENGTH = "there is a type where none may be"
    DATA_LENGTH = "there is data where none may be"
    ID_OF_CHUNK = "a later chunk has an id"
    ID_REPEATED = "two records have the same id"
    TRUNCATED = "the stream ends within a message"
    OPTIONS_TOO_LONG = "the options are too long"
    ID_TOO_LONG = "the id is too long"
    TYPE_TOO_LONG = "the type is too long"
    MESSAGE_TOO_LONG = "the message is too long"
    ENVELOPE_TOO_LONG = "the envelope is too long"
    TOO_MANY_RECORDS = "there are too many records"
    TOO_MANY_EMPTY = "too many records in succession are empty"
    TOO_MANY_ATTACHMENTS = "there are too many attachments"


class DimeError(Exception):
    """A stream that cannot be read any further.

    Args:
        offset: Where the record at fault begins, in octets since the decoder's first.
    """

    def __init__(self, reason: DimeReason, offset: int) -> None:
        super().__init__(f"{reason.value}, at octet {offset}")
        self.reason = reason
        self.offset = offset


@dataclass(frozen=True, slots=True)
class DimeLimits:
    """The bounds of one message. Lengths are in octets."""

    message: int = 4 * 1024 * 1024
    """The most octets of DATA of all records together."""
    envelope: int = 2 * 1024 * 1024
    """DATA of the first payload, unless it is a MIME package: that has *message* alone."""
    records: int = 1024
    """The most records, chunks included."""
    empty: int = 16
    """The most records without DATA in succession."""
    id: int = 4096
    type: int = 1024
    options: int = 4096
    attachments: int = 64


@dataclass(frozen=True, slots=True)
class DimeMessage:
    """A SOAP message and what travels with it.

    Attributes:
        soap: What TYPE of the first record says; None when it is no SOAP namespace.
        envelope: DATA of the first record, without white space around it.
        attachments: ``content_id`` is ID. ``media_type`` is TYPE: a media type, an
            absolute URI, or nothing where the sender did not know. Octets that are not
            ASCII are read as Latin-1, so that they go out as they came in.
        id: ID of the first record, which refers to nothing and says nothing of the message.
    """

    soap: Soap | None
    envelope: bytes
    attachments: tuple[Attachment, ...] = ()
    id: bytes = field(default=b"", compare=False)

    @property
    def packaged(self) -> bool:
        """Whether ``envelope`` begins like a MIME package, as MTOM of WSE 3.0 does."""
        return self.envelope[:1] in (b"M", b"-")


class Phase(Enum):
    """The place in a stream that a decoder has come to."""

    QUIET = "between two messages"
    HEAD = "within the header, options, id or type of a record"
    BODY = "elsewhere in a message"


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
            kind, type_ = TypeFormat.ABSOLUTE_URI, _TYPE_BY_SOAP[message.soap]
        payloads = [(kind, message.id, type_, message.envelope)]
        for attachment in message.attachments:
            kind, type_ = _format_of(attachment.media_type), _octets(attachment.media_type)
            payloads.append((kind, _octets(attachment.content_id), type_, attachment.content))
        if self._closing:
            payloads.append((TypeFormat.NONE, b"", b"", b""))
        pieces: list[bytes] = []
        for number, (kind, id_, type_, data) in enumerate(payloads):
            flags = _BEGIN if number == 0 else 0
            last = _END if number == len(payloads) - 1 else 0
            if self._chunk is not None and len(data) > self._chunk:
                for start in range(0, len(data) - self._chunk, self._chunk):
                    part = data[start : start + self._chunk]
                    pieces += _record(flags | _CHUNK, kind, id_, type_, part)
                    flags, kind, id_, type_ = 0, TypeFormat.UNCHANGED, b"", b""
                data = data[start + self._chunk :]
            pieces += _record(flags | last, kind, id_, type_, data)
        return b"".join(pieces)


def encode_plain(soap: Soap, envelope: bytes, id_: bytes = b"") -> bytes:
    """Encode an envelope without attachments as `Encoder` does, but faster, for it is sent the
    most. *id_* has at most 65,535 octets."""
    size, id_size = len(envelope), len(id_)
    octet, format_, options, type_size = _PLAIN[soap]
    head = _HEADER.pack(octet, format_, options, id_size, type_size, size)
    named = (head, id_, _PADDING[-id_size & 3])
    return b"".join((*named, _TYPE_PADDED[soap], envelope, _PADDING[-size & 3]))


class Decoder:
    """Reads messages from octets, however they are cut.

    Each is handed out when the last octet of its data is there: the padding that follows
    is awaited by nobody. What is kept is what came, never what was announced.
    """

    __slots__ = (
        "_attachments",
        "_base",
        "_budget",
        "_chunked",
        "_data",
        "_empty",
        "_envelope",
        "_error",
        "_first_id",
        "_flags",
        "_id",
        "_ids",
        "_in_data",
        "_kind",
        "_left",
        "_limits",
        "_oversize",
        "_package",
        "_padding",
        "_padding_next",
        "_payload",
        "_position",
        "_record_at",
        "_records",
        "_soap",
        "_type",
    )

    def __init__(self, limits: DimeLimits | None = None) -> None:
        self._limits = limits or DimeLimits()
        self._data: bytes | bytearray = b""
        self._position = 0
        self._base = 0  # octets before _data
        self._record_at = 0  # where the record begins
        self._padding = 0  # octets to be thrown away before the next header
        self._error: DimeError | None = None
        self._begin_message()

    def _begin_message(self) -> None:
        self._budget = self._limits.message
        self._records = 0
        self._empty = 0
        self._ids: set[bytes] | None = None
        self._soap: Soap | None = None
        self._envelope: bytes | None = None
        self._first_id = b""
        self._attachments: list[Attachment] | None = None
        self._oversize = False  # the envelope is too long, unless it is a package
        self._package = False
        # The payload.
        self._id = b""
        self._type = b""
        self._kind = 0
        self._chunked = False  # the next record must go on with it
        self._payload: bytearray | None = None  # what has come, unless it came at once
        # The record.
        self._flags = 0
        self._in_data = False
        self._left = 0
        self._padding_next = 0

    @property
    def phase(self) -> Phase:
        if not self._in_data and not self._padding and self._position < len(self._data):
            return Phase.HEAD
        return Phase.BODY if self._records else Phase.QUIET

    @property
    def offset(self) -> int:
        """The octets that were read so far."""
        return self._base + self._position

    @property
    def records(self) -> int:
        """Records of the message under way whose head is complete."""
        return self._records

    @property
    def empty(self) -> bool:
        """Whether the decoder stands between messages, so that a new one would do as well."""
        return self.phase is Phase.QUIET and not self._padding and self._error is None

    def feed(self, octets: bytes) -> Iterator[DimeMessage]:
        """Iterate over the messages that *octets* complete.

        What is not asked for is decoded by the next call's iterator.

        Raises:
            DimeError: From the iterator, after the messages before the fault; from then on
                every one raises it.
        """
        if self._error is not None:
            return self
        if not self._data:
            self._data = bytes(octets)
            return self
        if isinstance(self._data, bytes):
            self._data = bytearray(self._data[self._position :])
        else:
            del self._data[: self._position]
        self._base += self._position
        self._position = 0
        self._data += octets
        return self

    def eof(self) -> None:
        """Tell the decoder that the stream has ended, when all messages were asked for.

        Raises:
            DimeError: It did within a message, ``TRUNCATED``.
        """
        if self._error is None and self.phase is not Phase.QUIET:
            self._error = DimeError(DimeReason.TRUNCATED, self._base + len(self._data))
        if self._error is not None:
            raise self._error

    def __iter__(self) -> "Decoder":
        return self

    def __next__(self) -> DimeMessage:
        if self._error is not None:
            raise self._error
        data = self._data
        position = self._position
        end = len(data)
        while True:
            if not self._in_data:
                if self._padding:
                    step = min(self._padding, end - position)
                    self._padding -= step
                    position += step
                if end - position < 12:
                    break
                start = self._read_head(data, position, end)
                if start > end:
                    break
                position = start
            step = min(self._left, end - position)
            piece = data[position : position + step]
            position += step
            self._left -= step
            if self._oversize:
                self._judge(piece)
            if self._left or self._chunked or self._payload is not None:
                if self._payload is None:
                    self._payload = bytearray()
                self._payload += piece
                if self._left:
                    break
                if not self._chunked:
                    piece = self._payload
                    self._payload = None
            self._in_data = False
            self._padding = self._padding_next
            if self._chunked:
                continue
            self._close_payload(bytes(piece))
            if self._flags & _END:
                self._position = position
                return self._take()
        self._position = position
        if position == end:
            self._base += end
            self._data = b""
            self._position = 0
        raise StopIteration

    def _read_head(self, data: bytes | bytearray, position: int, end: int) -> int:
        """Read a record's head and return where DATA begins; beyond *end* the head is incomplete,
        and nothing has changed."""
        octet, format_, options, id_, type_, length = _HEADER.unpack_from(data, position)
        self._record_at = self._base + position
        limits = self._limits
        kind = format_ >> 4
        if octet & 0xF8 != _VERSION_1:
            raise self._fail(DimeReason.VERSION)
        if format_ & 0x0F:
            raise self._fail(DimeReason.RESERVED)
        if self._records:
            if octet & _BEGIN:
                raise self._fail(DimeReason.BEGIN_AGAIN)
        elif not octet & _BEGIN:
            raise self._fail(DimeReason.BEGIN_MISSING)
        if octet & 3 == _END | _CHUNK:
            raise self._fail(DimeReason.CHUNK_AT_END)
        if (kind == 0) is not self._chunked or (kind == 4 and octet & _CHUNK):
            raise self._fail(DimeReason.TYPE_FORMAT)
        if type_ and kind in (0, 3, 4):
            raise self._fail(DimeReason.TYPE_LENGTH)
        if kind == 4 and length:
            raise self._fail(DimeReason.DATA_LENGTH)
        if id_ and self._chunked:
            raise self._fail(DimeReason.ID_OF_CHUNK)
        if options > limits.options:
            raise self._fail(DimeReason.OPTIONS_TOO_LONG)
        if id_ > limits.id:
            raise self._fail(DimeReason.ID_TOO_LONG)
        if type_ > limits.type:
            raise self._fail(DimeReason.TYPE_TOO_LONG)
        if length > self._budget:
            raise self._fail(DimeReason.MESSAGE_TOO_LONG)
        if self._records >= limits.records:
            raise self._fail(DimeReason.TOO_MANY_RECORDS)
        if not length and self._empty >= limits.empty:
            raise self._fail(DimeReason.TOO_MANY_EMPTY)
        start = position + 12
        if options:
            start += options + 3 & ~3
        begin_id = start
        if id_:
            start += id_ + 3 & ~3
        begin_type = start
        if type_:
            start += type_ + 3 & ~3
        if start > end:
            return start
        if not self._chunked:
            self._kind = kind
            self._type = bytes(data[begin_type : begin_type + type_])
            self._id = b""
            if id_:
                self._id = self._new_id(bytes(data[begin_id : begin_id + id_]))
        if self._envelope is None:
            so_far = len(self._payload) if self._payload is not None else 0
            self._oversize = not self._package and so_far + length > limits.envelope
        elif kind not in (0, 4) and len(self._attachments or ()) >= limits.attachments:
            raise self._fail(DimeReason.TOO_MANY_ATTACHMENTS)
        self._records += 1
        self._budget -= length
        self._empty = 0 if length else self._empty + 1
        self._flags = octet
        self._chunked = bool(octet & _CHUNK)
        self._left = length
        self._padding_next = -length & 3
        self._in_data = True
        return start

    def _new_id(self, id_: bytes) -> bytes:
        if self._ids is None:
            self._ids = set()
        elif id_ in self._ids:
            raise self._fail(DimeReason.ID_REPEATED)
        self._ids.add(id_)
        return id_

    def _judge(self, piece: bytes | bytearray) -> None:
        """Go on with an envelope beyond its limit only if it turns out to be a package."""
        seen = bytes(self._payload[:_JUDGED]) if self._payload is not None else b""
        seen = (seen + piece[:_JUDGED])[:_JUDGED]
        begins = seen.lstrip(_BLANK)
        if begins[:1] in (b"M", b"-"):
            self._package = True
            self._oversize = False
        elif begins or len(seen) == _JUDGED:
            raise self._fail(DimeReason.ENVELOPE_TOO_LONG)

    def _close_payload(self, data: bytes) -> None:
        if self._envelope is None:
            if self._kind == TypeFormat.ABSOLUTE_URI:
                self._soap = _SOAP_BY_TYPE.get(self._type)
            self._envelope = _trimmed(data)
            self._first_id = self._id
        elif self._kind != TypeFormat.NONE:
            known = self._kind in (TypeFormat.MEDIA_TYPE, TypeFormat.ABSOLUTE_URI)
            type_ = self._type.decode("latin-1") if known else ""
            if self._attachments is None:
                self._attachments = []
            self._attachments.append(Attachment(self._id.decode("latin-1"), type_, data))

    def _take(self) -> DimeMessage:
        """Return the message that is complete, and begin another."""
        attachments = tuple(self._attachments) if self._attachments else ()
        message = DimeMessage(self._soap, self._envelope or b"", attachments, self._first_id)
        self._begin_message()
        return message

    def _fail(self, reason: DimeReason) -> DimeError:
        self._error = DimeError(reason, self._record_at)
        self._data = b""
        self._payload = None
        return self._error


def first_octets(data: bytes) -> str:
    """Guess the protocol of the sender of *data*, for a line of a log; two octets tell most of
    them."""
    if data[:1] in (b"\x0c", b"\x0d", b"\x0e") and len(data) > 1:
        if data[1] == 0x20:
            return "DIME with SOAP"
        if data[1] == 0x10:
            return "DIME with a media type first, which is not SOAP"
    if data[:1].isalpha() and data[:1].isupper():
        return "HTTP"
    if data[:1] == b"v" and b"vnd.sun.ws.tcp".startswith(data[:14]):
        return "Sun's SOAP/TCP"
    if data[:2] == b"\x00\x01" and b"\x00\x01\x00\x01".startswith(data[:4]):
        return ".NET message framing"
    if data[:2] == b"\x16\x03":
        return "TLS"
    return "an unknown protocol"


_PADDING = tuple(bytes(size) for size in range(4))
_PLAIN = {
    soap: (_VERSION_1 | _BEGIN | _END, TypeFormat.ABSOLUTE_URI << 4, 0, len(type_))
    for soap, type_ in _TYPE_BY_SOAP.items()
}
_TYPE_PADDED = {soap: type_ + bytes(-len(type_) & 3) for soap, type_ in _TYPE_BY_SOAP.items()}


def _record(flags: int, kind: int, id_: bytes, type_: bytes, data: bytes) -> list[bytes]:
    """The octets of a record, in pieces.

    Raises:
        ValueError: *id_* or *type_* is longer than its length field can say.
    """
    if len(id_) > 0xFFFF or len(type_) > 0xFFFF:
        raise ValueError("an id or a type of more than 65,535 octets")
    head = _HEADER.pack(_VERSION_1 | flags, kind << 4, 0, len(id_), len(type_), len(data))
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


def _trimmed(envelope: bytes) -> bytes:
    """Strip white space, which must not precede an XML declaration."""
    trimmed = envelope.strip(_BLANK)
    # In UTF-16 the octet of a line break is half a character.
    return envelope if trimmed[:2] in (b"\xfe\xff", b"\xff\xfe") else trimmed
