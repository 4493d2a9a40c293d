"""Headers whose values pika cannot read, or reads as others.

pika raises where a header is a timestamp beyond the year 9999 (programs that write milliseconds
where AMQP has seconds send one), a floating-point number that is NaN or infinite, or a table
within a table within another, too deep for Python. That ends the connection, the message comes
again over the next one, and nothing behind it is ever delivered. So `read_all_values` has pika read
each of these as None. Of other numbers of floating point pika drops what stands behind the point:
they are read here. (RabbitMQ itself refuses values of unknown kinds.)
"""

import math
import struct
from typing import Any

from pika import data

_SIZES = {
    **dict.fromkeys((b"t", b"b", b"B"), 1),
    **dict.fromkeys((b"U", b"u", b"s"), 2),
    **dict.fromkeys((b"I", b"i", b"f"), 4),
    b"D": 5,
    **dict.fromkeys((b"L", b"l", b"d", b"T"), 8),
    b"V": 0,
}
"""Bytes of a value by the letter of its kind (AMQP 0-9-1, section 4.2.1, as RabbitMQ has it)."""
_PREFIXED = (b"S", b"x", b"A", b"F")
"""Kinds whose values begin with their length."""
_FLOATS = {b"f": struct.Struct(">f"), b"d": struct.Struct(">d")}

_pikas_decode_value = data.decode_value


def _decode_value(encoded: bytes, offset: int) -> tuple[Any, int]:
    """Decode the value at *offset*; returns it, and where the next one begins."""
    kind = encoded[offset : offset + 1]
    try:
        if kind in _FLOATS:
            (number,) = _FLOATS[kind].unpack_from(encoded, offset + 1)
            return number if math.isfinite(number) else None, offset + 1 + _FLOATS[kind].size
        value, end = _pikas_decode_value(encoded, offset)
    except (ArithmeticError, ValueError, OSError, RecursionError):
        return None, _end_of(kind, encoded, offset + 1)
    return value, end


def _end_of(kind: bytes, encoded: bytes, offset: int) -> int:
    """Return where a value of *kind* ends that begins at *offset*."""
    if kind in _PREFIXED:
        return offset + 4 + int.from_bytes(encoded[offset : offset + 4], "big")
    return offset + _SIZES[kind]


def read_all_values() -> None:
    """Have pika read what it cannot read as None, in this process, from now on."""
    data.decode_value = _decode_value
