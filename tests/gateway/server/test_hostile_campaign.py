"""A gateway under spoilt messages by the thousand, watched by strace: each gets an answer soon, no
file is opened that is not its own, nothing is connected to but what its policy allows, and good
requests go on beside."""

import asyncio
import ipaddress
import json
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mediation.model.versions import Soap
from mediation.packaging.dime import DimeMessage, Encoder
from tests.gateway.soap.test_hostile import HOSTILE, XML, envelope, fields
from tests.gateway.soap.test_mutations import ENVELOPES, SPLINTERS, STATUSES, TOKEN, WORDS
from tests.rigs.envelopes import WSE, Speaker
from tests.rigs.gateways import http_request, read_http
from tests.rigs.processes import GatewayProcess, event
from tests.rigs.soap_tcp import RawPeer
from tests.rigs.waiting import DEADLINE, until

SEED = 20
MOST_SECONDS = 0.25
"""Of processor time, for one input."""
MOST_OCTETS = 128 * 2**20
"""Of memory, more than before."""
ROOT = Path(__file__).parents[3]
ASKED = b"urn:test:asked"
QUESTION = Encoder().encode(
    DimeMessage(
        Soap.V1_1,
        Speaker().envelope(f'<e:GetStatus xmlns:e="{WSE}"/>', message_id=ASKED.decode()),
    )
)
LOOPBACK = ipaddress.IPv4Network("127.0.0.0/8"), ipaddress.IPv6Network("::1/128")
ELSEWHERE = [
    *map(str, ipaddress.IPv4Network("0.0.0.0/0").address_exclude(LOOPBACK[0])),
    *map(str, ipaddress.IPv6Network("::/0").address_exclude(LOOPBACK[1])),
]
OPENED = re.compile(r'(?:open|openat2?)\((?:AT_FDCWD<([^>]*)>, )?"([^"]*)".* = (?:\d+<([^>]*)>|-)')
CONNECTED = re.compile(r'connect\(.*sin6?_port=htons\((\d+)\).*?"([0-9a-f.:]+)"')
"""Of a call of strace: where it was, what was asked for, what was got."""


class Spoiler:
    """Envelopes with parts changed, moved, doubled, dropped or mixed in, and hostile ones."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        asked = [field for address in HOSTILE for field in fields(address).values()]
        self._whole = [
            *(speaker.envelope(body, headers=headers) for speaker, body, headers in asked),
            *(envelope(Soap.V1_1, inner, prolog) for inner, prolog in XML.values()),
        ]
        self._small = [one for one in self._whole if len(one) < 10_000]

    def next(self) -> bytes:
        chance = self._chance
        if chance.random() < 0.002:  # Some are megabytes long.
            return chance.choice(self._whole)
        octets = chance.choice(self._small if chance.random() < 0.1 else ENVELOPES)
        for _ in range(chance.randint(1, 4)):
            octets = self._changed(octets)
        return octets

    def dime(self) -> tuple[bytes, bool]:
        """A message of SOAP.TCP, and whether its DIME is whole, so that it gets an answer."""
        octets = Encoder().encode(DimeMessage(Soap.V1_1, self.next()))
        if self._chance.random() < 0.5:
            return octets, True
        at = self._chance.randrange(min(64, len(octets)))
        return octets[:at] + bytes([self._chance.randrange(256)]) + octets[at + 1 :], False

    def _changed(self, octets: bytes) -> bytes:
        chance, form = self._chance, self._chance.choice((TOKEN, WORDS))
        places = [match.span() for match in form.finditer(octets)]
        if not places:
            return octets
        start, end = chance.choice(places)
        part = octets[start:end]
        match chance.randrange(6):
            case 0:
                part = b""
            case 1:
                part += part
            case 2:
                part = chance.choice(SPLINTERS)
            case 3:
                part += chance.choice(SPLINTERS)
            case 4:
                part = bytes([part[0] ^ (1 << chance.randrange(8))]) + part[1:]
            case _:
                source = chance.choice((octets, chance.choice(ENVELOPES)))
                found = [match.span() for match in form.finditer(source)]
                first, last = chance.choice(found)
                part = source[first:last]
        return octets[:start] + part + octets[end:]


class Stranger:
    """Sends what a `Spoiler` makes, one after the other, over HTTP and SOAP.TCP."""

    def __init__(self, gateway: GatewayProcess, tcp_port: int, seed: int) -> None:
        self._gateway = gateway
        self._tcp_port = tcp_port
        self._spoiler = Spoiler(seed)
        self._chance = random.Random(seed)
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._peer: RawPeer | None = None
        self.statuses: dict[int, int] = {}

    async def send(self, count: int) -> None:
        dearest = (0.0, b"")
        for number in range(count):
            before = processor_seconds(self._gateway.pid)
            if number % 4:
                octets = self._spoiler.next()
                await self._post(octets)
            else:
                octets, whole = self._spoiler.dime()
                await self._put(octets, whole)
            dearest = max(dearest, (processor_seconds(self._gateway.pid) - before, octets))
        await self.close()
        assert dearest[0] < MOST_SECONDS, (dearest[0], dearest[1][:2000])

    async def _post(self, octets: bytes) -> None:
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._gateway.port)
        reader, writer = self._streams
        path = self._chance.choice(("/soap", "/soap/topic/a%20b", "/subscriptions/", "/wsman"))
        type_ = self._chance.choice(("text/xml", "application/soap+xml", "application/xml"))
        head = http_request(self._gateway.port, "POST", path, octets, {"content_type": type_})
        writer.write(head)
        first, headers, _ = await asyncio.wait_for(read_http(reader), DEADLINE)
        status = int(first.split(" ")[1])
        self.statuses[status] = self.statuses.get(status, 0) + 1
        assert status in STATUSES, (status, octets)
        if headers.get("connection") == "close":
            writer.close()
            self._streams = None

    async def _put(self, octets: bytes, whole: bool) -> None:
        """Send a message, and a question behind it: what is taken as an event has no answer."""
        if self._peer is None:
            self._peer = await RawPeer.connect(self._tcp_port)
        try:
            await self._peer.send(octets + QUESTION)
            async with asyncio.timeout(DEADLINE if whole else 0.05):
                while ASKED not in (await self._peer.receive()).envelope:
                    pass
        except (TimeoutError, EOFError, ConnectionError):
            assert not whole or self._peer.reader.at_eof(), octets
            await self._peer.close()
            self._peer = None

    async def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
        if self._peer is not None:
            await self._peer.close()
        self._streams = self._peer = None


def processor_seconds(pid: int) -> float:
    """What the threads of a process have used."""
    used = 0
    for thread in Path(f"/proc/{pid}/task").iterdir():
        try:
            used += int((thread / "schedstat").read_text().split()[0])
        except OSError:  # It has ended.
            continue
    return used / 1e9


async def good_requests(gateway: GatewayProcess, until_: asyncio.Event) -> list[float]:
    """Publish now and then; the seconds of each answer."""
    took = []
    for number in range(10**9):
        if until_.is_set():
            break
        began = time.monotonic()
        answer = await gateway.request(
            "POST", "/soap", event(f"g{number}"), content_type="text/xml"
        )
        assert answer.status == 202
        took.append(time.monotonic() - began)
        await asyncio.sleep(0.05)
    return took


def strange(trace: str, allowed: list[Path]) -> list[str]:
    """The calls of *trace* that open what is not *allowed*, or connect beyond this machine."""
    found = []
    for line in trace.splitlines():
        if opened := OPENED.search(line):
            folder, asked, got = opened.groups()
            path = Path(got or os.path.normpath(Path(folder or "/", asked)))
            if not any(path.is_relative_to(one) for one in allowed):
                found.append(line)
        elif connected := CONNECTED.search(line):
            port, address = int(connected[1]), ipaddress.ip_address(connected[2])
            if port != 53 and not any(address in one for one in LOOPBACK):
                found.append(line)
        elif "execve(" in line and "/strace" not in line and sys.executable not in line:
            found.append(line)
    return found


@pytest.fixture
def strace() -> str:
    found = shutil.which("strace")
    if found is None or subprocess.run([found, "true"], capture_output=True).returncode:
        pytest.skip("strace is not installed, or may not trace here")
    return found


async def campaign(strace: str, tmp_path: Path, count: int) -> str:
    trace = tmp_path / "trace"
    gateway = GatewayProcess(
        tmp_path / "data",
        # Whatever a change makes of an address, no machine but this one is sent anything.
        {"DRAGOMAN_EGRESS_FORBIDDEN": json.dumps(ELSEWHERE), "DRAGOMAN_SOAP_TCP_PORT": "0"},
    )
    calls = "open,openat,openat2,connect,execve"
    await gateway.start(
        strace, "-D", "-f", "-y", "--seccomp-bpf", "-s", "4096", "-o", str(trace),
        "-e", "signal=none", "-e", f"trace={calls}",
    )  # fmt: skip
    stop = asyncio.Event()
    try:
        stranger = Stranger(gateway, await tcp_port(gateway), SEED)
        await stranger.send(200)  # What is loaded once is loaded.
        before = gateway.memory()
        good = asyncio.create_task(good_requests(gateway, stop))
        await stranger.send(count)
        stop.set()
        took = sorted(await good)
        grown = gateway.memory() - before
        assert grown < MOST_OCTETS
        assert "soap.internal-error" not in gateway.log.read_text()
        assert await gateway.end() == 0
    finally:
        stop.set()
        if gateway.process is not None and gateway.process.returncode is None:
            await gateway.kill()
    ended = re.compile(rf"^{gateway.pid} +\+\+\+ exited", re.MULTILINE)
    await until(lambda: bool(ended.search(trace.read_text(errors="replace"))))
    allowed = [
        tmp_path, ROOT, *(Path(one).resolve() for one in (sys.prefix, sys.base_prefix)),
        *map(Path, ("/lib", "/usr", "/proc", "/sys", "/dev/urandom", "/dev/null")),
        *map(Path, ("/etc/ld.so.cache", "/etc/ssl", "/etc/localtime", "/etc/timezone")),
        *map(Path, ("/etc/hosts", "/etc/host.conf", "/etc/resolv.conf", "/etc/nsswitch.conf")),
        *map(Path, ("/etc/gai.conf", "/etc/mime.types", "/etc/services", "/etc/protocols")),
        *map(Path, ("/etc/locale.alias", "/opt/pyca/cryptography/openssl")),
    ]  # fmt: skip
    assert strange(trace.read_text(errors="replace"), allowed) == []
    return (
        f"{count} inputs: {stranger.statuses}; good ones beside: p50 "
        f"{statistics.median(took) * 1e3:.1f} ms, p99 {took[len(took) * 99 // 100] * 1e3:.1f} ms "
        f"of {len(took)}; {grown >> 20} MiB more than before"
    )


async def tcp_port(gateway: GatewayProcess) -> int:
    """Of what it says after that it is ready."""
    assert gateway.process is not None and gateway.process.stdout is not None
    async with asyncio.timeout(DEADLINE):
        async for line in gateway.process.stdout:
            if line.startswith(b"SOAP.TCP"):
                return int(line.decode().rpartition(":")[2])
    raise AssertionError("It does not say where it listens for SOAP.TCP.")


@pytest.mark.nightly
async def test_spoilt_messages(strace: str, tmp_path: Path) -> None:
    print(await campaign(strace, tmp_path, 10_000))


@pytest.mark.release
async def test_a_million_spoilt_messages(strace: str, tmp_path: Path) -> None:
    print(await campaign(strace, tmp_path, 1_000_000))


def test_what_is_strange(tmp_path: Path) -> None:
    """The search finds what it is for."""
    trace = """7 openat(AT_FDCWD</work>, "/etc/shadow", O_RDONLY) = 3</etc/shadow>
7 openat(AT_FDCWD</work>, "../../etc/none", O_RDONLY) = -1 ENOENT (No such file)
7 openat(AT_FDCWD</work>, "/good/file", O_RDONLY) = 3</good/file>
7 connect(9<TCP:[1]>, {sa_family=AF_INET, sin_port=htons(80), sin_addr=inet_addr("10.0.0.1")}, 16) = 0
7 connect(9<TCP:[1]>, {sa_family=AF_INET, sin_port=htons(80), sin_addr=inet_addr("127.0.0.9")}, 16) = 0
7 connect(9<TCPv6:[1]>, {sa_family=AF_INET6, sin6_port=htons(80), sin6_flowinfo=htonl(0), \
inet_pton(AF_INET6, "2001:db8::1", &sin6_addr), sin6_scope_id=0}, 28) = -1 EINPROGRESS
7 execve("/bin/sh", ["sh"], 0x7ffc /* 9 vars */) = 0
"""
    lines = [line.split()[1][:9] for line in strange(trace, [Path("/good")])]
    assert lines == ["openat(AT", "openat(AT", "connect(9", "connect(9", 'execve("/']
