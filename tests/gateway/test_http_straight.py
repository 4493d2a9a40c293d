"""Requests that go straight, and the same ones through ASGI: nobody may see a difference."""

import asyncio
import dataclasses
import gzip
import re
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import httptools
import pytest
import uvicorn
import uvloop
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.server import ServerState

from gateway.http import (
    WHOLE,
    ConnectionGate,
    Exchange,
    HostMiddleware,
    HttpLimits,
    HttpSettings,
    hardened,
    networks,
)
from gateway.http.straight import KnownHeads
from gateway.soap import Arrived, Reply, SoapService
from gateway.web.app import _Dispatch
from gateway.web.soap import SoapEndpoint
from mediation import Rejected
from tests.gateway.certificates import server_context

DEADLINE = 10.0
LIMITS = HttpLimits()
HASTY = HttpLimits(head_time=0.4, body_time=0.8, body_grace=0.3, linger_time=0.3)
SETTINGS = HttpSettings(
    hosts=frozenset({"gateway.example"}), trusted_proxies=networks(["10.9.9.9"])
)
HOST = b"Host: 127.0.0.1:8080\r\n"
XML = b"Content-Type: text/xml; charset=utf-8\r\n"


class Service:
    """Takes messages in, and answers what they say: ``STATUS`` or ``STATUS text``."""

    def __init__(self) -> None:
        self.arrived: list[Arrived] = []
        self.refusals: list[str] = []
        self.delivered: list[bool] = []
        self.left = 0
        self.at_work = 0
        self.release = asyncio.Event()
        self.begun = asyncio.Event()

    async def handle(self, arrived: Arrived) -> Reply:
        self.arrived.append(dataclasses.replace(arrived, gone=None))
        self.begun.set()
        said = arrived.octets.decode("latin-1")
        self.at_work += 1
        try:
            await asyncio.sleep(0)
            if said == "fail":
                raise RuntimeError("on purpose")
            if said == "wait":
                await self.release.wait()
            if said == "gone":
                await self._wait_for_the_end(arrived)
            if said == "200 watched":
                self._watching = asyncio.ensure_future(self._wait_for_the_end(arrived))
                await asyncio.sleep(0)
        finally:
            self.at_work -= 1
        number = re.match(r"[2-5]\d\d", said)
        status = int(number[0]) if number else 202
        body = said[3:].encode() if number else b""
        handed_over = self._handed_over if said.startswith("200 kept") else None
        action = "urn:a\r\nX: y" if said == "200 unfit" else "urn:a"
        return Reply(
            status, arrived.hint, action, body, 1.5 if status == 503 else None,
            handed_over=handed_over,
        )  # fmt: skip

    async def _wait_for_the_end(self, arrived: Arrived) -> None:
        assert arrived.gone is not None
        await arrived.gone()
        self.left += 1

    async def _handed_over(self, delivered: bool) -> None:
        self.delivered.append(delivered)

    async def parse(self, octets: int, work: Callable[[set[str] | None], Any], peer: object) -> Any:
        return work(None)

    def refuse(self, rejected: Rejected) -> Reply:
        return Reply(500, rejected.context.soap, "", str(rejected.refused).encode())

    def count_refusal(self, reason: str) -> None:
        self.refusals.append(reason)


async def beside(scope: Scope, receive: Receive, send: Send) -> None:
    """What is not SOAP."""
    await send({"type": "http.response.start", "status": 404, "headers": []})
    await send({"type": "http.response.body", "body": b""})


class Watched:
    """*app*, with what came to it through ASGI; *straight*: it may also be asked to prepare."""

    def __init__(self, app: HostMiddleware, *, straight: bool) -> None:
        self._app = app
        self.asgi = 0
        if straight:
            self.prepare = app.prepare

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.asgi += 1
        await self._app(scope, receive, send)


@dataclass
class Front:
    """The HTTP server in front of a service."""

    straight: bool
    limits: HttpLimits = LIMITS
    trusted: tuple[str, ...] = ()
    tls: ssl.SSLContext | None = None
    service: Service = field(default_factory=Service)
    state: ServerState = field(default_factory=ServerState)

    def __post_init__(self) -> None:
        endpoint = SoapEndpoint(
            cast(SoapService, self.service),
            limits=self.limits,
            settings=SETTINGS,
            trusted=networks(self.trusted),
        )
        self.app = Watched(
            HostMiddleware(_Dispatch(endpoint, beside), SETTINGS), straight=self.straight
        )
        self.gate = ConnectionGate(self.limits, networks(self.trusted))
        self._config = uvicorn.Config(
            cast(ASGIApp, self.app), lifespan="off", ws="none", log_config=None, access_log=False,
            proxy_headers=False, timeout_keep_alive=1,
        )  # fmt: skip
        self._config.load()
        self.state.default_headers = [(b"date", b"today")]

    def protocol(self) -> asyncio.Protocol:
        make = cast(Callable[..., asyncio.Protocol], hardened(self.limits, self.gate, self.tls))
        return make(self._config, self.state, {}, asyncio.get_running_loop())


class Wire(asyncio.Transport):
    """A transport whose other side is the test."""

    def __init__(self, peer: str) -> None:
        super().__init__({"peername": [peer, 4711], "sockname": ["127.0.0.1", 8080]})
        self.octets = b""
        self.closed = False

    def write(self, data: Any) -> None:
        assert not self.closed
        self.octets += bytes(data)

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = True

    def write_eof(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def can_write_eof(self) -> bool:
        return True

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


@dataclass
class Seen:
    """What there was to see of octets that came in."""

    answered: bytes
    closed: bool
    arrived: list[Arrived]
    refusals: list[str]
    delivered: list[bool]
    left: int
    served: int


async def standstill(front: Front, wire: Wire) -> None:
    """Return when nothing happens any more; a request may still wait for its body."""
    before: object = None
    service = front.service
    while before != (
        now := (len(wire.octets), len(service.arrived), service.at_work, len(front.state.tasks))
    ):
        before = now
        for _ in range(10):
            await asyncio.sleep(0)


async def feed(front: Front, pieces: list[tuple[bytes, bool]], peer: str = "127.0.0.1") -> Seen:
    """Have *pieces* come in one after the other; with True, when all before are answered."""
    protocol, wire = front.protocol(), Wire(peer)
    protocol.connection_made(wire)
    for octets, settle in [*pieces, (b"", True)]:
        if octets:
            protocol.data_received(octets)
        if settle:
            await standstill(front, wire)
    closed = wire.closed
    protocol.connection_lost(None)
    await standstill(front, wire)
    assert not front.state.tasks
    service = front.service
    return Seen(
        wire.octets, closed, service.arrived, service.refusals, service.delivered,
        service.left, front.state.total_requests,
    )  # fmt: skip


def post(
    body: bytes, *fields: bytes, path: bytes = b"/soap", host: bytes = HOST, xml: bytes = XML
) -> bytes:
    head = b"POST " + path + b" HTTP/1.1\r\n" + host + xml + b"".join(fields)
    return head + b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


DIME_FIELD = b"Content-Type: application/dime\r\n"
STRAIGHT = {
    "an event": post(b"202"),
    "an answer": post(b"200 <a/>"),
    "a fault": post(b"500 <fault/>"),
    "one to be tried again": post(b"503 <fault/>"),
    "an answer that is handed over": post(b"200 kept"),
    "an answer that somebody watches": post(b"200 watched"),
    "no body": post(b""),
    "a long body": post(b"x" * WHOLE),
    "SOAP 1.2": post(b"200 <a/>", xml=b'Content-Type: application/soap+xml; action="urn:x"\r\n'),
    "an action": post(b"202", b'SOAPAction: "urn:y"\r\n'),
    "hops": post(b"202", b"Dragoman-Hops: a\r\n", b"Dragoman-Hops: b\r\n"),
    "a topic": post(b"202", path=b"/soap/topic/a%20b/%C3%A9?x=1"),
    "a subscription": post(b"202", path=b"/subscriptions/00000000-0000-0000-0000-000000000000"),
    "a mailbox": post(b"202", path=b"/mailboxes/00000000-0000-0000-0000-000000000000"),
    "another host of ours": post(b"202", host=b"Host: gateway.example\r\n"),
    "an absolute address": post(b"202", path=b"http://127.0.0.1:8080/soap"),
    "the last": post(b"200 <a/>", b"Connection: close\r\n"),
    "the last, with line breaks around": b"\r\n" + post(b"202", b"Connection: close\r\n") + b"\r\n",
    "names in capitals": post(b"202").replace(b"Content-Length", b"CONTENT-LENGTH"),
    "a length with zeros": post(b"202").replace(b"Length: 3", b"Length: 0003"),
    "a forwarded one": post(b"202", b"X-Forwarded-For: 1.2.3.4\r\nX-Forwarded-Proto: https\r\n"),
    "a failure": post(b"fail"),
    "an answer with a field that is none": post(b"200 unfit"),
}
THROUGH_ASGI = {
    "a longer body": post(b"x" * (WHOLE + 1)),
    "chunks": post(b"").replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
    + b"3\r\n202\r\n0\r\n\r\n",
    "an expectation": post(b"202", b"Expect: 100-continue\r\n"),
    "HTTP/1.0": post(b"202").replace(b"HTTP/1.1", b"HTTP/1.0"),
    "gzip": post(gzip.compress(b"202", mtime=0), b"Content-Encoding: gzip\r\n"),
    "no coding": post(b"202", b"Content-Encoding: identity\r\n"),
    "a package that is none": post(b"202", xml=DIME_FIELD),
    "another host": post(b"202", host=b"Host: evil.example\r\n"),
    "another media type": post(b"202", xml=b"Content-Type: text/css\r\n"),
    "no media type": post(b"202", xml=b""),
    "two media types": post(b"202", XML),
    "another path": post(b"202", path=b"/elsewhere"),
    "GET": b"GET /soap HTTP/1.1\r\n" + HOST + b"\r\n",
    "the description": b"GET /soap?wsdl HTTP/1.1\r\n" + HOST + b"\r\n",
    "its head": b"HEAD /soap?wsdl HTTP/1.1\r\n" + HOST + b"\r\n",
    "no length": b"POST /soap HTTP/1.1\r\n" + HOST + XML + b"\r\n",
    "PUT": post(b"202").replace(b"POST", b"PUT"),
}
REFUSED = {
    "no Host": post(b"202", host=b""),
    "two lengths": post(b"202", b"Content-Length: 3\r\n"),
    "a length and chunks": post(b"202", b"Transfer-Encoding: chunked\r\n"),
    "a length with a sign": post(b"202").replace(b"Length: 3", b"Length: +3"),
    "an upgrade": post(b"202", b"Upgrade: h2c\r\n"),
    "a fragment": post(b"202", path=b"/soap#a"),
    "bare line feeds": post(b"202").replace(b"\r\n", b"\n"),
    "no HTTP": b"\0\1\2\3\r\n\r\n",
}
ALL = {**STRAIGHT, **THROUGH_ASGI, **REFUSED}


def cuts(octets: bytes) -> Iterator[list[tuple[bytes, bool]]]:
    """Ways in which *octets* may come in."""
    yield [(octets, True)]
    head = octets.find(b"\r\n\r\n") + 4
    yield [(octets, False), (octets, False), (octets, True)]
    for at in (head - 1, head, head + 1, len(octets) - 1):
        yield [(octets[:at], True), (octets[at:], True)]
        yield [(octets[:at], True), (octets[at:] + octets, True), (octets, True)]


@pytest.mark.parametrize("name", ALL)
async def test_the_same_both_ways(name: str) -> None:
    """Alone, cut into two, and after others with the same head, on one connection."""
    request = ALL[name]
    for pieces in cuts(request):
        for before in ([], pieces, [(request * 2, True)]):
            ways = [
                await feed(Front(straight=straight), [*before, *pieces])
                for straight in (True, False)
            ]
            assert ways[0] == ways[1]
            assert ways[0].answered
    # The same as a stranger, a proxy and a trusted peer have it.
    for peer in ("192.0.2.7", "10.9.9.9"):
        for trusted in ((), (peer,)):
            ways = [
                await feed(Front(straight=straight, trusted=trusted), [(request, True)] * 3, peer)
                for straight in (True, False)
            ]
            assert ways[0] == ways[1]


@pytest.mark.parametrize("name", STRAIGHT)
async def test_these_go_straight(name: str) -> None:
    """Otherwise the comparison compares nothing."""
    front = Front(straight=True)
    request = STRAIGHT[name]
    seen = await feed(front, [(request, True)])
    assert (front.app.asgi, len(seen.arrived)) == (0, 1)
    kept = name not in ("the last", "the last, with line breaks around", "a failure")
    if kept and name != "an answer with a field that is none":
        cut = len(request) - 1
        for pieces in ([(request, True)] * 3, [(request[:cut], True), (request[cut:], True)]):
            again = Front(straight=True)
            seen = await feed(again, [(request, True), *pieces])
            assert again.app.asgi == 0 or not seen.arrived[0].octets
    other = Front(straight=False)
    await feed(other, [(request, True)])
    assert other.app.asgi == 1


@pytest.mark.parametrize("name", THROUGH_ASGI)
async def test_these_do_not(name: str) -> None:
    front = Front(straight=True)
    await feed(front, [(THROUGH_ASGI[name], True)])
    assert front.app.asgi == 1


@settings(max_examples=300)
@given(
    requests=st.lists(
        st.tuples(st.sampled_from(sorted(ALL)), st.integers(1, 3)), min_size=1, max_size=3
    ),
    at=st.lists(st.tuples(st.integers(0, 2000), st.booleans()), max_size=8),
)
def test_any_requests_in_any_pieces(
    requests: list[tuple[str, int]], at: list[tuple[int, bool]]
) -> None:
    """On one connection, one behind the other, also before those in front are answered."""
    octets = b"".join(ALL[name][:600] * times for name, times in requests)
    pieces, start = [], 0
    for end, settle in sorted(at):
        pieces.append((octets[start:end], settle))
        start = max(start, end)
    pieces.append((octets[start:], True))
    ways = [asyncio.run(feed(Front(straight=straight), pieces)) for straight in (True, False)]
    assert ways[0] == ways[1]


@pytest.mark.parametrize(
    "begin",
    [
        b"POST /soap HTTP/1.1\r\nA: ",
        b"POST /soap HTTP/1.1\r\n" + HOST,
        b"POST /soap HTTP/1.1\r\n" + HOST + XML + b"Content-Length: 9999\r\n\r\n",
        b"POST /soap HTTP/1.1\r\n" + HOST + XML + b"Transfer-Encoding: chunked\r\n\r\nffff\r\n",
        b"PO",
        b"\r\n",
        b"\r",
    ],
)
async def test_a_known_head_is_one_only_where_a_request_begins(begin: bytes) -> None:
    """Elsewhere the same octets are part of something else."""
    request = post(b"202")
    pieces = [(request, True), (request, True), (begin, True), (request, True), (request, True)]
    ways = [await feed(Front(straight=straight), pieces) for straight in (True, False)]
    assert ways[0] == ways[1]


class Parsed:
    """What the parser finds in octets."""

    def __init__(self) -> None:
        self.headers: list[tuple[bytes, bytes]] = []
        self.forget()
        self._parser = httptools.HttpRequestParser(self)

    def feed(self, octets: bytes) -> bool:
        """Whether it understands them."""
        try:
            self._parser.feed_data(octets)
        except httptools.HttpParserError:
            return False
        return True

    def forget(self) -> None:
        """Count from here; the parser goes on."""
        self.target, self.body, self.headers, self.whole, self.begun = b"", b"", [], 0, 0

    def on_message_begin(self) -> None:
        self.begun += 1

    def on_url(self, url: bytes) -> None:
        self.target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name.lower(), value))

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        self.whole += 1

    @property
    def method(self) -> bytes:
        return bytes(self._parser.get_method())

    def constant(self) -> tuple[bytes, list[tuple[bytes, bytes]]]:
        """The head, but for the length."""
        return self.target, [pair for pair in self.headers if pair[0] != b"content-length"]


async def nobody(octets: bytes, exchange: Exchange) -> None:
    """Answers nothing."""


OCTETS = st.sampled_from(
    [
        b"", b"\r", b"\n", b"\r\n", b"\r\n\r\n", b" ", b"\t", b"0", b"1", b"9", b"+", b"-", b"a",
        b"\0", b"_", b"\xb2", b"\xd9\xa3", b"Content-Length: 3\r\n",
        b"Transfer-Encoding: chunked\r\n",
    ]
)  # fmt: skip


@settings(max_examples=1500)
@given(
    first=st.sampled_from([post(b"abc"), post(b"abc", b"A: b\r\n"), post(b"abc") + b"", post(b"")]),
    changes=st.lists(st.tuples(st.integers(0, 200), st.integers(0, 4), OCTETS), max_size=3),
    body=st.binary(max_size=12),
    at=st.integers(0, 200),
)
def test_what_passes_the_parser_is_what_it_would_find(
    first: bytes, changes: list[tuple[int, int, bytes]], body: bytes, at: int
) -> None:
    """After a request, whatever is taken for one with its head is that to the parser too."""
    before, now = Parsed(), Parsed()
    assert before.feed(first)
    assert now.feed(first)
    now.forget()
    heads = KnownHeads()
    heads.learn(first, nobody)
    octets = post(body, b"A: b\r\n") if b"A: b" in first else post(body)
    for position, length, new in changes:
        octets = octets[:position] + new + octets[position + length :]
    cut = min(at, len(octets))
    taken = heads.begin(octets[:cut]) and heads.left > 0 and heads.go_on(octets[cut:])
    if not taken:
        heads.give_up()
        taken = heads.begin(octets)
    if not taken:
        return
    assert now.feed(octets)
    assert (now.begun, now.method) == (1, b"POST")
    assert now.constant() == before.constant()
    came = heads.body
    if heads.left:
        assert (now.whole, len(now.body)) == (0, came)
    else:
        answering, found = heads.take()
        assert (now.whole, now.body, answering) == (1, found, nobody)


def test_the_usual_passes_the_parser() -> None:
    heads = KnownHeads()
    heads.learn(post(b"abc"), nobody)
    for body in (b"", b"x", b"\r\n\r\n", b"x" * WHOLE):
        octets = post(body)
        assert heads.begin(octets)
        assert (heads.left, heads.take()) == (0, (nobody, body))
        for cut in range(octets.find(b"\r\n\r\n") + 4, min(len(octets), 200)):
            assert heads.begin(octets[:cut])
            assert heads.go_on(octets[cut:])
            assert (heads.left, heads.take()) == (0, (nobody, body))
    for other in (
        post(b"abc") + b"P", post(b"abc", b"A: b\r\n"), post(b"abc")[:40], post(b"x" * (WHOLE + 1)),
        post(b"abc").replace(b": 3", b":  3"), post(b"abc").replace(b": 3", b": 000003"),
    ):  # fmt: skip
        assert not heads.begin(other)


def test_few_heads_are_known() -> None:
    heads = KnownHeads()
    requests = [post(b"abc", b"A: %d\r\n" % n) for n in range(5)]
    for request in requests:
        heads.learn(request, nobody)
    assert [heads.begin(request) and bool(heads.take()) for request in requests] == [
        False, True, True, True, True,
    ]  # fmt: skip
    heads = KnownHeads()
    heads.learn(post(b"abc", b"A: " + b"b" * 2048 + b"\r\n"), nobody)
    assert not heads.begin(post(b"abc", b"A: " + b"b" * 2048 + b"\r\n"))


# What needs a connection, and time.


@asynccontextmanager
async def served(front: Front) -> AsyncIterator[int]:
    server = await asyncio.get_running_loop().create_server(front.protocol, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for connection in list(front.state.connections):
            connection.shutdown()
        await until(lambda: not front.state.connections and not front.state.tasks)
        await server.wait_closed()


@dataclass
class Client:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def ask(self, octets: bytes) -> bytes:
        self.writer.write(octets)
        return await self.answer()

    async def answer(self) -> bytes:
        async with asyncio.timeout(DEADLINE):
            head = await self.reader.readuntil(b"\r\n\r\n")
            length = int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0])
            return head + await self.reader.readexactly(length)

    async def ended(self) -> bool:
        async with asyncio.timeout(DEADLINE):
            return await self.reader.read(1) == b""


@asynccontextmanager
async def connected(port: int, tls: ssl.SSLContext | None = None) -> AsyncIterator[Client]:
    name = "gateway.example" if tls is not None else None
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls, server_hostname=name)
    try:
        yield Client(reader, writer)
    finally:
        writer.close()
        await asyncio.wait([asyncio.ensure_future(writer.wait_closed())], timeout=DEADLINE)


BOTH = pytest.mark.parametrize("straight", [True, False], ids=["straight", "ASGI"])
KNOWN = pytest.mark.parametrize("before", [0, 2], ids=["first", "known head"])


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(DEADLINE):
        while not condition():  # noqa: ASYNC110  # nobody signals it
            await asyncio.sleep(0.005)


@BOTH
@KNOWN
async def test_who_leaves_is_noticed(straight: bool, before: int) -> None:
    front = Front(straight=straight)
    async with served(front) as port:
        async with connected(port) as client:
            for _ in range(before):
                await client.ask(post(b"202"))
            front.service.begun.clear()
            client.writer.write(post(b"gone"))
            await asyncio.wait_for(front.service.begun.wait(), DEADLINE)
        await until(lambda: front.service.left == 1)
        await until(lambda: not front.state.tasks)


@BOTH
@KNOWN
async def test_a_stop_waits_for_what_is_under_way(straight: bool, before: int) -> None:
    front = Front(straight=straight)
    async with served(front) as port, connected(port) as client:
        for _ in range(before):
            await client.ask(post(b"202"))
        client.writer.write(post(b"wait"))
        await until(lambda: front.service.at_work)
        (connection,) = front.state.connections
        connection.shutdown()
        assert front.state.tasks
        front.service.release.set()
        assert b"connection: close\r\n" in await client.answer()
        assert await client.ended()


@BOTH
@KNOWN
async def test_a_stop_waits_for_a_body(straight: bool, before: int) -> None:
    front = Front(straight=straight)
    async with served(front) as port, connected(port) as client:
        for _ in range(before):
            await client.ask(post(b"202"))
        client.writer.write(post(b"200 <a/>")[:-3])
        await until(lambda: not front.gate._waiting)
        (connection,) = front.state.connections
        connection.shutdown()
        answer = await client.ask(b"/a>"[-3:])
        assert b"connection: close\r\n" in answer
        assert await client.ended()


@BOTH
@KNOWN
async def test_a_body_that_stays_away(straight: bool, before: int) -> None:
    front = Front(straight=straight, limits=HASTY)
    async with served(front) as port, connected(port) as client:
        for _ in range(before):
            await client.ask(post(b"202"))
        assert (await client.ask(post(b"200 <a/>")[:-3])).startswith(b"HTTP/1.1 408 ")
        assert await client.ended()
        assert len(front.service.arrived) == before
        await until(lambda: front.service.refusals == ["http-400"])


@BOTH
@KNOWN
async def test_a_body_that_breaks_off(straight: bool, before: int) -> None:
    front = Front(straight=straight)
    async with served(front) as port:
        async with connected(port) as client:
            for _ in range(before):
                await client.ask(post(b"202"))
            client.writer.write(post(b"200 <a/>")[:-3])
            await until(lambda: not front.gate._waiting)
        await until(lambda: front.service.refusals == ["http-400"])
        assert len(front.service.arrived) == before


@BOTH
async def test_an_idle_connection_ends(straight: bool) -> None:
    """A second after its last answer, and not after its first."""
    front = Front(straight=straight)
    loop = asyncio.get_running_loop()
    async with served(front) as port, connected(port) as client:
        begin = loop.time()
        while loop.time() < begin + 1.6:
            await client.ask(post(b"202"))
            await asyncio.sleep(0.1)
        last = loop.time()
        assert await client.ended()
        assert 0.7 < loop.time() - last < 3


@BOTH
async def test_an_answer_may_take_longer_than_a_connection_is_kept(straight: bool) -> None:
    front = Front(straight=straight)
    async with served(front) as port, connected(port) as client:
        await client.ask(post(b"202"))
        waiting = asyncio.ensure_future(client.ask(post(b"wait")))
        done, _ = await asyncio.wait([waiting], timeout=1.3)
        assert not done
        front.service.release.set()
        assert (await waiting).startswith(b"HTTP/1.1 202 ")
        assert (await client.ask(post(b"202"))).startswith(b"HTTP/1.1 202 ")


@BOTH
async def test_a_head_that_stays_away(straight: bool) -> None:
    """Also after requests that passed the parser, and with the begin of a known head."""
    front = Front(straight=straight, limits=HASTY)
    async with served(front) as port, connected(port) as client:
        for _ in range(3):
            await client.ask(post(b"202"))
        client.writer.write(post(b"202")[:30])
        assert await client.ended()


@BOTH
async def test_whether_an_answer_was_taken_in(straight: bool) -> None:
    front = Front(straight=straight)
    async with served(front) as port, connected(port) as client:
        for _ in range(3):
            assert (await client.ask(post(b"200 kept"))).endswith(b" kept")
        await until(lambda: front.service.delivered == [True] * 3)


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_behind_tls(tmp_path: Path, loop: str) -> None:
    context, trusting = server_context(tmp_path, "gateway.example")
    said = (b"202", b"200 <a/>", b"x" * WHOLE, b"200 kept", b"202")

    async def talk(straight: bool) -> tuple[list[bytes], Front]:
        front = Front(straight=straight, tls=context)
        async with served(front) as port, connected(port, trusting) as client:
            return [await client.ask(post(body)) for body in said], front

    run = uvloop.run if loop == "uvloop" else asyncio.run
    (answers, front), (others, other) = run(talk(True)), run(talk(False))
    assert answers == others
    assert all(type(arrived.octets) is bytes for arrived in front.service.arrived)
    assert [arrived.octets for arrived in front.service.arrived] == list(said)
    assert {arrived.base for arrived in front.service.arrived} == {"https://127.0.0.1:8080"}
    assert other.app.asgi == len(said)
    assert front.app.asgi < len(said)  # A long one may come in pieces the first time.


async def test_a_cancelled_one_is_answered() -> None:
    """As uvicorn's are when a stop has waited for long enough."""
    front = Front(straight=True)
    async with served(front) as port, connected(port) as client:
        client.writer.write(post(b"wait"))
        await until(lambda: front.service.at_work)
        (task,) = front.state.tasks
        task.cancel()
        assert (await client.answer()).startswith(b"HTTP/1.1 500 ")
        assert await client.ended()
        assert not front.state.tasks


async def test_a_reader_who_is_slow_is_waited_for() -> None:
    """The transport says when it has too much: the next answer waits for it."""
    front = Front(straight=True)
    protocol, wire = front.protocol(), Wire("127.0.0.1")
    protocol.connection_made(wire)
    protocol.pause_writing()
    protocol.data_received(post(b"202"))
    for _ in range(20):
        await asyncio.sleep(0)
    assert (wire.octets, front.service.at_work, len(front.state.tasks)) == (b"", 0, 1)
    protocol.resume_writing()
    await standstill(front, wire)
    assert wire.octets.startswith(b"HTTP/1.1 202 ")
    assert not front.state.tasks
    protocol.connection_lost(None)
