"""A proxy that everything sent goes through (RFC 9110, "CONNECT"; RFC 9112, "absolute-form")."""

import asyncio
import re
import socket
from base64 import b64encode
from dataclasses import dataclass
from typing import Self
from urllib.parse import unquote

from gateway.egress.addresses import Target
from gateway.model.hosts import host_and_port

MAX_HEAD = 96 * 1024
"""Octets of the answer to CONNECT."""
DEFAULT_PORT = 3128
_URL = re.compile(
    r"""http://
        (?:(?P<user>[!-.0-9;-?A-~]*)(?::(?P<password>[!-.0-?A-~]*))?@)?
        (?P<host>[A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]+\])
        (?::(?P<port>[0-9]{1,5}))?/?""",
    re.VERBOSE,
)
_STATUS = re.compile(rb"HTTP/1\.[0-9] +([0-9]{3})[ \t\r\n]")
_END = re.compile(rb"\r?\n\r?\n")
"""The end of a head, with or without the CR of its lines, as in the answers of consumers."""
_INTERIM = 8
"""Interim answers (1xx) before the final one."""


class TunnelRefused(OSError):
    """The proxy did not connect us; the text says what it answered."""


@dataclass(frozen=True, slots=True)
class Proxy:
    """The address of a proxy, and the credentials for it.

    Attributes:
        authorization: The value of ``Proxy-Authorization``; empty without a user.
    """

    host: str
    port: int
    authorization: str = ""

    @classmethod
    def parse(cls, url: str) -> Self:
        """Read ``http://[user:password@]host[:port]``.

        Raises:
            ValueError: It is anything else; the text does not repeat it.
        """
        match = _URL.fullmatch(url)
        port = int(match["port"] or DEFAULT_PORT) if match else 0
        if match is None or not 1 <= port <= 65535:
            raise ValueError("must be http://host:port, with user:password@ where it wants one")
        authorization = ""
        if match["user"] is not None:
            user = f"{unquote(match['user'])}:{unquote(match['password'] or '')}"
            authorization = f"Basic {b64encode(user.encode()).decode('ascii')}"
        return cls(match["host"].strip("[]"), port, authorization)

    async def tunnel(self, sock: socket.socket, goal: Target) -> None:
        """Let the proxy at the other end of *sock* connect us to *goal*.

        Raises:
            TunnelRefused: It answered anything but success, or what cannot be read.
            OSError: The connection ended.
        """
        place = host_and_port(goal.host, goal.port)
        lines = [f"CONNECT {place} HTTP/1.1", f"Host: {place}"]
        if self.authorization:
            lines.append(f"Proxy-Authorization: {self.authorization}")
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(sock, "\r\n".join([*lines, "", ""]).encode("ascii"))
        came = b""
        for _ in range(_INTERIM + 1):
            status, came = await _read_answer(sock, came)
            if not status.startswith("1"):
                break
        if not status.startswith("2"):
            raise TunnelRefused(f"the proxy answers {status}")
        if came:
            # Nobody speaks before we do: these octets are the proxy's own, and none of the peer's.
            raise TunnelRefused("the proxy says more than it was asked")


async def _read_answer(sock: socket.socket, came: bytes) -> tuple[str, bytes]:
    """Read the head of an answer, which begins with what *came*: its status, and what stands behind
    it.

    Raises:
        TunnelRefused: It cannot be read.
    """
    loop = asyncio.get_running_loop()
    while (end := _END.search(came)) is None:
        piece = await loop.sock_recv(sock, MAX_HEAD - len(came))
        came += piece
        if not piece or len(came) >= MAX_HEAD:
            raise TunnelRefused("the proxy answers nothing that can be read")
    status = _STATUS.match(came)
    if status is None:
        raise TunnelRefused("the proxy answers no HTTP")
    return status[1].decode(), came[end.end() :]
