"""Addresses that strangers name, and what their owners may answer."""

import asyncio
import gzip
import random
import socket
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
import uvloop

from gateway.egress import (
    AddressPolicy,
    Answer,
    ClientLimits,
    FailureKind,
    Request,
    SendFailed,
    parse_target,
)
from tests.gateway.egress.test_addresses import INSIDE, url_of
from tests.rigs.cases import for_each
from tests.rigs.certificates import server_context
from tests.rigs.scripted_peers import (
    ACCEPTED,
    QUICK,
    Handler,
    StubResolver,
    consuming,
    failure_of,
    keeping,
    message,
    read_request,
    saying,
    sending,
    silent,
)
from tests.rigs.waiting import DEADLINE

ANSWERS = [
    pytest.param(
        b"HTTP/1.1 200 OK\r\nContent-Type: text/xml\r\nContent-Length: 4\r\n\r\n<a/>",
        Answer(200, b"<a/>", {"content-type": "text/xml"}),
        id="with a length",
    ),
    pytest.param(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"2;x=y\r\n<a\r\n2\r\n/>\r\n0\r\nTrailer: 1\r\n\r\n",
        Answer(200, b"<a/>"),
        id="in chunks",
    ),
    pytest.param(
        b"HTTP/1.1 200 OK\r\n"
        + b"Transfer-Encoding: chunked\r\n" * 2
        + b"\r\n4\r\n<a/>\r\n0\r\n\r\n",
        Answer(200, b"<a/>"),
        id="in chunks, said twice",
    ),
    pytest.param(b"HTTP/1.1 200 OK\r\n\r\n<a/>", Answer(200, b"<a/>"), id="to the end"),
    pytest.param(b"HTTP/1.0 200 OK\r\n\r\n<a/>", Answer(200, b"<a/>"), id="HTTP/1.0"),
    pytest.param(
        b"HTTP/1.0 202 Accepted\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n",
        Answer(202),
        id="HTTP/1.0, kept",
    ),
    pytest.param(b"HTTP/1.1 202 Accepted\r\n\r\n", Answer(202), id="202 without length"),
    pytest.param(b"HTTP/1.1 204 No Content\r\n\r\n", Answer(204), id="204"),
    pytest.param(b"HTTP/1.1 202\r\nContent-Length: 0\r\n\r\n", Answer(202), id="no reason"),
    pytest.param(
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nLink: <x>\r\n\r\n" + ACCEPTED,
        Answer(202),
        id="after interim answers",
    ),
    pytest.param(
        b"HTTP/1.1 503 Busy\r\nRetry-After: 7\r\nX-Other: 1\r\nContent-Length: 0\r\n\r\n",
        Answer(503, b"", {"retry-after": "7"}),
        id="asked to wait",
    ),
    pytest.param(
        b"HTTP/1.1 200 OK\r\nContent-Length: 65536\r\n\r\n" + b"x" * 65536,
        Answer(200, b"x" * 65536),
        id="as long as may be",
    ),
]
"""What consumers say to a message, and how it is read."""


class TestSending:
    async def test_a_request_on_the_wire(self) -> None:
        seen: list[bytes] = []

        async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            seen.append(await read_request(reader))
            writer.write(ACCEPTED)

        async with consuming(handler) as consumer, sending() as transport:
            answer = await transport.send(message(consumer.url("/a//../b?c=%2F")))
            port = consumer.port
        assert answer == Answer(202, b"", {})
        assert seen == [
            b"POST /a//../b?c=%2F HTTP/1.1\r\n"
            + f"Host: 127.0.0.1:{port}\r\n".encode()
            + b"User-Agent: Dragoman\r\n"
            b"Accept-Encoding: identity\r\n"
            b"Content-Length: 8\r\n"
            b"Content-Type: application/soap+xml; charset=utf-8\r\n"
            b'SOAPAction: "urn:n"\r\n\r\n'
            b"<event/>"
        ]

    @for_each(
        ("wire", "answer"),
        ANSWERS,
    )
    @for_each("step", [1 << 20, 1], ids=["whole", "by octets"])
    async def test_answers(self, wire: bytes, answer: Answer, step: int) -> None:
        if step == 1 and len(wire) > 1000:
            step = 1000

        async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await read_request(reader)
            for start in range(0, len(wire), step):
                writer.write(wire[start : start + step])
                await writer.drain()
                await asyncio.sleep(0)
            writer.write_eof()
            await reader.read()

        async with consuming(handler) as consumer, sending() as transport:
            assert await transport.send(message(consumer.url())) == answer

    async def test_a_connection_is_kept(self) -> None:
        async with consuming(keeping) as consumer, sending() as transport:
            for _ in range(20):
                assert (await transport.send(message(consumer.url()))).status == 202
            assert consumer.connections == 1

    async def test_a_destination_has_at_most_eight_connections(self) -> None:
        async with consuming(keeping) as consumer, sending() as transport:
            requests = [message(consumer.url(f"/{n}")) for n in range(100)]
            answers = await asyncio.gather(*map(transport.send, requests))
            assert {answer.status for answer in answers} == {202}
            assert consumer.connections == 8

    async def test_who_gives_up_while_waiting_loses_no_connection(self) -> None:
        limits = ClientLimits(connections=1)
        gate = asyncio.Event()

        async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await read_request(reader)
            await gate.wait()
            writer.write(ACCEPTED)
            await keeping(reader, writer)

        async with consuming(handler) as consumer, sending(limits=limits) as transport:
            tasks = [asyncio.ensure_future(transport.send(message(consumer.url())))]
            for _ in range(5):
                tasks.append(asyncio.ensure_future(transport.send(message(consumer.url()))))
            await consumer.reached()
            tasks[1].cancel()
            gate.set()
            tasks[3].cancel()
            await asyncio.wait(tasks, timeout=60)
            done = [task for task in tasks if not task.cancelled()]
            assert [task.result().status for task in done] == [202] * 4
            assert consumer.connections == 1

    async def test_cancelling_ends_the_exchange(self) -> None:
        gone = asyncio.Event()

        async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read()
            gone.set()

        async with consuming(handler) as consumer, sending() as transport:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await transport.send(message(consumer.url()))
            await asyncio.wait_for(gone.wait(), 60)

    @pytest.mark.parametrize("answer", [ACCEPTED, ACCEPTED[:-2] + b"Connection: close\r\n\r\n"])
    async def test_a_consumer_that_closes_after_each_message(self, answer: bytes) -> None:
        async with consuming(saying(answer)) as consumer, sending() as transport:
            for _ in range(10):
                assert (await transport.send(message(consumer.url()))).status == 202
            assert consumer.connections == 10

    async def test_a_stale_connection_is_replaced_once(self) -> None:
        """The consumer takes the second message of a connection and closes without a word."""

        async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await read_request(reader)
            writer.write(ACCEPTED)
            await read_request(reader)

        async with consuming(handler) as consumer, sending() as transport:
            for _ in range(4):
                assert (await transport.send(message(consumer.url()))).status == 202
            assert consumer.connections == 4

    async def test_a_fresh_connection_that_is_cut_is_a_failure(self) -> None:
        async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await read_request(reader)

        async with consuming(handler) as consumer, sending() as transport:
            failure = await failure_of(transport, message(consumer.url()))
            assert (failure.kind, failure.connecting) == (FailureKind.RESET, False)
            assert consumer.connections == 1

    async def test_an_answer_begun_is_not_asked_for_again(self) -> None:
        handler = saying(ACCEPTED, b"HTTP/1.1 200 O")
        async with consuming(handler) as consumer, sending() as transport:
            await transport.send(message(consumer.url()))
            failure = await failure_of(transport, message(consumer.url()))
            assert failure.kind is FailureKind.RESET
            assert consumer.connections == 1

    async def test_octets_out_of_turn_answer_nothing(self) -> None:
        """A second answer, sent along with the first, is not taken for that to the next."""
        forged = b"HTTP/1.1 410 Gone\r\nContent-Length: 0\r\n\r\n"
        async with consuming(saying(ACCEPTED + forged)) as consumer, sending() as transport:
            for _ in range(3):
                assert (await transport.send(message(consumer.url()))).status == 202
            assert consumer.connections == 3

    async def test_an_early_answer_to_half_a_message(self) -> None:
        body = b"x" * (16 << 20)

        async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")
            await writer.drain()
            await asyncio.get_running_loop().create_future()

        async with consuming(handler) as consumer, sending() as transport:
            for _ in range(2):
                answer = await transport.send(message(consumer.url(), body))
                assert answer.status == 413
            assert consumer.connections == 2

    async def test_a_large_message(self) -> None:
        async with consuming(keeping) as consumer, sending() as transport:
            answer = await transport.send(message(consumer.url(), b"x" * (4 << 20)))
            assert answer.status == 202

    @pytest.mark.parametrize(
        "header", [("X", "a\r\nY: b"), ("X", "a\nb"), ("X\r\nY", "b"), ("X", "\0"), ("X", "a\x1f")]
    )
    async def test_no_control_reaches_a_header(self, header: tuple[str, str]) -> None:
        async with sending() as transport:
            target = parse_target("http://127.0.0.1:1024/")
            with pytest.raises(ValueError, match="control"):
                await transport.send(Request(target, b"", (header,)))

    @for_each("status", [301, 302, 303, 307, 308])
    @for_each("place", ["http://127.0.0.1:{}/x", "/x", "//x", "gopher://x/"])
    async def test_redirects_are_never_followed(self, status: int, place: str) -> None:
        async with consuming(keeping) as other:
            to = place.format(other.port).encode()
            answer = b"HTTP/1.1 %d Moved\r\nLocation: %b\r\nContent-Length: 0\r\n\r\n" % (
                status,
                to,
            )
            async with consuming(saying(answer)) as consumer, sending() as transport:
                assert (await transport.send(message(consumer.url()))).status == status
            assert (consumer.connections, other.connections) == (1, 0)

    async def test_proxies_of_the_environment_are_ignored(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async with consuming(keeping) as proxy, consuming(keeping) as consumer:
            for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
                monkeypatch.setenv(name, proxy.url(""))
            async with sending() as transport:
                await transport.send(message(consumer.url()))
            assert (consumer.connections, proxy.connections) == (1, 0)

    async def test_closing_ends_what_is_under_way(self) -> None:
        limits = ClientLimits(connections=1)
        async with consuming(silent) as consumer, sending(limits=limits) as transport:
            tasks = [asyncio.ensure_future(transport.send(message(consumer.url()))) for _ in "ab"]
            await consumer.reached()
            await transport.close()
            done, waiting = await asyncio.wait(tasks, timeout=60)
            assert not waiting
            assert all(isinstance(task.exception(), SendFailed) for task in done)

    async def test_idle_connections_are_few(self) -> None:
        async with (
            sending(limits=ClientLimits(idle_connections=2)) as transport,
            consuming(keeping) as a,
            consuming(keeping) as b,
            consuming(keeping) as c,
        ):
            for consumer in (a, b, c, a, c):
                await transport.send(message(consumer.url()))
            assert [a.connections, b.connections, c.connections] == [2, 1, 1]

    def test_the_loop_of_production(self) -> None:
        async def exchange() -> list[int]:
            async with consuming(keeping) as consumer, sending() as transport:
                requests = [message(consumer.url()) for _ in range(50)]
                answers = await asyncio.gather(*map(transport.send, requests))
                async with consuming(saying(b"HTTP/1.1 200 OK\r\n\r\n<a/>")) as closing:
                    answers.append(await transport.send(message(closing.url())))
                return [answer.status for answer in answers]

        assert uvloop.run(exchange()) == [202] * 50 + [200]

    @pytest.mark.parametrize(
        ("value", "seconds"),
        [
            ("0", 0.0),
            ("120", 120.0),
            ("999999999999", 3600.0),
            ("Thu, 01 Jan 1970 00:20:00 GMT", 200.0),
            ("Thu, 01 Jan 1970 00:00:00 GMT", 0.0),
            ("Thu, 01 Jan 2970 00:00:00 GMT", 3600.0),
            ("soon", None),
            ("-1", None),
            ("1.5", None),
            ("", None),
        ],
    )
    def test_retry_after(self, value: str, seconds: float | None) -> None:
        assert Answer(503, headers={"retry-after": value}).retry_after(1000.0) == seconds

    def test_no_retry_after(self) -> None:
        assert Answer(503).retry_after(1000.0) is None


class TestConnecting:
    async def test_nobody_listens(self) -> None:
        async with consuming(keeping) as consumer:
            url = consumer.url()
        async with sending() as transport:
            failure = await failure_of(transport, message(url))
        assert (failure.kind, failure.connecting) == (FailureKind.CONNECT, True)

    @for_each("address", INSIDE)
    async def test_inside_addresses_are_not_connected_to(self, address: str) -> None:
        async with sending(AddressPolicy()) as transport:
            failure = await failure_of(transport, message(url_of(address)))
        assert (failure.kind, failure.connecting) == (FailureKind.FORBIDDEN, False)

    async def test_a_name_that_moves_inside(self) -> None:
        """Public when it was named, and on the first connection; then it points at us."""
        resolver = StubResolver(["127.0.0.1"], ["127.0.0.2"], ["10.0.0.1"])
        policy = AddressPolicy(allow=["127.0.0.1"])
        async with consuming(saying(ACCEPTED), host="0.0.0.0") as consumer:
            async with sending(policy, resolver=resolver) as transport:
                url = consumer.url(host="rebinding.example")
                assert (await transport.send(message(url))).status == 202
                for _ in range(2):
                    failure = await failure_of(transport, message(url))
                    assert failure.kind is FailureKind.FORBIDDEN
            assert consumer.connections == 1
        assert resolver.asked == ["rebinding.example"] * 3

    @pytest.mark.parametrize("count", [200, pytest.param(10_000, marks=pytest.mark.release)])
    async def test_a_name_that_changes_for_every_connection(self, count: int) -> None:
        """A listener at every address of this machine sees which of them are connected to."""
        reached: set[str] = set()

        async def once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            reached.add(writer.get_extra_info("sockname")[0])
            await read_request(reader)
            writer.write(ACCEPTED)

        chance = random.Random(22)
        places = ["127.0.0.1", "127.0.0.2", "::1", "::ffff:127.0.0.2", "10.0.0.1", "0.0.0.0"]
        answers = [chance.choices(places, k=chance.choice((1, 1, 2, 3))) for _ in range(count)]
        sent = 0
        async with consuming(once, host="0.0.0.0") as consumer:
            policy, resolver = AddressPolicy(allow=["127.0.0.1"]), StubResolver(*answers)
            async with sending(policy, resolver=resolver) as transport:
                for _ in range(count):
                    try:
                        await transport.send(message(consumer.url(host="rebinding.example")))
                    except SendFailed as failed:
                        assert failed.kind is FailureKind.FORBIDDEN
                    else:
                        sent += 1
        assert reached == {"127.0.0.1"}
        assert sent == sum(set(answer) == {"127.0.0.1"} for answer in answers) > count / 20

    @pytest.mark.parametrize(
        "addresses",
        [
            ["127.0.0.1", "10.0.0.1"],
            ["10.0.0.1", "127.0.0.1"],
            ["127.0.0.1"] * 30 + ["169.254.169.254"],
            ["127.0.0.1", "::1"],
            ["127.0.0.1", "::ffff:10.0.0.1"],
            ["0.0.0.0"],
        ],
    )
    async def test_one_forbidden_address_forbids_the_name(self, addresses: list[str]) -> None:
        async with consuming(keeping, host="0.0.0.0") as consumer:
            async with sending(resolver=StubResolver(addresses)) as transport:
                failure = await failure_of(transport, message(consumer.url(host="two.example")))
            assert failure.kind is FailureKind.FORBIDDEN
            assert consumer.connections == 0

    async def test_the_name_stays_in_the_host_header(self) -> None:
        seen: list[bytes] = []

        async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            seen.append(await read_request(reader))
            writer.write(ACCEPTED)

        async with consuming(handler) as consumer:
            async with sending(resolver=StubResolver(["127.0.0.1"])) as transport:
                await transport.send(message(consumer.url(host="alias.example")))
            assert f"Host: alias.example:{consumer.port}\r\n".encode() in seen[0]

    async def test_the_next_address_is_tried(self) -> None:
        async with consuming(keeping, host="127.0.0.3") as consumer:
            resolver = StubResolver(["127.0.0.1", "127.0.0.2", "127.0.0.3"])
            async with sending(resolver=resolver) as transport:
                answer = await transport.send(message(consumer.url(host="three.example")))
            assert answer.status == 202

    @pytest.mark.parametrize("answer", [OSError("no such name"), [], None])
    async def test_no_address(self, answer: OSError | list[str] | None) -> None:
        async with sending(resolver=StubResolver(answer), limits=QUICK) as transport:
            failure = await failure_of(transport, message("http://nowhere.example/"))
        assert (failure.kind, failure.connecting) == (FailureKind.NAME, True)

    async def test_the_system_is_asked(self) -> None:
        async with consuming(keeping) as consumer:
            async with sending(AddressPolicy(loopback=True)) as transport:
                url = consumer.url(host="localhost")
                answers = await asyncio.gather(*[transport.send(message(url)) for _ in range(20)])
            assert {answer.status for answer in answers} == {202}

    async def test_nobody_answers_the_call(self) -> None:
        """A listener with a full queue neither takes nor refuses."""
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen(0)
            address = listener.getsockname()
            queued = [socket.socket() for _ in range(4)]
            for one in queued:
                one.setblocking(False)
                one.connect_ex(address)
            async with sending(limits=QUICK) as transport:
                failure = await failure_of(transport, message(f"http://127.0.0.1:{address[1]}/"))
            for one in queued:
                one.close()
        assert (failure.kind, failure.connecting) == (FailureKind.TIMEOUT, True)


class TestTls:
    async def test_a_certificate_of_the_name(self, tmp_path: Path) -> None:
        server, client = server_context(tmp_path, "sink.example")
        async with consuming(keeping, tls=server) as consumer:
            resolver = StubResolver(["127.0.0.1"])
            async with sending(resolver=resolver, tls=client) as transport:
                url = consumer.url(host="sink.example", scheme="https")
                for _ in range(3):
                    assert (await transport.send(message(url))).status == 202
            assert consumer.connections == 1

    async def test_a_certificate_of_another_name(self, tmp_path: Path) -> None:
        server, client = server_context(tmp_path, "other.example")
        async with consuming(keeping, tls=server) as consumer:
            resolver = StubResolver(["127.0.0.1"])
            async with sending(resolver=resolver, tls=client) as transport:
                url = consumer.url(host="sink.example", scheme="https")
                failure = await failure_of(transport, message(url))
        assert (failure.kind, failure.connecting) == (FailureKind.TLS, True)

    async def test_a_certificate_of_nobody_known(self, tmp_path: Path) -> None:
        server, _ = server_context(tmp_path, "sink.example")
        async with (
            consuming(keeping, tls=server) as consumer,
            sending(resolver=StubResolver(["127.0.0.1"])) as transport,
        ):
            url = consumer.url(host="sink.example", scheme="https")
            failure = await failure_of(transport, message(url))
        assert (failure.kind, failure.connecting) == (FailureKind.TLS, True)

    async def test_no_tls_at_all(self) -> None:
        async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(1)
            writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        async with consuming(handler) as consumer, sending() as transport:
            failure = await failure_of(transport, message(consumer.url(scheme="https")))
        assert (failure.kind, failure.connecting) == (FailureKind.TLS, True)

    @pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
    def test_a_handshake_without_end(self, run: Callable[..., SendFailed]) -> None:
        async def exchange() -> SendFailed:
            async with consuming(silent) as consumer, sending(limits=QUICK) as transport:
                return await failure_of(transport, message(consumer.url(scheme="https")))

        failure = run(exchange())
        assert (failure.kind, failure.connecting) == (FailureKind.TIMEOUT, True)


def flooding(first: bytes, again: bytes) -> Handler:
    """Says *first* and then *again* without end."""

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(first)
        while True:
            writer.write(again)
            await writer.drain()

    return handler


def dripping(wire: bytes) -> Handler:
    """Says *wire* at an octet every 10 ms, and the last one for ever."""

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        loop = asyncio.get_running_loop()
        for octet in wire + wire[-1:] * 10_000:
            writer.write(bytes([octet]))
            tick = loop.create_future()
            loop.call_later(0.01, tick.set_result, None)
            await tick

    return handler


OK = b"HTTP/1.1 200 OK\r\n"
FLOODS = {
    "endless header fields": flooding(OK, b"X-A: b\r\n" * 1000),
    "an endless header value": flooding(OK + b"X: ", b"x" * 65536),
    "an endless header name": flooding(OK, b"x" * 65536),
    "an endless reason": flooding(b"HTTP/1.1 200 ", b"x" * (1 << 20)),
    "an endless status line": flooding(b"", b"x" * (1 << 20)),
    "257 header fields": saying(OK + b"A: b\r\n" * 257 + b"\r\n"),
    "a head of 97 KiB": saying(OK + b"A: " + b"b" * 97 * 1024 + b"\r\n\r\n"),
    "an endless body": flooding(OK + b"\r\n", b"x" * (1 << 20)),
    "a body of 100 MiB, announced": flooding(
        OK + b"Content-Length: 104857600\r\n\r\n", b"x" * (1 << 20)
    ),
    "a body of 64 KiB and an octet": saying(
        OK + b"Content-Length: 65537\r\n\r\n" + b"x" * 65537
    ),
    "endless chunks": flooding(
        OK + b"Transfer-Encoding: chunked\r\n\r\n", b"10000\r\n" + b"x" * 65536 + b"\r\n"
    ),
    "endless chunks of one octet": flooding(
        OK + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n" * 10_000
    ),
    "an endless chunk extension": flooding(
        OK + b"Transfer-Encoding: chunked\r\n\r\n1;", b"x" * 65536
    ),
    "an endless chunk size": flooding(OK + b"Transfer-Encoding: chunked\r\n\r\n", b"0" * 65536),
    "endless interim answers": flooding(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 1000),
    "nine interim answers": saying(b"HTTP/1.1 103 Early\r\n\r\n" * 9 + ACCEPTED),
    "a switch of protocols": saying(
        b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n" + ACCEPTED
    ),
    "a switch of protocols unasked": saying(b"HTTP/1.1 101 Switching\r\n\r\n" + ACCEPTED),
    "two lengths": saying(OK + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab"),
    "a length below zero": saying(OK + b"Content-Length: -1\r\n\r\n"),
    "a length past counting": saying(OK + b"Content-Length: 99999999999999999999\r\n\r\n"),
    "no HTTP": saying(b"SSH-2.0-OpenSSH_9.6\r\n"),
    "status 99": saying(b"HTTP/1.1 99 X\r\nContent-Length: 0\r\n\r\n"),
    "status 999": saying(b"HTTP/1.1 999 X\r\nContent-Length: 0\r\n\r\n"),
}  # fmt: skip

DRIPS = {
    "a silent consumer": silent,
    "a status line": dripping(b"HTTP/1.1 200 Okay"),
    "a head": dripping(OK + b"X: y"),
    "a body": dripping(OK + b"Content-Length: 10000\r\n\r\nx"),
    "chunks": dripping(OK + b"Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n2710\r\nx"),
    "a body to the end": dripping(OK + b"\r\nx"),
}


class TestHostileAnswers:
    @for_each("name", FLOODS)
    async def test_a_flood_is_cut(self, name: str) -> None:
        async with consuming(FLOODS[name]) as consumer, sending() as transport:
            failure = await failure_of(transport, message(consumer.url()))
            assert (failure.kind, failure.connecting) == (FailureKind.ANSWER, False)

    @pytest.mark.parametrize("name", DRIPS)
    async def test_a_drip_ends_on_time(self, name: str) -> None:
        async with consuming(DRIPS[name]) as consumer, sending(limits=QUICK) as transport:
            async with asyncio.timeout(DEADLINE):  # By itself a drip would take an hour.
                failure = await failure_of(transport, message(consumer.url()))
        assert (failure.kind, failure.connecting) == (FailureKind.TIMEOUT, False)

    async def test_a_failure_tells_the_status_it_had(self) -> None:
        wire = OK + b"Content-Length: 70000\r\n\r\n" + b"x" * 70000
        async with consuming(saying(wire)) as consumer, sending() as transport:
            assert (await failure_of(transport, message(consumer.url()))).status == 200

    async def test_a_compressed_bomb_stays_small(self) -> None:
        bomb = gzip.compress(b"\0" * (32 << 20))
        wire = OK + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(bomb) + bomb
        async with consuming(saying(wire)) as consumer, sending() as transport:
            answer = await transport.send(message(consumer.url()))
        assert answer == Answer(200, bomb, {"content-encoding": "gzip"})

    async def test_a_hostile_delivery_costs_little_memory(self) -> None:
        """Eight answers of the greatest size, each an octet short of its end."""
        wire = OK + b"Content-Length: 65536\r\nX: " + b"x" * 96_000 + b"\r\n\r\n" + b"x" * 65535
        gate = asyncio.Event()

        async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await read_request(reader)
            writer.write(wire)
            await gate.wait()

        async with consuming(handler) as consumer, sending() as transport:
            requests = [message(consumer.url()) for _ in range(8)]
            tracemalloc.start()
            try:
                before = tracemalloc.get_traced_memory()[0]
                sends = [asyncio.ensure_future(transport.send(request)) for request in requests]
                await asyncio.wait(sends, timeout=0.5)
                held_memory = tracemalloc.get_traced_memory()[0] - before
            finally:
                tracemalloc.stop()
            for send in sends:
                send.cancel()
            await asyncio.wait(sends)
            gate.set()
        assert held_memory / 8 < 256 * 1024

    async def test_a_healthy_consumer_beside_hostile_ones(self) -> None:
        async with (
            sending(limits=ClientLimits(exchange=3600.0)) as transport,
            consuming(FLOODS["an endless body"]) as flood,
            consuming(silent) as hung,
            consuming(keeping) as healthy,
        ):
            floods, hangs = (
                [asyncio.ensure_future(failure_of(transport, message(url))) for _ in range(8)]
                for url in (flood.url(), hung.url())
            )
            async with asyncio.timeout(DEADLINE):
                for _ in range(50):
                    await transport.send(message(healthy.url()))
                assert not any(each.done() for each in hangs)
                kinds = {failure.kind for failure in await asyncio.gather(*floods)}
            for each in hangs:
                each.cancel()
            await asyncio.wait(hangs)
        assert kinds == {FailureKind.ANSWER}
