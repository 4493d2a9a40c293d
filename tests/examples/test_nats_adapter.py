"""The example of an adapter, installed into an environment of its own: it passes the contract kit
that is installed there, and a gateway stands in front of NATS with it."""

import asyncio
import os
import re
import shutil
import site
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.rigs.brokers import wait_for
from tests.rigs.consumers import consumers
from tests.rigs.ports import free_ports
from tests.rigs.processes import READY, START, GatewayProcess

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "nats-adapter"
SECONDS = 90.0
INSTALLING = 300.0
PROVING = 300.0

for program in ("nats-server", "setpriv"):
    if shutil.which(program) is None:
        pytest.skip(
            f"needs a NATS server: {program} is not installed (nats-server)",
            allow_module_level=True,
        )
if find_spec("hatchling") is None:
    pytest.skip("hatchling, which builds the packages, is not installed", allow_module_level=True)


pytestmark = pytest.mark.nightly


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment with Dragoman, built from this tree, and the example.

    What they need beside NATS' library is taken from the environment of this run, by a path and not
    by installing it once more: nothing of the checkout, or of its editable installation, is seen.
    Dragoman is built without its compiled engine, which takes a minute and matters nothing here.
    """
    folder = tmp_path_factory.mktemp("environment")
    run(INSTALLING, sys.executable, "-m", "venv", "--without-pip", str(folder))
    packages = next(folder.glob("lib/python*/site-packages"))
    (packages / "third-party.pth").write_text("\n".join(site.getsitepackages()))
    python = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps"]
    pip += ["--disable-pip-version-check", "--ignore-installed"]
    run(
        INSTALLING, *pip, "--no-index", "--no-build-isolation", str(ROOT), str(EXAMPLE),
        HATCH_BUILD_NO_HOOKS="true",
    )  # fmt: skip
    try:
        run(INSTALLING, *pip, "nats-py>=2.10")
    except subprocess.CalledProcessError as exc:
        pytest.skip(f"nats-py, the library of NATS, cannot be had: {exc.stderr.strip()[-200:]}")
    return python


def run(seconds: float, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, check=True, timeout=seconds, capture_output=True, text=True, cwd="/",
        env={**os.environ, **environment},
    )  # fmt: skip


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a NATS server of this module's own."""
    folder = tmp_path_factory.mktemp("nats")
    output = folder / "output.log"
    (port,) = free_ports(1)
    with output.open("wb") as log:
        process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "nats-server", "-a", "127.0.0.1", "-p", str(port), "-js", "-sd", str(folder)],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log,
        )  # fmt: skip
    try:
        wait_for(port, process, output)
        yield f"nats://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(SECONDS)


class InstalledGateway(GatewayProcess):
    """``dragoman serve`` as it is installed beside *python*, far from the checkout."""

    def __init__(self, python: Path, data: Path, *options: str) -> None:
        super().__init__(data)
        self._command = [str(python.with_name("dragoman")), "serve", *options]

    async def start(self, *prefix: str) -> None:
        with self.log.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                *prefix, *self._command, "--port", "0", "--data", str(self.data),
                stdout=asyncio.subprocess.PIPE, stderr=log, env=self.environment, cwd="/",
            )  # fmt: skip
        assert self.process.stdout is not None
        line = (await asyncio.wait_for(self.process.stdout.readline(), START)).decode()
        assert line.startswith(READY), self.log.read_text()[-2000:]
        self.port = int(line.removeprefix(READY).split()[0].rpartition(":")[2])
        self.up.set()


@asynccontextmanager
async def installed_gateway(
    python: Path, data: Path, *options: str
) -> AsyncIterator[InstalledGateway]:
    gateway = InstalledGateway(python, data, *options)
    await gateway.start()
    try:
        yield gateway
        assert await gateway.end() == 0, gateway.log.read_text()[-2000:]
    finally:
        if gateway.process is not None and gateway.process.returncode is None:
            await gateway.kill()


def test_nothing_of_the_checkout_is_seen(python: Path) -> None:
    script = "import adapters, dragoman_nats, gateway; print(adapters.__file__, gateway.__file__)"
    found = run(SECONDS, str(python), "-P", "-c", script).stdout.split()
    assert all(Path(file).is_relative_to(python.parents[1]) for file in found)


def test_it_passes_the_contract_kit(python: Path, tmp_path: Path) -> None:
    tests = shutil.copytree(EXAMPLE, tmp_path / "nats-adapter") / "tests"
    done = subprocess.run(
        [str(python), "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tests)],
        cwd=tests.parent, timeout=PROVING, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    passed = re.search(r"^(\d+) passed[, ]", done.stdout, re.MULTILINE)
    assert passed is not None, done.stdout[-2000:]
    kit = (ROOT / "adapters" / "testing").glob("*.py")
    contract = [file for file in kit if file.name != "dialects.py"]
    assert int(passed[1]) > sum(file.read_text().count("async def test_") for file in contract)


NATIVE = """
import asyncio, sys, nats

async def main(server, subject):
    client = await nats.connect(server)
    await client.jetstream().publish(subject, b"<n>native</n>")
    await client.close()

asyncio.run(main(*sys.argv[1:]))
"""


async def test_a_gateway_in_front_of_nats(python: Path, server: str, tmp_path: Path) -> None:
    """What is published is delivered; what comes while no gateway runs, once one does."""
    name = f"test-{uuid.uuid4().hex[:12]}"
    options = ("--adapter", f"{server}?stream={name}&root={name}")
    async with (
        consumers() as sinks,
        installed_gateway(python, tmp_path / "data", *options) as gateway,
    ):
        consumer = sinks.add()
        await gateway.subscribe(consumer.url)
        assert (await gateway.ask("<event><n>1</n></event>")).status == 202
        assert await consumer.have(1) == ["1"]
        await gateway.at_rest()
        await gateway.end()  # After kill -9 the first may come again.
        native = (str(python), "-P", "-c", NATIVE, server, f"{name}.adhoc.storms")
        await asyncio.to_thread(run, SECONDS, *native)
        await gateway.start()
        assert await consumer.have(2) == ["1", "native"]
        assert (await gateway.ask("<event><n>2</n></event>")).status == 202
        assert await consumer.have(3) == ["1", "native", "2"]
        await gateway.at_rest()


def test_a_scheme_that_is_misspelt(python: Path, tmp_path: Path) -> None:
    program = str(python.with_name("dragoman"))
    command = (program, "serve", "--port", "0", "--adapter", "nast://localhost")
    with pytest.raises(subprocess.CalledProcessError) as caught:
        run(SECONDS, *command, "--data", str(tmp_path))
    assert "did you mean nats:?" in caught.value.stderr
