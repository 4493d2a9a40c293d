"""Why nothing was sent, in words: each cause is a real socket, name server, certificate or answer."""

import asyncio
import contextlib
import errno
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import uvloop

from gateway.egress import FailureKind, SendFailed
from gateway.egress.causes import LONGEST_CAUSE, one_line
from gateway.egress.transport import GIVEN_UP
from gateway.security.tls import client_context
from tests.rigs.cases import for_each
from tests.rigs.certificates import Authority, server_context
from tests.rigs.scripted_peers import (
    QUICK,
    Handler,
    StubResolver,
    consuming,
    failure_of,
    message,
    read_request,
    saying,
    sending,
    silent,
)
from tests.rigs.waiting import DEADLINE


async def _none(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Closes the connection without a word."""
    await reader.readuntil(b"<event/>")


async def _hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(1)


async def _half(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await read_request(reader)
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab")
    await writer.drain()


async def _slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await read_request(reader)
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab")
    await reader.read()


async def failing(
    handler: Handler, trust: ssl.SSLContext | None = None, tls: ssl.SSLContext | None = None
) -> SendFailed:
    """The failure of a message to a consumer that *handler* is, by HTTPS with *trust*."""
    async with (
        consuming(handler, tls=tls) as consumer,
        sending(limits=QUICK, tls=trust) as transport,
    ):
        scheme = "https" if trust else "http"
        return await failure_of(transport, message(consumer.url(scheme=scheme)))


async def unresolved(error: OSError | None) -> SendFailed:
    resolver = StubResolver(error)
    async with sending(resolver=resolver, limits=QUICK) as transport:
        return await failure_of(transport, message("http://ward7.example/x"))


async def refused() -> SendFailed:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
        async with sending(limits=QUICK) as transport:
            return await failure_of(transport, message(f"http://127.0.0.1:{port}/x"))


async def unreached() -> SendFailed:
    """A listener whose backlog is full takes no further connection."""
    with socket.socket() as listener, contextlib.ExitStack() as others:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(4):
            one = others.enter_context(socket.socket())
            one.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                one.connect(listener.getsockname())
        async with sending(limits=QUICK) as transport:
            url = f"http://127.0.0.1:{listener.getsockname()[1]}/x"
            return await failure_of(transport, message(url))


def nodename(number: int) -> socket.gaierror:
    return socket.gaierror(number, "said by the resolver")


WORDS: dict[str, tuple[Callable[[], Awaitable[SendFailed]], FailureKind, str]] = {
    "no such host": (
        lambda: unresolved(nodename(socket.EAI_NONAME)),
        FailureKind.NAME,
        "no such host: ward7.example",
    ),
    "no name server": (
        lambda: unresolved(nodename(socket.EAI_AGAIN)),
        FailureKind.NAME,
        "no such host is known now: ward7.example (the name server does not answer)",
    ),
    "no address": (
        lambda: unresolved(nodename(socket.EAI_NODATA)),
        FailureKind.NAME,
        "ward7.example has no address",
    ),
    "a slow name server": (
        lambda: unresolved(None),
        FailureKind.NAME,
        "ward7.example was not looked up within 0.2 s",
    ),
    "refused": (refused, FailureKind.CONNECT, "connection refused"),
    "unreached": (unreached, FailureKind.TIMEOUT, "no connection within 0.5 s"),
    "silent": (lambda: failing(silent), FailureKind.TIMEOUT, "no answer within 0.5 s"),
    "slow": (lambda: failing(_slow), FailureKind.TIMEOUT, "the answer was not whole within 0.5 s"),
    "closed": (
        lambda: failing(_none),
        FailureKind.RESET,
        "the connection was closed before the answer",
    ),
    "half": (
        lambda: failing(_half),
        FailureKind.RESET,
        "the connection was closed in the middle of the answer",
    ),
    "no HTTP": (
        lambda: failing(saying(b"220 smtp.example ESMTP\r\n")),
        FailureKind.ANSWER,
        "answered with a malformed head: it begins with '220 smtp.example ESMTP', not with HTTP/",
    ),
    "two lengths": (
        lambda: failing(
            saying(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab")
        ),
        FailureKind.ANSWER,
        "answered 200 with a malformed head: two lengths, 1 and 2",
    ),
    "no chunk": (
        lambda: failing(saying(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n")),
        FailureKind.ANSWER,
        "answered 200 with a malformed body: 'zz' is not the size of a chunk",
    ),
    "long body": (
        lambda: failing(saying(b"HTTP/1.1 200 OK\r\n\r\n" + b"a" * 70_000)),
        FailureKind.ANSWER,
        "answered 200 with a body of more than 65536 bytes",
    ),
    "many headers": (
        lambda: failing(saying(b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 300 + b"\r\n")),
        FailureKind.ANSWER,
        "answered 200 with a malformed head: more than 256 fields",
    ),
    "no TLS": (
        lambda: failing(saying(b"x"), trust=client_context()),
        FailureKind.TIMEOUT,
        "no TLS handshake within 0.5 s",
    ),
    "closed in the handshake": (
        lambda: failing(_hang_up, trust=client_context()),
        FailureKind.TLS,
        "or another version of TLS",
    ),
}


@for_each("name", WORDS)
async def test_a_cause_is_told_in_words(name: str) -> None:
    fail, kind, words = WORDS[name]
    failure = await fail()
    assert (failure.kind, str(failure)) == (kind, failure.detail)
    assert failure.detail.endswith(words)


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.EHOSTUNREACH, "no route to host"),
        (errno.ENETUNREACH, "the network is unreachable"),
        (errno.ECONNRESET, "the connection was reset"),
    ],
)
async def test_what_a_network_says(number: int, words: str) -> None:
    """No test can take a network away: the system's error is raised where it would be."""
    with pytest.raises(SendFailed) as failure:
        async with sending(limits=QUICK) as transport:
            loop = asyncio.get_running_loop()

            async def unreachable(*_: object) -> None:
                raise OSError(number, "said by the system")

            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(loop, "sock_connect", unreachable)
                await transport.send(message("http://127.0.0.1:4000/x"))
    assert failure.value.detail == words


@contextmanager
def tls_server(context: ssl.SSLContext) -> Iterator[int]:
    """The port of a consumer with TLS that takes and says nothing. It is none of asyncio's: those
    do not send the alert that ends a handshake."""

    def serve() -> None:
        for _ in range(2):
            with contextlib.suppress(OSError):
                one, _ = listener.accept()
                one.settimeout(DEADLINE)
                with one, context.wrap_socket(one, server_side=True) as secure:
                    secure.recv(1000)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        serving = threading.Thread(target=serve)
        serving.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
    serving.join()


def showing(authority: Authority, *names: str, **said: float) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.issue(*names, file="shown", **said))  # type: ignore[arg-type]
    return context


def wanting(authority: Authority, version: ssl.TLSVersion) -> ssl.SSLContext:
    """A server that wants a client certificate."""
    context = showing(authority, "127.0.0.1")
    context.maximum_version = version
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(authority.certificate)
    return context


def old(authority: Authority) -> ssl.SSLContext:
    context = showing(authority, "127.0.0.1")
    context.minimum_version = ssl.TLSVersion.TLSv1
    context.maximum_version = ssl.TLSVersion.TLSv1_1
    context.set_ciphers("ALL:@SECLEVEL=0")
    return context


def self_signed(authority: Authority) -> ssl.SSLContext:
    return server_context(authority.certificate.parent, "127.0.0.1")[0]


TLS: dict[str, tuple[Callable[[Authority], ssl.SSLContext], str]] = {
    "unknown authority": (
        lambda authority: showing(Authority(authority.certificate.parent, "other"), "127.0.0.1"),
        "certificate of 127.0.0.1:PORT is not trusted: its issuer is unknown",
    ),
    "self-signed": (
        self_signed,
        "certificate of 127.0.0.1:PORT is not trusted: self-signed certificate (egress_ca, or ca "
        "in its row of [[consumers]])",
    ),
    "expired": (
        lambda authority: showing(authority, "127.0.0.1", days=-3.01),
        "certificate of 127.0.0.1:PORT expired 3 days ago: it has to be renewed",
    ),
    "not yet valid": (
        lambda authority: showing(authority, "127.0.0.1", since=2.01),
        "certificate of 127.0.0.1:PORT is not valid yet, but in 2 days: see the clocks",
    ),
    "other names": (
        lambda authority: showing(authority, "his.ward7", "his.ward8"),
        "certificate of 127.0.0.1:PORT is for his.ward7, his.ward8, not for 127.0.0.1 "
        "(server_name in its row of [[consumers]])",
    ),
    "client certificate, TLS 1.3": (
        lambda authority: wanting(authority, ssl.TLSVersion.TLSv1_3),
        "a client certificate (egress_certificate",  # "may want", where its alert comes too late.
    ),
    "client certificate, TLS 1.2": (
        lambda authority: wanting(authority, ssl.TLSVersion.TLSv1_2),
        "the peer refuses the TLS handshake: it wants a client certificate (egress_certificate",
    ),
    "old protocol": (
        old,
        "the peer speaks no version of TLS that is taken here: 1.2 or later",
    ),
}


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
@pytest.mark.parametrize("name", TLS)
def test_what_is_wrong_with_tls(name: str, run: Callable[..., str], tmp_path: Path) -> None:
    serve, words = TLS[name]
    authority = Authority(tmp_path)

    context = client_context(ca=authority.certificate)

    async def failed(port: int) -> str:
        async with sending(tls=context) as transport:
            failure = await failure_of(transport, message(f"https://127.0.0.1:{port}/x"))
            return failure.detail.replace(str(port), "PORT")

    with tls_server(serve(authority)) as port:
        assert words in run(failed(port))


def test_a_peer_that_hangs_up_may_want_a_certificate(tmp_path: Path) -> None:
    """Servers of asyncio send no alert when they miss a certificate."""
    authority = Authority(tmp_path)
    served = wanting(authority, ssl.TLSVersion.TLSv1_3)
    failure = asyncio.run(
        failing(silent, tls=served, trust=client_context(ca=authority.certificate))
    )
    assert "the peer may want a client certificate (egress_certificate" in failure.detail


async def test_a_plain_server_speaks_no_tls() -> None:
    async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(5)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await writer.drain()

    failure = await failing(plain, trust=client_context())
    assert failure.detail == "the peer speaks no TLS at this port"


@pytest.mark.parametrize("kind", FailureKind)
def test_no_kind_is_shown_as_a_bare_word(kind: FailureKind) -> None:
    assert len(str(SendFailed(kind)).split()) > 1


def test_a_cause_is_one_line_of_bounded_length() -> None:
    failure = SendFailed(FailureKind.RESET, "a\r\nb\x00\t" + "c" * 1000)
    assert failure.detail.startswith("a b c") and len(failure.detail) == LONGEST_CAUSE
    assert one_line("\x1b[31m") == "[31m" and one_line(GIVEN_UP) == GIVEN_UP
