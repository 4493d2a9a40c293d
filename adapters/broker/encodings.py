"""Bodies of native messages that are compressed: ``content_encoding`` of AMQP, the property
``content-encoding`` of STOMP and JMS."""

import zlib
from collections.abc import Callable

MAX_DECODED = 32 * 2**20
"""Bytes of a body that was compressed; it is read on the event loop."""
RATIO = 200
"""The most times by which it may be larger than what came."""
NONE = ("", "identity", "utf-8", "utf8", "us-ascii", "iso-8859-1")
"""Names that say nothing of a body: programs write charsets there, too."""


class EncodingError(ValueError):
    """A body is not what its encoding says, or becomes too large."""


def decode(body: bytes, encoding: str | None) -> tuple[bytes, str]:
    """Decode *body*, to which the codings that *encoding* names were applied in their order.

    Returns:
        The body, and the codings that are left because they are unknown here, "" if none is.

    Raises:
        EncodingError: It cannot be decoded, or exceeds `MAX_DECODED`, or `RATIO` times its length.
    """
    codings = [one.strip().lower() for one in (encoding or "").split(",")]
    applied = [one for one in codings if one not in NONE]
    most = min(MAX_DECODED, RATIO * len(body))
    while applied and (decoder := _DECODERS.get(applied[-1])) is not None:
        body = decoder(body, most)
        applied.pop()
    return body, ", ".join(applied)


def _gunzip(body: bytes, most: int) -> bytes:
    """Decode gzip (RFC 1952), of which several members may follow one another."""
    parts = []
    while body:
        part, body = _inflate(body, most, zlib.MAX_WBITS | 16)
        parts.append(part)
        most -= len(part)
    return b"".join(parts)


def _inflate_either(body: bytes, most: int) -> bytes:
    """Decode deflate: zlib's format (RFC 9110, 8.4.1.2), or, as many write it, without its head."""
    try:
        return _inflate(body, most, zlib.MAX_WBITS)[0]
    except EncodingError:
        return _inflate(body, most, -zlib.MAX_WBITS)[0]


def _inflate(body: bytes, most: int, window: int) -> tuple[bytes, bytes]:
    """Decode what *body* begins with; returns it, and what stands behind it."""
    decompressor = zlib.decompressobj(window)
    try:
        decoded = decompressor.decompress(body, most + 1)
    except zlib.error as exc:
        raise EncodingError(f"its body is not compressed as it says: {exc}") from exc
    if len(decoded) > most:
        raise EncodingError(f"its body exceeds {most} bytes when it is decoded")
    if not decompressor.eof:
        raise EncodingError("its compressed body breaks off")
    return decoded, decompressor.unused_data


_DECODERS: dict[str, Callable[[bytes, int], bytes]] = {
    "gzip": _gunzip,
    "x-gzip": _gunzip,
    "deflate": _inflate_either,
}
