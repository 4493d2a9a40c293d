"""The listener of SOAP.TCP: exchanges, connections, and what strangers may do to it."""

import asyncio
import socket
import ssl
import struct
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from gateway.http import HttpLimits
from gateway.security.tls import client_context
from gateway.tcp import TcpLimits
from mediation.model.messages import Attachment, Packaging
from mediation.model.versions import Soap
from mediation.packaging.dime import DimeLimits, DimeMessage, Encoder
from tests.rigs.certificates import Authority
from tests.rigs.soap_tcp import DEADLINE, RawPeer, envelope, listening, message, text_of, until

QUICK = TcpLimits(
    head_time=0.3, message_time=0.6, grace=0.3, rate=1000, idle=0.3, write_time=0.3, handshake=0.3
)
MEBIBYTE = 2**20


def chunk(octet: int, data: bytes, type_: bytes = b"") -> bytes:
    head = struct.pack(">BBHHHI", octet, 0x20 if type_ else 0, 0, 0, len(type_), len(data))
    return head + type_ + bytes(-len(type_) % 4) + data + bytes(-len(data) % 4)


FIRST_CHUNK = chunk(0x0D, b"<", Soap.V1_1.value.encode())


class TestExchanges:
    async def test_request_and_reply(self) -> None:
        async with listening() as run:
            peer = await run.peer()
            assert await peer.ask("hello") == "hello"
            [arrived] = run.talk.arrived
            assert arrived.octets == envelope("hello")
            assert arrived.principal.address == "127.0.0.1"
            assert arrived.base == f"soap.tcp://127.0.0.1:{run.port}"
            assert (arrived.path, arrived.declared) == ("", Soap.V1_1)
            assert arrived.packaging is Packaging.NONE

    async def test_the_reply_is_of_the_narrowest_form(self) -> None:
        async with listening() as run:
            peer = await run.peer()
            await peer.send(message("hello"))
            wanted = Encoder().encode(DimeMessage(Soap.V1_1, envelope("hello")))
            assert await asyncio.wait_for(peer.reader.readexactly(len(wanted)), DEADLINE) == wanted

    async def test_each_in_its_version_of_soap(self) -> None:
        async with listening() as run:
            peer = await run.peer()
            for soap in (Soap.V1_2, Soap.V1_1, Soap.V1_2):
                await peer.send(message("hello", soap))
                answer = await peer.receive()
                assert answer.soap is soap
                assert answer.envelope == envelope("hello", soap)
            assert [one.declared for one in run.talk.arrived] == [Soap.V1_2, Soap.V1_1, Soap.V1_2]

    async def test_one_way_is_not_answered(self) -> None:
        async with listening() as run:
            peer = await run.peer()
            await peer.send(message("one-way") + message("hello"))
            assert text_of((await peer.receive()).envelope) == "hello"

    async def test_a_fault_that_relates_to_nothing_is_only_logged(self) -> None:
        async with listening() as run:
            peer = await run.peer()
            await peer.send(message("unrelated") + message("hello"))
            assert text_of((await peer.receive()).envelope) == "hello"
            assert run.server.unrelated_faults == 1

    async def test_pipelined_requests_are_answered_as_they_are_done(self) -> None:
        async with listening() as run:
            peer = await run.peer()
            words = ["wait1", "wait2", "wait3"]
            await peer.send(b"".join(map(message, words)))
            for word in reversed(words):
                run.talk.release(word)
                assert text_of((await peer.receive()).envelope) == word

    async def test_octet_by_octet(self) -> None:
        async with listening() as run:
            peer = await run.peer()
            for octet in message("hello"):
                await peer.send(bytes([octet]))
                await asyncio.sleep(0)
            assert text_of((await peer.receive()).envelope) == "hello"

    async def test_padding_is_not_awaited(self) -> None:
        async with listening() as run:
            peer = await run.peer()
            octets = message("hello ")
            assert octets.endswith(bytes(1))
            await peer.send(octets.rstrip(bytes(1)))
            assert text_of((await peer.receive()).envelope) == "hello "
            await peer.send(bytes(len(octets) - len(octets.rstrip(bytes(1)))) + octets)
            assert text_of((await peer.receive()).envelope) == "hello "

    async def test_attachments(self) -> None:
        nested = Encoder().encode(DimeMessage(Soap.V1_1, envelope("nested")))
        parts = (
            Attachment("cid:a", "text/plain", b"123"),
            Attachment("uuid:b", "urn:c", b""),
            Attachment("cid:d", "application/dime", nested),
        )
        async with listening() as run:
            peer = await run.peer()
            await peer.send(
                Encoder(chunk=50).encode(DimeMessage(Soap.V1_1, envelope("hello"), parts))
            )
            await peer.receive()
            assert run.talk.arrived[0].attachments == parts
            assert run.talk.arrived[0].packaging is Packaging.DIME

    async def test_mtom_in_the_first_record(self) -> None:
        package = (
            b"MIME-Version: 1.0\r\n"
            b'Content-Type: multipart/related; type="application/xop+xml";'
            b' start="<r>"; boundary="b"; start-info="text/xml"\r\n\r\n'
            b"--b\r\nContent-ID: <r>\r\n"
            b'Content-Type: application/xop+xml; charset=utf-8; type="text/xml"\r\n\r\n'
            + envelope("hello")
            + b"\r\n--b\r\nContent-ID: <p>\r\nContent-Type: image/png\r\n\r\n12\r\n--b--\r\n"
        )
        async with listening() as run:
            peer = await run.peer()
            await peer.send(Encoder().encode(DimeMessage(Soap.V1_1, package)))
            assert text_of((await peer.receive()).envelope) == "hello"
            await peer.send(Encoder().encode(DimeMessage(Soap.V1_1, package[:60])))
            assert text_of((await peer.receive()).envelope) == "refused"

    async def test_what_must_not_be_lost_is_told_when_the_peer_has_it(self) -> None:
        async with listening() as run:
            peer = await run.peer()
            assert await peer.ask("take") == "taken"
            await until(lambda: run.talk.handed_over == [True])

    async def test_what_must_not_be_lost_is_told_when_the_peer_has_gone(self) -> None:
        async with listening(replace(QUICK, acknowledged=0.3)) as run:
            peer = await run.peer()
            await peer.send(message("take") + message("one-way"))
            await peer.reset()
            await until(lambda: run.talk.handed_over)
            # The reset may come before the reply is written, or after.
            assert len(run.talk.handed_over) == 1

    async def test_what_a_peer_never_reads_is_not_handed_over(self) -> None:
        async with listening(TcpLimits(acknowledged=0.2)) as run:
            sock = socket.socket()
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            sock.setblocking(False)
            loop = asyncio.get_running_loop()
            await loop.sock_connect(sock, ("127.0.0.1", run.port))
            await loop.sock_sendall(sock, message("large") * 4)
            await until(lambda: len(run.talk.arrived) == 4)
            await loop.sock_sendall(sock, message("take"))
            await until(lambda: run.talk.handed_over == [False])
            sock.close()


class TestConnections:
    async def test_answers_that_are_due_come_after_the_peers_last_octet(self) -> None:
        async with listening() as run:
            peer = await run.peer()
            await peer.send(message("wait1") + message("wait2"))
            peer.writer.write_eof()
            await until(lambda: len(run.talk.arrived) == 2)
            run.talk.release("wait2")
            assert text_of((await peer.receive()).envelope) == "wait2"
            run.talk.release("wait1")
            assert text_of((await peer.receive()).envelope) == "wait1"
            with pytest.raises(EOFError):
                await peer.receive()
            assert not run.server.refused

    async def test_an_idle_one_is_closed_and_another_is_taken(self) -> None:
        async with listening(QUICK) as run:
            peer = await run.peer()
            assert await peer.ask("hello") == "hello"
            assert await peer.ended() == b""
            assert not run.server.refused
            assert await (await run.peer()).ask("again") == "again"

    async def test_one_at_work_is_not_idle(self) -> None:
        async with listening(QUICK) as run:
            peer = await run.peer()
            await peer.send(message("wait"))
            await run.talk.came.wait()
            for _ in range(2):
                idle = await run.peer()
                assert await idle.ask("hello") == "hello"
                assert await idle.ended() == b""
            run.talk.release("wait")
            assert text_of((await peer.receive()).envelope) == "wait"

    async def test_at_most_so_many_are_processed_at_a_time(self) -> None:
        async with listening(TcpLimits(processing=3)) as run:
            peer = await run.peer()
            words = [f"wait{number}" for number in range(10)]
            await peer.send(b"".join(map(message, words)))
            peer.writer.write_eof()
            for number, word in enumerate(words):
                count = min(number + 3, 10)
                await until(partial(run.talk.has_taken, count))
                run.talk.release(word)
                assert text_of((await peer.receive()).envelope) == word
            with pytest.raises(EOFError):
                await peer.receive()
            assert run.talk.most == 3
            assert not run.server.refused

    async def test_a_poll_ends_when_its_peer_goes(self) -> None:
        async with listening() as run:
            peer = await run.peer()
            await peer.send(message("poll"))
            await run.talk.came.wait()
            await peer.reset()
            await until(lambda: run.talk.went == ["poll"])

    async def test_a_server_that_closes_finishes_its_work(self) -> None:
        async with listening() as run:
            busy, idle, halfway = await run.peer(), await run.peer(), await run.peer()
            await busy.send(message("wait"))
            await halfway.send(message("hello")[:70])
            assert await idle.ask("hello") == "hello"
            closing = asyncio.create_task(run.server.close(DEADLINE))
            assert await idle.ended() == b""
            assert await halfway.ended() == b""
            assert not closing.done()
            run.talk.release("wait")
            assert text_of((await busy.receive()).envelope) == "wait"
            await closing
            with pytest.raises(OSError):
                await run.peer()

    async def test_a_server_that_closes_does_not_wait_for_ever(self) -> None:
        async with listening() as run:
            peer = await run.peer()
            await peer.send(message("wait"))
            await run.talk.came.wait()
            await run.server.close(0.05)
            assert await peer.ended() == b""

    async def test_idle_ones_hold_nothing(self) -> None:
        async with listening() as run:
            peer = await run.peer()
            assert await peer.ask("hello") == "hello"
            await until(lambda: not asyncio.all_tasks() - {asyncio.current_task()})
            [connection] = run.server._connections
            assert connection._decoder is None
            assert connection._clock is None


class TestAttacks:
    """Section by section what strangers try; each time the next peer is served."""

    @pytest.mark.parametrize(
        ("octets", "name"),
        [
            (b"POST / HTTP/1.1\r\n\r\n", "HTTP"),
            (b"\x16\x03\x01\x00\x05", "TLS"),
            (b"\x00\x01\x00\x01", ".NET"),
            (b"vnd.sun.ws.tcp", "Sun"),
            (b"\x0e\x10", "media type"),
            (b"\x0e\x40", "unknown"),
            (b"\x0a\x20", "unknown"),
        ],
    )
    async def test_another_protocol(self, octets: bytes, name: str) -> None:
        async with listening() as run:
            assert await run.refused(octets, "not-dime") == b""
            assert await (await run.peer()).ask("hello") == "hello"

    async def test_a_broken_frame_ends_the_connection_without_a_fault(self) -> None:
        async with listening() as run:
            answer = await run.refused(message("hello") + b"GET / HTTP/1.1\r\n", "version")
            assert answer in (b"", message("hello"))
            assert len(run.talk.arrived) == 1

    async def test_four_gibibytes_announced(self) -> None:
        async with listening() as run:
            octets = bytes.fromhex("0e20 0000 0000 0000 ffffffff")
            assert await run.refused(octets, "message_too_long") == b""

    async def test_chunks_without_end(self) -> None:
        limits = TcpLimits(dime=DimeLimits(records=50))
        async with listening(limits) as run:
            await run.refused(FIRST_CHUNK + chunk(0x09, b"x") * 60, "too_many_records")
            await run.refused(FIRST_CHUNK + chunk(0x09, b"") * 60, "too_many_empty")

    async def test_padding_left_out(self) -> None:
        async with listening() as run:
            octets = message("abc")
            stripped = octets.rstrip(bytes(1))
            assert stripped != octets
            await run.refused(stripped * 3, "version")

    async def test_an_id_twice(self) -> None:
        parts = (Attachment("cid:a", "", b"1"), Attachment("cid:a", "", b"2"))
        octets = Encoder().encode(DimeMessage(Soap.V1_1, envelope("hello"), parts))
        async with listening() as run:
            await run.refused(octets, "id_repeated")
            assert not run.talk.arrived

    async def test_what_is_no_soap(self) -> None:
        async with listening() as run:
            octets = message("hello").replace(Soap.V1_1.value.encode(), b"u:" + b"x" * 39)
            assert await run.refused(octets, "not-soap") == b""

    async def test_a_cut_off_message(self) -> None:
        async with listening() as run:
            peer = await run.peer()
            await peer.send(message("hello")[:-20])
            peer.writer.write_eof()
            assert await peer.ended() == b""
            assert run.server.refused == {"truncated": 1}

    @pytest.mark.parametrize("count", [1, 5, 11, 12, 30])
    async def test_a_head_that_does_not_end(self, count: int) -> None:
        async with listening(QUICK) as run:
            await run.refused(message("hello")[:count], "late")

    async def test_a_slow_body(self) -> None:
        async with listening(QUICK) as run:
            peer = await run.peer()
            octets = message("hello", filling=MEBIBYTE)
            await peer.send(octets[:80])
            trickle = asyncio.create_task(_trickle(peer, octets[80:], 0.05, 1))
            assert await peer.ended() == b""
            trickle.cancel()
            assert run.server.refused == {"late": 1}

    async def test_a_steady_body_that_takes_too_long(self) -> None:
        async with listening(replace(QUICK, rate=10)) as run:
            peer = await run.peer()
            octets = message("hello", filling=MEBIBYTE)
            await peer.send(octets[:80])
            trickle = asyncio.create_task(_trickle(peer, octets[80:], 0.05, 1000))
            assert await peer.ended() == b""
            trickle.cancel()
            assert run.server.refused == {"late": 1}

    async def test_a_slow_head_of_a_later_record(self) -> None:
        async with listening(replace(QUICK, message_time=30.0, rate=0.1)) as run:
            peer = await run.peer()
            await peer.send(FIRST_CHUNK)
            idle = await run.peer()
            assert await idle.ask("hello") == "hello"
            assert await idle.ended() == b""  # As long as a head may take.
            assert not run.server.refused
            await peer.send(b"\x08")
            assert await peer.ended() == b""
            assert run.server.refused == {"late": 1}

    async def test_a_message_in_pieces_that_is_in_time(self) -> None:
        async with listening(replace(QUICK, message_time=30.0, grace=5.0, idle=5.0)) as run:
            peer = await run.peer()
            octets = message("hello", filling=2000)
            await _trickle(peer, octets, 0.1, 400)
            assert text_of((await peer.receive()).envelope) == "hello"

    async def test_a_peer_that_does_not_read_is_parted_with_in_time(self) -> None:
        async with listening(replace(QUICK, idle=30.0)) as run:
            peer = await run.peer()
            peer.writer.transport.pause_reading()  # type: ignore[attr-defined]
            await peer.send(message("large") * 8)
            await until(lambda: run.server.refused == {"unread": 1})

    async def test_a_peer_that_does_not_read_fills_no_memory(self) -> None:
        async with listening(TcpLimits(queue=4 * MEBIBYTE)) as run:
            peer = await run.peer()
            peer.writer.transport.pause_reading()  # type: ignore[attr-defined]
            await peer.send(message("large") * 30)
            await until(lambda: run.server.refused == {"unread": 1})

    async def test_connections_of_one_stranger(self) -> None:
        async with listening(admits=HttpLimits(connections_per_address=2)) as run:
            peers = [await run.peer() for _ in range(2)]
            for peer in peers:
                assert await peer.ask("hello") == "hello"
            assert await (await run.peer()).ended() == b""
            assert await (await run.peer(source="127.0.0.2")).ask("hello") == "hello"

    async def test_connections_of_all_strangers(self) -> None:
        async with listening(admits=HttpLimits(connections=2)) as run:
            busy, quiet = await run.peer(), await run.peer()
            await busy.send(message("wait"))
            await run.talk.came.wait()
            assert await quiet.ask("hello") == "hello"
            assert await (await run.peer()).ask("hello") == "hello"
            assert await quiet.ended() == b""
            run.talk.release("wait")
            assert text_of((await busy.receive()).envelope) == "wait"

    async def test_trusted_peers_are_not_counted(self) -> None:
        limits = HttpLimits(connections=1, connections_per_address=1)
        async with listening(admits=limits, trusted=("127.0.0.0/8",)) as run:
            peers = [await run.peer() for _ in range(5)]
            for peer in peers:
                assert await peer.ask("hello") == "hello"
            assert run.talk.arrived[0].principal.stranger is None


async def _trickle(peer: RawPeer, octets: bytes, pause: float, step: int) -> None:
    """Send as a peer on a slow line does."""
    for start in range(0, len(octets), step):
        await peer.send(octets[start : start + step])
        await asyncio.sleep(pause)


class TestTls:
    @pytest.fixture
    def contexts(self, tmp_path: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
        authority = Authority(tmp_path)
        certificate, key = authority.issue("localhost")
        server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        server.load_cert_chain(certificate, key)
        return server, client_context(ca=authority.certificate)

    async def test_an_exchange(self, contexts: tuple[ssl.SSLContext, ssl.SSLContext]) -> None:
        server, client = contexts
        async with listening(tls=server) as run:
            peer = await run.peer(tls=client)
            for number in range(3):
                assert await peer.ask(f"hello{number}") == f"hello{number}"
            assert await peer.ask("take") == "taken"
            await until(lambda: run.talk.handed_over == [True])

    async def test_what_came_before_the_end_is_taken(
        self, contexts: tuple[ssl.SSLContext, ssl.SSLContext]
    ) -> None:
        server, client = contexts
        async with listening(TcpLimits(processing=3), tls=server) as run:
            peer = await run.peer(tls=client)
            words = [f"wait{number}" for number in range(20)]
            await peer.send(b"".join(map(message, words)))
            await until(partial(run.talk.has_taken, 3))
            closing = asyncio.create_task(peer.close())  # It waits until it is heard.
            for word in words:
                run.talk.release(word)
            await until(partial(run.talk.has_taken, 20))
            await closing

    async def test_a_handshake_is_counted_and_bounded(
        self, contexts: tuple[ssl.SSLContext, ssl.SSLContext]
    ) -> None:
        server, _ = contexts
        async with listening(QUICK, tls=server) as run:
            peer = await run.peer()
            await until(lambda: run.server.gate.connections == 1)
            await peer.send(b"\x16\x03")
            await peer.ended()
            await until(lambda: run.server.gate.connections == 0)
