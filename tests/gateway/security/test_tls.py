"""TLS at the gateway's own port: certificates, names, clients' certificates, handshakes."""

import asyncio
import contextlib
import re
import signal
import socket
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from gateway.checks import Verdict
from gateway.checks.settings import check_settings
from gateway.http import ConnectionGate, HttpLimits
from gateway.http.handshakes import HANDSHAKE, Handshaking
from gateway.security.tls import TlsError, client_context, reload, server_context
from gateway.settings.settings import Settings, SettingsError, read_settings
from tests.gateway.http.test_hardening import HASTY, Server, get, read_answer, serving
from tests.rigs.certificates import Authority
from tests.rigs.envelopes import Answer, Speaker
from tests.rigs.gateways import Running, http_request, read_http, running
from tests.rigs.programs import RunningGateway, run
from tests.rigs.waiting import DEADLINE, wait_until

NAME = "gateway.example"


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def settings(certificate: Path | None, key: Path | None = None, **others: Any) -> Settings:
    return Settings(tls_certificate=certificate, tls_key=key, **others)


def context(authority: Authority, *names: str, **others: Any) -> ssl.SSLContext:
    """A listener's, with a certificate for *names*."""
    found = server_context(settings(*authority.issue(*(names or (NAME,))), **others))
    assert found is not None
    return found


def handshake(server: ssl.SSLContext, client: ssl.SSLContext, name: str = NAME) -> x509.Certificate:
    """What *server* shows to *client*, without a socket.

    Raises:
        ssl.SSLError: They do not agree.
    """
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_hostname=name or None),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    waiting = list(ends)
    for _ in range(10):
        for end in list(waiting):
            with contextlib.suppress(ssl.SSLWantReadError):
                end.do_handshake()
                waiting.remove(end)
    assert not waiting
    with contextlib.suppress(ssl.SSLWantReadError):
        ends[0].read(1)  # With TLS 1.3 the client hears only now that it was refused.
    shown = ends[0].getpeercert(binary_form=True)
    assert shown is not None
    return x509.load_der_x509_certificate(shown)


def name_of(certificate: x509.Certificate) -> str:
    return certificate.subject.rfc4514_string().removeprefix("CN=")


class TestFiles:
    """What cannot be used is said in one line, with the setting and the file."""

    def test_none(self) -> None:
        assert server_context(settings(None)) is None

    @pytest.mark.parametrize(
        ("spoil", "text"),
        [
            pytest.param(
                lambda certificate, key: certificate.unlink(),
                r"tls_certificate: .*\.pem cannot be read \(No such file or directory\)",
                id="no certificate",
            ),
            pytest.param(
                lambda certificate, key: key.unlink(),
                r"tls_key: .*\.key cannot be read \(No such file or directory\)",
                id="no key",
            ),
            pytest.param(
                lambda certificate, key: certificate.write_text("nothing"),
                r"tls_certificate: .*\.pem holds no certificate in PEM",
                id="no certificate in the file",
            ),
            pytest.param(
                lambda certificate, key: key.write_text("nothing"),
                r"tls_key: .*\.key holds no key in PEM without a password",
                id="no key in the file",
            ),
            pytest.param(
                lambda certificate, key: key.write_bytes(
                    Authority(key.parent, "other").issue("other.example")[1].read_bytes()
                ),
                r"tls_key: .*\.key does not belong to .*\.pem",
                id="another key",
            ),
            pytest.param(
                lambda certificate, key: key.write_bytes(
                    Authority(key.parent, "other").issue("a", password="secret")[1].read_bytes()
                ),
                r"tls_key: .*\.key holds no key in PEM without a password",
                id="a key with a password",
            ),
        ],
    )
    def test_a_file_that_cannot_be_used(
        self, authority: Authority, spoil: Callable[[Path, Path], object], text: str
    ) -> None:
        certificate, key = authority.issue(NAME)
        spoil(certificate, key)
        with pytest.raises(TlsError, match=f"^{text}$"):
            server_context(settings(certificate, key))

    def test_an_authority_that_is_none(self, authority: Authority, tmp_path: Path) -> None:
        (tmp_path / "ca.pem").write_text("nothing")
        with pytest.raises(TlsError, match=r"^tls_client_ca: .*ca\.pem holds no certificate"):
            context(authority, tls_client_ca=tmp_path / "ca.pem")
        with pytest.raises(TlsError, match=r"^egress_ca: .*none\.pem cannot be read"):
            client_context(ca=tmp_path / "none.pem")

    def test_the_systems_authorities_are_read_once(self, authority: Authority) -> None:
        assert client_context() is client_context()
        assert client_context(ca=authority.certificate) is not client_context()

    def test_a_row_names_itself(self, authority: Authority, tmp_path: Path) -> None:
        row = {"name": "a.example", "certificate": tmp_path / "none.pem"}
        with pytest.raises(TlsError, match=r"^tls_names: a\.example: certificate: .*none\.pem"):
            context(authority, tls_names=[row])

    def test_both_in_one_file(self, authority: Authority, tmp_path: Path) -> None:
        both = tmp_path / "both.pem"
        both.write_bytes(b"".join(path.read_bytes() for path in authority.issue(NAME)))
        server = server_context(settings(both))
        assert server is not None
        handshake(server, client_context(ca=authority.certificate))

    @pytest.mark.parametrize("name", ["tls_key", "tls_client_ca", "egress_key"])
    def test_settings_that_need_another(self, name: str) -> None:
        with pytest.raises(SettingsError, match=rf"{name}: needs \w+_certificate, too"):
            read_settings(**{name: "x.pem"})


class TestHandshake:
    def test_it_is_verified(self, authority: Authority, tmp_path: Path) -> None:
        server = context(authority)
        client = client_context(ca=authority.certificate)
        assert name_of(handshake(server, client)) == NAME
        with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
            handshake(server, client, "other.example")
        other = client_context(ca=Authority(tmp_path, "other").certificate)
        with pytest.raises(ssl.SSLCertVerificationError, match="unable to get local issuer"):
            handshake(server, other)
        expired = server_context(settings(*authority.issue(NAME, days=-1)))
        assert expired is not None
        with pytest.raises(ssl.SSLCertVerificationError, match="certificate has expired"):
            handshake(expired, client)

    @pytest.mark.filterwarnings("ignore:.*TLSv1_1 is deprecated:DeprecationWarning")
    def test_no_version_before_1_2(self, authority: Authority) -> None:
        client = client_context(ca=authority.certificate)
        client.minimum_version = client.maximum_version = ssl.TLSVersion.TLSv1_1
        client.set_ciphers("ALL:@SECLEVEL=0")
        with pytest.raises(ssl.SSLError, match=r"(?i)protocol"):
            handshake(context(authority), client)
        client.maximum_version = client.minimum_version = ssl.TLSVersion.TLSv1_2
        handshake(context(authority), client)

    @pytest.mark.parametrize(
        ("asked", "shown"),
        [
            ("gateway.example", "gateway.example"),
            ("a.example", "a.example"),
            ("A.Example", "a.example"),
            ("x.b.example", "*.b.example"),
            ("y.x.b.example", "gateway.example"),
            ("b.example", "gateway.example"),
            ("", "gateway.example"),
        ],
    )
    @pytest.mark.parametrize("mutual", [False, True])
    def test_the_name_asked_for_chooses(
        self, authority: Authority, asked: str, shown: str, mutual: bool
    ) -> None:
        rows = []
        for name in ("a.example", "*.b.example"):
            certificate, key = authority.issue(name, file=name.strip("*."))
            rows.append({"name": name, "certificate": certificate, "key": key})
        others: dict[str, Any] = {"tls_client_ca": authority.certificate} if mutual else {}
        server = context(authority, tls_names=rows, **others)
        certificate, key = authority.issue("client.example")
        client = client_context(ca=authority.certificate, certificate=certificate, key=key)
        client.check_hostname = False
        assert name_of(handshake(server, client, asked)) == shown
        if mutual:
            client = client_context(ca=authority.certificate)
            client.check_hostname = False
            with pytest.raises(ssl.SSLError, match=r"(?i)certificate"):
                handshake(server, client, asked)

    def test_a_clients_certificate(self, authority: Authority, tmp_path: Path) -> None:
        theirs = Authority(tmp_path, "theirs")
        server = context(authority, tls_client_ca=theirs.certificate)

        def shake(issuer: Authority | None, **how: Any) -> None:
            certificate, key = issuer.issue("client.example", **how) if issuer else (None, None)
            client = client_context(ca=authority.certificate, certificate=certificate, key=key)
            handshake(server, client)

        shake(theirs)
        with pytest.raises(ssl.SSLError, match=r"(?i)peer did not return a certificate"):
            shake(None)
        with pytest.raises(ssl.SSLCertVerificationError, match="self-signed certificate in"):
            shake(authority)
        with pytest.raises(ssl.SSLCertVerificationError, match="certificate has expired"):
            shake(theirs, days=-1)

    def test_renewed_certificates(self, authority: Authority, tmp_path: Path) -> None:
        """Those of the names and of the clients' authority, too; a bad one changes nothing."""
        clients = tmp_path / "clients.pem"
        clients.write_bytes(Authority(tmp_path, "old").certificate.read_bytes())
        certificate, key = authority.issue(NAME)
        row = dict(zip(("certificate", "key"), authority.issue("a.example"), strict=True))
        chosen = settings(
            certificate, key, tls_names=[{"name": "a.example", **row}], tls_client_ca=clients
        )
        server = server_context(chosen)
        assert server is not None
        new = Authority(tmp_path, "new")
        mine, my_key = new.issue("client.example")
        client = client_context(ca=authority.certificate, certificate=mine, key=my_key)
        with pytest.raises(ssl.SSLCertVerificationError):
            handshake(server, client)
        authority.issue(NAME)
        authority.issue("a.example")
        clients.write_bytes(new.certificate.read_bytes())
        reload(server, chosen)
        for name, path in ((NAME, certificate), ("a.example", row["certificate"])):
            shown = x509.load_pem_x509_certificate(path.read_bytes())
            assert handshake(server, client, name) == shown
        key.write_text("nothing")
        with pytest.raises(TlsError):
            reload(server, chosen)
        handshake(server, client)


def secure(server: Server, client: ssl.SSLContext, source: str = "127.0.0.1") -> ssl.SSLSocket:
    plain = socket.create_connection(("127.0.0.1", server.port), DEADLINE, (source, 0))
    return client.wrap_socket(plain, server_hostname=NAME)


class TestGate:
    """Connections count from accept, not from the end of the handshake."""

    def test_who_never_shakes_hands_makes_room(self, authority: Authority) -> None:
        limits = HttpLimits(connections=8)
        client = client_context(ca=authority.certificate)
        with serving(limits, tls=context(authority)) as server, contextlib.ExitStack() as stack:
            silent = [
                stack.enter_context(
                    socket.create_connection(("127.0.0.1", server.port), DEADLINE, (f"127.0.1.{n}", 0))
                )
                for n in range(1, 9)
            ]  # fmt: skip
            for n in range(1, 4):
                with secure(server, client, f"127.0.2.{n}") as sock:
                    sock.sendall(get())
                    assert read_answer(sock)[0] == 200
            assert silent[0].recv(1) == b"", "the one that has waited longest was not closed"
            silent[-1].settimeout(0.05)
            with pytest.raises(TimeoutError):
                silent[-1].recv(1)

    def test_one_address(self, authority: Authority) -> None:
        limits = HttpLimits(connections_per_address=3)
        client = client_context(ca=authority.certificate)
        with serving(limits, tls=context(authority)) as server, contextlib.ExitStack() as stack:
            for _ in range(3):
                stack.enter_context(socket.create_connection(("127.0.0.1", server.port), DEADLINE))
            with pytest.raises((ssl.SSLError, ConnectionError)):
                secure(server, client)
            with secure(server, client, "127.0.2.1") as sock:
                sock.sendall(get())
                assert read_answer(sock)[0] == 200

    def test_after_the_handshake_the_head_is_waited_for(self, authority: Authority) -> None:
        client = client_context(ca=authority.certificate)
        with (
            serving(HASTY, tls=context(authority)) as server,
            secure(server, client) as sock,
            contextlib.suppress(ConnectionError, ssl.SSLError),
        ):
            assert sock.recv(1) == b""

    def test_plain_http_at_the_port(self, authority: Authority) -> None:
        with (
            serving(HASTY, tls=context(authority)) as server,
            socket.create_connection(("127.0.0.1", server.port), DEADLINE) as sock,
        ):
            sock.sendall(get())
            with contextlib.suppress(ConnectionError):
                while octets := sock.recv(1000):
                    assert not octets.startswith(b"HTTP")
            assert server.application.requests == []

    async def test_a_handshake_has_a_deadline(self, authority: Authority) -> None:
        gate, waiting = ConnectionGate(HttpLimits()), set[asyncio.Protocol]()
        tls = context(authority)

        def accept() -> asyncio.Protocol:
            return Handshaking(tls, gate, asyncio.Protocol, waiting, seconds=0.2)

        loop = asyncio.get_running_loop()
        server = await loop.create_server(accept, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            # Silent, and in the middle: the head of a record that announces more.
            for sent in (b"", bytes.fromhex("1603010200010001fc0303")):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(sent)
                assert await asyncio.wait_for(reader.read(), DEADLINE) == b""
                writer.close()
                await writer.wait_closed()
            assert (gate.connections, waiting) == (0, set())

    def test_a_stop_does_not_wait_for_handshakes(self, authority: Authority) -> None:
        server = Server(HttpLimits(), tls=context(authority))
        server.start()
        with socket.create_connection(("127.0.0.1", server.port), DEADLINE) as sock:
            wait_until(lambda: server.gate.connections)
            begin = time.monotonic()
            server.stop()
            assert time.monotonic() - begin < HANDSHAKE, "it waited for the handshake"
            with contextlib.suppress(ConnectionError):
                assert sock.recv(1) == b""


async def ask(run: Running, client: ssl.SSLContext, octets: bytes) -> Answer:
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", run.port, ssl=client, server_hostname=NAME
    )
    try:
        writer.write(octets)
        first, headers, body = await asyncio.wait_for(read_http(reader), DEADLINE)
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            await writer.wait_closed()
    return Answer(int(first.split(" ")[1]), headers, body)


class TestGateway:
    async def test_addresses_given_out_are_https(
        self, authority: Authority, tmp_path: Path
    ) -> None:
        certificate, key = authority.issue(NAME)
        client = client_context(ca=authority.certificate)
        speaker = Speaker()
        async with running(
            tmp_path / "data", tls_certificate=certificate, tls_key=key, egress_allow=["10.0.0.1"]
        ) as run:
            body = speaker.wse_subscribe("http://10.0.0.1:9000/consumer")
            envelope = speaker.envelope(body, message_id="urn:uuid:1")
            headers = {"Content-Type": speaker.type}
            answer = await ask(
                run, client, http_request(run.port, "POST", "/soap", envelope, headers)
            )
            assert answer.status == 200, answer.body
            [address] = set(re.findall(rb"https?://127\.0\.0\.1[^<\"]*", answer.body))
            assert address.startswith(f"https://127.0.0.1:{run.port}/".encode())

    async def test_an_https_consumer(self, authority: Authority, tmp_path: Path) -> None:
        """It shows us its certificate, and wants to see ours."""
        arrived: asyncio.Queue[bytes] = asyncio.Queue()

        async def consume(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError, ssl.SSLError):
                while True:
                    arrived.put_nowait((await read_http(reader))[2])
                    writer.write(b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n")
            writer.close()

        tls = context(authority, "127.0.0.1", tls_client_ca=authority.certificate)
        certificate, key = authority.issue("dragoman.example")
        speaker = Speaker()
        server = await asyncio.start_server(consume, "127.0.0.1", 0, ssl=tls)
        async with server:
            url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/consumer"
            async with running(
                tmp_path / "data",
                egress_ca=authority.certificate,
                egress_certificate=certificate,
                egress_key=key,
            ) as run:
                await run.subscribe(speaker, speaker.wse_subscribe(url))
                await run.publish("<event>17</event>")
                assert b">17</event>" in await asyncio.wait_for(arrived.get(), DEADLINE)
                await run.quiet()


class TestProgram:
    """The command line, as people type it."""

    def test_https_from_start_to_end(self, tmp_path: Path) -> None:
        authority = Authority(tmp_path, strict=True)  # Of the system's authorities more is asked.
        certificate, key = authority.issue("127.0.0.1")
        files = ("--tls-certificate", str(certificate), "--tls-key", str(key))
        ca = str(authority.certificate)
        with RunningGateway(*files, cwd=tmp_path) as gateway:
            assert gateway.url.startswith("https://127.0.0.1:")
            listing = ("subscriptions", "list", "--gateway", gateway.url)
            strange = run(*listing, cwd=tmp_path)
            assert (strange.returncode, strange.stdout) == (1, "")
            assert "its certificate is not trusted" in strange.stderr
            for done in (
                run("--ca", ca, *listing, cwd=tmp_path),
                run(*listing, cwd=tmp_path, DRAGOMAN_CA=ca),
                run(*listing, cwd=tmp_path, SSL_CERT_FILE=ca),
            ):
                assert (done.returncode, done.stderr) == (0, "There are no subscriptions.\n")
            publishing = ("--ca", ca, "publish", "--gateway", gateway.url, "-")
            done = run(*publishing, cwd=tmp_path, stdin=b"<event/>")
            assert (done.returncode, done.stdout) == (0, "published standard input to wseTopic\n")
            looked = run("doctor", "--port", gateway.url.rpartition(":")[2], *files, cwd=tmp_path)
            # Without its data folder it is another gateway's port: it was asked all the same.
            assert "a gateway with other data answers" in looked.stdout
            assert f"ok    TLS: {certificate} is valid for 19 days" in looked.stdout

    def test_renewed_by_a_signal_and_when_the_files_change(
        self, authority: Authority, tmp_path: Path
    ) -> None:
        certificate, key = authority.issue("127.0.0.1")
        client = client_context(ca=authority.certificate)

        def shown() -> bytes | None:
            with (
                socket.create_connection(("127.0.0.1", port), DEADLINE) as plain,
                client.wrap_socket(plain, server_hostname="127.0.0.1") as sock,
            ):
                return sock.getpeercert(binary_form=True)

        files = ("--tls-certificate", str(certificate), "--tls-key", str(key))
        with RunningGateway(*files, cwd=tmp_path) as gateway:
            port = int(gateway.url.rpartition(":")[2])
            first = shown()
            gateway.process.send_signal(signal.SIGHUP)
            gateway.wait_for("tls.renewed", lines=gateway.err)
            assert shown() == first
            authority.issue("127.0.0.1")  # No signal is needed: the files are watched.
            wait_until(lambda: shown() != first)
            second = shown()
            certificate.write_text("nothing")
            gateway.wait_for("tls.not-renewed", lines=gateway.err)
            assert shown() == second

    def test_a_client_needs_a_certificate(self, authority: Authority, tmp_path: Path) -> None:
        certificate, key = authority.issue("127.0.0.1")
        mine, my_key = authority.issue("me.example")
        ca = str(authority.certificate)
        files = ("--tls-certificate", str(certificate), "--tls-key", str(key))
        with RunningGateway(*files, "--tls-client-ca", ca, cwd=tmp_path) as gateway:
            listing = ("subscriptions", "list", "--gateway", gateway.url)
            refused = run("--ca", ca, *listing, cwd=tmp_path)
            assert (refused.returncode, refused.stdout) == (1, "")
            assert len(refused.stderr.splitlines()) == 1
            identity = ("--certificate", str(mine), "--key", str(my_key))
            done = run("--ca", ca, *identity, *listing, cwd=tmp_path)
            assert (done.returncode, done.stderr) == (0, "There are no subscriptions.\n")

    @pytest.mark.parametrize("command", ["serve", "doctor"])
    def test_a_file_that_is_not_there(self, command: str, tmp_path: Path) -> None:
        done = run(command, "--port", "0", "--tls-certificate", "none.pem", cwd=tmp_path)
        assert done.returncode == 1
        text = "tls_certificate: none.pem cannot be read (No such file or directory)"
        if command == "serve":
            assert (done.stdout, done.stderr) == ("", f"dragoman: {text}\n")
        else:
            assert f"FAIL  TLS: {text}; correct it" in done.stdout

    @pytest.mark.parametrize(
        ("days", "line"),
        [(30, "ok    TLS: {} is valid for 29 days"), (3, "warn  TLS: {} is valid for 2 days more;"),
         (-2, "FAIL  TLS: {} expired on ")],
    )  # fmt: skip
    def test_doctor_counts_the_days(
        self, authority: Authority, tmp_path: Path, days: int, line: str
    ) -> None:
        certificate, key = authority.issue(NAME, days=days)
        files = ("--tls-certificate", str(certificate), "--tls-key", str(key))
        done = run("doctor", "--port", "0", *files, cwd=tmp_path)
        assert line.format(certificate) in done.stdout
        assert done.returncode == (days < 0)

    @pytest.mark.parametrize(
        ("row", "said"),
        [
            ('http = "2"', "consumers.0.http: must be '1.0' or '1.1'"),
            ('htp = "1.0"', "consumers.0.htp: there is no such setting"),
            ('via = "http://127.1"', "consumers.0.via: 'http://127.1' is not an address"),
            ('client_key = "x"', "consumers.0: client_key: a client_certificate belongs to it"),
        ],
    )
    def test_a_bad_row_is_one_line(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, row: str, said: str
    ) -> None:
        monkeypatch.chdir(tmp_path)
        (tmp_path / "dragoman.toml").write_text(f'[[consumers]]\naddress = "*"\n{row}\n')
        with pytest.raises(SettingsError) as error:
            read_settings()
        assert str(error.value).startswith(said) and "\n" not in str(error.value)
        monkeypatch.delenv("DRAGOMAN_SHARED", raising=False)  # It is no setting, which is said.
        _, [finding] = check_settings({}, ())
        assert finding.verdict is Verdict.FAIL
        assert finding.text.startswith(f"dragoman.toml: {said}")
