"""Headers whose values pika cannot read.

pika raises where a header is a timestamp beyond the year 9999; programs that write milliseconds
where AMQP has seconds send one. That ends the connection, the message comes again over the next
one, and nothing behind it is ever delivered. So `read_all_values` has pika read it as None.
(RabbitMQ itself refuses numbers that are none.)
"""

from typing import Any

from pika import data

_TIMESTAMP = b"T"
_SIZE = 9
"""Bytes of a timestamp with the letter of its kind (AMQP 0-9-1, section 4.2.1)."""

_pikas_decode_value = data.decode_value


def _decode_value(encoded: bytes, offset: int) -> tuple[Any, int]:
    """Decode the value at *offset*; returns it, and where the next one begins."""
    try:
        value, end = _pikas_decode_value(encoded, offset)
    except (ValueError, OverflowError, OSError):
        if encoded[offset : offset + 1] != _TIMESTAMP:
            raise
        return None, offset + _SIZE
    return value, end


def read_all_values() -> None:
    """Have pika read a timestamp that is out of range as None, in this process, from now on."""
    data.decode_value = _decode_value
