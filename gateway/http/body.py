"""Request bodies, read within bounds."""

import zlib
from collections.abc import Callable, Iterable

from starlette.types import Receive, Scope

from gateway.http.limits import HttpLimits
from gateway.http.refusal import HttpRefusal

TOO_LARGE = "The message is too large."
_GZIP = frozenset({b"gzip", b"x-gzip"})  # RFC 9110, "Gzip Coding": recipients take both


async def read_body(
    receive: Receive,
    scope: Scope,
    limits: HttpLimits,
    *,
    decoded: int | None = None,
    admit: Callable[[int], None] = lambda _: None,
) -> bytes:
    """The whole body of an ASGI request, decompressed.

    Args:
        decoded: Octets that it may have decompressed; `HttpLimits.envelope` when None.
        admit: Called with the octets that the body is known to have, before more is read; what it
            raises ends the reading.

    Raises:
        HttpRefusal: 413 as soon as it is known to be too large; 415 for a content coding
            other than one gzip; 400 for a broken one, or a body that breaks off.
    """
    most = limits.envelope if decoded is None else decoded
    gzipped = _is_gzipped(scope["headers"])
    wire = await _read(receive, _declared(scope["headers"]), min(limits.message, most), admit)
    return _inflate(wire, most, limits.ratio) if gzipped else wire


def _declared(headers: Iterable[tuple[bytes, bytes]]) -> int:
    """The length that the request announces; 0 when it comes in chunks.

    The server lets none but one number of decimal digits pass.
    """
    for name, value in headers:
        if name == b"content-length":
            return int(value)
    return 0


async def _read(receive: Receive, declared: int, most: int, admit: Callable[[int], None]) -> bytes:
    if declared > most:
        raise HttpRefusal(413, TOO_LARGE)
    admit(declared)
    pieces: list[bytes] = []
    octets = 0
    while True:
        event = await receive()
        if event["type"] == "http.disconnect":
            raise HttpRefusal(400, "The message breaks off.")
        piece: bytes = event.get("body", b"")
        octets += len(piece)
        if octets > most:
            raise HttpRefusal(413, TOO_LARGE)
        if octets > declared:  # It comes in chunks.
            admit(octets)
        pieces.append(piece)
        if not event.get("more_body", False):
            return b"".join(pieces)


def _is_gzipped(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    said = [value for name, value in headers if name == b"content-encoding"]
    if not said:
        return False
    codings = b",".join(said)
    named = [coding.strip().lower() for coding in codings.split(b",")]
    applied = [coding for coding in named if coding not in (b"", b"identity")]
    if not applied:
        return False
    if len(applied) > 1 or applied[0] not in _GZIP:
        # RFC 9110, "415 Unsupported Media Type": say what would do.
        raise HttpRefusal(415, "The content coding is not supported.", {"Accept-Encoding": "gzip"})
    return True


def _inflate(wire: bytes, most: int, ratio: int) -> bytes:
    most = min(most, ratio * len(wire))
    decompressor = zlib.decompressobj(31)
    try:
        text = decompressor.decompress(wire, most + 1)
    except zlib.error as exc:
        raise HttpRefusal(400, "The compressed message is broken.") from exc
    if len(text) > most:
        raise HttpRefusal(413, TOO_LARGE)
    if not decompressor.eof or decompressor.unused_data:
        raise HttpRefusal(400, "The compressed message is broken.")
    return text
