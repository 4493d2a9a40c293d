"""What happens between two lines: ends, losses and refusals of connections at the worst moment."""

import asyncio
import contextlib
import os
import resource
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Sequence
from ipaddress import ip_address
from pathlib import Path

import pytest

from gateway.client import Client
from gateway.delivery.verdicts import Verdict
from gateway.egress import MAX_HOPS, AddressPolicy, Dialer, IPAddress, hops_header, parse_target
from gateway.egress.soap_tcp_transport import SoapTcpTransport
from gateway.egress.transport import Answer, Request, SendFailed
from gateway.parsing import Parsing
from gateway.tcp import SoapTcpConnection, TcpLimits
from mediation.model.versions import Soap, Version
from mediation.packaging.dime import DimeMessage, Encoder
from tests.rigs.certificates import Authority
from tests.rigs.envelopes import Speaker
from tests.rigs.gateways import running
from tests.rigs.soap_tcp import (
    RawPeer,
    ScriptedConsumer,
    consuming,
    listening,
    message,
    text_of,
    transporting,
    until,
)

SOON = 30.0


def context(folder: Path) -> ssl.SSLContext:
    found = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    found.load_cert_chain(*Authority(folder).issue("localhost"))
    return found


@contextlib.asynccontextmanager
async def soon() -> AsyncIterator[None]:
    async with asyncio.timeout(SOON):
        yield


async def test_an_answer_written_as_the_peer_ends_its_side_goes_out() -> None:
    """Both may happen in one turn of the loop, before what was written is given to the system."""
    async with listening() as run:
        peer = await run.peer()
        assert await peer.ask("one") == "one"
        [connection] = run.server._connections
        assert connection.write(message("late"))
        if not connection.eof_received():  # As the event loop does it.
            assert connection._transport is not None
            connection._transport.close()
        async with soon():
            assert text_of((await peer.receive()).envelope) == "late"


async def test_what_comes_after_an_abort_is_not_taken() -> None:
    async with listening(TcpLimits(processing=1)) as run:
        peer = await run.peer()
        await peer.send(message("wait") + message("more") + message("more"))
        await until(lambda: run.talk.has_taken(1))
        [connection] = run.server._connections
        connection.abort()
        await until(lambda: not run.server.connections)
        run.talk.release("wait")
        await until(lambda: not run.talk.working)
        assert (
            await (await run.peer()).ask("hello") == "hello"
        )  # What came before has had its turn.
        assert len(run.talk.arrived) == 2


async def test_a_reset_while_much_is_waiting_ends_nothing_else() -> None:
    async with listening(TcpLimits(processing=2)) as run:
        peer = await run.peer()
        await peer.send(b"".join([message("wait"), *(message("one-way") for _ in range(40))]))
        await until(lambda: len(run.talk.arrived) >= 2)
        await peer.reset()
        run.talk.release("wait")
        other = await run.peer()
        assert await other.ask("one") == "one"
        await until(lambda: not run.talk.working)


async def lingering(
    transport: SoapTcpTransport, consumer: ScriptedConsumer
) -> asyncio.Task[object]:
    """Let a connection stay only for what is on its way: the consumer ended its side, and reads
    nothing."""
    sending = asyncio.ensure_future(transport.send(consumer.request("1", filling=7_000_000)))
    await until(lambda: consumer.peers and transport.connections == 1)
    consumer.peers[0].writer.write_eof()
    await until(lambda: transport.connections == 0)
    return sending


async def test_a_connection_that_ends_late_forgets_no_others() -> None:
    async with consuming(reads=False) as consumer, transporting() as transport:
        sending = await lingering(transport, consumer)
        await transport.send(consumer.request("2"))
        await consumer.peers[1].reset()
        await until(lambda: transport.connections == 0)
        await transport.send(consumer.request("3"))
        assert transport.connections == 1
        await consumer.peers[0].reset()
        with contextlib.suppress(SendFailed):
            await sending
        assert transport.connections >= 1
        await transport.send(consumer.request("4"))
        assert len(consumer.peers) <= 4


async def test_closing_ends_connections_that_linger_too() -> None:
    async with consuming(reads=False) as consumer, transporting() as transport:
        sending = await lingering(transport, consumer)
        await transport.close()
        async with soon():
            with pytest.raises(SendFailed):
                await sending


async def test_what_is_given_up_while_it_is_sent_again_is_not_sent() -> None:
    async with consuming(reads=False) as consumer, transporting() as transport:
        await transport.send(consumer.request("0"))
        told: list[Answer | SendFailed] = []
        lane = transport.lane(consumer.request("").target)
        assert lane is not None
        first = lane.post(consumer.request("1", filling=1_900_000), told.append)
        second = lane.post(consumer.request("2"), told.append)
        assert first is not None
        assert second is not None
        await consumer.peers[0].reset()
        await until(lambda: len(consumer.peers) == 2)
        second.cancel()
        async with soon():
            await until(lambda: len(told) == 2)
        assert all(isinstance(outcome, SendFailed) for outcome in told)
        consumer.reads = True
        [_, again] = consumer.peers
        serving = asyncio.create_task(consumer.serve(again.reader, again.writer))
        await transport.send(consumer.request("3"))
        await until(lambda: "3" in consumer.texts)
        assert "2" not in consumer.texts
        serving.cancel()


class Breaking:
    """A resolver that breaks in a way that nobody thought of, the second time."""

    def __init__(self) -> None:
        self.asked = 0

    async def resolve(self, host: str) -> Sequence[IPAddress]:
        self.asked += 1
        if self.asked > 1:
            raise RuntimeError(host)
        return [ip_address("127.0.0.1")]

    def close(self) -> None:
        """There is nothing to let go of."""


async def test_what_cannot_be_sent_again_for_any_reason_is_told() -> None:
    dialer = Dialer(AddressPolicy(loopback=True), resolver=Breaking())
    transport = SoapTcpTransport(dialer)
    async with consuming(reads=False) as consumer:
        target = parse_target(f"soap.tcp://localhost:{consumer.port}/")
        request = Request(target, consumer.request("1", filling=7_000_000).body, ())
        await transport.send(Request(target, b"<e/>", ()))
        told: list[Answer | SendFailed] = []
        lane = transport.lane(target)
        assert lane is not None
        assert lane.post(request, told.append)
        assert lane.post(Request(target, b"<e/>", ()), told.append)
        await consumer.peers[0].reset()
        async with soon():
            await until(lambda: len(told) == 2)
        assert all(isinstance(outcome, SendFailed) for outcome in told)
    await transport.close()
    dialer.close()


async def test_stopping_does_not_wait_for_handshakes(tmp_path: Path) -> None:
    async with listening(tls=context(tmp_path)) as run:
        silent = await RawPeer.connect(run.port)
        await until(lambda: run.server.connections == 1)
        async with soon():
            await run.server.close(60.0)
        assert await silent.ended() == b""
        await silent.close()


async def test_a_handshake_without_a_descriptor_leaves_nothing_behind(tmp_path: Path) -> None:
    """Where there are no descriptors left, who is refused is not counted for ever."""
    async with listening(tls=context(tmp_path)) as run:
        sock = socket.socket()
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        spare = os.dup(0)  # That of the connection which is accepted.
        # asyncio's own loop says that it could not accept another one.
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        resource.setrlimit(resource.RLIMIT_NOFILE, (spare + 1, hard))
        os.close(spare)
        try:
            sock.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                sock.connect(("127.0.0.1", run.port))
            for _ in range(20):  # Not every event loop tells that it could not accept.
                await asyncio.sleep(0.01)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        await until(lambda: not run.server.gate.connections)
        assert not run.server.connections
        sock.close()


def fault(names: int, salt: str) -> bytes:
    made = "".join(f"<{salt}{number}/>" for number in range(names))
    body = f"<f:Fault><faultcode>Server</faultcode>{made}</f:Fault>"
    octets = f'<f:Envelope xmlns:f="{Soap.V1_1.value}"><f:Body>{body}</f:Body></f:Envelope>'
    return Encoder().encode(DimeMessage(Soap.V1_1, octets.encode()))


async def test_names_in_the_faults_of_consumers_are_counted() -> None:
    """What libxml2 never forgets: of small ones by number, of large ones with their thread."""
    parsing = Parsing()
    dialer = Dialer(AddressPolicy(loopback=True))
    transport = SoapTcpTransport(dialer, parsing=parsing)
    async with consuming() as consumer:
        await transport.send(consumer.request("0"))
        await until(lambda: consumer.texts)
        await consumer.peers[0].send(fault(100, "small") + fault(4000, "large"))
        await until(lambda: transport.faults == 2)
        learnt = parsing.names_learnt
        assert 100 <= learnt < 4000
        await consumer.peers[0].send(fault(100, "broken").replace(b"Envelope>", b"Envelopf>"))
        await until(lambda: parsing.names_learnt > learnt)
    await transport.close()
    dialer.close()
    parsing.close()


async def test_what_waits_for_a_consumer_ends_when_it_goes() -> None:
    waits, went = list[str](), list[str]()

    async def wait(_: SoapTcpConnection, message: DimeMessage, gone: asyncio.Event) -> None:
        waits.append(text_of(message.envelope))
        await gone.wait()
        went.append(text_of(message.envelope))

    async with consuming() as consumer, transporting(handler=wait) as transport:
        await transport.send(consumer.request("0"))
        await until(lambda: consumer.texts)
        await consumer.peers[0].send(message("poll"))
        await until(lambda: waits)
        assert not went
        await consumer.peers[0].reset()
        await until(lambda: went == ["poll"])


async def test_a_loop_of_gateways_ends(tmp_path: Path) -> None:
    """What HTTP says in headers, the id of DIME's first record says."""
    async with (
        running(tmp_path, soap_tcp_port=0, deliver_to_self=True) as run,
        Client(run.url, Version.WSE_2004_08) as client,
        transporting() as transport,
    ):
        await client.subscribe(f"soap.tcp://127.0.0.1:{run.soap_tcp_port}/", topic="storms")
        await client.publish(b"<storm/>", topic="storms")
        await until(lambda: run.gateway.publishing.repeated == 1)
        assert run.gateway.dispatchers.scheduler.verdicts[Verdict.DELIVERED] == 1
        # Without an origin the hop count ends it.
        target = parse_target(f"soap.tcp://127.0.0.1:{run.soap_tcp_port}/")
        envelope = Speaker().envelope("<storm/>")
        for hops in (MAX_HOPS - 1, MAX_HOPS - 2):
            await transport.send(Request(target, envelope, (hops_header(hops),), soap=Soap.V1_2))
        await until(lambda: run.gateway.publishing.accepted == 2)
        assert run.gateway.soap.refusals["loop"] == 1


async def test_what_a_reset_connection_never_took_is_sent_again() -> None:
    """The loop learns of the reset when it writes: the system has nothing of that, and nothing is
    on its way."""
    async with transporting() as transport:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            target = parse_target(f"soap.tcp://127.0.0.1:{listener.getsockname()[1]}/")
            await transport.send(Request(target, b"<e>0</e>", ()))
            lane = transport.lane(target)
            assert lane is not None
            first, _ = listener.accept()
            first.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            first.close()
            told: list[Answer | SendFailed] = []
            assert lane.post(Request(target, b"<e>1</e>", ()), told.append)
            await until(lambda: told)
            assert told == [Answer(202)]
            listener.settimeout(SOON)
            with listener.accept()[0] as second:
                assert b"<e>1</e>" in second.recv(4096)
