"""A peer made with gSOAP, compiled when the first test asks for it.

What soapcpp2 generates is under gSOAP's own licence: it stays in a temporary folder.
"""

import asyncio
import atexit
import contextlib
import functools
import json
import shutil
import signal
import subprocess
import tempfile
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mediation.model.messages import Attachment

DEADLINE = 60.0
_HERE = Path(__file__).parents[1] / "foreign"
_COMPILE = 60.0


def needs_gsoap() -> None:
    """Skip the module that says this, in one line, where there is no gSOAP or no compiler."""
    missing = next((name for name in ("soapcpp2", "cc") if shutil.which(name) is None), None)
    if missing is None and not Path("/usr/include/stdsoap2.h").exists():
        missing = "stdsoap2.h"
    if missing is not None:
        pytest.skip(
            f"needs gSOAP: {missing} is not installed (gsoap, libgsoap-dev, gcc)",
            allow_module_level=True,
        )


@functools.cache
def gsoap_peer() -> Path:
    """The program of gsoap_peer.c."""
    folder = Path(tempfile.mkdtemp(prefix="dragoman-gsoap-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    _build(["soapcpp2", "-c", "-C", "-w", "-x", f"-d{folder}", str(_HERE / "gsoap_peer.h")])
    # With what Debian's library was built, or the structures differ.
    flags = ["-std=gnu99", "-O1", "-DWITH_IPV6", "-DWITH_DOM", f"-I{folder}"]
    peer, program = folder / "gsoap_peer.o", folder / "gsoap_peer"
    source = str(_HERE / "gsoap_peer.c")
    _build(["cc", *flags, "-Wall", "-Wextra", "-Werror", "-c", source, "-o", str(peer)])
    generated = [str(folder / name) for name in ("soapC.c", "soapClient.c")]
    _build(["cc", *flags, str(peer), *generated, "-lgsoap", "-o", str(program)])
    return program


@functools.cache
def gsoap_digest() -> Path:
    """The program of gsoap_digest.c, with gSOAP's plugin for Digest of HTTP; it skips who asks for
    it where that is not installed."""
    plugins = Path("/usr/share/gsoap/plugin")
    for needed in (plugins / "httpda.c", Path("/usr/include/openssl/evp.h")):
        if not needed.exists():
            pytest.skip(f"needs gSOAP's plugins: {needed} is not there (gsoap, libssl-dev)")
    folder = Path(tempfile.mkdtemp(prefix="dragoman-gsoap-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    _build(["soapcpp2", "-c", "-C", "-w", "-x", f"-d{folder}", str(_HERE / "gsoap_digest.h")])
    flags = ["-std=gnu99", "-O1", "-w", "-DWITH_IPV6", "-DWITH_DOM", "-DWITH_OPENSSL"]
    flags += ["-DWITH_GZIP", f"-I{folder}", f"-I{plugins}"]
    sources = [str(_HERE / "gsoap_digest.c")]
    sources += [str(folder / name) for name in ("soapC.c", "soapClient.c")]
    sources += [str(plugins / name) for name in ("httpda.c", "smdevp.c", "threads.c")]
    libraries = ["-lgsoapssl", "-lssl", "-lcrypto", "-lz"]
    _build(["cc", *flags, *sources, *libraries, "-o", str(folder / "gsoap_digest")])
    return folder / "gsoap_digest"


def _build(words: Sequence[str]) -> None:
    done = subprocess.run(words, capture_output=True, timeout=_COMPILE, check=False)
    assert done.returncode == 0, done.stdout.decode() + done.stderr.decode()


@dataclass(frozen=True, slots=True)
class GsoapMessage:
    """One message as gSOAP read it: three headers of WS-Addressing 2004/08, and the body."""

    transport: str
    action: str | None
    message_id: str | None
    relates_to: str | None
    to: str | None
    body: str
    attachments: tuple[Attachment, ...]


def _read(line: bytes) -> GsoapMessage:
    fields: dict[str, Any] = json.loads(line)
    attachments = tuple(
        Attachment(part["id"], part["type"], bytes.fromhex(part["data"]))
        for part in fields.pop("attachments")
    )
    return GsoapMessage(**fields, attachments=attachments)


async def _start(*words: str) -> Process:
    """Start the peer; one line of its output may be several MiB."""
    return await asyncio.create_subprocess_exec(
        str(gsoap_peer()), *words, stdin=PIPE, stdout=PIPE, stderr=PIPE, limit=2**24
    )


async def gsoap(*words: str) -> list[GsoapMessage]:
    """Run the peer to its end; the messages that it was sent."""
    process = await _start(*words)
    async with asyncio.timeout(DEADLINE):
        out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    return [_read(line) for line in out.splitlines()]


async def gsoap_publish(
    transport: str,
    url: str,
    body: str,
    folder: Path,
    *options: str,
    attachments: Sequence[Attachment] = (),
) -> list[GsoapMessage]:
    """Publish *body*; the replies. Files for the peer are put into *folder*."""
    path = folder / "body.xml"
    path.write_text(body)
    words = [*options]
    for number, part in enumerate(attachments):
        file = folder / f"attachment-{number}"
        file.write_bytes(part.content)
        words += ["--attach", str(file), part.content_id, part.media_type]
    return await gsoap("publish", transport, url, str(path), *words)


class Peer:
    """A peer that runs: a consumer, or a subscriber that holds its subscription."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self.port = 0
        """Of a consumer."""

    async def line(self) -> bytes:
        """The next line of its output."""
        assert self._process.stdout is not None
        async with asyncio.timeout(DEADLINE):
            line = await self._process.stdout.readline()
        if not line:
            assert self._process.stderr is not None
            raise AssertionError(f"gSOAP: {(await self._process.stderr.read()).decode()}")
        return line

    async def message(self) -> GsoapMessage:
        """The next message that it got."""
        return _read(await self.line())

    async def ended(self) -> None:
        """End its input, and wait for its end, which must be a good one."""
        async with asyncio.timeout(DEADLINE):
            _, err = await self._process.communicate(b"")
        assert self._process.returncode == 0, err.decode()


@asynccontextmanager
async def gsoap_running(*words: str) -> AsyncIterator[Peer]:
    """The peer, run with *words*; killed on the way out unless it has ended."""
    process = await _start(*words)
    try:
        yield Peer(process)
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGKILL)
        await process.communicate()


@asynccontextmanager
async def gsoap_consumer(count: int) -> AsyncIterator[Peer]:
    """A consumer of *count* messages, on a port of its own."""
    async with gsoap_running("consume", "0", str(count)) as peer:
        peer.port = json.loads(await peer.line())["port"]
        yield peer
