"""Ways in which peers write an answer over HTTP that say what is meant, and not as it should be."""

from collections.abc import Callable, Mapping

OK = b"HTTP/1.1 200 OK\r\n"
TYPE = b"Content-Type: text/xml\r\n"


def _length(body: bytes) -> bytes:
    return b"Content-Length: %d\r\n" % len(body)


def _chunks(body: bytes) -> bytes:
    return b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)


def _counted(*before: bytes, status: bytes = OK) -> Callable[[bytes], bytes]:
    """An answer with these *before* its length."""
    return lambda body: status + TYPE + b"".join(before) + _length(body) + b"\r\n" + body


ODD_ANSWERS: Mapping[str, Callable[[bytes], bytes]] = {
    "a length and chunks": lambda body: (
        OK + TYPE + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n" + _chunks(body)
    ),
    "chunks and a length": lambda body: (
        OK + TYPE + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n" + _chunks(body)
    ),
    "identity and a length": _counted(b"Transfer-Encoding: identity\r\n"),
    "a folded field": _counted(b"X-Note: one\r\n\ttwo\r\n  three\r\n"),
    "a folded type": lambda body: (
        OK + b"Content-Type:\r\n text/xml\r\n" + _length(body) + b"\r\n" + body
    ),
    "a folded length": lambda body: (
        OK + TYPE + b"Content-Length:\r\n %d\r\n\r\n" % len(body) + body
    ),
    "a fold before all fields": _counted(status=OK + b" folded\r\n"),
    "bare line feeds": lambda body: (
        b"HTTP/1.1 200 OK\nContent-Type: text/xml\nContent-Length: %d\n\n" % len(body) + body
    ),
    "some bare line feeds": _counted(b"Server: x\nDate: y\n"),
    "bare line feeds in chunks": lambda body: (
        b"HTTP/1.1 200 OK\nContent-Type: text/xml\nTransfer-Encoding: chunked\n\n"
        + _chunks(body).replace(b"\r\n", b"\n")
    ),
    "bare line feeds, to the end": lambda body: (
        b"HTTP/1.0 200 OK\nContent-Type: text/xml\n\n" + body
    ),
    "two equal lengths": lambda body: (OK + TYPE + _length(body) * 2 + b"\r\n" + body),
    "two equal lengths in one field": lambda body: (
        OK + TYPE + b"Content-Length: %d, %d\r\n\r\n" % (len(body), len(body)) + body
    ),
    "an empty length": lambda body: (
        OK + TYPE + b"Content-Length:\r\nTransfer-Encoding: chunked\r\n\r\n" + _chunks(body)
    ),
    "space before a colon": _counted(b"Server : x\r\n"),
    "space before the colon of the length": lambda body: (
        OK + TYPE + b"Content-Length : %d\r\n\r\n" % len(body) + body
    ),
    "a line that is no field": _counted(b"no field at all\r\n"),
    "a second status line": _counted(OK),
    "a field without a name": _counted(b": x\r\n"),
    "a name with a space": _counted(b"Set Cookie: x\r\n"),
    "a name that is not ASCII": _counted("Größe: 1\r\n".encode()),
    "a control in a value": _counted(b"X: a\0b\x01\r\n"),
    "an empty line first": lambda body: (
        b"\n" + OK + TYPE + _length(body).replace(b"\r", b"") + b"\r\n" + body
    ),
    "no reason, and a folded field": _counted(b"A: b\r\n c\r\n", status=b"HTTP/1.1 200\r\n"),
    "two spaces in the status line": _counted(status=b"HTTP/1.1  200  OK\r\n"),
    "a small http": _counted(status=b"http/1.1 200 OK\r\n"),
    "HTTP/1.2": _counted(status=b"HTTP/1.2 200 OK\r\n"),
    "HTTP/2": _counted(status=b"HTTP/2 200\r\n"),
    "HTTP/1.0, kept, folded": _counted(
        b"Connection: keep-alive\r\nA: b\r\n c\r\n", status=b"HTTP/1.0 200 OK\r\n"
    ),
    "interim answers with bare line feeds": lambda body: (
        b"HTTP/1.1 100 Continue\n\nHTTP/1.1 103 Early\nLink: <x>\n\n" + _counted()(body)
    ),
    "spaces around the size of a chunk": lambda body: (
        OK + TYPE + b"Transfer-Encoding: chunked\r\n\r\n %x \r\n" % len(body) + body
        + b"\r\n0 \r\n\r\n"
    ),
    "many long fields, and one folded": _counted(
        b"".join(b"X-%d: %b\r\n" % (n, b"x" * 1000) for n in range(70)), b"A: b\r\n c\r\n"
    ),
}  # fmt: skip
"""By name: an answer 200 of type ``text/xml`` with a body."""
