"""A publisher, a listener and a channel of Grid SOAP Events made with gSOAP, in C++, compiled when the
first test asks for it.

What wsdl2h and soapcpp2 generate is under gSOAP's own licence: it stays in a temporary folder.
"""

import asyncio
import atexit
import contextlib
import functools
import shutil
import subprocess
import tempfile
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from mediation.grid_events import Port, write_description
from tests.rigs.gsoap import needs_gsoap
from tests.rigs.waiting import DEADLINE

_HERE = Path(__file__).parents[1] / "foreign"
_COMPILE = 50.0
BINDING = "urn:gsoap-listener"
"""The namespace of the methods of listeners and channels."""


def needs_gsoap_grid() -> None:
    """Skip the module that says this where there is no gSOAP or no compiler of C++."""
    needs_gsoap()
    missing = next((name for name in ("wsdl2h", "c++") if shutil.which(name) is None), None)
    if missing is not None:
        pytest.skip(
            f"needs gSOAP: {missing} is not installed (gsoap, g++)", allow_module_level=True
        )


@functools.cache
def gsoap_grid() -> Path:
    """The program of gsoap_grid.cpp, on classes made of the gateway's description."""
    folder = Path(tempfile.mkdtemp(prefix="dragoman-gsoap-grid-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)

    def run(*words: str) -> None:
        done = subprocess.run(words, cwd=folder, capture_output=True, timeout=_COMPILE, check=False)
        assert done.returncode == 0, done.stdout.decode() + done.stderr.decode()

    (folder / "grid.wsdl").write_bytes(write_description("http://127.0.0.1/soap"))
    run("wsdl2h", "-s", "-o", "grid.h", "grid.wsdl")
    with (folder / "grid.h").open("a") as header:
        header.write((_HERE / "gsoap_grid.h").read_text())
    run("soapcpp2", "-L", "-x", "-w", "grid.h")
    # With what Debian's library was built, or the structures differ.
    flags = ["-O0", "-DWITH_IPV6", "-DWITH_DOM", "-I."]
    source = str(_HERE / "gsoap_grid.cpp")
    run("c++", *flags, "-Wall", "-Wextra", "-Werror", "-c", source, "-o", "main.o")
    generated = ["soapC.cpp", "soapClient.cpp", "soapServer.cpp"]
    run("c++", *flags, "-w", "main.o", *generated, "-lgsoap++", "-o", "grid")
    return folder / "grid"


class Serving:
    """A listener or a channel that runs; each line of it is what it was called with."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self.port = 0
        self.lease = 0
        """Of a listener: the milliseconds that it was granted."""

    @property
    def reference(self) -> Port:
        return Port(f"http://127.0.0.1:{self.port}/channel", BINDING, BINDING)

    async def line(self) -> str:
        """The next line of its output."""
        assert self._process.stdout is not None
        async with asyncio.timeout(DEADLINE):
            line = await self._process.stdout.readline()
        if not line:
            assert self._process.stderr is not None
            raise AssertionError(f"gSOAP: {(await self._process.stderr.read()).decode()}")
        return line.decode().rstrip("\n")

    async def called(self) -> tuple[str, dict[str, str]]:
        """The next call of it: its event's class, or the method; and the fields."""
        kind, *fields = (await self.line()).split("\t")
        return kind, dict(field.split("=", 1) for field in fields)

    async def ended(self) -> None:
        """End its input, and wait for its end; nothing else was called."""
        async with asyncio.timeout(DEADLINE):
            out, err = await self._process.communicate(b"")
        assert (self._process.returncode, out) == (0, b""), out.decode() + err.decode()


async def _start(*words: str) -> Process:
    return await asyncio.create_subprocess_exec(
        str(gsoap_grid()), *words, stdin=PIPE, stdout=PIPE, stderr=PIPE
    )


async def grid_publish(channel: str, number: int = 0, *options: str) -> list[str]:
    """Publish an event of each class, the first with *number* in sequence; a line for each answer."""
    process = await _start(*options, "publish", channel, str(number))
    try:
        async with asyncio.timeout(DEADLINE):
            out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, err.decode()
    return out.decode().splitlines()


@asynccontextmanager
async def _serving(*words: str) -> AsyncIterator[Serving]:
    process = await _start(*words)
    try:
        serving = Serving(process)
        serving.port = int(await serving.line())
        yield serving
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
        await process.communicate()


@asynccontextmanager
async def grid_listener(
    channel: str, *options: str, handback: str = "h", event_type: str = ""
) -> AsyncIterator[Serving]:
    """A listener that has subscribed itself, to *event_type* where there is one."""
    async with _serving(*options, "listen", channel, handback, event_type) as serving:
        serving.lease = int(await serving.line())
        yield serving


@asynccontextmanager
async def grid_channel() -> AsyncIterator[Serving]:
    """A channel, which passes on what it is called with; it grants half of each lease."""
    async with _serving("channel") as serving:
        yield serving
