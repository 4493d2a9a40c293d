"""Sending through a proxy, which is a small true one."""

import asyncio
import contextlib
import ssl
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gateway.egress import (
    AddressPolicy,
    ClientLimits,
    Consumer,
    ConsumerOptions,
    Dialer,
    FailureKind,
    HttpTransport,
    Proxy,
    TransportByScheme,
    parse_target,
)
from gateway.security.issuer_documents import IssuerDocuments
from gateway.security.tls import client_context
from gateway.server.issuer_requests import IssuerRequests
from gateway.settings.settings import SettingsError, read_settings
from tests.gateway.egress.test_consumer_options import failure_of
from tests.rigs import soap_tcp as tcp
from tests.rigs.certificates import Authority
from tests.rigs.gateways import running
from tests.rigs.identity_provider import identity_provider
from tests.rigs.scripted_peers import (
    ACCEPTED,
    QUICK,
    Handler,
    StubResolver,
    consuming,
    keeping,
    message,
    read_request,
    silent,
)
from tests.rigs.soap_tcp import message as message_of
from tests.rigs.soap_tcp import until

OPENED = b"HTTP/1.1 200 Connection established\r\nVia: 1.1 small\r\n\r\n"
ANSWERED = b"HTTP/1.1 %s\r\nContent-Length: 0\r\n\r\n"


class SmallProxy:
    """Forwards to loopback, whatever host is named; with *user* only for who says it.

    Attributes:
        seen: The first line of each request to the proxy itself.
    """

    def __init__(self, user: str = "", opened: bytes = OPENED) -> None:
        self._opened = opened
        self._user = b"Basic " + b64encode(user.encode()) if user else b""
        self.seen: list[bytes] = []
        self.heads: list[bytes] = []

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            self.heads.append(head)
            self.seen.append(line := head.partition(b"\r\n")[0])
            method, url, _ = line.split(b" ")
            if self._user and b"\r\nProxy-Authorization: " + self._user not in head:
                writer.write(ANSWERED % b"407 Proxy Authentication Required")
                if method != b"CONNECT":
                    length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
                    await reader.readexactly(int(length))
                continue
            authority = url if method == b"CONNECT" else url.split(b"/")[2]
            port = int(authority.rpartition(b":")[2])
            try:
                there, back = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                writer.write(ANSWERED % b"502 Bad Gateway")
                continue
            try:
                if method == b"CONNECT":
                    writer.write(self._opened)
                else:
                    path = b"/" + url.split(b"/", 3)[3]
                    back.write(head.replace(url, path, 1))
                pumps = [
                    asyncio.ensure_future(self._pump(*ends))
                    for ends in ((reader, back), (there, writer))
                ]
                await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
                for pump in pumps:
                    pump.cancel()
                await asyncio.wait(pumps)
            finally:
                back.transport.abort()
            return

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while octets := await reader.read(65536):
                writer.write(octets)
                await writer.drain()


async def test_issuers_of_tokens_are_asked_through_it() -> None:
    small = SmallProxy()
    with identity_provider() as provider:
        async with consuming(small) as proxy:
            ask = IssuerRequests(proxy=Proxy("127.0.0.1", proxy.port))
            found = await IssuerDocuments(ask).discover(provider.issuer)
    assert found["issuer"] == provider.issuer and len(small.seen) == 1


@asynccontextmanager
async def sending(
    port: int,
    *rows: dict[str, Any],
    user: str = "",
    host: str = "127.0.0.1",
    resolver: StubResolver | None = None,
    tls: ssl.SSLContext | None = None,
    limits: ClientLimits | None = None,
) -> AsyncIterator[TransportByScheme]:
    """All that sends, through a proxy at *port*."""
    limits = limits or ClientLimits(exchange=10.0)
    dialer = Dialer(
        AddressPolicy(),
        resolver=resolver or StubResolver(OSError("nothing is looked up")),
        limits=limits,
        tls=tls,
        options=ConsumerOptions([Consumer(**row) for row in rows]),
        proxy=Proxy.parse(f"http://{user}@{host}:{port}" if user else f"http://{host}:{port}"),
    )
    http = HttpTransport(dialer, limits=limits)
    transport = TransportByScheme({"http": http, "https": http}, dialer)
    try:
        yield transport
    finally:
        await transport.close()


class TestHttp:
    async def test_in_absolute_form(self) -> None:
        """Names are the proxy's to resolve; a connection to it is kept for its consumer."""
        seen: list[bytes] = []

        async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while True:
                seen.append(await read_request(reader))
                writer.write(ACCEPTED)

        small = SmallProxy()
        async with consuming(handler) as consumer, consuming(small) as proxy:
            async with sending(proxy.port) as transport:
                for _ in range(3):
                    url = consumer.url("/a?b", "consumer.example")
                    assert (await transport.send(message(url))).status == 202
            assert (proxy.connections, len(seen)) == (1, 3)
        named = f"consumer.example:{consumer.port}".encode()
        assert small.seen[0] == b"POST http://" + named + b"/a?b HTTP/1.1"
        assert b"\r\nHost: " + named + b"\r\n" in small.heads[0]
        assert b"Proxy-Authorization" not in small.heads[0]

    async def test_with_a_user(self) -> None:
        async with consuming(keeping) as consumer, consuming(SmallProxy("a:b/c")) as proxy:
            url = consumer.url(host="consumer.example")
            async with sending(proxy.port, user="a:b%2Fc") as transport:
                assert (await transport.send(message(url))).status == 202

    async def test_a_proxy_that_does_not_know_us(self) -> None:
        """Its 407 is no word of the consumer: it must not kill the message."""
        async with consuming(keeping) as consumer, consuming(SmallProxy("a:b")) as proxy:
            async with sending(proxy.port, user="a:wrong") as transport:
                for scheme in ("http", "https"):
                    url = consumer.url(host="consumer.example", scheme=scheme)
                    failure = await failure_of(transport, message(url))
                    assert (failure.kind, failure.connecting) == (FailureKind.CONNECT, True)
            assert consumer.connections == 0

    async def test_a_consumer_knows_nothing_of_the_proxys_user(self, tmp_path: Path) -> None:
        seen: list[bytes] = []

        async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            seen.append(await read_request(reader))
            writer.write(ACCEPTED)

        authority = Authority(tmp_path)
        server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        server.load_cert_chain(*authority.issue("consumer.example"))
        tls = client_context(ca=authority.certificate)
        async with (
            consuming(handler, tls=server) as consumer,
            consuming(SmallProxy("a:b")) as proxy,
            sending(proxy.port, user="a:b", tls=tls) as transport,
        ):
            await transport.send(message(consumer.url("/x", "consumer.example", "https")))
        assert seen[0].startswith(b"POST /x HTTP/1.1\r\nHost: consumer.example:")
        assert b"Proxy" not in seen[0]


class TestTunnel:
    async def test_https(self, tmp_path: Path) -> None:
        """The name is verified at the other end of the tunnel."""
        authority = Authority(tmp_path)
        server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        server.load_cert_chain(*authority.issue("consumer.example"))
        tls = client_context(ca=authority.certificate)
        small = SmallProxy()
        async with (
            consuming(keeping, tls=server) as consumer,
            consuming(small) as proxy,
            sending(proxy.port, tls=tls) as transport,
        ):
            for _ in range(3):
                url = consumer.url("/x", "consumer.example", "https")
                assert (await transport.send(message(url))).status == 202
            failure = await failure_of(
                transport, message(consumer.url("/x", "other.example", "https"))
            )
            assert failure.kind is FailureKind.TLS
            assert small.seen[0] == f"CONNECT consumer.example:{consumer.port} HTTP/1.1".encode()
            assert "certificate of other.example" in failure.detail
            assert "is for consumer.example, not for other.example" in failure.detail
            assert len(small.seen) == 3  # The last one, to see whose certificate it is.

    async def test_plain_octets(self) -> None:
        """What SOAP.TCP dials."""
        received: asyncio.Queue[bytes] = asyncio.Queue()

        async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while octets := await reader.read(100):
                writer.write(octets)

        class Peer(asyncio.Protocol):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                assert isinstance(transport, asyncio.Transport)
                self.transport = transport

            def data_received(self, data: bytes) -> None:
                received.put_nowait(data)

        async with consuming(echo) as consumer, consuming(SmallProxy()) as proxy:
            dialer = Dialer(AddressPolicy(), proxy=Proxy("127.0.0.1", proxy.port))
            target = parse_target(f"soap.tcp://consumer.example:{consumer.port}/x")
            deadline = asyncio.get_running_loop().time() + 60
            peer = await dialer.connect(target, deadline, Peer)
            peer.transport.write(b"hello")
            assert await asyncio.wait_for(received.get(), 60) == b"hello"
            peer.transport.abort()
            dialer.close()

    @pytest.mark.parametrize(
        "opened",
        [
            pytest.param(OPENED, id="plain"),
            pytest.param(b"HTTP/1.0 200\nVia: small\n\n", id="bare LF, no reason"),
            pytest.param(b"HTTP/1.1 102 Wait\r\n\r\n" + OPENED, id="interim"),
            pytest.param(b"HTTP/1.1  200 OK\r\n folded\r\nno field\r\n\r\n", id="odd lines"),
            pytest.param(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 9000 + b"\r\n\r\n", id="long"),
        ],
    )
    async def test_via_goes_through_a_tunnel(self, opened: bytes) -> None:
        small = SmallProxy(opened=opened)
        async with consuming(keeping) as consumer, consuming(small) as proxy:
            row = {"address": "*", "via": f"http://via.example:{consumer.port}"}
            async with sending(proxy.port, row) as transport:
                answer = await transport.send(message("http://consumer.example/x"))
                assert answer.status == 202
        assert small.seen == [f"CONNECT via.example:{consumer.port} HTTP/1.1".encode()]

    @pytest.mark.parametrize(
        ("answer", "kind"),
        [
            pytest.param(ANSWERED % b"403 Forbidden", FailureKind.CONNECT, id="refused"),
            pytest.param(ANSWERED % b"502 Bad Gateway", FailureKind.CONNECT, id="no consumer"),
            pytest.param(b"", FailureKind.CONNECT, id="closed"),
            pytest.param(b"SSH-2.0-x\r\n\r\n", FailureKind.CONNECT, id="no HTTP"),
            pytest.param(b"HTTP/1.1 2000 OK\r\n\r\n", FailureKind.CONNECT, id="no status"),
            pytest.param(b"HTTP/1.1 200 OK\r\n\r\nmore", FailureKind.CONNECT, id="octets after it"),
            pytest.param(
                b"HTTP/1.1 200 OK\r\nX: " + b"x" * 98_400 + b"\r\n\r\n",
                FailureKind.CONNECT,
                id="a long head",
            ),
        ],
    )
    async def test_a_tunnel_that_does_not_open(self, answer: bytes, kind: FailureKind) -> None:
        async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answer)
            await writer.drain()
            writer.write_eof()
            await reader.read()

        async with consuming(proxy) as listening, sending(listening.port) as transport:
            failure = await failure_of(transport, message("https://consumer.example/"))
            assert (failure.kind, failure.connecting) == (kind, True)

    @pytest.mark.parametrize("handler", [silent, None], ids=["silent", "dripping"])
    async def test_deadlines(self, handler: Handler | None) -> None:
        async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while True:
                writer.write(b"H")
                await asyncio.sleep(0.05)

        async with (
            consuming(handler or drip) as proxy,
            sending(proxy.port, limits=QUICK) as transport,
        ):
            async with asyncio.timeout(60.0):  # By itself neither would ever end.
                failure = await failure_of(transport, message("https://consumer.example/"))
            assert (failure.kind, failure.connecting) == (FailureKind.TIMEOUT, True)


class TestPolicy:
    @pytest.mark.parametrize("scheme", ["http", "https"])
    @pytest.mark.parametrize("host", ["127.0.0.1", "10.0.0.1", "169.254.169.254", "localhost"])
    async def test_addresses_are_judged_all_the_same(self, scheme: str, host: str) -> None:
        async with consuming(SmallProxy()) as proxy, sending(proxy.port) as transport:
            failure = await failure_of(transport, message(f"{scheme}://{host}:8080/"))
            assert failure.kind is FailureKind.FORBIDDEN
            assert proxy.connections == 0

    async def test_the_name_of_the_proxy_is_resolved_here(self) -> None:
        resolver = StubResolver(["127.0.0.1"])
        async with (
            consuming(keeping) as consumer,
            consuming(SmallProxy()) as proxy,
            sending(proxy.port, host="proxy.lan", resolver=resolver) as transport,
        ):
            await transport.send(message(consumer.url(host="consumer.example")))
            assert resolver.asked == ["proxy.lan"]

    async def test_no_proxy_there(self) -> None:
        async with consuming(silent) as gone:
            port = gone.port
        async with sending(port) as transport:
            failure = await failure_of(transport, message("http://consumer.example/"))
            assert (failure.kind, failure.connecting) == (FailureKind.CONNECT, True)

    async def test_the_environment_means_nothing(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        small = SmallProxy()
        async with consuming(small) as proxy, consuming(keeping) as consumer:
            for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY", "all_proxy"):
                monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
            monkeypatch.setenv("no_proxy", "")
            async with running(tmp_path / "data") as run:
                transport = run.gateway.transport
                assert (await transport.send(message(consumer.url()))).status == 202
        assert (proxy.connections, consumer.connections) == (0, 1)

    async def test_a_gateway_with_a_proxy(self, tmp_path: Path) -> None:
        small = SmallProxy("user:secret")
        async with consuming(small) as proxy, consuming(keeping) as consumer:
            url = f"http://user:secret@127.0.0.1:{proxy.port}"
            async with running(tmp_path / "data", egress_proxy=url) as run:
                transport = run.gateway.transport
                named = consumer.url(host="consumer.example")
                assert (await transport.send(message(named))).status == 202
                assert "secret" not in repr(run.gateway.settings)
        assert len(small.seen) == 1

    async def test_who_is_behind_it_is_a_stranger(self, tmp_path: Path) -> None:
        """Though the proxy is on an address that is trusted."""
        async with consuming(SmallProxy()) as proxy, tcp.consuming() as consumer:
            url = f"http://127.0.0.1:{proxy.port}"
            async with running(tmp_path / "data", egress_proxy=url, trusted="127.0.0.1") as run:
                await run.gateway.transport.send(consumer.request("one"))
                await until(lambda: bool(consumer.peers))
                await consumer.peers[0].send(message_of("event"))
                await until(lambda: bool(run.gateway.parsing._learnt))


@pytest.mark.parametrize(
    ("url", "proxy"),
    [
        ("http://proxy.lan", Proxy("proxy.lan", 3128)),
        ("http://proxy.lan:8080/", Proxy("proxy.lan", 8080)),
        ("http://[::1]:8080", Proxy("::1", 8080)),
        ("http://u@proxy.lan:80", Proxy("proxy.lan", 80, "Basic dTo=")),
        ("http://u:p%40%3A@proxy.lan:80", Proxy("proxy.lan", 80, "Basic dTpwQDo=")),
    ],
)
def test_urls_of_proxies(url: str, proxy: Proxy) -> None:
    assert Proxy.parse(url) == proxy


@pytest.mark.parametrize(
    "url",
    [
        "", "proxy.lan:3128", "https://u:secret@proxy.lan", "socks5://u:secret@proxy.lan",
        "http://", "http://u:secret@proxy.lan/path", "http://u:secret@proxy.lan?x",
        "http://u:secret@proxy.lan:99999", "http://u:secret@proxy.lan:0", "http://u:s\u00e4@proxy.lan",
        "http://u:secret@proxy lan", "http://u:secret@a@proxy.lan", "http://u:secret@[::1",
    ],
)  # fmt: skip
def test_what_is_no_proxy(url: str) -> None:
    with pytest.raises(SettingsError) as error:
        read_settings(egress_proxy=url)
    assert str(error.value).startswith("egress_proxy: must be ")
    assert "secret" not in str(error.value)
