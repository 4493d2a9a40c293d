"""Programs that are told to end take those with them that they started."""

import ast
import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import pytest

from tests.rigs.waiting import wait_until

ROOT = Path(__file__).parents[3]
MARK = "STARTED_BY"
STARTS = {"Popen", "create_subprocess_exec", "gateway", "Sinks"}
"""Names of what starts a process, in examples and benchmarks."""
STARTED = {"benchmarks/connections.py"}
"""Programs that are only started by others, of which they are imported."""

PARENT = """
import asyncio, subprocess, sys, time
from gateway.client.signals import end_as_by_interrupt
end_as_by_interrupt()

started = []

def start():
    started.append(subprocess.Popen(["sleep", "600"]))

async def wait():
    open("waits", "w").close()
    await asyncio.sleep(600)

try:
    start()
    {wait}
finally:
    for child in started:
        child.kill()
        child.wait()
"""
WAITS = {
    "plain": "open('waits', 'w').close(); time.sleep(600)",
    "asyncio": "asyncio.run(wait())",
    "uvloop": "import uvloop; uvloop.run(wait())",
}


def marked(mark: str) -> dict[int, str]:
    """The commands of all processes that inherited *mark*, by their ids."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # It ended meanwhile, or is somebody else's.
            if f"{MARK}={mark}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                found[int(folder.name)] = command
    return {number: command for number, command in found.items() if command}


def end(
    number: int, *command: str, cwd: Path, processes: int = 2, waits: Path | None = None
) -> None:
    """Start a program, tell it to end once so many *processes* run, and the file *waits* is there,
    and see that none is left."""
    mark = uuid4().hex
    program = subprocess.Popen(
        command,
        cwd=cwd,
        env=os.environ | {MARK: mark, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until(lambda: len(marked(mark)) >= processes, says=lambda: marked(mark))
        wait_until(lambda: waits is None or waits.exists())
        program.send_signal(number)
        program.wait(60)
        assert marked(mark) == {}
    finally:
        for left in marked(mark):
            os.kill(left, signal.SIGKILL)
        program.wait(60)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
@pytest.mark.parametrize("wait", WAITS.values(), ids=WAITS)
def test_a_program_ends_as_by_an_interrupt(
    number: signal.Signals, wait: str, tmp_path: Path
) -> None:
    program = PARENT.format(wait=wait)
    end(number, sys.executable, "-c", program, cwd=tmp_path, waits=tmp_path / "waits")


@pytest.mark.parametrize("wait", WAITS.values(), ids=WAITS)
def test_a_program_in_the_background_of_a_script(wait: str, tmp_path: Path) -> None:
    """There Ctrl-C is ignored."""
    program = f"import signal; signal.signal(signal.SIGINT, signal.SIG_IGN){PARENT}"
    program = program.format(wait=wait)
    end(signal.SIGTERM, sys.executable, "-c", program, cwd=tmp_path, waits=tmp_path / "waits")


def test_what_is_ignored_stays_ignored(tmp_path: Path) -> None:
    program = (
        "import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
        "from gateway.client.signals import end_as_by_interrupt\n"
        "end_as_by_interrupt(); signal.raise_signal(signal.SIGHUP); print('goes on')"
    )
    done = subprocess.run((sys.executable, "-c", program), cwd=ROOT, capture_output=True)
    assert done.stdout == b"goes on\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "command", "processes"),
    [
        pytest.param(
            signal.SIGTERM,
            ("examples/monitoring/monitoring.py", "--port", "0"),
            4,
            marks=pytest.mark.nightly,
        ),
        pytest.param(signal.SIGHUP, ("examples/auction/auction.py",), 2, marks=pytest.mark.nightly),
        (signal.SIGTERM, ("-m", "benchmarks.fanout"), 3),
        (signal.SIGHUP, ("-m", "benchmarks.ingest"), 2),
    ],
    ids=lambda value: value[-1] if isinstance(value, tuple) and "-m" in value else None,
)
def test_a_program_that_starts_others(
    number: signal.Signals, command: tuple[str, ...], processes: int, tmp_path: Path
) -> None:
    words = (str(ROOT / word) if word.endswith(".py") else word for word in command)
    end(number, sys.executable, *words, cwd=tmp_path, processes=processes)


@pytest.mark.parametrize("folder", ["examples", "benchmarks"])
def test_every_program_that_starts_others_says_how_it_ends(folder: str) -> None:
    """Those that run by themselves and start a process call the one helper."""
    silent = []
    for path in (ROOT / folder).rglob("*.py"):
        called = {
            getattr(node.func, "attr", getattr(node.func, "id", ""))
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Call)
        }
        runs = '__name__ == "__main__"' in path.read_text()
        name = str(path.relative_to(ROOT))
        if runs and called & STARTS and "end_as_by_interrupt" not in called:
            silent.append(name)
    assert sorted(set(silent) - STARTED) == []
