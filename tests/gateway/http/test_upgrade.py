"""Requests that ask for another protocol are served in this one (RFC 9110, "Upgrade").

Java's HttpClient, hence CXF 4 and Spring, offers HTTP/2 with the first requests of a connection.
"""

import asyncio
import shutil
import subprocess
from pathlib import Path

import pytest

from gateway.http import HttpLimits
from tests.rigs.consumers import Consumers
from tests.rigs.envelopes import Speaker
from tests.rigs.gateways import read_http, running

H2C = (
    b"Connection: Upgrade, HTTP2-Settings\r\n"
    b"HTTP2-Settings: AAEAAEAAAAIAAAAAAAMAAAAAAAQBAAAAAAUAAEAAAAYABgAA\r\n"
    b"Upgrade: h2c\r\n"
)
"""As Java's HttpClient sends them."""
DEADLINE = 60.0
SPEAKER = Speaker()


def post(body: bytes, *fields: bytes, version: bytes = b"1.1", path: bytes = b"/soap") -> bytes:
    return (
        b"POST %b HTTP/%b\r\nHost: 127.0.0.1\r\nContent-Type: %b\r\n%bContent-Length: %d\r\n\r\n%b"
        % (path, version, SPEAKER.type.encode(), b"".join(fields), len(body), body)
    )


def event(number: int) -> bytes:
    return SPEAKER.envelope(f"<n>{number}</n>")


class Peer:
    """A connection to a gateway."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def of(cls, port: int) -> "Peer":
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def status(self) -> int:
        first, _, _ = await asyncio.wait_for(read_http(self.reader), DEADLINE)
        return int(first.split(" ")[1])

    async def ask(self, *pieces: bytes) -> int:
        for piece in pieces:
            self.writer.write(piece)
            await self.writer.drain()
            await asyncio.sleep(0)
        return await self.status()


async def test_events_with_an_offer_of_http2(tmp_path: Path) -> None:
    """Each is taken whole: the first and those on a kept connection, however they are cut."""
    async with running(tmp_path) as run, Consumers() as consumer:
        url = consumer.fresh()
        await run.subscribe(SPEAKER, SPEAKER.wse_subscribe(url))
        peer = await Peer.of(run.port)
        offered = post(event(1), H2C)
        head = offered.index(b"\r\n\r\n") + 4
        cuts = [len(offered), 1, 40, head - 3, head - 1, head, head + 1, len(offered) - 1]
        for cut in cuts:
            assert await peer.ask(offered[:cut], offered[cut:]) == 202
            assert (await consumer.next(url)).payload.text == "1"
        assert await peer.ask(post(event(2))) == 202
        assert (await consumer.next(url)).payload.text == "2"
        await run.quiet()
        assert consumer.waiting(url) == 0
        peer.writer.close()


async def test_octet_by_octet(tmp_path: Path) -> None:
    async with running(tmp_path) as run:
        peer = await Peer.of(run.port)
        offered = post(event(1), H2C)
        assert await peer.ask(*(offered[n : n + 1] for n in range(len(offered)))) == 202
        assert run.gateway.publishing.accepted == 1
        peer.writer.close()


async def test_one_behind_the_other(tmp_path: Path) -> None:
    """In the same octets, with and without an offer: each is one request."""
    async with running(tmp_path) as run:
        peer = await Peer.of(run.port)
        peer.writer.write(b"".join(post(event(n), *([H2C] if n % 3 else [])) for n in range(9)))
        assert [await peer.status() for _ in range(9)] == [202] * 9
        assert run.gateway.publishing.accepted == 9
        peer.writer.close()


async def test_chunks(tmp_path: Path) -> None:
    async with running(tmp_path) as run:
        body = event(1)
        chunked = post(b"", H2C).replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
        chunked += b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
        peer = await Peer.of(run.port)
        assert [await peer.ask(chunked) for _ in range(2)] == [202, 202]
        assert run.gateway.publishing.accepted == 2
        peer.writer.close()


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param(b"Connection: Upgrade\r\nUpgrade: websocket\r\n", id="a web socket"),
        pytest.param(b"Upgrade: h2c\r\n", id="without its connection"),
        pytest.param(b"Connection: upgrade\r\nUpgrade: h2c\r\nUpgrade: TLS/1.0\r\n", id="two"),
        pytest.param(b"Connection: upgrade, close\r\nUpgrade: h2c\r\n", id="the last request"),
        pytest.param(b"Connection: upgrade\r\n", id="to nothing"),
        pytest.param(b"connection: UPGRADE\r\nUPGRADE: H2C\r\n", id="in capitals"),
    ],
)
async def test_other_offers(tmp_path: Path, fields: bytes) -> None:
    async with running(tmp_path) as run:
        peer = await Peer.of(run.port)
        assert await peer.ask(post(event(1), fields)) == 202
        assert run.gateway.publishing.accepted == 1
        get = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n" + fields + b"\r\n"
        if b"close" not in fields:
            assert await peer.ask(get) == 200
        peer.writer.close()


async def test_http_1_0(tmp_path: Path) -> None:
    """A server must ignore the offer of such a client."""
    async with running(tmp_path) as run:
        peer = await Peer.of(run.port)
        assert await peer.ask(post(event(1), H2C, version=b"1.0")) == 202
        assert run.gateway.publishing.accepted == 1
        peer.writer.close()


@pytest.mark.parametrize(
    ("wire", "status"),
    [
        pytest.param(post(b"", H2C, b"Transfer-Encoding: chunked\r\n"), 400, id="two lengths"),
        pytest.param(post(b"", H2C, b"Transfer-Encoding: cow\r\n"), 400, id="a coding"),
        pytest.param(post(b"", H2C).replace(b"Host: ", b"Hose: "), 400, id="no host"),
        pytest.param(post(b"", H2C, b"A: b\r\n" * 100), 431, id="many fields"),
        pytest.param(
            post(b"", H2C, b"A: " + b"b" * HttpLimits().head + b"\r\n"), 431, id="a long head"
        ),
        pytest.param(post(b"", H2C).replace(b"POST /soap", b"CONNECT h:1"), 400, id="a tunnel"),
        pytest.param(post(b"", H2C).replace(b"POST", b"CONNECT"), 400, id="a tunnel to a path"),
        pytest.param(
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0" * 30, 400, id="HTTP/2 without an offer"
        ),
    ],
)
async def test_what_is_refused_without_an_offer_is_refused_with_one(
    tmp_path: Path, wire: bytes, status: int
) -> None:
    async with running(tmp_path) as run:
        peer = await Peer.of(run.port)
        assert await peer.ask(wire) == status
        assert await asyncio.wait_for(peer.reader.read(), DEADLINE) == b""
        assert run.gateway.publishing.accepted == 0
        peer.writer.close()


async def test_a_body_past_its_bound(tmp_path: Path) -> None:
    async with running(tmp_path) as run:
        peer = await Peer.of(run.port)
        large = HttpLimits().envelope + 1
        head = post(b"", H2C).replace(b"Content-Length: 0", b"Content-Length: %d" % large)
        assert await peer.ask(head) == 413
        peer.writer.close()


JAVA = """
import java.net.URI;
import java.net.http.*;
import java.nio.charset.StandardCharsets;

public class Publish {
    public static void main(String[] arguments) throws Exception {
        HttpClient client = HttpClient.newHttpClient();
        for (int n = 0; n < 5; n++) {
            String body = new String(System.in.readNBytes(Integer.parseInt(arguments[1])),
                StandardCharsets.UTF_8);
            HttpRequest request = HttpRequest.newBuilder(URI.create(arguments[0]))
                .header("Content-Type", "text/xml; charset=utf-8")
                .POST(HttpRequest.BodyPublishers.ofString(body)).build();
            HttpResponse<String> answer =
                client.send(request, HttpResponse.BodyHandlers.ofString());
            System.out.println(answer.statusCode() + " " + answer.version());
        }
    }
}
"""


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("java") is None, reason="java is not installed")
async def test_javas_client_as_it_comes(tmp_path: Path) -> None:
    """It prefers HTTP/2, and says so with a request that has a body."""
    from tests.rigs.envelopes import S11

    program = tmp_path / "Publish.java"
    program.write_text(JAVA)
    speaker = Speaker(S11)
    events = [speaker.envelope(f"<n>{number}</n>") for number in range(5)]
    assert len({len(octets) for octets in events}) == 1
    async with running(tmp_path / "data") as run, Consumers() as consumer:
        url = consumer.fresh()
        await run.subscribe(SPEAKER, SPEAKER.wse_subscribe(url))
        process = await asyncio.create_subprocess_exec(
            "java", str(program), f"{run.url}/soap", str(len(events[0])),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        try:
            said, errors = await asyncio.wait_for(process.communicate(b"".join(events)), 120)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if b"compiler" in errors and not said:
            pytest.skip("java is installed without its compiler")
        assert said.decode().split("\n")[:-1] == ["202 HTTP_1_1"] * 5, errors.decode()
        for number in range(5):
            assert (await consumer.next(url)).payload.text == str(number)
