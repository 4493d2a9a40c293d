"""The frames of AMQP 0-9-1 that every message costs, written and read in one go.

    publish     method | header: flags, content type, headers, … | body …     (2.3.5, 4.2)
    deliver     method | header | body
    ack, nack   method

Everything else is pika's, which is also what these are measured against: what is written here is
octet for octet what pika writes, and what is read here pika reads the same. What is unusual is not
read here at all.
"""

from collections.abc import Mapping
from functools import lru_cache
from struct import Struct
from struct import error as StructError
from typing import Any

import pika
from pika import frame, spec

METHOD, HEADER, BODY = spec.FRAME_METHOD, spec.FRAME_HEADER, spec.FRAME_BODY
DELIVER = Struct(">I").pack(spec.Basic.Deliver.INDEX)
ACK = Struct(">I").pack(spec.Basic.Ack.INDEX)
NACK = Struct(">I").pack(spec.Basic.Nack.INDEX)

START = Struct(">BHI")
"""How a frame starts: its type, its channel, the octets between start and end."""
FRAME_END = spec.FRAME_END
AROUND = START.size + 1
"""Octets of a frame around what it carries."""

_END = bytes((FRAME_END,))
_CONTENT = Struct(">BHIHHQ")
"""A header frame until its flags: start, class, weight, octets of the body."""
_BODY_AFTER_HEADER = Struct(">BBHI")
_ACKNOWLEDGE = Struct(">BHIIQBB")
_ACKNOWLEDGE_SIZE = 13
"""Octets of an ack or a nack between start and end."""
_ANSWER = Struct(">QB")
_DELIVERY = Struct(">QB")
_SIZES = Struct(">HHQ")
_SHORT = Struct(">H")
_LONG = Struct(">I")
_LONG_LONG = Struct(">Q")

_CONTENT_TYPE = spec.BasicProperties.FLAG_CONTENT_TYPE
_HEADERS = spec.BasicProperties.FLAG_HEADERS
_DELIVERY_MODE = spec.BasicProperties.FLAG_DELIVERY_MODE
_PRIORITY = spec.BasicProperties.FLAG_PRIORITY
_MESSAGE_ID = spec.BasicProperties.FLAG_MESSAGE_ID
_TIMESTAMP = spec.BasicProperties.FLAG_TIMESTAMP
_READ = _CONTENT_TYPE | _HEADERS | _DELIVERY_MODE | _PRIORITY | _MESSAGE_ID | _TIMESTAMP
_STRING = ord("S")

_PERSISTENT = 2
_FLAGS = _CONTENT_TYPE | _HEADERS | _DELIVERY_MODE | _TIMESTAMP
_MODE_AND_SIZE = Struct(">BB")
_MODE_AND_TIME = Struct(">BQ")
_CLASS = spec.BasicProperties.INDEX


class Properties:
    """What is read of the properties of a message. None: it does not say."""

    __slots__ = ("content_type", "headers", "message_id", "timestamp")

    def __init__(
        self,
        content_type: str | None,
        headers: Mapping[str, Any],
        message_id: str | None,
        timestamp: int | None,
    ) -> None:
        self.content_type = content_type
        self.headers = headers
        self.message_id = message_id
        self.timestamp = timestamp

    @classmethod
    def of(cls, found: pika.BasicProperties) -> "Properties":
        """Those that pika has read."""
        return cls(found.content_type, found.headers or {}, found.message_id, found.timestamp)


# ------------------------------------------------------------------------------------------ written


def write_publish(channel: int, exchange: str, key: str, *, mandatory: bool) -> bytes:
    """The method frame before a message (1.8.3.7, ``basic.publish``)."""
    method = spec.Basic.Publish(exchange=exchange, routing_key=key, mandatory=mandatory)
    octets: bytes = frame.Method(channel, method).marshal()
    return octets


def write_table(headers: Mapping[str, str]) -> bytes:
    """Headers as a table of long strings, without its length (4.2.5.5). A name has at most 255
    octets."""
    pieces: list[bytes] = []
    for name, value in headers.items():
        octets = value.encode()
        pieces += _field(name), _LONG.pack(len(octets)), octets
    return b"".join(pieces)


def write_properties(
    content_type: str, table: bytes, message_id: str | None, timestamp: int
) -> bytes:
    """Flags and properties of a persistent message.

    Args:
        content_type, message_id: At most 255 octets.
        table: As `write_table` wrote it.
        timestamp: In seconds since 1970.
    """
    before = _before_table(content_type, message_id is not None)
    if message_id is None:
        after = _MODE_AND_TIME.pack(_PERSISTENT, timestamp)
        return b"".join((before, _LONG.pack(len(table)), table, after))
    id = message_id.encode()
    mode = _MODE_AND_SIZE.pack(_PERSISTENT, len(id))
    stamp = _LONG_LONG.pack(timestamp)
    return b"".join((before, _LONG.pack(len(table)), table, mode, id, stamp))


def write_content(
    channel: int, properties: bytes, body: bytes, largest: int
) -> tuple[bytes, bytes, bytes, bytes, bytes] | list[bytes]:
    """The frames after the method, in pieces.

    Args:
        properties: As `write_properties` wrote them.
        largest: Octets of a body that one frame carries.
    """
    size = len(body)
    head = _CONTENT.pack(HEADER, channel, _SIZES.size + len(properties), _CLASS, 0, size)
    if 0 < size <= largest:
        between = _BODY_AFTER_HEADER.pack(FRAME_END, BODY, channel, size)
        return head, properties, between, body, _END
    pieces = [head, properties, _END]
    for start in range(0, size, largest):
        part = body[start : start + largest]
        pieces += START.pack(BODY, channel, len(part)), part, _END
    return pieces


def write_acknowledgement(channel: int, tag: int, *, multiple: bool) -> bytes:
    """``basic.ack`` of one delivery, or of all up to it (1.8.3.13)."""
    return _ACKNOWLEDGE.pack(
        METHOD, channel, _ACKNOWLEDGE_SIZE, spec.Basic.Ack.INDEX, tag, multiple, FRAME_END
    )


@lru_cache(maxsize=64)
def _before_table(content_type: str, has_id: bool) -> bytes:
    flags = _FLAGS | _MESSAGE_ID if has_id else _FLAGS
    return _SHORT.pack(flags) + _short_string(content_type)


@lru_cache(maxsize=1024)
def _field(name: str) -> bytes:
    """The name of a header, and that its value is a long string."""
    return _short_string(name) + b"S"


def _short_string(text: str) -> bytes:
    octets = text.encode()
    return bytes((len(octets),)) + octets


# --------------------------------------------------------------------------------------------- read


def read_answer(data: bytes, at: int, size: int) -> tuple[int, bool] | None:
    """The tag of an ack or a nack, and whether all up to it are meant. None: it is not one.

    Args:
        at: Where the frame starts.
        size: What it carries, in octets.
    """
    if size != _ACKNOWLEDGE_SIZE:
        return None
    tag, bits = _ANSWER.unpack_from(data, at + 11)
    return tag, bool(bits & 1)


def read_delivery(data: bytes, at: int, end: int) -> tuple[bytes, int, bool, str, str] | None:
    """Consumer tag, delivery tag, whether it was delivered before, exchange and routing key of a
    ``basic.deliver`` (1.8.3.9).

    Args:
        at: Where its frame starts.
        end: Where what the frame carries ends.
    """
    behind = at + 12 + data[at + 11]
    if behind + _DELIVERY.size > end:
        return None
    tag, bits = _DELIVERY.unpack_from(data, behind)
    origin = _read_origin(data[behind + _DELIVERY.size : end])
    if origin is None:
        return None
    return data[at + 12 : behind], tag, bool(bits & 1), *origin


def read_content(
    data: bytes, at: int, channel: int, largest: int
) -> tuple[Properties, bytes, int] | int | None:
    """The properties and the body whose frames start at *at*, and where the last one ends.

    Returns:
        A number: more octets have to come, at least up to there. None: pika has to read it.

    Args:
        channel: That of the method before.
        largest: Octets of a body that one frame carries.
    """
    here = len(data)
    start: int = START.size
    if at + start > here:
        return at + start
    kind, number, size = START.unpack_from(data, at)
    if kind != HEADER or number != channel or not _SIZES.size < size <= largest:
        return None
    end: int = at + AROUND + size
    if end > here:
        return end
    of_class, _weight, length = _SIZES.unpack_from(data, at + start)
    if of_class != _CLASS or data[end - 1] != FRAME_END or length > largest:
        return None
    last: int = end
    body = b""
    if length:
        if end + start > here:
            return end + start
        if START.unpack_from(data, end) != (BODY, channel, length):
            return None
        last += AROUND + length
        if last > here:
            return last
        if data[last - 1] != FRAME_END:
            return None
        body = data[end + start : last - 1]
    properties = read_properties(data, at + start + _SIZES.size, end - 1)
    return None if properties is None else (properties, body, last)


def read_properties(data: bytes, at: int, end: int) -> Properties | None:
    """Flags and properties, which lie between *at* and *end*. None: pika has to read them."""
    content_type = message_id = timestamp = None
    headers: dict[str, str] = {}
    try:
        (flags,) = _SHORT.unpack_from(data, at)
        at += 2
        if flags & ~_READ:
            return None
        if flags & _CONTENT_TYPE:
            behind = at + 1 + data[at]
            content_type = _text(data[at + 1 : behind])
            at = behind
        if flags & _HEADERS:
            at += 4
            limit = at + _LONG.unpack_from(data, at - 4)[0]
            while at < limit:
                behind = at + 1 + data[at]
                if data[behind] != _STRING:
                    return None
                value = behind + 5
                name = _text(data[at + 1 : behind])
                at = value + _LONG.unpack_from(data, behind + 1)[0]
                headers[name] = data[value:at].decode()
            if at != limit:
                return None
        if flags & _DELIVERY_MODE:
            at += 1
        if flags & _PRIORITY:
            at += 1
        if flags & _MESSAGE_ID:
            behind = at + 1 + data[at]
            message_id = data[at + 1 : behind].decode()
            at = behind
        if flags & _TIMESTAMP:
            (timestamp,) = _LONG_LONG.unpack_from(data, at)
            at += 8
    except (StructError, IndexError, UnicodeDecodeError):
        return None
    return Properties(content_type, headers, message_id, timestamp) if at == end else None


@lru_cache(maxsize=1024)
def _text(octets: bytes) -> str:
    """A text that recurs, such as the name of a header."""
    return octets.decode()


@lru_cache(maxsize=4096)
def _read_origin(octets: bytes) -> tuple[str, str] | None:
    """An exchange and a routing key, which recur."""
    try:
        behind = 1 + octets[0]
        if behind + 1 + octets[behind] != len(octets):
            return None
        return octets[1:behind].decode(), octets[behind + 1 :].decode()
    except (IndexError, UnicodeDecodeError):
        return None
