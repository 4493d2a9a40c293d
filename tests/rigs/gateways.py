"""A gateway in this process, peers that send to it, and consumers that it delivers to."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lxml import etree
from structlog.processors import format_exc_info
from structlog.testing import capture_logs
from structlog.typing import EventDict

from gateway.server.application import Application
from gateway.server.process import listen, serve
from gateway.settings.settings import Settings
from tests.rigs.envelopes import (
    S11,
    S12,
    Answer,
    Message,
    Speaker,
    fresh_id,
)
from tests.rigs.event_loops import watched
from tests.rigs.gateway_parts import GatewayParts
from tests.rigs.waiting import DEADLINE, until


async def read_http(reader: asyncio.StreamReader) -> tuple[str, dict[str, str], bytes]:
    """The first line, the headers and the body of one HTTP message with a known length."""
    head = await reader.readuntil(b"\r\n\r\n")
    first, *lines = head[:-4].decode("latin-1").split("\r\n")
    headers = {}
    for line in lines:
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return first, headers, body


@dataclass
class Running:
    """A gateway that runs in this process."""

    gateway: GatewayParts
    port: int
    logs: list[EventDict]
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    soap_tcp_port: int = 0
    """0: it has none."""
    admin_port: int = 0
    """Of the administration; 0: it is on that of SOAP."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def soap_tcp(self) -> str:
        """Its URL for SOAP.TCP."""
        return f"soap.tcp://127.0.0.1:{self.soap_tcp_port}"

    async def raw(self, octets: bytes) -> Answer:
        """Send exactly *octets* on a connection of their own."""
        return await exchange(self.port, octets)

    async def request(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        *,
        source: str = "127.0.0.1",
        **headers: str,
    ) -> Answer:
        """Send one request; an underscore in the name of a header is a hyphen. *source*: the
        peer's address."""
        octets = http_request(self.port, method, path, body, headers)
        return await exchange(self.port, octets, source)

    async def admin(self, method: str, path: str, body: bytes = b"", **headers: str) -> Answer:
        """Send one request to the listener of the administration."""
        port = self.admin_port or self.port
        return await exchange(port, http_request(port, method, path, body, headers))

    async def post(
        self, octets: bytes, path: str = "/soap", *, type: str | None = None, **headers: str
    ) -> Answer:
        """Post an envelope, of the type that it is unless told otherwise."""
        if type is None:
            type = S12.media_type if S12.value.encode() in octets[:400] else S11.media_type
        return await self.request("POST", path, octets, content_type=type, **headers)

    async def ask(
        self, speaker: Speaker, body: str, path: str = "/soap", **envelope: Any
    ) -> Answer:
        """Send *body* as *speaker* does, with a message id."""
        envelope.setdefault("message_id", fresh_id())
        source = envelope.pop("source", "127.0.0.1")
        octets = speaker.envelope(body, **envelope)
        return await self.post(octets, path, type=speaker.type, source=source)

    async def subscribe(
        self, speaker: Speaker, body: str, *, path: str = "/soap", **envelope: Any
    ) -> str:
        """Subscribe; the path and query of the manager's address."""
        answer = await self.ask(speaker, body, path, **envelope)
        assert answer.status == 200, answer.body
        return manager_path(answer.message)

    async def publish(
        self, payload: str, *, headers: str = "", path: str = "/soap", speaker: Speaker | None = None,
        **envelope: Any,
    ) -> None:  # fmt: skip
        """Publish *payload* as the body."""
        answer = await self.ask(speaker or Speaker(), payload, path, headers=headers, **envelope)
        assert (answer.status, answer.body) == (202, b""), answer.body

    async def api(self, method: str, path: str, body: bytes = b"") -> Answer:
        return await self.admin(method, f"/api/v1{path}", body, content_type="application/json")

    async def quiet(self) -> None:
        """Return once nothing is under way, and the conservation law holds."""

        async def holds() -> bool:
            law = await self.gateway.dispatchers.conservation()
            return law.in_flight == 0 and law.error == 0

        await until(holds)

    async def until(self, holds: Callable[[], bool]) -> None:
        """Return once *holds* is true."""
        await until(holds)


def manager_path(message: Message) -> str:
    """The path of the manager that a SubscribeResponse names."""
    for element in message.body[0].iter(etree.Element):
        if etree.QName(element).localname == "Address":
            address = (element.text or "").strip()
            return address[address.index("/", 8) :]
    raise AssertionError(message.octets)


def http_request(
    port: int, method: str, path: str, body: bytes, headers: Mapping[str, str]
) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", f"Host: 127.0.0.1:{port}", "Connection: close"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    if body or method in ("POST", "PUT"):
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


async def exchange(port: int, octets: bytes, source: str = "127.0.0.1") -> Answer:
    """Send *octets* to *port* on a connection of their own, and read the answer."""
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", port, limit=2**22, local_addr=(source, 0)
    )
    try:
        writer.write(octets)
        with contextlib.suppress(ConnectionError):
            await writer.drain()
        first, headers, body = await asyncio.wait_for(_read_answer(reader, octets), DEADLINE)
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
    return Answer(int(first.split(" ")[1]), headers, body)


async def _read_answer(
    reader: asyncio.StreamReader, octets: bytes
) -> tuple[str, dict[str, str], bytes]:
    if octets.startswith(b"HEAD "):
        head = await reader.readuntil(b"\r\n\r\n")
        rest = await reader.read()
        assert rest == b"", "an answer to HEAD has no body"
        first, *lines = head[:-4].decode("latin-1").split("\r\n")
        pairs = (line.partition(":") for line in lines)
        return first, {name.lower(): value.strip() for name, _, value in pairs}, b""
    return await read_http(reader)


@contextlib.asynccontextmanager
async def running(data: Path, **settings: Any) -> AsyncIterator[Running]:
    """A gateway with its data in *data*; on the way out the conservation law must hold and
    nothing may have gone wrong inside. It listens for SOAP.TCP where *settings* name a port."""
    chosen = Settings(**{"adapter": "memory:", "data": data, "port": 0, **settings})
    listener = listen(chosen.host, 0)
    tcp = {}
    if chosen.soap_tcp_port is not None:
        tcp["soap.tcp"] = listen(chosen.host, chosen.soap_tcp_port)
    admin = listen(chosen.admin[0], 0) if chosen.admin is not None else None
    stop = asyncio.Event()
    known: asyncio.Future[tuple[Application, int]] = asyncio.get_running_loop().create_future()
    with contextlib.ExitStack() as stack:
        for sock in (listener, *tcp.values(), *([admin] if admin else [])):
            stack.enter_context(contextlib.closing(sock))
        logs = stack.enter_context(capture_logs(processors=[format_exc_info]))
        serving = asyncio.create_task(
            serve(
                chosen,
                listener,
                admin=admin,
                tcp=tcp,
                started=lambda gateway, port: known.set_result((gateway, port)),
                stop=stop,
            )
        )
        try:
            await asyncio.wait((serving, known), return_when=asyncio.FIRST_COMPLETED)
            if serving.done():
                await serving
            gateway, port = known.result()
            run = Running(GatewayParts(gateway), port, logs, stop)
            if admin is not None:
                run.admin_port = admin.getsockname()[1]
            if tcp:
                run.soap_tcp_port = tcp["soap.tcp"].getsockname()[1]
            with watched():
                yield run
            if not stop.is_set():
                await run.quiet()
        finally:
            stop.set()
            code = await serving
    assert code == 0, [log for log in logs if log["log_level"] in ("error", "critical")]
    assert any(log["event"] == "dragoman.started" for log in logs), "logs are not captured"
    wrong = [log for log in logs if log["event"] == "soap.internal-error"]
    assert not wrong, wrong
