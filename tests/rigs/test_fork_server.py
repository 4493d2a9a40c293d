"""A gateway that is forked is a process as one that Python was started for."""

import os
import signal
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.rigs.fork_server import PRELOADED, PROGRAM, installed
from tests.rigs.processes import GatewayProcess
from tests.rigs.programs import RunningGateway, environment, run


@pytest.mark.parametrize("prefix", [(), ("env",)], ids=["forked", "started"])
async def test_a_gateway(tmp_path: Path, prefix: tuple[str, ...]) -> None:
    gateway = GatewayProcess(tmp_path / "data")
    await gateway.start(*prefix)
    assert (await gateway.request("GET", "/readyz")).status == 200
    assert Path(f"/proc/{gateway.pid}/cwd").readlink() == Path.cwd()
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    assert str(gateway.pid) in children
    words = Path(f"/proc/{gateway.pid}/cmdline").read_bytes().split(b"\0")
    assert (b"tests.rigs.fork_server" in words) is (prefix == ())
    assert await gateway.end() == 0
    await gateway.start(*prefix)
    await gateway.kill()


@pytest.mark.parametrize(
    "words", [("--version",), ("publish", "--no-such-option"), ("match", "x", "missing.xml")]
)
def test_a_command_says_and_ends_the_same(tmp_path: Path, words: tuple[str, ...]) -> None:
    forked = run(*words, cwd=tmp_path)
    started = subprocess.run(
        ["env", *PROGRAM, *words],
        cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (forked.returncode, forked.stdout) == (started.returncode, started.stdout)
    assert forked.stderr == started.stderr


def test_folder_environment_and_signals_are_its_own(tmp_path: Path) -> None:
    with RunningGateway(cwd=tmp_path, DRAGOMAN_PORT="1") as gateway:  # The option is stronger.
        assert (tmp_path / "data").is_dir()
        environ = dict(os.environ)
        gateway.process.send_signal(signal.SIGKILL)
        assert gateway.end() == -signal.SIGKILL
    assert dict(os.environ) == environ


def test_what_is_preloaded_is_there() -> None:
    missing = [module for module in PRELOADED if find_spec(module) is None]
    assert not missing, "it has moved"


def test_others_are_started_as_always() -> None:
    with installed():
        done = subprocess.run([*PROGRAM[:1], "-c", "print(1)"], stdout=subprocess.PIPE, check=True)
    assert done.stdout == b"1\n"
