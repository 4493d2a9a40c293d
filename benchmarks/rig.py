"""A gateway in a process of its own, consumers in another, and the messages between them."""

import asyncio
import os
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from mediation.model.versions import Soap, Version, Wsa
from mediation.names import WSE_2004_08, WSN_1_3, WSN_1_3_ACTIONS
from mediation.soap.envelopes import http_headers

PAYLOAD_OCTETS = 587
"""The message of the WS-Messenger paper's figure 5."""
TOPIC = "storms"


@dataclass(frozen=True)
class Running:
    """A gateway under measurement."""

    url: str
    pid: int
    soap_tcp_port: int = 0
    """0: it does not listen there."""

    def rss(self) -> int:
        """Resident memory in octets."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * 4096

    def cpu(self) -> float:
        """Seconds of processor time so far, of all its threads."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def metric(self, name: str) -> float:
        """One value of ``/metrics``."""
        with urllib.request.urlopen(f"{self.url}/metrics") as answer:
            for line in answer.read().decode().splitlines():
                if line.startswith(f"{name} "):
                    return float(line.split()[1])
        raise KeyError(name)


@contextmanager
def gateway(
    *options: str,
    adapter: str = "embedded:",
    soap_tcp: bool = False,
    folder: str = ".",
    environment: Mapping[str, str] | None = None,
) -> Iterator[Running]:
    """A gateway on the first core, its data on the disk of *folder*."""
    soap_tcp_port = _free_port() if soap_tcp else 0
    if soap_tcp:
        options = (*options, "--soap-tcp-port", str(soap_tcp_port))
    with tempfile.TemporaryDirectory(dir=folder, prefix=".benchmark-") as data:
        command = [
            sys.executable, "-c", _PINNED, "serve", "--port", "0", "--data", data,
            "--adapter", adapter, *options,
        ]  # fmt: skip
        log = Path(data) / "log"
        with log.open("wb") as errors:
            process = subprocess.Popen(
                command,
                stdout=subprocess.PIPE,
                stderr=errors,
                env={**os.environ, **(environment or {})},
            )
        try:
            line = process.stdout.readline().decode() if process.stdout else ""
            if "ready on" not in line:
                raise SystemExit(f"the gateway did not start: {log.read_text()[-500:]}")
            yield Running(line.split()[4], process.pid, soap_tcp_port)
        finally:
            process.terminate()
            process.wait(30)


def off_disk() -> str:
    """A folder in memory where there is one, for questions that are not about the disk."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else "."


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


_PINNED = (
    "import sys; from benchmarks.machine import pin; pin(0); "
    "sys.argv[0] = 'dragoman'; from gateway.cli import main; main()"
)


class Sinks:
    """The consumers' process; *scheme* is what they speak."""

    def __init__(self, number: int, scheme: str = "http") -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.sinks", str(number), scheme],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.ports = [int(port) for port in self._read().split()]

    def _read(self) -> str:
        if self._process.stdout is None:
            raise RuntimeError("the consumers have no output")
        return self._process.stdout.readline()

    def expect(self, number: int) -> None:
        """Begin a round of *number* receipts."""
        self._ask(f"round {number}")

    def times(self) -> tuple[int, list[float]]:
        """How many receipts there were since this was last asked, and the seconds that 50, 95 and
        99 % of them took at most."""
        _, count, *shares = self._ask("times 0").split()
        return int(count), [float(share) for share in shares]

    def _ask(self, line: str) -> str:
        if self._process.stdin is None:
            raise RuntimeError("the consumers have no input")
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        return self._read()

    async def all_received(self, seconds: float | None = None) -> tuple[float, float]:
        """Wait for the round: mean and last receipt, in seconds.

        Raises:
            TimeoutError: It was not complete after *seconds*; the consumers are of no use then.
        """
        reading = asyncio.create_task(asyncio.to_thread(self._read))
        done, _ = await asyncio.wait([reading], timeout=seconds)
        if not done:
            self.close()
            raise TimeoutError
        line = reading.result()
        _, mean, last = line.split()
        return float(mean), float(last)

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(10)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def envelope(version: Version, header: str, body: str) -> bytes:
    """A request in the way *version* travels by itself."""
    wsa = Wsa.V2004_08 if version is Version.WSE_2004_08 else Wsa.V2005_08
    return (
        f'<s:Envelope xmlns:s="{Soap.V1_2.value}" xmlns:wsa="{wsa.value}">'
        f"<s:Header>{header}</s:Header><s:Body>{body}</s:Body></s:Envelope>"
    ).encode()


def subscribe_request(version: Version, consumer: str, topic: str = TOPIC) -> bytes:
    """Subscribe *consumer* to *topic*."""
    if version is Version.WSE_2004_08:
        return envelope(
            version,
            f"<wsa:Action>{WSE_2004_08}/Subscribe</wsa:Action>",
            f'<e:Subscribe xmlns:e="{WSE_2004_08}"><e:Delivery><e:NotifyTo><wsa:Address>{consumer}'
            "</wsa:Address></e:NotifyTo></e:Delivery><e:Filter "
            f'Dialect="http://docs.oasis-open.org/wsn/t-1/TopicExpression/Simple">{topic}</e:Filter>'
            "</e:Subscribe>",
        )
    return envelope(
        version,
        f"<wsa:Action>{WSN_1_3_ACTIONS}NotificationProducer/SubscribeRequest</wsa:Action>",
        f'<n:Subscribe xmlns:n="{WSN_1_3}"><n:ConsumerReference><wsa:Address>{consumer}'
        "</wsa:Address></n:ConsumerReference><n:Filter><n:TopicExpression "
        f'Dialect="http://docs.oasis-open.org/wsn/t-1/TopicExpression/Simple">{topic}'
        "</n:TopicExpression></n:Filter></n:Subscribe>",
    )


def publish_request(
    version: Version, number: int, t0: float | None = None, topic: str = TOPIC
) -> bytes:
    """An event of `PAYLOAD_OCTETS`, with the time inside."""
    t0 = time.clock_gettime(time.CLOCK_MONOTONIC) if t0 is None else t0
    payload = f'<w:Warning xmlns:w="urn:weather"><t0>{t0:.6f}</t0><w:x>'
    payload += (
        "x" * (PAYLOAD_OCTETS - len(payload) - len("</w:x></w:Warning>")) + "</w:x></w:Warning>"
    )
    message_id = f"<wsa:MessageID>urn:benchmark:{time.monotonic_ns()}:{number}</wsa:MessageID>"
    if version is Version.WSE_2004_08:
        header = (
            f"<wsa:Action>urn:weather:Warning</wsa:Action>{message_id}"
            f'<n:Topic xmlns:n="{WSN_1_3}">{topic}</n:Topic>'
        )
        return envelope(version, header, payload)
    return envelope(
        version,
        f"<wsa:Action>{WSN_1_3_ACTIONS}NotificationConsumer/Notify</wsa:Action>{message_id}",
        f'<n:Notify xmlns:n="{WSN_1_3}"><n:NotificationMessage><n:Topic>{topic}</n:Topic>'
        f"<n:Message>{payload}</n:Message></n:NotificationMessage></n:Notify>",
    )


class Poster(asyncio.Protocol):
    """A keep-alive connection that posts one message at a time: the bare baseline."""

    @classmethod
    async def connect(
        cls,
        host: str,
        port: int,
        path: str,
        *,
        headers: str = "",
        soap: Soap = Soap.V1_2,
        tls: ssl.SSLContext | None = None,
    ) -> "Poster":
        """*headers*: further ones, each with its end of line."""
        loop = asyncio.get_running_loop()
        _, poster = await loop.create_connection(
            lambda: cls(host, port, path, headers, soap), host, port, ssl=tls
        )
        return poster

    def __init__(
        self, host: str, port: int, path: str, headers: str = "", soap: Soap = Soap.V1_2
    ) -> None:
        own = "".join(f"{name}: {value}\r\n" for name, value in http_headers(soap, ""))
        self._head = (
            f"POST {path} HTTP/1.1\r\nHost: {host}:{port}\r\n{own}{headers}Content-Length: "
        ).encode()
        self._buffer = b""
        self._waiting: asyncio.Future[tuple[int, bytes]] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def post(self, body: bytes) -> "asyncio.Future[tuple[int, bytes]]":
        """Send *body*; the status and the body of the answer."""
        self._waiting = asyncio.get_running_loop().create_future()
        head = self._head + str(len(body)).encode() + b"\r\n\r\n"
        self._transport.write(head + body)  # type: ignore[attr-defined]  # it is a stream's
        return self._waiting

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, found, rest = self._buffer.partition(b"\r\n\r\n")
        if not found or self._waiting is None:
            return
        _, _, after = head.lower().partition(b"content-length:")
        length = int(after.split(b"\r\n")[0] or b"0")
        if len(rest) >= length:
            self._buffer = b""
            self._waiting.set_result((int(head.split(b" ", 2)[1]), rest))

    def connection_lost(self, exc: Exception | None) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(exc or ConnectionResetError())

    def close(self) -> None:
        self._transport.close()
