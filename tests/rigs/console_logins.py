"""A browser's part of a login to the console at an identity provider, up to the session."""

import asyncio
import re
from html import unescape
from urllib.parse import urlencode

from tests.rigs.envelopes import Answer
from tests.rigs.gateways import Running

FORM = {"content_type": "application/x-www-form-urlencoded", "sec_fetch_site": "same-origin"}
REFRESH = re.compile(rb'http-equiv="refresh" content="0; url=([^"]*)"')


def goes_to(answer: Answer) -> str:
    """Where a page has the browser go."""
    found = REFRESH.search(answer.body)
    assert answer.status == 200 and found is not None, answer.body
    return unescape(found[1].decode())


def cookies(answer: Answer) -> dict[str, str]:
    """The cookies that are set; a later one of two lines is all that is kept of both."""
    return dict([answer.headers["set-cookie"].partition(";")[0].split("=", 1)])


async def begin_login(run: Running, issuer: str) -> tuple[str, str]:
    """Begin a login at *issuer*: where the browser goes, and its cookie."""
    query = urlencode({"issuer": issuer, "to": "/console/topics"})
    answer = await run.request("GET", f"/console/login/openid?{query}")
    assert "samesite=lax" in answer.headers["set-cookie"].lower()
    [(name, value)] = cookies(answer).items()
    return goes_to(answer), f"{name}={value}"


async def end_login(run: Running, path: str, cookie: str) -> str:
    """Come back to *path* with the *cookie* of the login: that of the session."""
    reader, writer = await asyncio.open_connection("127.0.0.1", run.port)
    head = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{run.port}\r\nCookie: {cookie}\r\n"
    writer.write(f"{head}Connection: close\r\n\r\n".encode())
    raw = await reader.read()
    writer.close()
    assert b'url=/console/topics"' in raw, raw
    found = re.search(rb"__Host-dragoman=([^;]+); ([^\r]*)", raw)
    assert found is not None, raw
    assert {one.strip().lower() for one in found[2].split(b";")} == {
        b"httponly", b"path=/", b"samesite=strict", b"secure"
    }  # fmt: skip
    return f"__Host-dragoman={found[1].decode()}"
