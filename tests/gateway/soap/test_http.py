"""SOAP over HTTP, from the octets of a connection to the service and back, however they are cut."""

import asyncio
import gzip
import re
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest
import uvicorn
import uvloop
from fastapi import FastAPI
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.types import ASGIApp
from uvicorn.server import ServerState

from gateway.exchange import Inbound, Reply
from gateway.http import ConnectionGate, HostMiddleware, HttpLimits, HttpSettings, hardened
from gateway.security.identify import Identification
from gateway.security.networks import networks
from gateway.soap.http import SoapEndpoint, soap_routes
from gateway.soap.service import SoapService
from mediation.model.requests import Rejected
from tests.rigs.cases import for_each
from tests.rigs.certificates import server_context
from tests.rigs.waiting import until

DEADLINE = 60.0
LONG = 64 * 1024
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
        self.arrived: list[Inbound] = []
        self.refusals: list[str] = []
        self.delivered: list[bool] = []
        self.left = 0
        self.at_work = 0
        self.release = asyncio.Event()
        self.begun = asyncio.Event()

    async def handle(self, inbound: Inbound) -> Reply:
        self.arrived.append(inbound)
        self.begun.set()
        said = inbound.octets.decode("latin-1")
        self.at_work += 1
        try:
            await asyncio.sleep(0)
            if said == "fail":
                raise RuntimeError("on purpose")
            if said == "wait":
                await self.release.wait()
            if said == "gone":
                await self._wait_for_the_end(inbound)
            if said == "200 watched":
                self._watching = asyncio.ensure_future(self._wait_for_the_end(inbound))
                await asyncio.sleep(0)
        finally:
            self.at_work -= 1
        number = re.match(r"[2-5]\d\d", said)
        status = int(number[0]) if number else 202
        body = said[3:].encode() if number else b""
        handed_over = self._handed_over if said.startswith("200 kept") else None
        action = "urn:a\r\nX: y" if said == "200 unfit" else "urn:a"
        return Reply(
            status=status,
            soap=inbound.hint,
            action=action,
            body=body,
            retry_after=1.5 if status == 503 else None,
            handed_over=handed_over,
        )

    async def _wait_for_the_end(self, inbound: Inbound) -> None:
        assert inbound.gone is not None
        await inbound.gone()
        self.left += 1

    async def _handed_over(self, delivered: bool) -> None:
        self.delivered.append(delivered)

    async def parse(self, octets: int, work: Callable[[set[str] | None], Any], peer: object) -> Any:
        return work(None)

    def refuse(self, rejected: Rejected, sender: object) -> Reply:
        return Reply(status=500, soap=rejected.context.soap, body=str(rejected.refused).encode())

    async def refuse_signed(self, rejected: Rejected, sender: object, path: str) -> Reply:
        return self.refuse(rejected, sender)

    def count_refusal(self, reason: str, text: str, *, peer: str, path: str) -> None:
        self.refusals.append(reason)


@dataclass
class Front:
    """The HTTP server in front of a service."""

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
            identification=Identification(networks(self.trusted)),
        )
        self.app = FastAPI(routes=soap_routes(endpoint), openapi_url=None)
        self.app.add_middleware(HostMiddleware, settings=SETTINGS)
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
    arrived: list[Inbound]
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
ANSWERED = {
    "an event": post(b"202"),
    "an answer": post(b"200 <a/>"),
    "a fault": post(b"500 <fault/>"),
    "one to be tried again": post(b"503 <fault/>"),
    "an answer that is handed over": post(b"200 kept"),
    "an answer that somebody watches": post(b"200 watched"),
    "no body": post(b""),
    "a long body": post(b"x" * LONG),
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
OTHERS = {
    "an upgrade": post(b"202", b"Connection: Upgrade\r\nUpgrade: h2c\r\n"),
    "an upgrade with chunks": post(b"", b"Connection: Upgrade\r\nUpgrade: h2c\r\n").replace(
        b"Content-Length: 0", b"Transfer-Encoding: chunked"
    )
    + b"3\r\n202\r\n0\r\n\r\n",
    "a longer body": post(b"x" * (LONG + 1)),
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
    "a fragment": post(b"202", path=b"/soap#a"),
    "bare line feeds": post(b"202").replace(b"\r\n", b"\n"),
    "no HTTP": b"\0\1\2\3\r\n\r\n",
}
ALL = {**ANSWERED, **OTHERS, **REFUSED}


@for_each("name", ALL)
async def test_the_same_however_it_is_cut(name: str) -> None:
    """In two pieces, and after others on the same connection, as each alone on one of its own."""
    request = ALL[name]
    alone = await feed(Front(), [(request, True)])
    assert alone.answered
    for at in (1, 10, request.find(b"\r\n\r\n") + 3, request.find(b"\r\n\r\n") + 4, -1):
        cut = await feed(Front(), [(request[:at], True), (request[at:], True)])
        # What is refused by its head is answered before its body has come, and is the last then.
        assert (cut.answered, cut.arrived) == (alone.answered, alone.arrived)
    if alone.closed:
        return
    thrice = await feed(Front(), [(request, True)] * 3)
    assert thrice.answered == alone.answered * 3
    assert thrice.arrived == alone.arrived * 3
    behind = await feed(Front(), [(request * 3, True)])
    assert (behind.answered, behind.arrived) == (thrice.answered, thrice.arrived)


@for_each("name", ANSWERED)
async def test_what_arrives(name: str) -> None:
    """The body and what the head says of it, once."""
    request = ANSWERED[name]
    seen = await feed(Front(), [(request, True)])
    [inbound] = seen.arrived
    assert inbound.octets == request.partition(b"\r\n\r\n")[2].removesuffix(b"\r\n")
    assert inbound.base in ("http://127.0.0.1:8080", "http://gateway.example")
    assert seen.refusals == []


@pytest.mark.parametrize("peer", ["192.0.2.7", "10.9.9.9"])
@pytest.mark.parametrize("trusted", [False, True])
async def test_who_sends(peer: str, trusted: bool) -> None:
    """A stranger, a proxy, and peers that are trusted."""
    front = Front(trusted=(peer,) if trusted else ())
    request = post(b"202", b"X-Forwarded-For: 1.2.3.4\r\n")
    [inbound] = (await feed(front, [(request, True)], peer)).arrived
    believed = peer == "10.9.9.9"
    assert inbound.principal.address == ("1.2.3.4" if believed else peer)
    assert (inbound.principal.stranger is None) is (trusted and not believed)


@settings(max_examples=100)
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
    whole = asyncio.run(feed(Front(), [(octets, True)]))
    cut = asyncio.run(feed(Front(), pieces))
    # Of what fails to be read, how much is answered before depends on when it comes.
    seen = min(len(whole.arrived), len(cut.arrived))
    assert whole.arrived[:seen] == cut.arrived[:seen]
    if not whole.closed and not cut.closed:
        assert whole == cut


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


KNOWN = pytest.mark.parametrize("before", [0, 2], ids=["first", "third"])


@KNOWN
async def test_who_leaves_is_noticed(before: int) -> None:
    front = Front()
    async with served(front) as port:
        async with connected(port) as client:
            for _ in range(before):
                await client.ask(post(b"202"))
            front.service.begun.clear()
            client.writer.write(post(b"gone"))
            await asyncio.wait_for(front.service.begun.wait(), DEADLINE)
        await until(lambda: front.service.left == 1)
        await until(lambda: not front.state.tasks)


@KNOWN
async def test_a_stop_waits_for_what_is_under_way(before: int) -> None:
    front = Front()
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


@KNOWN
async def test_a_stop_waits_for_a_body(before: int) -> None:
    front = Front()
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


@KNOWN
async def test_a_body_that_stays_away(before: int) -> None:
    front = Front(limits=HASTY)
    async with served(front) as port, connected(port) as client:
        for _ in range(before):
            await client.ask(post(b"202"))
        assert (await client.ask(post(b"200 <a/>")[:-3])).startswith(b"HTTP/1.1 408 ")
        assert await client.ended()
        assert len(front.service.arrived) == before
        await until(lambda: front.service.refusals == ["http-400"])


@KNOWN
async def test_a_body_that_breaks_off(before: int) -> None:
    front = Front()
    async with served(front) as port:
        async with connected(port) as client:
            for _ in range(before):
                await client.ask(post(b"202"))
            client.writer.write(post(b"200 <a/>")[:-3])
            await until(lambda: not front.gate._waiting)
        await until(lambda: front.service.refusals == ["http-400"])
        assert len(front.service.arrived) == before


async def test_an_idle_connection_ends() -> None:
    """So long after its last answer, and not after its first."""
    front = Front()
    async with served(front) as port, connected(port) as client, connected(port) as idle:
        await client.ask(post(b"202"))
        await idle.ask(post(b"202"))
        ending = asyncio.ensure_future(idle.ended())

        async def has_ended() -> bool:
            await client.ask(post(b"202"))
            return ending.done()

        await until(has_ended)
        assert await ending
        assert (await client.ask(post(b"202"))).startswith(b"HTTP/1.1 202 ")
        assert await client.ended()


async def test_an_answer_may_take_longer_than_a_connection_is_kept() -> None:
    front = Front()
    async with served(front) as port, connected(port) as client:
        await client.ask(post(b"202"))
        waiting = asyncio.ensure_future(client.ask(post(b"wait")))
        done, _ = await asyncio.wait([waiting], timeout=1.3)
        assert not done
        front.service.release.set()
        assert (await waiting).startswith(b"HTTP/1.1 202 ")
        assert (await client.ask(post(b"202"))).startswith(b"HTTP/1.1 202 ")


async def test_a_head_that_stays_away() -> None:
    """Also after requests that passed the parser, and with the begin of a known head."""
    front = Front(limits=HASTY)
    async with served(front) as port, connected(port) as client:
        for _ in range(3):
            await client.ask(post(b"202"))
        client.writer.write(post(b"202")[:30])
        assert await client.ended()


async def test_whether_an_answer_was_taken_in() -> None:
    front = Front()
    async with served(front) as port, connected(port) as client:
        for _ in range(3):
            assert (await client.ask(post(b"200 kept"))).endswith(b" kept")
        await until(lambda: front.service.delivered == [True] * 3)


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_behind_tls(tmp_path: Path, loop: str) -> None:
    context, trusting = server_context(tmp_path, "gateway.example")
    said = (b"202", b"200 <a/>", b"x" * LONG, b"200 kept", b"202")
    front = Front(tls=context)

    async def talk() -> list[bytes]:
        async with served(front) as port, connected(port, trusting) as client:
            return [await client.ask(post(body)) for body in said]

    run = uvloop.run if loop == "uvloop" else asyncio.run
    answers = run(talk())
    assert [answer[:13] for answer in answers] == [
        b"HTTP/1.1 202 ", b"HTTP/1.1 200 ", b"HTTP/1.1 202 ", b"HTTP/1.1 200 ", b"HTTP/1.1 202 ",
    ]  # fmt: skip
    assert [arrived.octets for arrived in front.service.arrived] == list(said)
    assert {inbound.base for inbound in front.service.arrived} == {"https://127.0.0.1:8080"}


async def test_a_cancelled_one_is_answered() -> None:
    """As uvicorn's are when a stop has waited for long enough."""
    front = Front()
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
    front = Front()
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
