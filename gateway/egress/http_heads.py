"""The head of a request (RFC 9112), which is the same for all messages of a kind to one consumer,
but for a number and the origin."""

import re
from collections.abc import Hashable

from gateway.egress.dialing import Dialer
from gateway.egress.hops import ORIGIN_HEADER
from gateway.egress.transport import Request

_CONTROLS = re.compile(r"[\x00-\x1f\x7f]")
_ORIGIN = f"\r\n{ORIGIN_HEADER}: ".encode()
_REMEMBERED = 1024
"""Heads; each has a few KiB at most."""


class Heads:
    """Writes heads, and remembers the latest."""

    def __init__(self, dialer: Dialer) -> None:
        self._dialer = dialer
        self._known: dict[Hashable, tuple[bytes, bytes]] = {}

    def __len__(self) -> int:
        return len(self._known)

    def head(self, request: Request) -> bytes:
        """The head of *request*.

        Raises:
            ValueError: A header has a control character.
        """
        key = (request.target.url, request.headers, request.method)
        known = self._known.get(key)
        if known is None:
            known = self._write(request)
            if len(self._known) >= _REMEMBERED:
                del self._known[next(iter(self._known))]
            self._known[key] = known
        before, behind = known
        if request.own_headers:
            return b"%b%d%b%b" % (before, len(request.body), _own_lines(request), behind)
        if not request.origin:
            return b"%b%d%b" % (before, len(request.body), behind)
        return b"%b%d%b%b%b" % (
            before, len(request.body), _ORIGIN, request.origin.encode("ascii"), behind
        )  # fmt: skip

    def _write(self, request: Request) -> tuple[bytes, bytes]:
        """The parts of a head before and behind the length of the body."""
        target = request.target
        version = self._dialer.options.of(target).http
        proxy = self._dialer.proxy_of(target)
        path = target.path if proxy is None else f"http://{target.authority}{target.path}"
        before = [
            f"{request.method} {path} HTTP/{version}",
            f"Host: {target.authority}",
            "User-Agent: Dragoman",
            "Accept-Encoding: identity",
            "Content-Length: ",
        ]
        behind = [f"{name}: {value}" for name, value in request.headers]
        if version == "1.0":
            behind.append("Connection: keep-alive")  # RFC 9112, "Keep-Alive Connections": an offer
        if proxy is not None and proxy.authorization:
            behind.append(f"Proxy-Authorization: {proxy.authorization}")
        if _CONTROLS.search("".join(before + behind)):
            raise ValueError("a control character in a header")
        return (
            "\r\n".join(before).encode("latin-1"),
            "\r\n".join(["", *behind, "", ""]).encode("latin-1"),
        )


def _own_lines(request: Request) -> bytes:
    """The lines of the headers that no other message has, and of the origin."""
    lines = [f"\r\n{name}: {value}" for name, value in request.own_headers]
    if any(map(_CONTROLS.search, (line[2:] for line in lines))):
        raise ValueError("a control character in a header")
    if request.origin:
        lines.append(f"\r\n{ORIGIN_HEADER}: {request.origin}")
    return "".join(lines).encode("latin-1")
