"""Messages read from octets, however they are cut."""

from collections.abc import Iterator
from enum import Enum

from mediation.model.messages import Attachment
from mediation.model.versions import Soap
from mediation.packaging.dime.messages import DimeError, DimeLimits, DimeMessage, DimeReason
from mediation.packaging.dime.records import (
    BEGIN,
    CHUNK,
    END,
    HEADER,
    SOAP_BY_TYPE,
    VERSION_1,
    TypeFormat,
)

_BLANK = b" \t\r\n"
_JUDGED = 64
"""Octets of a first record within which it begins as an envelope or as a MIME package."""


class Phase(Enum):
    """The place in a stream that a decoder has come to."""

    QUIET = "between two messages"
    HEAD = "within the header, options, id or type of a record"
    BODY = "elsewhere in a message"


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
        self._error: tuple[DimeReason, int] | None = None
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
    def announced(self) -> int:
        """Bytes of DATA of the message under way, as the heads of its records say that came."""
        return self._limits.message - self._budget

    @property
    def soap(self) -> Soap | None:
        """The SOAP version of the message under way, once the head of its first record is there."""
        if self._envelope is not None:
            return self._soap
        known = self._kind == TypeFormat.ABSOLUTE_URI
        return SOAP_BY_TYPE.get(self._type) if known else None

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
            self._error = DimeReason.TRUNCATED, self._base + len(self._data)
        if self._error is not None:
            raise DimeError(*self._error)

    def __iter__(self) -> "Decoder":
        return self

    def __next__(self) -> DimeMessage:
        if self._error is not None:
            raise DimeError(*self._error)
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
            if self._flags & END:
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
        octet, format_, options, id_, type_, length = HEADER.unpack_from(data, position)
        self._record_at = self._base + position
        limits = self._limits
        kind = format_ >> 4
        if octet & 0xF8 != VERSION_1:
            raise self._fail(DimeReason.VERSION)
        if format_ & 0x0F:
            raise self._fail(DimeReason.RESERVED)
        if self._records:
            if octet & BEGIN:
                raise self._fail(DimeReason.BEGIN_AGAIN)
        elif not octet & BEGIN:
            raise self._fail(DimeReason.BEGIN_MISSING)
        if octet & 3 == END | CHUNK:
            raise self._fail(DimeReason.CHUNK_AT_END)
        if (kind == 0) is not self._chunked or (kind == 4 and octet & CHUNK):
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
        self._chunked = bool(octet & CHUNK)
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
                self._soap = SOAP_BY_TYPE.get(self._type)
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
        self._error = reason, self._record_at
        self._data = b""
        self._payload = None
        return DimeError(*self._error)


def _trimmed(envelope: bytes) -> bytes:
    """Strip white space, which must not precede an XML declaration."""
    trimmed = envelope.strip(_BLANK)
    # In UTF-16 the octet of a line break is half a character.
    return envelope if trimmed[:2] in (b"\xfe\xff", b"\xff\xfe") else trimmed
