"""Heads of requests that the parser reads and nobody should serve."""

import re
from collections.abc import Iterable
from http import HTTPStatus

_HOST = re.compile(rb"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?")
_ABSOLUTE = re.compile(rb"https?://([^/?#]*)(.*)", re.IGNORECASE)


class HeadRefused(Exception):
    """A head that is answered with *status*, and the connection closed."""

    def __init__(self, status: HTTPStatus) -> None:
        super().__init__(status.phrase)
        self.status = status


def unreadable(said: str) -> str:
    """What is said of a request that the parser cannot read, in the words of whom is *said*."""
    folded = f" {_FOLDED}" if said in _MAY_BE_FOLDED else ""
    return f"The request cannot be read: {said.lower()}.{folded}"


_MAY_BE_FOLDED = ("Unexpected whitespace after header value", "Invalid header value char")
_FOLDED = (
    "Write each header field on one line: obsolete line folding is not accepted"
    " (RFC 9112, section 5.2)."
)


def check_head(version: str, target: bytes, headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Return *target* in origin form: path and query.

    Args:
        version: As HTTP writes it, "1.1".
        headers: Names in lower case.

    Raises:
        HeadRefused: 505 for a version other than 1.0 and 1.1. 400 for what RFC 9112 forbids
            or leaves open to two readings ("Request Target", "Message Body Length"): no
            Host or two, a transfer coding other than chunked, any at all in HTTP/1.0. 421 for
            an absolute address of another host.
    """
    if version not in ("1.0", "1.1"):
        raise HeadRefused(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED)
    hosts = []
    for name, value in headers:
        if name == b"host":
            hosts.append(value)
        elif name == b"transfer-encoding" and (value.lower() != b"chunked" or version == "1.0"):
            raise HeadRefused(HTTPStatus.BAD_REQUEST)
    if len(hosts) > 1 or (not hosts and version == "1.1"):
        raise HeadRefused(HTTPStatus.BAD_REQUEST)
    if hosts and not _HOST.fullmatch(hosts[0]):
        raise HeadRefused(HTTPStatus.BAD_REQUEST)
    return _origin_form(target, hosts[0] if hosts else None)


def _origin_form(target: bytes, host: bytes | None) -> bytes:
    if target.startswith(b"/") and b"#" not in target:
        return target
    absolute = _ABSOLUTE.fullmatch(target)
    if absolute is None or b"#" in target:  # the forms of CONNECT and OPTIONS, or none
        raise HeadRefused(HTTPStatus.BAD_REQUEST)
    if host is None or absolute[1].lower() != host.lower():
        raise HeadRefused(HTTPStatus.MISDIRECTED_REQUEST)
    return absolute[2] if absolute[2].startswith(b"/") else b"/" + absolute[2]
