"""What strangers send to the HTTP server, over real sockets, octet by octet."""

import gzip
import json
import resource
import socket
import ssl
import threading
import time
import tracemalloc
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import uvicorn
from starlette.types import Message, Receive, Scope, Send

from gateway.http import (
    ConnectionGate,
    HostMiddleware,
    HttpLimits,
    HttpRefusal,
    HttpSettings,
    MediaType,
    client_address,
    hardened,
    header_value,
    parse_media_type,
    public_base,
    read_body,
    send_refusal,
    soap_media_type,
)
from gateway.security.networks import networks
from tests.rigs.certificates import server_context
from tests.rigs.pace import growth
from tests.rigs.waiting import wait_until

LIMITS = HttpLimits()
HASTY = HttpLimits(
    head_time=0.4, body_time=0.8, body_grace=0.3, write_time=0.3, linger_time=0.3, envelope=1 << 20
)
SETTINGS = HttpSettings(hosts=frozenset({"gateway.example"}))
DEADLINE = 10.0


class Application:
    """A SOAP endpoint that says what came, and what a slow or careless one would do."""

    def __init__(self, limits: HttpLimits) -> None:
        self._limits = limits
        self.requests: list[str] = []
        self.release = threading.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["type"] == "http"
        try:
            await self._respond(scope, receive, send)
        except HttpRefusal as refusal:
            await send_refusal(send, refusal)

    async def _respond(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"]
        if path == "/early":
            raise HttpRefusal(403, "Not read.")
        if path == "/large":
            await answer(send, b"x" * (32 << 20))
            return
        if path == "/stream":
            await send({"type": "http.response.start", "status": 200, "headers": []})
            for piece in (b"one", b"", b"two"):
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b"three"})
            return
        if path == "/soap":
            soap_media_type(scope["headers"])
        body = await read_body(receive, scope, self._limits)
        self.requests.append(f"{scope['method']} {path} {len(body)}")
        names = sorted(name.decode() for name, _ in scope["headers"])
        said = {
            "body": len(body),
            "path": path,
            "headers": names,
            "base": public_base(scope, SETTINGS),
        }
        await answer(send, json.dumps(said).encode())


async def answer(send: Send, body: bytes) -> None:
    headers = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


class Server:
    """uvicorn as the gateway runs it, in a thread of its own."""

    def __init__(
        self,
        limits: HttpLimits,
        trusted: tuple[str, ...] = (),
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.application = Application(limits)
        self.gate = ConnectionGate(limits, networks(trusted))
        config = uvicorn.Config(
            HostMiddleware(self.application, SETTINGS),
            http=hardened(limits, self.gate, tls),
            loop="uvloop",
            lifespan="off",
            ws="none",
            log_config=None,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=1,
            timeout_graceful_shutdown=1,
        )
        self._server = uvicorn.Server(config)
        self._socket = socket.create_server(("0.0.0.0", 0), backlog=2048)
        self.port: int = self._socket.getsockname()[1]
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],))

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join(DEADLINE)
        assert not self._thread.is_alive()
        self._socket.close()


@contextmanager
def serving(
    limits: HttpLimits, *trusted: str, tls: ssl.SSLContext | None = None
) -> Iterator[Server]:
    server = Server(limits, trusted, tls)
    server.start()
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="module")
def shared_server() -> Iterator[Server]:
    with serving(LIMITS) as server:
        yield server


@pytest.fixture
def server(shared_server: Server) -> Server:
    shared_server.application.requests.clear()
    return shared_server


@pytest.fixture(scope="module")
def hasty() -> Iterator[Server]:
    with serving(HASTY) as server:
        yield server


def connect(server: Server, source: str = "127.0.0.1") -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), DEADLINE, (source, 0))


def talk(server: Server, *pieces: bytes) -> bytes:
    """Everything that is answered to *pieces* until the server closes."""
    with connect(server) as sock:
        for piece in pieces:
            sock.sendall(piece)
        return read_all(sock)


def read_all(sock: socket.socket) -> bytes:
    received = bytearray()
    while piece := sock.recv(65536):
        received += piece
    return bytes(received)


def read_answer(sock: socket.socket) -> tuple[int, bytes]:
    """The status and the body of one answer that has a length."""
    received = b""
    while b"\r\n\r\n" not in received:
        piece = sock.recv(65536)
        assert piece, received
        received += piece
    head, _, body = received.partition(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
    while len(body) < length:
        body += sock.recv(65536)
    assert len(body) == length
    return int(head.split()[1]), body


def statuses(octets: bytes) -> list[int]:
    """The statuses of all answers in *octets*."""
    found = []
    while octets:
        head, _, rest = octets.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 "), octets
        found.append(int(head.split()[1]))
        length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
        octets = rest[int(length or b"0") :]
    return found


def closes(sock: socket.socket) -> bool:
    """Whether the server closes (or has reset) without a word."""
    try:
        return sock.recv(1) == b""
    except ConnectionResetError:
        return True


HOST = b"Host: 127.0.0.1\r\n"
XML = b"Content-Type: text/xml\r\n"
SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"


def post(*fields: bytes, body: bytes = b"", version: bytes = b"1.1") -> bytes:
    return b"POST /soap HTTP/" + version + b"\r\n" + HOST + XML + b"".join(fields) + b"\r\n" + body


def get(*fields: bytes, target: bytes = b"/", line: bytes = b"") -> bytes:
    return (line or b"GET " + target + b" HTTP/1.1\r\n") + HOST + b"".join(fields) + b"\r\n"


REFUSED = {
    # H01, smuggling
    "a length and chunks": (
        400,
        post(b"Content-Length: 6\r\n", CHUNKED, body=b"0\r\n\r\n" + SMUGGLED),
    ),
    "chunks and a length": (
        400,
        post(CHUNKED, b"Content-Length: 50\r\n", body=b"0\r\n\r\n" + SMUGGLED),
    ),
    "two lengths": (
        400,
        post(b"Content-Length: 0\r\n", b"Content-Length: 45\r\n", body=SMUGGLED),
    ),
    "two equal lengths": (
        400,
        post(b"Content-Length: 3\r\n", b"Content-Length: 3\r\n", body=b"abc"),
    ),
    "a list of lengths": (400, post(b"Content-Length: 3, 3\r\n", body=b"abc")),
    "a length with a sign": (400, post(b"Content-Length: +3\r\n", body=b"abc")),
    "a length below zero": (400, post(b"Content-Length: -1\r\n", body=SMUGGLED)),
    "a length in hex": (400, post(b"Content-Length: 0x3\r\n", body=b"abc")),
    "a length with a space": (400, post(b"Content-Length: 3 3\r\n", body=b"abc")),
    "no number for a length": (400, post(b"Content-Length:\r\n", body=SMUGGLED)),
    "a length past counting": (400, post(b"Content-Length: 99999999999999999999\r\n")),
    "gzip, chunked": (400, post(b"Transfer-Encoding: gzip, chunked\r\n", body=b"0\r\n\r\n")),
    "chunked, gzip": (400, post(b"Transfer-Encoding: chunked, gzip\r\n", body=b"0\r\n\r\n")),
    "chunked, identity": (400, post(b"Transfer-Encoding: chunked, identity\r\n", body=SMUGGLED)),
    "identity": (400, post(b"Transfer-Encoding: identity\r\n", body=SMUGGLED)),
    "xchunked": (400, post(b"Transfer-Encoding: xchunked\r\n", body=b"0\r\n\r\n")),
    "chunked with a tab": (400, post(b"Transfer-Encoding: chunked\t\r\n", body=b"0\r\n\r\n")),
    "chunked after a vertical tab": (
        400,
        post(b"Transfer-Encoding: \x0bchunked\r\n", body=b"0\r\n\r\n"),
    ),
    "chunked twice": (400, post(CHUNKED, CHUNKED, body=b"0\r\n\r\n" + SMUGGLED)),
    "chunked, and another": (
        400,
        post(CHUNKED, b"Transfer-Encoding: cow\r\n", body=b"0\r\n\r\n" + SMUGGLED),
    ),
    "an empty encoding": (400, post(b"Transfer-Encoding:\r\n", body=SMUGGLED)),
    "an encoding before a colon": (
        400,
        post(b"Transfer-Encoding : chunked\r\n", body=b"0\r\n\r\n" + SMUGGLED),
    ),
    "chunks in HTTP/1.0": (400, post(CHUNKED, body=b"0\r\n\r\n" + SMUGGLED, version=b"1.0")),
    "a chunk in decimal": (400, post(CHUNKED, body=b"0x5\r\nabcde\r\n0\r\n\r\n" + SMUGGLED)),
    "a chunk without a size": (400, post(CHUNKED, body=b"\r\nabc\r\n0\r\n\r\n" + SMUGGLED)),
    "a chunk below zero": (400, post(CHUNKED, body=b"-1\r\n\r\n0\r\n\r\n" + SMUGGLED)),
    "a chunk past counting": (400, post(CHUNKED, body=b"ffffffffffffffffff\r\n" + SMUGGLED)),
    "a chunk after a bare line feed": (400, post(CHUNKED, body=b"1\na\r\n0\r\n\r\n" + SMUGGLED)),
    "a chunk longer than its size": (400, post(CHUNKED, body=b"1\r\nab\r\n0\r\n\r\n" + SMUGGLED)),
    "a chunk with NUL": (400, post(CHUNKED, body=b"1;a=\0\r\na\r\n0\r\n\r\n" + SMUGGLED)),
    "an end of chunks that is none": (400, post(CHUNKED, body=b"0\r\nGET / HTTP/1.1\r\n\r\n")),
    "endless chunk extensions": (400, post(CHUNKED, body=b"1;" + b"x" * 300_000)),
    # H02, octets
    "bare line feeds": (400, b"GET / HTTP/1.1\nHost: 127.0.0.1\n\n"),
    "a bare line feed in a header": (400, get(b"A: b\nX: y\r\n")),
    "a bare carriage return in a header": (400, get(b"A: b\rX: y\r\n")),
    "NUL in a header": (400, get(b"A: b\0\r\n")),
    "a control in a header": (400, get(b"A: b\x01\r\n")),
    "DEL in a header": (400, get(b"A: b\x7f\r\n")),
    "NUL in a name": (400, get(b"A\0: b\r\n")),
    "a folded header": (400, get(b"A: b\r\n c\r\n")),
    "a space before the first header": (400, b"GET / HTTP/1.1\r\n " + HOST + b"\r\n"),
    "a space in a name": (400, get(b"A b: c\r\n")),
    "no name": (400, get(b": b\r\n")),
    "no colon": (400, get(b"A\r\n")),
    "a space in the target": (400, get(target=b"/a b")),
    "a control in the target": (400, get(target=b"/\x01")),
    "no ASCII in the target": (400, get(target=b"/\xc3\xa9")),
    "HTTP/1.9": (400, get(line=b"GET / HTTP/1.9\r\n")),
    "HTTP/2.0": (505, get(line=b"GET / HTTP/2.0\r\n")),
    "HTTP/0.9": (505, get(line=b"GET / HTTP/0.9\r\n")),
    "HTTP/3": (400, get(line=b"GET / HTTP/3\r\n")),
    "the preface of HTTP/2": (400, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    "a small method": (400, get(line=b"get / HTTP/1.1\r\n")),
    "no such method": (400, get(line=b"FOO / HTTP/1.1\r\n")),
    "TLS": (400, bytes.fromhex("16030100c8010000c40303") + b"\0" * 64),
    "no HTTP at all": (400, b"\x00\x01\x02\x03\r\n\r\n"),
    # H03, hosts
    "no Host": (400, b"GET / HTTP/1.1\r\n\r\n"),
    "two Hosts": (400, get(b"Host: gateway.example\r\n")),
    "two equal Hosts": (400, get(HOST)),
    "an empty Host": (400, b"GET / HTTP/1.1\r\nHost:\r\n\r\n"),
    "a Host with user information": (400, b"GET / HTTP/1.1\r\nHost: a@127.0.0.1\r\n\r\n"),
    "a Host with a path": (400, b"GET / HTTP/1.1\r\nHost: 127.0.0.1/x\r\n\r\n"),
    "two names in a Host": (400, b"GET / HTTP/1.1\r\nHost: 127.0.0.1, evil.example\r\n\r\n"),
    "an absolute address elsewhere": (421, get(target=b"http://evil.example/")),
    "an absolute address with user information": (421, get(target=b"http://a@127.0.0.1/")),
    "an absolute address without Host": (
        421,
        b"GET http://evil.example/ HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    ),
    "an absolute address of a file": (400, get(target=b"file:///etc/passwd")),
    "a tunnel": (400, b"CONNECT 127.0.0.1:80 HTTP/1.1\r\nHost: 127.0.0.1:80\r\n\r\n"),
    "a target of no form": (400, get(line=b"OPTIONS * HTTP/1.1\r\n")),
    "a fragment": (400, get(target=b"/soap#x")),
    # H05, floods
    "a long target": (414, get(target=b"/" + b"a" * 8192)),
    "an endless target": (414, b"GET /" + b"a" * 200_000),
    "101 header fields": (431, get(*[b"A: b\r\n"] * 100)),
    "a long header": (431, get(b"A: " + b"b" * 33_000 + b"\r\n")),
    "an endless header": (431, get()[:-2] + b"A: " + b"b" * 2_000_000),
    "an endless name": (431, get()[:-2] + b"A" * 2_000_000),
    "endless headers": (431, get()[:-2] + b"A: b\r\n" * 200_000),
    "endless trailers": (431, post(CHUNKED, body=b"0\r\n" + b"A: b\r\n" * 200_000)),
}  # fmt: skip


class TestRefusals:
    @pytest.mark.parametrize("name", REFUSED)
    def test_one_answer_and_the_end(self, server: Server, name: str) -> None:
        status, wire = REFUSED[name]
        assert statuses(talk(server, wire)) == [status]
        assert server.application.requests == []

    @pytest.mark.parametrize("name", [name for name, case in REFUSED.items() if len(case[1]) < 999])
    def test_octet_by_octet(self, server: Server, name: str) -> None:
        status, wire = REFUSED[name]
        with connect(server) as sock:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for octet in wire:
                try:
                    sock.sendall(bytes([octet]))
                except OSError:  # refused before the end
                    break
            assert statuses(read_all(sock)) == [status]
        assert server.application.requests == []

    @pytest.mark.parametrize(
        "name", ["a length and chunks", "no Host", "a fragment", "an endless header", "HTTP/2.0"]
    )
    def test_after_a_good_request(self, server: Server, name: str) -> None:
        with connect(server) as sock:
            sock.sendall(get())
            assert read_answer(sock)[0] == 200
            sock.sendall(REFUSED[name][1])
            assert statuses(read_all(sock)) == [REFUSED[name][0]]
        assert server.application.requests == ["GET / 0"]

    @pytest.mark.parametrize("name", [name for name, case in REFUSED.items() if len(case[1]) < 999])
    def test_behind_a_good_request(self, server: Server, name: str) -> None:
        """Pipelined behind a good request, it gets no answer, or its own, and is the last."""
        answered = statuses(talk(server, get() + REFUSED[name][1] + SMUGGLED))
        assert answered in ([200], [200, REFUSED[name][0]])
        assert server.application.requests == ["GET / 0"]

    @pytest.mark.parametrize(
        ("wire", "status"),
        [
            (b"GET / HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n", 421),
            (b"GET / HTTP/1.1\r\nHost: gateway.example.evil\r\nConnection: close\r\n\r\n", 421),
            (b"GET / HTTP/1.1\r\nHost: 127.0.0.2\r\nConnection: close\r\n\r\n", 421),
            (b"GET / HTTP/1.1\r\nHost: Gateway.Example:80\r\nConnection: close\r\n\r\n", 200),
            (b"GET / HTTP/1.1\r\nHost: localhost:1\r\nConnection: close\r\n\r\n", 200),
            (b"GET / HTTP/1.1\r\nHost: [::1]:8080\r\nConnection: close\r\n\r\n", 200),
            (get(b"Connection: close\r\n", target=b"http://127.0.0.1/x"), 200),
            (post(b"Connection: close\r\n"), 200),
            (b"GET / HTTP/1.0\r\n\r\n", 200),
            (post(b"Content-Length: 4\r\n", body=b"<a/>", version=b"1.0"), 200),
            (post(b"Connection: close\r\n", CHUNKED, body=b"4;x=y\r\n<a/>\r\n0\r\n\r\n"), 200),
            (post(b"Connection: close\r\n", CHUNKED.replace(b"ch", b"Ch"), body=b"0\r\n\r\n"), 200),
            (post(b"Connection: close\r\n", b"Content-Length: 2097153\r\n"), 413),
            (get(b"Connection: close\r\n", *[b"A: b\r\n"] * 98), 200),
            (get(b"Connection: close\r\n", b"A: " + b"b" * 32_000 + b"\r\n"), 200),
            (get(b"Connection: close\r\n", target=b"/" + b"a" * 8000), 200),
        ],
    )  # fmt: skip
    def test_the_edges(self, server: Server, wire: bytes, status: int) -> None:
        assert statuses(talk(server, wire)) == [status]

    @pytest.mark.parametrize(
        "field", [b"A: b;\r\n\tc\r\n", b"Content-Type:\r\n text/xml\r\n", b"A: b\r\n c\r\n d\r\n"]
    )
    def test_a_folded_field_is_refused_in_words(self, server: Server, field: bytes) -> None:
        answer = talk(server, post(field, b"Content-Length: 4\r\n", body=b"<a/>"))
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert b"on one line: obsolete line folding is not accepted" in answer

    def test_the_words_of_the_parser_are_passed_on(self, server: Server) -> None:
        answer = talk(server, get(b"A b: c\r\n"))
        assert answer.endswith(
            b"\r\n\r\nBad Request. The request cannot be read: invalid header token.\n"
        )

    def test_bare_line_feeds_of_http_1_0(self, server: Server) -> None:
        """Small programs write them; behind such a request nothing is read."""
        wire = b"POST /soap HTTP/1.0\nContent-Type: text/xml\nContent-Length: 4\n"
        wire += b"Connection: keep-alive\n\n<a/>"
        assert statuses(talk(server, wire + SMUGGLED)) in ([200], [400])
        assert statuses(talk(server, wire)) == [200]
        assert set(server.application.requests) <= {"POST /soap 4"}

    def test_a_connection_is_kept(self, server: Server) -> None:
        with connect(server) as sock:
            for _ in range(5):
                sock.sendall(post(b"Content-Length: 4\r\n", body=b"<a/>"))
                assert read_answer(sock)[0] == 200
        assert server.application.requests == ["POST /soap 4"] * 5

    def test_good_requests_may_be_pipelined(self, server: Server) -> None:
        wire = post(b"Content-Length: 4\r\n", body=b"<a/>") * 8 + get(b"Connection: close\r\n")
        assert statuses(talk(server, wire)) == [200] * 9

    def test_too_many_pipelined_requests(self, server: Server) -> None:
        answered = statuses(talk(server, get() * 5000))
        assert set(answered) <= {200, 400}
        assert len(answered) < 100

    def test_half_a_close(self, server: Server) -> None:
        with connect(server) as sock:
            sock.sendall(get())
            sock.shutdown(socket.SHUT_WR)
            assert statuses(read_all(sock)) == [200]
        with connect(server) as sock:
            sock.sendall(get() * 3)
            sock.shutdown(socket.SHUT_WR)
            assert statuses(read_all(sock)) == [200] * 3

    def test_a_trailer_is_no_header(self, server: Server) -> None:
        wire = post(
            CHUNKED, body=b"4\r\n<a/>\r\n0\r\nAuthorization: x\r\nHost: evil.example\r\n\r\n"
        )
        with connect(server) as sock:
            sock.sendall(wire)
            status, body = read_answer(sock)
        assert status == 200
        assert json.loads(body)["headers"] == ["content-type", "host", "transfer-encoding"]

    def test_an_absolute_address_of_our_own(self, server: Server) -> None:
        with connect(server) as sock:
            sock.sendall(get(target=b"HTTP://127.0.0.1/a?b"))
            assert json.loads(read_answer(sock)[1])["path"] == "/a"

    def test_continue(self, server: Server) -> None:
        with connect(server) as sock:
            sock.sendall(post(b"Content-Length: 4\r\n", b"Expect: 100-continue\r\n"))
            assert sock.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
            sock.sendall(b"<a/>")
            assert read_answer(sock)[0] == 200

    def test_no_continue_for_what_is_refused(self, server: Server) -> None:
        wire = post(b"Content-Length: 9999999\r\n", b"Expect: 100-continue\r\n")
        assert statuses(talk(server, wire)) == [413]

    @pytest.mark.parametrize("path", [b"/early", b"/soap"])
    def test_who_is_still_sending_reads_the_refusal(self, server: Server, path: bytes) -> None:
        head = post(b"Content-Length: 8000000\r\n").replace(b"/soap", path)
        answered = statuses(talk(server, head, b"x" * 8_000_000))
        assert answered == [403 if path == b"/early" else 413]

    def test_chunks_without_end_are_cut(self, server: Server) -> None:
        sent = 0
        with connect(server) as sock:
            sock.sendall(post(CHUNKED))
            chunk = b"10000\r\n" + b"x" * 65536 + b"\r\n"
            try:
                while sent < 256 << 20:
                    sock.sendall(chunk)
                    sent += len(chunk)
            except OSError:
                pass
            else:
                pytest.fail("all of it was taken")
        assert server.application.requests == []

    @pytest.mark.parametrize("method", [b"GET", b"HEAD"])
    @pytest.mark.parametrize("kept", [b"", b"Connection: keep-alive\r\n"])
    def test_an_answer_without_length(self, server: Server, method: bytes, kept: bytes) -> None:
        """HTTP/1.0 knows no chunks: it lasts to the end of the connection."""
        said = talk(server, method + b" /stream HTTP/1.0\r\n" + kept + b"\r\n")
        head, _, body = said.lower().partition(b"\r\n\r\n")
        assert head.startswith(b"http/1.1 200 ") and b"connection: close" in head
        assert b"transfer-encoding" not in head and b"content-length" not in head
        assert body == (b"onetwothree" if method == b"GET" else b"")
        chunks = talk(server, get(b"Connection: close\r\n", target=b"/stream"))
        assert chunks.endswith(b"3\r\none\r\n3\r\ntwo\r\n5\r\nthree\r\n0\r\n\r\n")

    def test_over_tls(self, tmp_path: Path) -> None:
        tls, client = server_context(tmp_path, "gateway.example")
        with (
            serving(HASTY, tls=tls) as server,
            connect(server) as plain,
            client.wrap_socket(plain, server_hostname="gateway.example") as sock,
        ):
            sock.sendall(get(b"Host: x\r\n"))
            assert statuses(read_all(sock)) == [400]


class TestDeadlines:
    def answers(self, sock: socket.socket) -> list[int]:
        """What is answered until the server closes: by itself, within `DEADLINE`."""
        try:
            return statuses(read_all(sock))
        except ConnectionResetError:
            return []

    @pytest.mark.parametrize(
        "sent",
        [b"", b"\r\n", b"G", b"GET / HTTP/1.1\r\n", get()[:-1], b"POST /soap HTTP/1.1\r\nA: b"],
    )
    def test_a_head_without_end(self, hasty: Server, sent: bytes) -> None:
        begin = time.monotonic()
        with connect(hasty) as sock:
            sock.sendall(sent)
            assert self.answers(sock) == []
        assert time.monotonic() - begin > 0.9 * HASTY.head_time

    @pytest.mark.parametrize("sent", [b"\r\n", b"GET / HT"])
    def test_a_second_head_without_end(self, hasty: Server, sent: bytes) -> None:
        with connect(hasty) as sock:
            sock.sendall(get())
            assert read_answer(sock)[0] == 200
            begin = time.monotonic()
            sock.sendall(sent)
            assert self.answers(sock) == []
        assert time.monotonic() - begin > 0.9 * HASTY.head_time

    def test_an_idle_connection(self, hasty: Server) -> None:
        with connect(hasty) as sock:
            sock.sendall(get())
            assert read_answer(sock)[0] == 200
            assert self.answers(sock) == []

    @pytest.mark.parametrize(
        "sent",
        [
            post(b"Content-Length: 100\r\n"),
            post(b"Content-Length: 100\r\n", body=b"<a"),
            post(CHUNKED),
            post(CHUNKED, body=b"5\r\nab"),
            post(CHUNKED, body=b"5;" + b"x" * 5000),
        ],
        ids=["nothing", "half", "no chunk", "half a chunk", "a chunk extension"],
    )
    def test_a_body_without_end(self, hasty: Server, sent: bytes) -> None:
        begin = time.monotonic()
        with connect(hasty) as sock:
            sock.sendall(sent)
            assert self.answers(sock) == [408]
        assert time.monotonic() - begin > 0.9 * HASTY.body_grace

    @pytest.mark.parametrize(
        ("sent", "drip", "least"),
        [
            pytest.param(b"GET /", b"a", HASTY.head_time, id="a head"),
            pytest.param(get()[:-2] + b"X: ", b"x", HASTY.head_time, id="a header"),
            pytest.param(post(b"Content-Length: 9999\r\n"), b"x", HASTY.body_grace, id="a body"),
            pytest.param(post(CHUNKED), b"1\r\nx\r\n", HASTY.body_grace, id="chunks"),
            pytest.param(
                post(b"Content-Length: 999999\r\n"),
                b"x" * 400,
                HASTY.body_time,
                id="a body at a good rate",
            ),
        ],
    )
    def test_a_drip(self, hasty: Server, sent: bytes, drip: bytes, least: float) -> None:
        """An octet now and then keeps no connection alive."""
        begin = time.monotonic()
        with connect(hasty) as sock:
            sock.sendall(sent)
            sock.settimeout(0.02)
            while time.monotonic() - begin < DEADLINE:
                try:
                    if sock.recv(65536) is not None:
                        break
                except TimeoutError:
                    pass
                except OSError:
                    break
                try:
                    sock.sendall(drip)
                except OSError:
                    break
            else:
                pytest.fail("it was kept alive")
        assert time.monotonic() - begin > 0.9 * least
        assert not hasty.application.requests or "9999" not in hasty.application.requests[-1]

    def test_a_slow_reader(self, hasty: Server) -> None:
        with connect(hasty) as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            sock.sendall(get(target=b"/large"))
            wait_until(lambda: hasty.gate.connections == 1)
            wait_until(lambda: hasty.gate.connections == 0)

    def test_trusted_peers_are_kept_longer(self) -> None:
        with (
            serving(HASTY, "127.0.0.1/32") as server,
            connect(server) as trusted,
            connect(server, "127.0.0.2") as stranger,
        ):
            for sock in (trusted, stranger):
                sock.sendall(get())
                assert read_answer(sock)[0] == 200
            assert self.answers(stranger) == []
            trusted.sendall(get())
            assert read_answer(trusted)[0] == 200


class Guest:
    """A connection that the gate may evict."""

    def __init__(self) -> None:
        self.evicted = False

    def evict(self) -> None:
        self.evicted = True


class TestConnections:
    def test_the_longest_without_a_header_makes_room(self) -> None:
        gate = ConnectionGate(HttpLimits(connections=3))
        first, second, third, fourth, fifth, sixth = (Guest() for _ in range(6))
        assert all(
            gate.admit(guest, f"192.0.2.{n}") for n, guest in enumerate([first, second, third])
        )
        gate.serve(first)
        assert gate.admit(fourth, "192.0.2.9")
        assert (first.evicted, second.evicted, third.evicted) == (False, True, False)
        gate.serve(third)
        gate.serve(fourth)
        assert not gate.admit(fifth, "192.0.2.10")
        gate.wait(fourth)
        gate.wait(first)
        assert gate.admit(sixth, "192.0.2.10")
        assert (first.evicted, fourth.evicted) == (False, True)
        assert gate.connections == 3

    def test_one_address_has_few(self) -> None:
        gate = ConnectionGate(HttpLimits(connections_per_address=2))
        guests = [Guest() for _ in range(2)]
        assert all(gate.admit(guest, "2001:db8::1") for guest in guests)
        assert not gate.admit(Guest(), "2001:db8::ffff:1")
        assert gate.admit(Guest(), "2001:db8:0:1::1")
        gate.leave(guests[0])
        gate.leave(guests[0])
        assert gate.admit(Guest(), "2001:db8::2")
        assert not gate.admit(Guest(), "2001:db8::3")

    def test_trusted_peers_are_bound_by_the_total(self) -> None:
        limits = HttpLimits(connections=1, connections_per_address=1, connections_in_all=3)
        gate = ConnectionGate(limits, networks(["10.0.0.0/8"]))
        stranger, trusted = Guest(), [Guest() for _ in range(3)]
        assert gate.admit(stranger, "192.0.2.1")
        assert gate.admit(trusted[0], "10.0.0.1")
        assert gate.admit(trusted[1], "::ffff:10.0.0.1")
        assert not gate.admit(trusted[2], "10.0.0.1")
        gate.leave(trusted[1])
        assert gate.admit(trusted[2], "10.0.0.1")
        assert gate.admit(Guest(), "192.0.2.2")
        assert stranger.evicted

    def test_the_next_of_one_address_is_refused(self) -> None:
        with serving(LIMITS) as server, ExitStack() as stack:
            for _ in range(64):
                stack.enter_context(connect(server, "127.0.0.9"))
            wait_until(lambda: server.gate.connections == 64)
            assert closes(stack.enter_context(connect(server, "127.0.0.9")))
            sock = stack.enter_context(connect(server, "127.0.0.8"))
            sock.sendall(get())
            assert read_answer(sock)[0] == 200

    def test_a_flood_of_idle_connections(self) -> None:
        """H09: 2,000 of them from 40 addresses, and a good request is answered while as many as
        may be are there."""
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 8192)), hard))
        with serving(LIMITS) as server, ExitStack() as stack:
            for n in range(2000):
                sock = stack.enter_context(connect(server, f"127.0.{n % 40}.{n % 40 + 2}"))
                if n % 2:
                    sock.sendall(b"POST /soap HTTP/1.1\r\nHost: 127.0.0.1\r\n")
            sock = stack.enter_context(connect(server))
            sock.sendall(get())
            assert read_answer(sock)[0] == 200
            assert 512 < server.gate.connections <= 1024


def receiving(*pieces: bytes) -> Receive:
    """An ASGI channel that brings *pieces*."""
    left = list(pieces)

    async def receive() -> Message:
        piece = left.pop(0)
        return {"type": "http.request", "body": piece, "more_body": bool(left)}

    return receive


def scope_of(**headers: str) -> Scope:
    named = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return {"type": "http", "headers": named}


class TestBodies:
    @pytest.mark.parametrize("coding", ["gzip", "x-gzip", "GZIP", "identity, gzip", " gzip "])
    async def test_gzip(self, coding: str) -> None:
        wire = gzip.compress(b"<a>1</a>")
        scope = scope_of(content_encoding=coding)
        assert await read_body(receiving(wire[:5], wire[5:]), scope, LIMITS) == b"<a>1</a>"

    @pytest.mark.parametrize("coding", ["", "identity", "identity, identity"])
    async def test_no_coding(self, coding: str) -> None:
        scope = scope_of(content_encoding=coding)
        assert await read_body(receiving(b"<a", b"/>"), scope, LIMITS) == b"<a/>"

    @pytest.mark.parametrize(
        ("coding", "wire", "status"),
        [
            ("gzip, gzip", gzip.compress(gzip.compress(b"<a/>", mtime=0), mtime=0), 415),
            ("deflate", zlib.compress(b"<a/>"), 415),
            ("br", b"x", 415),
            ("gzip;q=1", gzip.compress(b"<a/>", mtime=0), 415),
            ("gzip", b"<a/>", 400),
            ("gzip", b"", 400),
            ("gzip", gzip.compress(b"<a/>", mtime=0)[:-1], 400),
            ("gzip", gzip.compress(b"<a/>", mtime=0)[:-8] + b"\0" * 8, 400),
            ("gzip", gzip.compress(b"<a/>", mtime=0) + b"x", 400),
            ("gzip", gzip.compress(b"<a/>", mtime=0) * 2, 400),
            ("gzip", zlib.compress(b"<a/>"), 400),
            ("gzip", gzip.compress(b"x" * 200_000, mtime=0), 413),
            ("gzip", gzip.compress(b"\0" * (3 << 20), mtime=0), 413),
            ("", b"x" * (2 << 20) + b"x", 413),
        ],
    )
    async def test_refused(self, coding: str, wire: bytes, status: int) -> None:
        with pytest.raises(HttpRefusal) as refusal:
            await read_body(receiving(wire), scope_of(content_encoding=coding), LIMITS)
        assert refusal.value.status == status

    async def test_a_declared_length_is_answered_unread(self) -> None:
        with pytest.raises(HttpRefusal) as refusal:
            await read_body(receiving(), scope_of(content_length=str((2 << 20) + 1)), LIMITS)
        assert refusal.value.status == 413

    async def test_no_more_is_read_than_is_needed(self) -> None:
        pieces = [b"x" * 65536] * 100
        left = list(pieces)

        async def receive() -> Message:
            return {"type": "http.request", "body": left.pop(), "more_body": True}

        with pytest.raises(HttpRefusal):
            await read_body(receive, scope_of(), LIMITS)
        assert (100 - len(left)) * 65536 <= LIMITS.envelope + 65536

    async def test_attachments_may_be_larger(self) -> None:
        wire = b"x" * (3 << 20)
        body = await read_body(receiving(wire), scope_of(), LIMITS, decoded=LIMITS.message)
        assert body == wire

    async def test_who_leaves_is_not_read(self) -> None:
        async def receive() -> Message:
            return {"type": "http.disconnect"}

        with pytest.raises(HttpRefusal):
            await read_body(receive, scope_of(), LIMITS)

    async def test_a_bomb_costs_little(self) -> None:
        bomb = gzip.compress(b"\0" * (64 << 20))
        tracemalloc.start()
        try:
            with pytest.raises(HttpRefusal) as refusal:
                await read_body(receiving(bomb), scope_of(content_encoding="gzip"), LIMITS)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert refusal.value.status == 413
        assert peak < 16 << 20


class TestMediaTypes:
    @pytest.mark.parametrize(
        ("text", "media_type"),
        [
            ("text/xml", MediaType("text/xml")),
            ("Text/XML;Charset=UTF-8", MediaType("text/xml", {"charset": "UTF-8"})),
            ('text/xml; charset="utf-8";', MediaType("text/xml", {"charset": "utf-8"})),
            (
                'application/soap+xml ; action="http://a.example/b;c" ; charset=utf-8',
                MediaType(
                    "application/soap+xml",
                    {"action": "http://a.example/b;c", "charset": "utf-8"},
                ),
            ),
            (
                "application/soap+xml; action=http://a.example/b",
                MediaType("application/soap+xml", {"action": "http://a.example/b"}),
            ),
            (r'a/b; c="\"\\"', MediaType("a/b", {"c": '"\\'})),
        ],
    )
    def test_read(self, text: str, media_type: MediaType) -> None:
        assert parse_media_type(text) == media_type

    @pytest.mark.parametrize(
        "text",
        [
            "", "text", "text/", "/xml", "text/xml, text/xml", "text/xml charset=utf-8",
            "text/xml; charset", "text/xml; charset=", 'text/xml; charset="utf-8',
            "text/xml; charset=utf-8; charset=utf-16", "text /xml", "text/x ml",
            'text/xml; a="\x00"', 'text/xml; a="b"c', "a/b" + "; c=d" * 2000,
            "a/b" + "".join(f"; c{n}=d" for n in range(20)),
        ],
    )  # fmt: skip
    def test_refused(self, text: str) -> None:
        with pytest.raises(HttpRefusal) as refusal:
            parse_media_type(text)
        assert refusal.value.status == 415

    @pytest.mark.parametrize(
        "values",
        [
            [], ["text/xml", "text/xml"], ["text/plain"], ["text/html"], ["application/json"],
            ["multipart/mixed; boundary=x"], ["application/octet-stream"],
            ["text/xml; charset=utf-7"],
            ["text/xml; charset=shift_jis"], ["image/svg+xml"],
        ],
    )  # fmt: skip
    def test_no_soap(self, values: list[str]) -> None:
        with pytest.raises(HttpRefusal) as refusal:
            soap_media_type([(b"content-type", value.encode()) for value in values])
        assert refusal.value.status == 415

    @pytest.mark.parametrize(
        "name",
        [
            "text/xml", "application/soap+xml", "application/xml", "multipart/related",
            "application/dime",
        ],
    )  # fmt: skip
    def test_soap(self, name: str) -> None:
        value = f'{name}; charset=UTF-8; action="urn:a"'.encode()
        media_type = soap_media_type([(b"content-type", value)])
        assert (media_type.name, media_type.charset, media_type.action) == (name, "utf-8", "urn:a")

    def test_over_the_wire(self, server: Server) -> None:
        wire = post(b"Content-Length: 1\r\nConnection: close\r\n", body=b"x")
        assert statuses(talk(server, wire.replace(b"text/xml", b"text/css"))) == [415]


class TestForwarding:
    def settings(self, *, url: str | None = None) -> HttpSettings:
        return HttpSettings(url, trusted_proxies=networks(["10.0.0.0/8"]))

    def scope(self, client: str, **headers: str) -> Scope:
        scope = scope_of(host="inside:8080", **headers)
        return {**scope, "client": (client, 1), "server": ("10.0.0.2", 8080), "scheme": "http"}

    @pytest.mark.parametrize(
        ("headers", "base", "peer"),
        [
            ({}, "http://inside:8080", "10.0.0.1"),
            (
                {
                    "x_forwarded_for": "192.0.2.7",
                    "x_forwarded_proto": "https",
                    "x_forwarded_host": "a.example",
                },
                "https://a.example",
                "192.0.2.7",
            ),
            (
                {"x_forwarded_for": "6.6.6.6, 192.0.2.7, 10.0.0.3", "x_forwarded_proto": "HTTPS"},
                "https://inside:8080",
                "192.0.2.7",
            ),
            (
                {"x_forwarded_host": "evil.example, a.example", "x_forwarded_port": "8443"},
                "http://a.example:8443",
                "10.0.0.1",
            ),
            (
                {"x_forwarded_host": "a b", "x_forwarded_proto": "ftp"},
                "http://inside:8080",
                "10.0.0.1",
            ),
            ({"x_forwarded_for": "unknown"}, "http://inside:8080", "10.0.0.1"),
            (
                {"forwarded": 'for=192.0.2.7;proto=https;host="a.example:8443"'},
                "https://a.example:8443",
                "192.0.2.7",
            ),
            (
                {
                    "forwarded": 'for=6.6.6.6;host=evil.example, for="[2001:db8::7]:99";host=a.example;by=_x'
                },
                "http://a.example",
                "2001:db8::7",
            ),
            (
                {"forwarded": ' For="192.0.2.7" ;; x-y="a;b\\";host=evil" ; host=a.example ;'},
                "http://a.example",
                "192.0.2.7",
            ),
            (
                {"forwarded": 'for=192.0.2.7;x="\\";host=evil.example'},
                "http://inside:8080",
                "10.0.0.1",
            ),
            (
                {"forwarded": "for=6.6.6.6;host=evil.example", "x_forwarded_for": "192.0.2.7"},
                "http://inside:8080",
                "192.0.2.7",
            ),
        ],
    )
    def test_a_trusted_proxy(self, headers: dict[str, str], base: str, peer: str) -> None:
        scope = self.scope("10.0.0.1", **headers)
        assert public_base(scope, self.settings()) == base
        assert client_address(scope, self.settings()) == peer

    @pytest.mark.parametrize(
        "filling", [" ", "a", "a=", "=a", 'a="', "a= ", ";", "\t;", "a=b ", "a=b;", "\\"]
    )
    def test_a_list_costs_what_it_is_long(self, filling: str) -> None:
        def read(size: int) -> None:
            scope = self.scope("10.0.0.1", forwarded=f'for=1.1.1.1;{filling * size}x"')
            assert client_address(scope, self.settings()) == "10.0.0.1"

        assert growth(read, 1000) < 3

    @pytest.mark.parametrize(
        "headers",
        [
            {"x_forwarded_for": "1.1.1.1", "x_forwarded_host": "evil.example"},
            {"forwarded": "for=1.1.1.1;host=evil.example;proto=https"},
        ],
    )
    def test_a_stranger_is_not_believed(self, headers: dict[str, str]) -> None:
        scope = self.scope("192.0.2.1", **headers)
        assert public_base(scope, self.settings()) == "http://inside:8080"
        assert client_address(scope, self.settings()) == "192.0.2.1"

    def test_the_public_url_goes_first(self) -> None:
        settings = self.settings(url="https://events.example/gw/")
        scope = self.scope("10.0.0.1", x_forwarded_host="a.example")
        assert public_base(scope, settings) == "https://events.example/gw"

    def test_without_a_host(self) -> None:
        scope = {**self.scope("192.0.2.1"), "headers": []}
        assert public_base(scope, self.settings()) == "http://10.0.0.2:8080"

    def test_networks_are_written_out(self) -> None:
        assert "10.1.2.3" in networks(["10.0.0.0/8"])
        assert "" not in networks(["10.0.0.0/8"])
        with pytest.raises(ValueError, match="ten"):
            networks(["ten"])


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("urn:example:a b", "urn:example:a b"),
        ("a\r\nSet-Cookie: b", "a%0D%0ASet-Cookie: b"),
        ("\0\x1f\x7f", "%00%1F%7F"),
        ("é\u2028", "%C3%A9%E2%80%A8"),
        ("100%", "100%"),
        ("\ud800", "?"),
    ],
)
def test_header_values(text: str, value: str) -> None:
    assert header_value(text) == value


def test_answers_that_a_stranger_leaves_unread_are_bounded() -> None:
    """Who asks for much and reads nothing loses what is too much; another has all of his."""
    limits = HttpLimits(unread_per_address=40 << 20)
    with serving(limits) as server, ExitStack() as stack:
        greedy = [stack.enter_context(connect(server)) for _ in range(4)]
        for sock in greedy:
            sock.sendall(get(target=b"/large"))
        wait_until(lambda: server.gate.connections < 4)
        with connect(server, "127.0.0.2") as other:
            other.sendall(get(target=b"/large"))
            assert read_answer(other)[0] == 200
        assert server.gate._octets <= 40 << 20


def test_a_refusal_waits_for_who_goes_on_writing(hasty: Server) -> None:
    """As long as the peer sends, nothing resets the connection: it reads why, when it looks."""
    with connect(hasty) as sock:
        sock.sendall(post(b"Content-Length: 1000000\r\n").replace(b"/soap", b"/early"))
        until = time.monotonic() + 3 * HASTY.linger_time
        while time.monotonic() < until:
            sock.sendall(b"x" * 1000)
            time.sleep(0.02)  # A slow writer.
        assert statuses(read_all(sock)) == [403]
