"""SOAP.TCP through a running gateway: clients, consumers, and both with those of HTTP."""

import asyncio
import contextlib
import re
import socket
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import pytest

from gateway.client import Client, Consumer, GatewayError, base_url, subscribed
from gateway.client.soap_tcp import SoapTcpConsumer
from gateway.security.tls import client_context
from mediation.client import SPECS, read_answer, write_publish, write_unsubscribe
from mediation.mailboxes.kept import relates_to
from mediation.model.versions import Soap, Version
from mediation.packaging.dime import DimeMessage, Encoder
from tests.rigs.certificates import Authority
from tests.rigs.gateways import Running, running
from tests.rigs.soap_tcp import DEADLINE, RawPeer, until

VERSIONS = [Version.WSE_2004_08, Version.WSN_1_3]
STORM = b'<w:storm xmlns:w="urn:weather"><w:speed>%d</w:speed></w:storm>'

_SPEED = re.compile(rb"speed>([0-9]+)<")


@dataclass
class OnTcp:
    """A gateway that listens on SOAP.TCP, too."""

    run: Running
    port: int
    tls: ssl.SSLContext | None = None

    @property
    def url(self) -> str:
        return f"soap.tcp{'s' if self.tls else ''}://127.0.0.1:{self.port}"


@contextlib.asynccontextmanager
async def on_tcp(
    data: Path, server: ssl.SSLContext | None = None, client: ssl.SSLContext | None = None
) -> AsyncIterator[OnTcp]:
    async with running(data) as run:
        sock = socket.socket()
        sock.bind(("127.0.0.1", 0))
        await run.gateway.application.listen(
            sock, "soap.tcp" if server is None else "soap.tcps", server
        )
        yield OnTcp(run, sock.getsockname()[1], client)


async def speeds(consumer: Consumer | SoapTcpConsumer, count: int) -> list[bytes]:
    """What the next *count* notifications say."""
    found: list[bytes] = []
    async with asyncio.timeout(DEADLINE):
        while len(found) < count:
            arrived = await consumer.receive()
            found += [_SPEED.findall(one.payload)[0] for one in arrived.notifications]
    return found


class TestNotifications:
    @pytest.mark.parametrize("version", VERSIONS)
    async def test_all_over_tcp(self, tmp_path: Path, version: Version) -> None:
        async with (
            on_tcp(tmp_path) as gateway,
            Client(gateway.url, version) as client,
            SoapTcpConsumer() as consumer,
        ):
            async with subscribed(client, consumer.address, topic="storms") as held:
                assert held.subscription.manager.address.startswith(f"{gateway.url}/subscriptions/")
                for speed in range(20):
                    await client.publish(STORM % speed, topic="storms")
                assert await speeds(consumer, 20) == [b"%d" % speed for speed in range(20)]
                renewed = await client.renew(held.subscription, timedelta(minutes=5))
                assert renewed.expires is not None
            assert held.is_over

    @pytest.mark.parametrize("version", VERSIONS)
    async def test_from_http_to_tcp_and_back(self, tmp_path: Path, version: Version) -> None:
        async with (
            on_tcp(tmp_path) as gateway,
            Client(gateway.url, version) as on_tcp_,
            Client(gateway.run.url, VERSIONS[version is VERSIONS[0]]) as on_http,
            SoapTcpConsumer() as first,
            Consumer() as second,
            subscribed(on_tcp_, first.address, topic="storms"),
            subscribed(on_http, second.address, topic="storms"),
        ):
            await on_http.publish(STORM % 1, topic="storms")
            assert await speeds(first, 1) == await speeds(second, 1) == [b"1"]
            await on_tcp_.publish(STORM % 2, topic="storms")
            assert await speeds(first, 1) == await speeds(second, 1) == [b"2"]

    async def test_over_tls(self, tmp_path: Path) -> None:
        authority = Authority(tmp_path)
        server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        server.load_cert_chain(*authority.issue("127.0.0.1"))
        client_tls = client_context(ca=authority.certificate)
        async with (
            on_tcp(tmp_path / "data", server, client_tls) as gateway,
            Client(gateway.url, tls=client_tls) as client,
            SoapTcpConsumer() as consumer,
            subscribed(client, consumer.address),
        ):
            await client.publish(STORM % 1)
            assert await speeds(consumer, 1) == [b"1"]

    async def test_a_consumer_that_does_not_read_gets_all_when_it_does(
        self, tmp_path: Path
    ) -> None:
        async with (
            on_tcp(tmp_path) as gateway,
            Client(gateway.url) as client,
            SoapTcpConsumer(waiting=1) as consumer,
            subscribed(client, consumer.address),
        ):
            for speed in range(60):
                await client.publish(STORM % speed)
            assert await speeds(consumer, 60) == [b"%d" % speed for speed in range(60)]

    async def test_to_says_what_an_event_is_about(self, tmp_path: Path) -> None:
        """Whatever host it names: WSE has logical addresses."""
        spec = SPECS[Version.WSE_2004_08]
        async with (
            on_tcp(tmp_path) as gateway,
            Client(gateway.url) as client,
            Consumer() as consumer,
            subscribed(client, consumer.address, topic="storms"),
            await RawPeer.connect(gateway.port) as peer,
        ):
            for number, topic in enumerate(("tides", "storms")):
                _, body = write_publish(
                    spec,
                    to=f"soap://weather.example.com/soap/topic/{topic}",
                    payload=STORM % number,
                    message_id=f"urn:uuid:{number}",
                )
                await peer.send(Encoder().encode(DimeMessage(spec.soap, body)))
            assert await speeds(consumer, 1) == [b"1"]

    async def test_to_says_which_subscription_is_meant(self, tmp_path: Path) -> None:
        async with (
            on_tcp(tmp_path) as gateway,
            Client(gateway.url) as client,
            SoapTcpConsumer() as consumer,
        ):
            granted = await client.subscribe(consumer.address)
            path = granted.manager.address.removeprefix(gateway.url)
            manager = replace(granted.manager, address=f"soap://logical{path}", parameters=())
            async with await RawPeer.connect(gateway.port) as peer:
                spec = SPECS[Version.WSN_1_3]
                _, body = write_unsubscribe(spec, manager, message_id="urn:uuid:1")
                await peer.send(Encoder().encode(DimeMessage(spec.soap, body)))
                answer = await peer.receive()
                assert relates_to(answer.envelope) == "urn:uuid:1"
                assert b"UnsubscribeResponse" in answer.envelope

    async def test_one_way_messages_keep_their_order(self, tmp_path: Path) -> None:
        async with (
            on_tcp(tmp_path) as gateway,
            Client(gateway.url) as client,
            Consumer() as consumer,
            subscribed(client, consumer.address),
            await RawPeer.connect(gateway.port) as peer,
        ):
            spec, octets = SPECS[Version.WSN_1_3], b""
            for number in range(60):
                payload = (STORM % number).replace(
                    b"</w:storm>", b"<w:f>%b</w:f></w:storm>" % (b"x" * (number % 3 * 15_000))
                )
                _, body = write_publish(
                    spec, to=gateway.url, payload=payload, message_id=f"urn:uuid:{number}"
                )
                octets += Encoder().encode(DimeMessage(spec.soap, body))
            await peer.send(octets)
            assert await speeds(consumer, 60) == [b"%d" % number for number in range(60)]


class TestRefusals:
    async def test_a_fault_is_told_to_the_request_that_it_is_about(self, tmp_path: Path) -> None:
        async with on_tcp(tmp_path) as gateway, Client(gateway.url) as client:
            consumer = "soap.tcp://192.0.2.1:1/"
            results = await asyncio.gather(
                client.subscribe(consumer, topic="a"),
                client.subscribe("http://169.254.169.254/", topic="b"),
                client.subscribe("http://127.0.0.1:8099/", xpath="count("),
                return_exceptions=True,
            )
            assert all(isinstance(result, GatewayError) for result in results), results

    @pytest.mark.parametrize("declared", list(Soap))
    async def test_a_type_that_says_another_version_of_soap(
        self, tmp_path: Path, declared: Soap
    ) -> None:
        async with on_tcp(tmp_path) as gateway, await RawPeer.connect(gateway.port) as peer:
            written = Soap.V1_2 if declared is Soap.V1_1 else Soap.V1_1
            spec = replace(SPECS[Version.WSN_1_3], form=written)
            _, body = write_publish(
                spec, to=gateway.url, payload=STORM % 1, message_id="urn:uuid:1", topic="storms"
            )
            await peer.send(Encoder().encode(DimeMessage(declared, body)))
            answer = await peer.receive()
            assert answer.soap is declared
            assert b"VersionMismatch" in answer.envelope
            assert relates_to(answer.envelope) == "urn:uuid:1"
            with pytest.raises(Exception, match=r"(?i)version|envelope"):
                read_answer(answer.envelope)

    async def test_a_one_way_message_without_an_id_is_not_answered(self, tmp_path: Path) -> None:
        async with on_tcp(tmp_path) as gateway:
            [server] = gateway.run.gateway.application.tcp
            async with await RawPeer.connect(gateway.port) as peer:
                envelope = (
                    f'<s:Envelope xmlns:s="{Soap.V1_1.value}"><s:Body/></s:Envelope>'.encode()
                )
                await peer.send(Encoder().encode(DimeMessage(Soap.V1_1, envelope)))
                await until(lambda: server.unrelated_faults == 1)
                peer.writer.write_eof()
                with pytest.raises(EOFError):
                    await peer.receive()

    async def test_nobody_there(self) -> None:
        with socket.socket() as sock:
            sock.bind(("127.0.0.1", 0))
            url = f"soap.tcp://127.0.0.1:{sock.getsockname()[1]}"
            async with Client(url) as client:
                with pytest.raises(GatewayError, match="refused"):
                    await client.publish(STORM % 1)

    async def test_an_answer_that_does_not_come(self) -> None:
        async def ignore(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read()
            writer.close()
            await writer.wait_closed()
            closed.set()

        closed = asyncio.Event()
        server = await asyncio.start_server(ignore, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with server, Client(f"soap.tcp://127.0.0.1:{port}", timeout=0.2) as client:
            with pytest.raises(GatewayError, match="no answer"):
                await client.subscribe("http://127.0.0.1:8099/")
        await asyncio.wait_for(closed.wait(), DEADLINE)

    async def test_an_end_before_the_answer(self) -> None:
        async def close(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(100)
            writer.close()
            await writer.wait_closed()

        server = await asyncio.start_server(close, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with server, Client(f"soap.tcp://127.0.0.1:{port}") as client:
            with pytest.raises(GatewayError, match="without an answer"):
                await client.subscribe("http://127.0.0.1:8099/")

    def test_administration_is_not_spoken_there(self) -> None:
        with pytest.raises(GatewayError):
            base_url("soap.tcp://127.0.0.1:8081")
