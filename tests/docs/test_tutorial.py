"""The tutorial: each block is run as it stands there, and prints what the page says."""

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.rigs.ports import free_ports
from tests.rigs.waiting import wait_until

PAGE = (ROOT / "docs" / "tutorial.md").read_text()
_BLOCK = re.compile(r"^```(sh|text)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_STAYS = ("dragoman serve", "dragoman listen")
"""What runs until it is ended, in a terminal of its own."""
SECONDS = 50.0


class Terminal:
    """A command that runs, and what it has printed."""

    def __init__(self, command: str, folder: Path, environment: dict[str, str], log: Path) -> None:
        with log.open("wb") as out:
            self.process = subprocess.Popen(
                ["bash", "-ec", f"exec {command}" if command.startswith(_STAYS) else command],
                cwd=folder, env=environment, stdout=out, stderr=subprocess.STDOUT,
            )  # fmt: skip
        self._log = log

    @property
    def printed(self) -> str:
        return self._log.read_text()

    def prints(self, text: str) -> None:
        wait_until(lambda: text in self.printed, SECONDS, says=lambda: (text, self.printed))


@contextlib.contextmanager
def terminals(folder: Path) -> Iterator[list[Terminal]]:
    opened: list[Terminal] = []
    try:
        yield opened
    finally:
        for one in reversed(opened):
            one.process.terminate()
        for one in opened:
            one.process.wait(SECONDS)


@pytest.mark.nightly
def test_the_tutorial_is_true(tmp_path: Path) -> None:
    [port] = free_ports(1)
    environment = {name: value for name, value in os.environ.items() if "DRAGOMAN" not in name}
    environment |= {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "DRAGOMAN_PORT": str(port),
        "DRAGOMAN_GATEWAY": f"http://127.0.0.1:{port}",
    }
    with terminals(tmp_path) as opened:
        last: Terminal | None = None
        for number, (kind, text) in enumerate(_BLOCK.findall(PAGE)):
            text = text.replace(":8080", f":{port}")
            if kind == "text":
                assert last is not None
                last.prints(text.strip())
                continue
            # Others run "dragoman serve" on this machine, too.
            gateway = next((one for one in opened if "ready" in one.printed), None)
            if text.startswith("kill") and gateway is not None:
                text = f"kill -9 {gateway.process.pid}"
                opened.remove(gateway)
            last = Terminal(text, tmp_path, environment, tmp_path / f"{number}.log")
            if text.startswith(_STAYS):
                opened.append(last)
            else:
                assert last.process.wait(SECONDS) == 0, last.printed
            if text.startswith("kill") and gateway is not None:
                gateway.process.wait(SECONDS)
        heard = {one.printed.partition("(")[2][:11]: one for one in opened}
        for speeds, one in (
            ((90, 120, 130, 140), heard["wse-2004-08"]),
            ((120, 130, 140), heard["cloudevents"]),
        ):
            one.prints("<speed>140</speed>")
            assert re.findall(r"<speed>(\d+)", one.printed) == [str(speed) for speed in speeds]
