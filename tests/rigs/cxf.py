"""A peer made with Apache CXF, compiled when the first test asks for it, as a process that is told
what to do line by line."""

import asyncio
import atexit
import functools
import os
import shutil
import subprocess
import tempfile
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.rigs.ports import free_ports

DEADLINE = 60.0
_HERE = Path(__file__).parents[1] / "foreign" / "cxf"
LIBRARIES = Path(os.environ.get("DRAGOMAN_CXF") or Path.home() / ".cache" / "dragoman" / "cxf")


def needs_cxf(module: str = "cxf-rt-ws-eventing") -> None:
    """Skip the module that says this where there is no Java compiler, or no CXF with that
    *module*."""
    if shutil.which("javac") is None:
        pytest.skip("needs javac (openjdk-17-jdk-headless)", allow_module_level=True)
    if not list(LIBRARIES.glob(f"{module}-*.jar")):
        pytest.skip(
            "needs Apache CXF: mvn -q -f tests/foreign/cxf dependency:copy-dependencies "
            f"-DoutputDirectory={LIBRARIES}",
            allow_module_level=True,
        )


@functools.cache
def _compiled(name: str) -> str:
    """Compile a peer; the class path that it runs with."""
    folder = tempfile.mkdtemp(prefix="dragoman-cxf-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    libraries = f"{LIBRARIES}/*"
    command = ["javac", "-nowarn", "-cp", libraries, "-d", folder, str(_HERE / f"{name}.java")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return f"{libraries}:{folder}:{_HERE}"


class CxfPeer:
    """A program that does what it is told, at *url*."""

    def __init__(self, process: Process, url: str) -> None:
        self._process = process
        self.url = url
        self._answers: asyncio.Queue[str] = asyncio.Queue()
        self._got: asyncio.Queue[str] = asyncio.Queue()

    async def listen(self) -> None:
        """Sort what it says into answers, and what its sinks got."""
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            word, _, rest = line.decode().strip().partition(" ")
            if word == "got":
                self._got.put_nowait(rest)
            else:
                self._answers.put_nowait(f"{word} {rest}".strip())

    async def answer(self) -> str:
        return await asyncio.wait_for(self._answers.get(), DEADLINE)

    async def ask(self, *words: str) -> str:
        """Tell it what to do; its answer."""
        assert self._process.stdin is not None
        self._process.stdin.write((" ".join(words) + "\n").encode())
        return await self.answer()

    async def got(self) -> str:
        """The next thing that one of its sinks got."""
        return await asyncio.wait_for(self._got.get(), DEADLINE)


@asynccontextmanager
async def cxf_peer(name: str = "Peer") -> AsyncIterator[CxfPeer]:
    """The peer of that *name* runs."""
    classes = await asyncio.to_thread(_compiled, name)
    [port] = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    command = ("java", "-cp", classes, name, url)
    with tempfile.TemporaryFile() as errors:
        process = await asyncio.create_subprocess_exec(
            *command, stdin=PIPE, stdout=PIPE, stderr=errors
        )
        peer = CxfPeer(process, url)
        listening = asyncio.create_task(peer.listen())
        try:
            assert await peer.answer() == "ready"
            yield peer
        finally:
            process.kill()
            await process.wait()
            await listening
