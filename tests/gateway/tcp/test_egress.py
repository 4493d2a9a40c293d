"""What sends to consumers on SOAP.TCP: what counts as sent, and what becomes of connections."""

import asyncio
import socket
import ssl
from pathlib import Path

import pytest

from gateway.egress import AddressPolicy, ClientLimits
from gateway.egress.soap_tcp_transport import SoapTcpTransport
from gateway.egress.transport import FailureKind, Request, SendFailed
from gateway.security.tls import client_context
from gateway.tcp import SoapTcpConnection
from mediation.model.messages import Attachment
from mediation.model.versions import Soap
from mediation.packaging.dime import DimeMessage, Encoder
from tests.rigs.certificates import Authority
from tests.rigs.soap_tcp import DEADLINE, RawPeer, consuming, envelope, text_of, transporting, until

FAULT = (
    f'<s:Envelope xmlns:s="{Soap.V1_1.value}"><s:Body><s:Fault><faultcode>s:Client</faultcode>'
    "<faultstring>No.</faultstring></s:Fault></s:Body></s:Envelope>"
).encode()


async def fails(transport: SoapTcpTransport, request: Request) -> SendFailed:
    with pytest.raises(SendFailed) as caught:
        async with asyncio.timeout(DEADLINE):
            await transport.send(request)
    return caught.value


class TestMessages:
    async def test_one(self) -> None:
        async with consuming() as consumer, transporting() as transport:
            answer = await transport.send(consumer.request("one", soap=Soap.V1_2))
            assert (answer.status, answer.body) == (202, b"")
            await until(lambda: consumer.messages)
            assert consumer.messages == [DimeMessage(Soap.V1_2, envelope("one", Soap.V1_2))]

    async def test_attachments(self) -> None:
        part = Attachment("cid:a", "text/plain", b"12345")
        async with consuming() as consumer, transporting() as transport:
            request = consumer.request("one")
            await transport.send(
                Request(request.target, request.body, (), attachments=(part,), soap=Soap.V1_1)
            )
            await until(lambda: consumer.messages)
            assert consumer.messages[0].attachments == (part,)

    async def test_many_share_a_connection_in_their_order(self) -> None:
        async with consuming() as consumer, transporting() as transport:
            await transport.send(consumer.request("0"))
            sending = [transport.send(consumer.request(str(n))) for n in range(1, 300)]
            await asyncio.gather(*sending)
            await until(lambda: len(consumer.texts) == 300)
            assert consumer.texts == [str(n) for n in range(300)]
            assert len(consumer.peers) == 1

    async def test_large_ones_use_a_few_connections(self) -> None:
        async with consuming() as consumer, transporting() as transport:
            sending = [transport.send(consumer.request(str(n), filling=600_000)) for n in range(20)]
            async with asyncio.timeout(DEADLINE):
                await asyncio.gather(*sending)
            await until(lambda: len(consumer.texts) == 20)
            assert sorted(consumer.texts, key=int) == [str(n) for n in range(20)]
            assert 1 <= len(consumer.peers) <= 4


class TestFailures:
    async def test_nobody_listens(self) -> None:
        async with consuming() as consumer:
            request = consumer.request("one")
        async with transporting() as transport:
            failure = await fails(transport, request)
            assert (failure.kind, failure.connecting) == (FailureKind.CONNECT, True)

    async def test_the_policy_forbids_it(self) -> None:
        async with consuming() as consumer, transporting(policy=AddressPolicy()) as transport:
            assert (await fails(transport, consumer.request("one"))).kind is FailureKind.FORBIDDEN
            assert not consumer.peers

    async def test_a_consumer_that_never_reads(self) -> None:
        limits = ClientLimits(exchange=0.5)
        async with consuming(reads=False) as consumer, transporting(limits) as transport:
            failure = await fails(transport, consumer.request("one", filling=8_000_000 - 100_000))
            assert (failure.kind, failure.connecting) == (FailureKind.TIMEOUT, False)
            await until(lambda: transport.connections == 0)

    async def test_a_consumer_that_dies_in_the_middle(self) -> None:
        async def die(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readexactly(100)
            await RawPeer(reader, writer).reset()

        async with consuming(die) as consumer, transporting() as transport:
            failure = await fails(transport, consumer.request("one", filling=4_000_000))
            assert (failure.kind, failure.connecting) == (FailureKind.RESET, False)

    async def test_a_cancelled_one_leaves_the_others_alone(self) -> None:
        async with consuming(reads=False) as consumer, transporting() as transport:
            large = asyncio.create_task(transport.send(consumer.request("1", filling=7_000_000)))
            await until(lambda: transport.connections == 1)
            others = [asyncio.create_task(transport.send(consumer.request("2"))) for _ in range(9)]
            large.cancel()
            with pytest.raises(asyncio.CancelledError):
                await large
            async with asyncio.timeout(DEADLINE):
                assert [answer.status for answer in await asyncio.gather(*others)] == [202] * 9

    async def test_closing_ends_what_is_under_way(self) -> None:
        async with consuming(reads=False) as consumer, transporting() as transport:
            request = consumer.request("1", filling=7_000_000)
            sending = [asyncio.create_task(transport.send(request)) for _ in range(6)]
            await until(lambda: transport.connections == 4)
            await transport.close()
            results = await asyncio.gather(*sending, return_exceptions=True)
            assert {type(result) for result in results} == {SendFailed}


class TestKeptConnections:
    async def test_one_that_the_consumer_closed_is_replaced(self) -> None:
        async with consuming() as consumer, transporting() as transport:
            for number in range(4):
                await transport.send(consumer.request(str(number)))
                await until(lambda count=number + 1: len(consumer.texts) == count)  # type: ignore[misc]
                [peer] = consumer.peers[number:]
                # The transport learns of it in the same turn of the loop in which it sends.
                number_of = socket.dup(peer.writer.get_extra_info("socket").fileno())
                with socket.socket(fileno=number_of) as sock:
                    sock.shutdown(socket.SHUT_RDWR)
            assert consumer.texts == ["0", "1", "2", "3"]

    async def test_one_that_the_consumer_reset_is_replaced(self) -> None:
        async with consuming() as consumer, transporting() as transport:
            for number in range(4):
                await transport.send(consumer.request(str(number)))
                await until(lambda count=number + 1: len(consumer.texts) == count)  # type: ignore[misc]
                await consumer.peers[number].reset()
            assert consumer.texts == ["0", "1", "2", "3"]

    async def test_one_that_is_idle_is_closed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("gateway.egress.soap_tcp_transport._SWEEP", 0.05)
        async with consuming() as consumer, transporting(ClientLimits(idle=0.1)) as transport:
            await transport.send(consumer.request("0"))
            await until(lambda: transport.connections == 0)
            await transport.send(consumer.request("1"))
            await until(lambda: consumer.texts == ["0", "1"])
            assert len(consumer.peers) == 2

    async def test_what_a_consumer_writes_is_read(self) -> None:
        taken: list[DimeMessage] = []

        async def take(
            connection: SoapTcpConnection, message: DimeMessage, _: asyncio.Event
        ) -> None:
            taken.append(message)
            connection.write(Encoder().encode(DimeMessage(Soap.V1_1, envelope("answer"))))

        async with consuming() as consumer, transporting(handler=take) as transport:
            await transport.send(consumer.request("0"))
            await until(lambda: consumer.texts == ["0"])
            [peer] = consumer.peers
            await peer.send(Encoder().encode(DimeMessage(Soap.V1_1, FAULT)))
            await until(lambda: transport.faults == 1)
            await peer.send(Encoder().encode(DimeMessage(Soap.V1_1, envelope("question"))))
            await until(lambda: consumer.texts == ["0", "answer"])
            assert [text_of(one.envelope) for one in taken] == ["question"]
            await transport.send(consumer.request("1"))
            await until(lambda: consumer.texts == ["0", "answer", "1"])
            assert len(consumer.peers) == 1

    async def test_one_with_garbage_is_not_used_again(self) -> None:
        async with consuming() as consumer, transporting() as transport:
            await transport.send(consumer.request("0"))
            await until(lambda: consumer.texts == ["0"])
            await consumer.peers[0].send(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            await until(lambda: transport.connections == 0)
            await transport.send(consumer.request("1"))
            await until(lambda: consumer.texts == ["0", "1"])


class TestTls:
    async def test_messages(self, tmp_path: Path) -> None:
        authority = Authority(tmp_path)
        server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        server.load_cert_chain(*authority.issue("localhost"))
        client = client_context(ca=authority.certificate)
        async with consuming(tls=server) as consumer, transporting(tls=client) as transport:
            for number in range(3):
                await transport.send(consumer.request(str(number), filling=300_000))
            await until(lambda: consumer.texts == ["0", "1", "2"])
            assert len(consumer.peers) == 1
            peer = consumer.peers[0]
            await peer.send(Encoder().encode(DimeMessage(Soap.V1_1, FAULT)))
            await until(lambda: transport.faults == 1)
