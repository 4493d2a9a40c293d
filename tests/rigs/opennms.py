"""The client of WS-Management of OpenNMS, compiled when the first test asks for it, as a process that
is told what to do line by line."""

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

DEADLINE = 60.0
_HERE = Path(__file__).parents[1] / "foreign" / "opennms"
_LIBRARIES = Path(
    os.environ.get("DRAGOMAN_OPENNMS") or Path.home() / ".cache" / "dragoman" / "opennms"
)
_OPENED = ("java.base/java.lang=ALL-UNNAMED", "java.base/java.net=ALL-UNNAMED")
"""What its libraries, written for Java 8, look into."""


def needs_opennms() -> None:
    """Skip the module that says this where there is no Java compiler, or no client."""
    if shutil.which("javac") is None:
        pytest.skip("needs javac (openjdk-17-jdk-headless)", allow_module_level=True)
    if not list(_LIBRARIES.glob("org.opennms.core.wsman.cxf-*.jar")):
        pytest.skip(
            "needs OpenNMS's client: mvn -q -f tests/foreign/opennms "
            f"dependency:copy-dependencies -DoutputDirectory={_LIBRARIES}",
            allow_module_level=True,
        )


@functools.lru_cache(maxsize=1)
def _compiled() -> str:
    """Compile the peer; the class path that it runs with."""
    folder = tempfile.mkdtemp(prefix="dragoman-opennms-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    libraries = f"{_LIBRARIES}/*"
    command = ["javac", "-nowarn", "-cp", libraries, "-d", folder, str(_HERE / "Peer.java")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=DEADLINE)
    assert done.returncode == 0, done.stderr
    return f"{libraries}:{folder}"


class OpenNmsClient:
    """The client."""

    def __init__(self, process: Process) -> None:
        self._process = process

    async def ask(self, *words: str) -> tuple[bool, list[str]]:
        """Have it ask; whether it was answered without a fault, and what it says of that."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None and stdout is not None
        stdin.write((" ".join(words) + "\n").encode())
        async with asyncio.timeout(DEADLINE):
            await stdin.drain()
            said = (await stdout.readline()).decode().split()
        assert said, "it has ended"
        return said[0] == "ok", said[1:]


@asynccontextmanager
async def opennms_client(url: str) -> AsyncIterator[OpenNmsClient]:
    """A client of the service at *url*."""
    opened = [word for package in _OPENED for word in ("--add-opens", package)]
    process = await asyncio.create_subprocess_exec(
        "java", *opened, "-cp", _compiled(), "Peer", url, stdin=PIPE, stdout=PIPE
    )
    try:
        yield OpenNmsClient(process)
    finally:
        process.kill()
        await process.wait()
