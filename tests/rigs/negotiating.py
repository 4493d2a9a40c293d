"""A true server that knows who asks by Negotiate (NTLM, by pyspnego's acceptor), in front of a
producer: as IIS it knows it of the connection."""

import asyncio
import os
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import spnego

from tests.rigs.gateways import read_http

USER, PASSWORD = "PLANT\\events", "gale8"


@dataclass
class Negotiating:
    """What came.

    Attributes:
        behind: The URL of the producer that is asked once it is known who asks; empty: none is, and
            204 is answered.
        offers: What it says in WWW-Authenticate.
        connections: How many were made.
        known: Whom each request that was passed on was of.
        unknown: How many requests came of nobody known yet.
    """

    behind: str = ""
    offers: str = "Negotiate"
    connections: int = 0
    known: list[str] = field(default_factory=list)
    unknown: int = 0
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        context: Any = spnego.server(hostname="127.0.0.1", service="http", protocol="negotiate")
        try:
            while True:
                line, *rest = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
                headers = {
                    name.lower(): value.strip()
                    for name, _, value in (one.partition(":") for one in rest if one)
                }
                body = await reader.readexactly(int(headers.get("content-length", "0")))
                writer.write(await self._answer(context, line, headers, body))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _answer(self, context: Any, line: str, headers: dict[str, str], body: bytes) -> bytes:
        scheme, _, token = headers.get("authorization", "").partition(" ")
        reply = None
        if scheme == "Negotiate" and self.offers == "Negotiate" and not context.complete:
            try:
                reply = context.step(b64decode(token))
            except spnego.exceptions.SpnegoError:
                return _written(401, b"", self.offers)
        if not context.complete:
            self.unknown += 1
            offers = f"Negotiate {b64encode(reply).decode()}" if reply else self.offers
            return _written(401, b"", offers)
        self.known.append(context.client_principal)
        said = f"Negotiate {b64encode(reply).decode()}" if reply else ""
        if not self.behind:
            return _written(200, b"", said)
        status, answer = await self._ask(line, headers, body)
        return _written(status, answer, said, headers.get("content-type", "text/xml"))

    async def _ask(self, line: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
        there = urlsplit(self.behind)
        reader, writer = await asyncio.open_connection(there.hostname, there.port)
        head = [line, f"Host: {headers['host']}", f"Content-Length: {len(body)}"]
        passed = ("content-type", "soapaction")
        head += [f"{name}: {headers[name]}" for name in passed if name in headers]
        writer.write("\r\n".join([*head, "Connection: close", "", ""]).encode() + body)
        first, _, answer = await read_http(reader)
        writer.close()
        return int(first.split()[1]), answer


def _written(status: int, body: bytes, said: str, type_: str = "") -> bytes:
    head = [f"HTTP/1.1 {status} Said", f"Content-Length: {len(body)}"]
    head += [f"WWW-Authenticate: {said}"] if said else []
    head += [f"Content-Type: {type_}"] if type_ else []
    return "\r\n".join([*head, "", ""]).encode() + body


@asynccontextmanager
async def negotiating(folder: Path, **said: Any) -> AsyncIterator[Negotiating]:
    """A server that knows `USER`, by a file of credentials in *folder*."""
    users = folder / "ntlm.users"
    users.write_text(f"{USER.replace(chr(92), ':')}:{PASSWORD}\n")
    before = os.environ.get("NTLM_USER_FILE")
    os.environ["NTLM_USER_FILE"] = str(users)
    found = Negotiating(**said)
    server = await asyncio.start_server(found.serve, "127.0.0.1", 0)
    found.port = server.sockets[0].getsockname()[1]
    try:
        yield found
    finally:
        server.close()
        if before is None:
            del os.environ["NTLM_USER_FILE"]
        else:
            os.environ["NTLM_USER_FILE"] = before
