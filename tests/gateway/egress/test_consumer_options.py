"""What an operator says of consumers: which row counts, and what it does on the wire."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from gateway.egress import (
    AddressPolicy,
    Answer,
    ClientLimits,
    Consumer,
    ConsumerOptions,
    Dialer,
    FailureKind,
    HttpTransport,
    Options,
    Request,
    SendFailed,
    Target,
    TransportByScheme,
    parse_target,
)
from gateway.egress.consumer_options import PLAIN
from gateway.egress.dialing import Route
from gateway.egress.soap_tcp_transport import SoapTcpTransport
from gateway.model.host_decisions import Decision, HostDecision, HostDecisions
from gateway.security.tls import TlsError
from mediation.model.messages import Attachment, Packaging
from tests.rigs.cases import for_each
from tests.rigs.certificates import Authority
from tests.rigs.scripted_peers import (
    ACCEPTED,
    StubResolver,
    consuming,
    keeping,
    message,
    read_request,
    saying,
)


@asynccontextmanager
async def sending(
    *rows: dict[str, Any], resolver: StubResolver | None = None, ca: Path | None = None
) -> AsyncIterator[TransportByScheme]:
    """All that sends, with *rows* of settings."""
    limits = ClientLimits(exchange=10.0)
    dialer = Dialer(
        AddressPolicy(allow=["127.0.0.0/8"]),
        resolver=resolver,
        limits=limits,
        options=ConsumerOptions([Consumer(**row) for row in rows], ca=ca),
    )
    http = HttpTransport(dialer, limits=limits)
    transport = TransportByScheme({"http": http, "https": http}, dialer)
    try:
        yield transport
    finally:
        await transport.close()


async def failure_of(transport: TransportByScheme, request: Request) -> SendFailed:
    with pytest.raises(SendFailed) as failure:
        await transport.send(request)
    return failure.value


def marked(*addresses: str) -> ConsumerOptions:
    """Rows for *addresses*, the n-th of which has the mark n."""
    return ConsumerOptions(
        Consumer(address=address, max_message=n) for n, address in enumerate(addresses, 1)
    )


class TestPatterns:
    @for_each(
        ("pattern", "address", "fits"),
        [
            ("host.example", "http://host.example/", True),
            ("host.example", "https://host.example:8443/a?b", True),
            ("HOST.example", "soap.tcp://host.example:9000", True),
            ("host.example", "http://other.example/", False),
            ("host.example", "http://a.host.example/", False),
            ("http://host.example", "https://host.example/", False),
            ("*", "http://host.example/", True),
            ("https://*", "http://host.example/", False),
            ("*.example", "http://a.b.example/", True),
            ("*.example", "http://example/", False),
            ("*.example", "http://aexample/", False),
            ("host.example:80", "http://host.example/", True),
            ("host.example:80", "http://host.example:8080/", False),
            ("host.example/a", "http://host.example/a", True),
            ("host.example/a/", "http://host.example/a?b", True),
            ("host.example/a", "http://host.example/a/b", True),
            ("host.example/a", "http://host.example/ab", False),
            ("host.example/a", "http://host.example/?x=/a", False),
            ("10.0.0.1", "http://10.0.0.1/", True),
            ("[2001:db8::1]:8080", "http://[2001:db8::1]:8080/", True),
            ("[2001:db8::1]", "http://[2001:db8::2]/", False),
        ],
    )
    def test_a_pattern(self, pattern: str, address: str, fits: bool) -> None:
        options = marked(pattern)
        for _ in range(2):  # the second answer is remembered
            assert (options.of(parse_target(address)) is not PLAIN) == fits

    @pytest.mark.parametrize(
        ("address", "row"),
        [
            ("http://a.b.example:8080/x/y", 7),
            ("http://a.b.example:8080/x", 6),
            ("http://a.b.example:8080/", 5),
            ("http://a.b.example/", 4),
            ("http://c.b.example:8080/x/y", 3),
            ("http://c.example/", 2),
            ("http://c.test/", 1),
        ],
    )
    @pytest.mark.parametrize("backwards", [False, True])
    def test_the_most_specific_row_counts(self, address: str, row: int, backwards: bool) -> None:
        patterns = [
            "*", "*.example", "*.b.example", "a.b.example", "a.b.example:8080",
            "a.b.example:8080/x", "a.b.example:8080/x/y",
        ]  # fmt: skip
        options = marked(*(reversed(patterns) if backwards else patterns))
        found = options.of(parse_target(address)).max_message
        assert found == (len(patterns) + 1 - row if backwards else row)

    @for_each(
        "row",
        [
            {"address": ""},
            {"address": "http://"},
            {"address": "ftp://host.example"},
            {"address": "a*.example"},
            {"address": "host.example", "http": "2"},
            {"address": "host.example", "attachments": "zip"},
            {"address": "host.example", "via": "host.example"},
            {"address": "host.example", "via": "http://host.example/path"},
            {"address": "host.example", "via": "http://127.1/"},
            {"address": "host.example", "via": "http://host.example:65536"},
            {"address": "host.example", "max_message": 0},
            {"address": "host.example", "client_key": "key.pem"},
            {"address": "host.example", "server_name": "a b"},
            {"address": "host.example", "acknowledgements": "nowhere"},
            {"address": "host.example", "htttp": "1.0"},
            {"http": "1.0"},
        ],
    )
    def test_a_bad_row(self, row: dict[str, Any]) -> None:
        with pytest.raises(ValidationError):
            Consumer(**row)

    def test_what_is_remembered_is_bounded(self) -> None:
        options = marked("*")
        targets = [parse_target(f"http://host.example/{n}") for n in range(5000)]
        assert {options.of(target).max_message for target in targets} == {1}
        assert len(options._known) <= 4096

    def test_without_rows_nothing_is_looked_up(self) -> None:
        options = ConsumerOptions()
        assert options.of(parse_target("http://host.example/")) is PLAIN
        assert Options().http == "1.1"
        assert not options._known


KEPT_1_0 = b"HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 0\r\n\r\n"


class TestHttp10:
    async def test_on_the_wire(self) -> None:
        seen: list[bytes] = []

        async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            seen.append(await read_request(reader))
            writer.write(b"HTTP/1.0 200 OK\r\n\r\n")

        row = {"address": "127.0.0.1/old", "http": "1.0"}
        async with consuming(handler) as consumer, sending(row) as transport:
            await transport.send(message(consumer.url("/old")))
            await transport.send(message(consumer.url("/new")))
        old, new = seen
        assert old.startswith(b"POST /old HTTP/1.0\r\nHost: 127.0.0.1:")
        assert b"\r\nConnection: keep-alive\r\n" in old
        assert b"\r\nContent-Length: 8\r\n" in old
        assert new.startswith(b"POST /new HTTP/1.1\r\n")
        assert b"Connection" not in new

    @pytest.mark.parametrize(
        ("answer", "connections"),
        [
            pytest.param(KEPT_1_0, 1, id="kept by 1.0"),
            pytest.param(ACCEPTED, 1, id="kept by 1.1"),
            pytest.param(b"HTTP/1.0 202 Accepted\r\nContent-Length: 0\r\n\r\n", 5, id="not offered"),
            pytest.param(
                ACCEPTED[:-2] + b"Connection: close\r\n\r\n", 5, id="refused by 1.1"
            ),
        ],
    )  # fmt: skip
    async def test_a_connection_is_kept_where_the_consumer_offers_it(
        self, answer: bytes, connections: int
    ) -> None:
        async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while True:
                await read_request(reader)
                writer.write(answer)

        row = {"address": "127.0.0.1", "http": "1.0"}
        async with consuming(handler) as consumer, sending(row) as transport:
            for _ in range(5):
                assert (await transport.send(message(consumer.url()))).status in (200, 202)
            assert consumer.connections == connections

    async def test_an_answer_to_the_end(self) -> None:
        row = {"address": "127.0.0.1", "http": "1.0"}
        handler = saying(b"HTTP/1.0 200 OK\r\nContent-Type: text/xml\r\n\r\n<a/>")
        async with consuming(handler) as consumer, sending(row) as transport:
            answer = await transport.send(message(consumer.url()))
        assert answer == Answer(200, b"<a/>", {"content-type": "text/xml"})


class TestVia:
    async def test_connected_elsewhere(self) -> None:
        """Name and path stay those of the consumer, which need not even resolve."""
        seen: list[bytes] = []

        async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            seen.append(await read_request(reader))
            writer.write(ACCEPTED)

        async with consuming(handler) as consumer:
            row = {"address": "http://away.example", "via": f"http://127.0.0.1:{consumer.port}"}
            resolver = StubResolver(OSError("no such name"))
            async with sending(row, resolver=resolver) as transport:
                await transport.send(message("http://away.example:9999/a?b"))
                assert resolver.asked == []
        assert seen[0].startswith(b"POST /a?b HTTP/1.1\r\nHost: away.example:9999\r\n")

    async def test_the_policy_judges_it(self) -> None:
        row = {"address": "127.0.0.1", "via": "http://10.0.0.1:8080"}
        async with consuming(keeping) as consumer, sending(row) as transport:
            failure = await failure_of(transport, message(consumer.url()))
            assert failure.kind is FailureKind.FORBIDDEN
            assert consumer.connections == 0

    async def test_connections_are_not_mixed(self) -> None:
        async with consuming(keeping) as first, consuming(keeping) as second:
            row = {"address": "127.0.0.1/second", "via": f"http://127.0.0.1:{second.port}"}
            async with sending(row) as transport:
                for _ in range(3):
                    await transport.send(message(first.url("/first")))
                    await transport.send(message(first.url("/second")))
            assert (first.connections, second.connections) == (1, 1)

    async def test_a_scheme_that_nobody_serves(self) -> None:
        row = {"address": "127.0.0.1", "via": "soap.tcp://127.0.0.1:8081"}
        async with sending(row) as transport:
            failure = await failure_of(transport, message("http://127.0.0.1:8080/"))
        assert failure.kind is FailureKind.FORBIDDEN


class TestMaxMessage:
    @pytest.mark.parametrize(
        ("body", "content", "packaging", "sent"),
        [
            pytest.param(100, 0, "none", True, id="as large as may be"),
            pytest.param(101, 0, "none", False, id="an octet more"),
            pytest.param(50, 51, "mime", False, id="with its attachment"),
            pytest.param(50, 51, "none", True, id="an attachment that is left out"),
        ],
    )
    async def test_octets(self, body: int, content: int, packaging: str, sent: bool) -> None:
        row = {"address": "127.0.0.1", "max_message": 100, "attachments": packaging}
        attachments = (Attachment("a", "text/plain", b"x" * content),) if content else ()
        async with consuming(keeping) as consumer, sending(row) as transport:
            request = Request(
                parse_target(consumer.url()), b"x" * body, (), attachments=attachments
            )
            if sent:
                assert (await transport.send(request)).status == 202
            else:
                failure = await failure_of(transport, request)
                assert (failure.kind, failure.connecting) == (FailureKind.TOO_LARGE, False)
            assert consumer.connections == sent


class TestAttachments:
    @pytest.mark.parametrize(
        ("row", "spoken", "content_type", "inside"),
        [
            pytest.param({}, Packaging.NONE, b"text/xml", False, id="none known to be read"),
            pytest.param({}, Packaging.MIME, b"multipart/related", True, id="MIME, as spoken"),
            pytest.param({}, Packaging.DIME, b"application/dime", True, id="DIME, as spoken"),
            pytest.param(
                {"attachments": "mime"}, Packaging.NONE, b"multipart/related", True, id="MIME"
            ),
            pytest.param(
                {"attachments": "dime"}, Packaging.MIME, b"application/dime", True, id="DIME"
            ),
            pytest.param({"attachments": "none"}, Packaging.MIME, b"text/xml", False, id="none"),
        ],
    )
    async def test_on_the_wire(
        self, row: dict[str, Any], spoken: Packaging, content_type: bytes, inside: bool
    ) -> None:
        seen: list[bytes] = []

        async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            seen.append(await read_request(reader))
            writer.write(ACCEPTED)

        row = {"address": "127.0.0.1", **row}
        async with consuming(handler) as consumer, sending(row) as transport:
            request = Request(
                parse_target(consumer.url()),
                b"<envelope/>",
                (("Content-Type", "text/xml; charset=utf-8"), ("SOAPAction", '"urn:n"')),
                attachments=(Attachment("a", "text/plain", b"the attachment"),),
                packaging=spoken,
            )
            await transport.send(request)
        head, _, body = seen[0].partition(b"\r\n\r\n")
        assert head.count(b"Content-Type: ") == 1
        assert b"Content-Type: " + content_type in head
        assert b'SOAPAction: "urn:n"' in head
        assert b"<envelope/>" in body
        assert (b"the attachment" in body) == inside


class TestTls:
    async def test_a_client_certificate(self, tmp_path: Path) -> None:
        theirs, ours = Authority(tmp_path, "theirs"), Authority(tmp_path, "ours")
        certificate, key = ours.issue("dragoman.example")
        server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        server.load_cert_chain(*theirs.issue("consumer.example"))
        server.load_verify_locations(ours.certificate)
        server.verify_mode = ssl.CERT_REQUIRED
        rows = [
            {
                "address": "consumer.example",
                "ca": theirs.certificate,
                "client_certificate": certificate,
                "client_key": key,
            },
            {"address": "consumer.example/without", "ca": theirs.certificate},
        ]
        resolver = StubResolver(["127.0.0.1"])
        async with (
            consuming(keeping, tls=server) as consumer,
            sending(*rows, resolver=resolver) as transport,
        ):
            url = consumer.url("/with", "consumer.example", "https")
            assert (await transport.send(message(url))).status == 202
            # The refusal comes with the first octets read (TLS 1.3), or in the handshake (1.2).
            url = consumer.url("/without", "consumer.example", "https")
            failure = await failure_of(transport, message(url))
            assert failure.kind in (FailureKind.RESET, FailureKind.TLS)
            url = consumer.url("/with", "consumer.example", "https")
            assert (await transport.send(message(url))).status == 202

    @pytest.mark.parametrize("pinned", [True, False])
    async def test_the_certificate_of_an_owner(self, tmp_path: Path, pinned: bool) -> None:
        """It is shown with what is sent for the owner's subscriptions alone, on connections that
        nothing else is sent on, whoever was first. The authority is believed for all."""
        theirs, ours = Authority(tmp_path, "theirs", strict=True), Authority(tmp_path, "ours")
        certificate, key = ours.issue("dragoman.example")
        server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        server.load_cert_chain(*theirs.issue("consumer.example"))
        server.load_verify_locations(ours.certificate)
        server.verify_mode = ssl.CERT_OPTIONAL
        owned = {
            "address": "consumer.example",
            "ca": theirs.certificate if pinned else None,
            "client_certificate": certificate,
            "client_key": key,
            "owner": "user:bank",
        }
        shown: list[tuple[str, bool]] = []

        async def look(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while True:
                request = await read_request(reader)
                tls = writer.get_extra_info("ssl_object")
                shown.append((request.decode().rpartition("|")[2], bool(tls.getpeercert())))
                writer.write(ACCEPTED)

        resolver = StubResolver(["127.0.0.1"])
        default = ssl.create_default_context(cafile=str(theirs.certificate))
        async with (
            consuming(look, tls=server) as consumer,
            sending(owned, resolver=resolver, ca=theirs.certificate) as transport,
        ):
            transport._dialer.use_tls(default)
            request = message(consumer.url("/hooks", "consumer.example", "https"))
            for owner in ("user:mallory", "user:bank", None, "user:bank", "user:mallory", "user:b"):
                sent = replace(request, owner=owner, body=f"<a/>|{owner}".encode())
                assert (await transport.send(sent)).status == 202
        assert [one for one, with_certificate in shown if with_certificate] == ["user:bank"] * 2
        assert len(shown) == 6

    @pytest.mark.parametrize("transport", [HttpTransport, SoapTcpTransport])
    async def test_every_transport_says_for_whom_it_connects(
        self, transport: type[HttpTransport | SoapTcpTransport]
    ) -> None:
        """When it looks for a connection that is kept, and when it makes one."""
        said: list[object] = []

        class Saying(Dialer):
            def route(
                self, target: Target, owner: str | None = None, tls: ssl.SSLContext | None = None
            ) -> Route:
                said.append(owner)
                return super().route(target, owner, tls)

            async def connect(self, *args: Any, **_: Any) -> Any:
                said.append(args[3])
                raise SendFailed(FailureKind.CONNECT, "nobody is there", connecting=True)

        made = transport(Saying(AddressPolicy(allow=["127.0.0.0/8"])))
        for owner in ("user:bank", None):
            sent = replace(message("http://127.0.0.1:9/"), owner=owner)
            with pytest.raises(SendFailed):
                await made.send(sent)
        assert said == ["user:bank"] * 2 + [None] * 2
        await made.close()

    @pytest.mark.parametrize(
        ("named", "kind"), [("inside.example", None), ("other.example", FailureKind.TLS)]
    )
    async def test_another_name(self, tmp_path: Path, named: str, kind: FailureKind | None) -> None:
        authority = Authority(tmp_path)
        server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        server.load_cert_chain(*authority.issue("inside.example"))
        row = {"address": "127.0.0.1", "ca": authority.certificate, "server_name": named}
        async with consuming(keeping, tls=server) as consumer, sending(row) as transport:
            request = message(consumer.url(scheme="https"))
            if kind is None:
                assert (await transport.send(request)).status == 202
            else:
                assert (await failure_of(transport, request)).kind is kind

    def test_a_file_that_is_not_there(self, tmp_path: Path) -> None:
        row = Consumer(address="*.example", ca=tmp_path / "none.pem")
        with pytest.raises(TlsError, match=r"^consumers: \*\.example: ca: .*none\.pem cannot be"):
            ConsumerOptions([row])


def test_a_profile_sets_what_the_row_does_not_say() -> None:
    where = "http://c.example.org/"
    rows = (
        Consumer(address="a.example.org", profile="http-1.0"),
        Consumer(address="b.example.org", profile="no-attachments", http="1.0"),
        Consumer(address="c.example.org", profile="http-1.0", http="1.1"),
    )
    options = ConsumerOptions(rows)
    found = [options.of(parse_target(where.replace("//c", f"//{name}"))) for name in "abcd"]
    assert [one.http for one in found] == ["1.0", "1.0", "1.1", "1.1"]
    assert [one.attachments for one in found] == [None, Packaging.NONE, None, None]
    with pytest.raises(ValidationError, match="is not a profile of consumers; there are http"):
        Consumer(address="a.example.org", profile="http-2.0")


@pytest.mark.parametrize(
    "policy",
    [
        lambda known: AddressPolicy(loopback=True, decisions=known),
        lambda _: AddressPolicy(loopback=True, forbid=["mole.example"]),
    ],
    ids=["by an operator", "by the settings"],
)
async def test_a_consumer_that_is_forbidden_is_not_reached_by_another_way(
    policy: Callable[[HostDecisions], AddressPolicy],
) -> None:
    """Neither by a new connection nor by one that is kept."""
    known = HostDecisions()
    async with consuming(keeping) as consumer:
        row = Consumer(address="mole.example", via=f"http://127.0.0.1:{consumer.port}")
        dialer = Dialer(policy(known), options=ConsumerOptions([row]))
        http = HttpTransport(dialer)
        transport = TransportByScheme({"http": http}, dialer)
        request = message("http://mole.example/")
        try:
            if not policy(known).forbids("mole.example"):
                await transport.send(request)
                known.replace([HostDecision("mole.example", Decision.FORBIDDEN, "user:a", 1.0)])
            assert (await failure_of(transport, request)).kind is FailureKind.FORBIDDEN
        finally:
            await transport.close()
