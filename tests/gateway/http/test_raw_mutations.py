"""Spoilt HTTP by the thousand: what the server takes for a request is what h11, which knows nothing
of it, reads there as well. What one of two readers of a stream takes for a body and the other for
a request is how requests are smuggled past a proxy."""

import asyncio
import contextlib
import random
import re
import urllib.parse
from collections.abc import Iterator

import h11
import pytest

from tests.gateway.http.test_hardening import (
    CHUNKED,
    LIMITS,
    REFUSED,
    SMUGGLED,
    Server,
    get,
    post,
    serving,
    statuses,
)

SEED = 26
AT_ONCE = 16
GOOD = [
    get(),
    get(b"A: b\r\n", b"X-Y: z\r\n"),
    get(target=b"http://127.0.0.1/x"),
    post(b"Content-Length: 4\r\n", body=b"<a/>"),
    post(CHUNKED, body=b"4;x=y\r\n<a/>\r\n0\r\n\r\n"),
    post(CHUNKED, body=b"1\r\n<\r\n3\r\na/>\r\n0\r\nA: b\r\n\r\n"),
    post(b"Content-Length: 4\r\n", body=b"<a/>", version=b"1.0"),
]
LENIENT = re.compile(rb"^[\r\n]*([A-Z]+) +([^ \r\n]*) *")
"""What RFC 9112 lets a server read, and h11 refuses: lines before a request, spaces in its first."""
SPLINTERS = [
    b"", b" ", b"\t", b"\r", b"\n", b"\r\n", b"\r\n\r\n", b"\0", b"\x0b", b"\x0c", b"\x80", b"\xff", b":", b",", b";",
    b"0", b"1", b"+1", b"-1", b"0x1", b"00", b"ffffffff", b"4294967300", b"chunked", b"Transfer-Encoding: chunked\r\n",
    b"Content-Length: 4\r\n", b"Content-Length: 40\r\n", b"Content-Length", b"Host: 127.0.0.1\r\n", b"Connection: close\r\n",
    b"Connection: keep-alive\r\n", b"Expect: 100-continue\r\n", b"Upgrade: h2c\r\n", b"HTTP/1.0", b"HTTP/1.1", b"POST", b"GET",
    b"/", b"?", b"#", b"%00", b"%0d%0a", b"..", b"0\r\n\r\n", b"\xc2\xa0",
]  # fmt: skip


def spoilt(chance: random.Random) -> bytes:
    """One to three requests with one to three changes, and another behind them."""
    small = [wire for _, wire in REFUSED.values() if len(wire) < 999]
    parts = chance.choices(GOOD * 4 + small, k=chance.randint(1, 3))
    octets = b"".join(parts)
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(len(octets) + 1)
        to = min(len(octets), at + chance.choice((0, 0, 1, 1, 2, 4, 20)))
        part = chance.choice(
            (chance.choice(SPLINTERS), octets[at:to] * 2, bytes([chance.randrange(256)]))
        )
        octets = octets[:at] + part + octets[to:]
    return octets + SMUGGLED


def read_by_h11(octets: bytes) -> list[str]:
    """The whole requests in *octets*, up to the first fault, as `Application` says them."""
    found: list[str] = []
    with contextlib.suppress(h11.RemoteProtocolError):
        while octets := LENIENT.sub(rb"\1 \2 ", octets):
            connection = h11.Connection(h11.SERVER, max_incomplete_event_size=1 << 20)
            connection.receive_data(octets)
            connection.receive_data(b"")
            request, length = connection.next_event(), 0
            assert isinstance(request, h11.Request)
            while not isinstance(event := connection.next_event(), h11.EndOfMessage):
                assert isinstance(event, h11.Data)
                length += len(event.data)
            path = re.sub("^http://[^/?]*", "", request.target.decode()).partition("?")[0] or "/"
            path = urllib.parse.unquote(path)
            found.append(f"{request.method.decode()} {path} {length}")
            connection.send(h11.Response(status_code=404, headers=[("Content-Length", "0")]))
            connection.send(h11.EndOfMessage())
            if connection.our_state is h11.MUST_CLOSE:
                break
            octets = connection.trailing_data[0]
    return found


def is_within(some: list[str], all_: list[str]) -> bool:
    """Whether *some* are among *all_*, in that order: the application refuses others."""
    rest = iter(all_)
    return all(one in rest for one in some)


async def answers(server: Server, octets: bytes) -> list[int]:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    try:
        async with asyncio.timeout(30):
            writer.write(octets)
            writer.write_eof()
            return statuses(await reader.read(-1))
    except ConnectionError:
        return []
    finally:
        writer.close()


async def campaign(server: Server, count: int) -> None:
    chance = random.Random(SEED)
    taken = 0
    for _ in range(count // AT_ONCE):
        inputs = [spoilt(chance) for _ in range(AT_ONCE)]
        for number, octets in enumerate(inputs):
            server.application.requests.clear()
            found = await answers(server, octets)
            assert set(found) <= {100, 200, 400, 403, 404, 413, 414, 415, 417, 421, 431, 501, 505}
            there, here = read_by_h11(octets), server.application.requests
            assert is_within(here, there), (number, octets, found)
            taken += len(here)
        assert await answers(server, get(b"Connection: close\r\n")) == [200]
    assert taken > count / 10, "Nearly nothing was taken: nothing was compared."


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving(LIMITS) as server:
        yield server


async def test_requests_are_where_another_parser_finds_them(server: Server) -> None:
    await campaign(server, 800)


@pytest.mark.release
async def test_a_hundred_thousand_inputs(server: Server) -> None:
    await campaign(server, 100_000)
