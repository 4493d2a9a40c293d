"""A smart host that hangs: one deadline for all that it says, and no thread that anybody waits for."""

import asyncio
import socket
import ssl
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from gateway.egress import FailureKind, Request, SendFailed
from gateway.egress.mail import Conversation, MailSettings, MailTransport
from gateway.egress.plugins import GuardedTransport
from mediation.model.versions import Soap
from mediation.soap.envelopes import http_headers
from tests.rigs.mail import SmartHost, smart_host
from tests.rigs.waiting import until

ROOT = Path(__file__).parents[4]
ADDRESS = "mailto:ann@example.org"


def transport(host: SmartHost, *, timeout: float = 0.5, security: Any = "none") -> MailTransport:
    settings = MailSettings(
        host="127.0.0.1",
        port=host.port,
        security=security,
        sender="events@gateway.example",
        domains=("example.org",),
        timeout=timeout,
        at_a_time=1,
    )
    return MailTransport(settings, ssl.create_default_context())


def request(mail: MailTransport) -> Request:
    return Request(mail.target(ADDRESS), b"<c/>", http_headers(Soap.V1_1, "urn:x"))


async def no_threads() -> None:
    await until(lambda: all(one.name != "mail" for one in threading.enumerate()))


async def failure(mail: MailTransport | GuardedTransport, asked: Request) -> SendFailed:
    with pytest.raises(SendFailed) as caught:
        await asyncio.wait_for(mail.send(asked), 20)
    return caught.value


@pytest.mark.parametrize(
    ("silent", "security", "connecting"),
    [
        ("greeting", "none", True),
        ("greeting", "tls", True),
        ("end of greeting", "none", True),
        ("STARTTLS", "starttls", True),
        ("EHLO", "none", True),
        ("MAIL", "none", False),
        ("RCPT", "none", False),
        ("DATA", "none", False),
        ("DATA.", "none", False),
    ],
)
async def test_it_ends_at_the_deadline(silent: str, security: str, connecting: bool) -> None:
    async with smart_host(tls=ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)) as host:
        host.silent.add(silent)
        mail = transport(host, security=security)
        failed = await failure(mail, request(mail))
        assert (failed.kind, failed.connecting) == (FailureKind.TIMEOUT, connecting)
        await until(lambda: host.connections == 1 and host.at_once == 0)
        await no_threads()


@pytest.mark.parametrize("silent", ["greeting", "EHLO", "MAIL", "DATA."])
async def test_a_reply_that_is_late_is_that_without_the_deadline(
    silent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both are the same number of seconds, and either may be the first."""
    monkeypatch.setattr(Conversation, "end", lambda _: None)
    async with smart_host() as host:
        host.silent.add(silent)
        mail = transport(host)
        assert (await failure(mail, request(mail))).kind is FailureKind.TIMEOUT


@pytest.mark.parametrize(("lines", "taken"), [(1000, True), (10_000, False)])
async def test_replies_have_a_bound(lines: int, taken: bool) -> None:
    async with smart_host() as host:
        host.replies["greeting"] = b"220-smart host\r\n" * lines + b"220 ready"
        mail = transport(host, timeout=60)
        if taken:
            assert (await asyncio.wait_for(mail.send(request(mail)), 20)).status == 202
        else:
            failed = await failure(mail, request(mail))
            assert (failed.kind, failed.connecting) == (FailureKind.CONNECT, True)
        await no_threads()


async def test_nobody_waits_for_a_goodbye() -> None:
    async with smart_host() as host:
        host.silent.add("QUIT")
        mail = transport(host, timeout=60)
        answer = await asyncio.wait_for(mail.send(request(mail)), 20)
        assert answer.status == 202 and not host.received.empty()
        await no_threads()


@pytest.mark.parametrize("how", ["is cancelled", "the transport closes"])
async def test_it_ends_when(how: str) -> None:
    async with smart_host() as host:
        host.silent.add("MAIL")
        mail = transport(host, timeout=300)
        sending = asyncio.create_task(mail.send(request(mail)))
        await until(lambda: host.at_once == 1)
        if how == "is cancelled":
            sending.cancel()
        else:
            await mail.close()
        await asyncio.wait((sending,), timeout=20)
        assert sending.done() and sending.cancelled() == (how == "is cancelled")
        assert sending.cancelled() or isinstance(sending.exception(), SendFailed)
        await until(lambda: host.at_once == 0)
        await no_threads()


async def test_a_thread_that_cannot_be_ended_keeps_its_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Such as that of a name which is being resolved."""
    free, asked, resolve = threading.Event(), list[str](), socket.getaddrinfo

    def slow(host: Any, *more: Any, **named: Any) -> Any:
        asked.append(host)
        free.wait()
        return resolve(host, *more, **named)

    async with smart_host() as host:
        mail = transport(host)
        guarded = GuardedTransport(mail, "mailto", timeout=0.5, at_a_time=1)
        monkeypatch.setattr(socket, "getaddrinfo", slow)
        try:
            failures = [await failure(guarded, request(mail)) for _ in range(3)]
            assert {one.kind for one in failures} == {FailureKind.TIMEOUT}
            # The second and the third found no place.
            assert [one.connecting for one in failures] == [False, True, True]
            assert len(asked) == 1
        finally:
            free.set()
        await no_threads()
        assert host.connections == 0  # It was over before there was a connection.
        assert (await asyncio.wait_for(guarded.send(request(mail)), 20)).status == 202


EXIT = """
import asyncio, socket, ssl, sys, threading
import structlog
from gateway.egress import Request
from gateway.egress.mail import MailSettings, MailTransport
from gateway.egress.plugins import GuardedTransport

asked = threading.Event()

def never(*_, **__):
    asked.set()
    threading.Event().wait()

async def main():
    reached = asyncio.Event()
    server = await asyncio.start_server(lambda *_: reached.set(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    settings = MailSettings(
        host="127.0.0.1", port=port, security="none", sender="a@b.example",
        domains=("example.org",), timeout=300, at_a_time=1,
    )
    mail = GuardedTransport(
        MailTransport(settings, ssl.create_default_context()), "mailto", timeout=300, at_a_time=1
    )
    if sys.argv[1] == "name":
        socket.getaddrinfo = never
    sending = asyncio.create_task(mail.send(Request(mail.read("mailto:a@example.org"), b"x", ())))
    while sys.argv[1] == "name" and not asked.is_set():
        await asyncio.sleep(0.01)
    if sys.argv[1] == "host":
        await reached.wait()
    await mail.close()
    server.close()
    sending.cancel()

# The end of the conversation may be logged, by another thread.
structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
asyncio.run(main())
print("over")
"""


@pytest.mark.parametrize("hangs", ["name", "host"])
def test_the_process_ends_all_the_same(hangs: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", EXIT, hangs],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "over\n", "")


def test_the_time_is_over_before_there_is_a_connection() -> None:
    """Then there was nothing to shut down; the connection made after it is not used."""

    class Late(Conversation):
        def _hold(self, one: socket.socket) -> None:
            super()._hold(one)
            self.end()

    with socket.create_server(("127.0.0.1", 0)) as server:
        settings = MailSettings(
            host="127.0.0.1", sender="events@gateway.example", domains=("example.org",)
        )
        late = Late(settings, ssl.create_default_context(), 5.0)
        with late, pytest.raises(TimeoutError):
            late.connect("127.0.0.1", server.getsockname()[1])
        accepted, _ = server.accept()
        with accepted:
            accepted.settimeout(5)
            assert accepted.recv(1) == b""
    assert not late.connected
