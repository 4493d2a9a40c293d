"""``dragoman plugins``: what is installed beside Dragoman, and what of it is of no use."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow  # Each starts a process.

ROOT = Path(__file__).parents[3]

MODULE = """
from adapters.memory import MemoryAdapter

class Pigeon(MemoryAdapter):
    pass

DIALECTS = {"urn:pigeons:filter:1": print}
"""

GOOD = """
[dragoman.adapters]
pigeon = pigeons:Pigeon

[dragoman.filters]
pigeons = pigeons:DIALECTS

[dragoman.identity]
ring = pigeons:Pigeon
"""

BAD = """
[dragoman.adapters]
waxen = pigeons_of_wax:Adapter
dodo = pigeons:Dodo

[dragoman.filters]
wax = pigeons_of_wax:DIALECTS
"""


def plugins(site: Path, entries: dict[str, str], *arguments: str) -> tuple[int, str]:
    """The exit code and the output, with packages of such entry points installed."""
    (site / "pigeons.py").write_text(MODULE)
    for name, text in entries.items():
        about = site / f"{name}-1.5.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.5\n")
        (about / "entry_points.txt").write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "gateway", "plugins", *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(site), str(ROOT)))},
        cwd=site, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.stderr == ""
    return done.returncode, done.stdout


def test_all_that_are_installed(tmp_path: Path) -> None:
    code, said = plugins(tmp_path, {"pigeons": GOOD})
    assert code == 0
    lines = [line.split() for line in said.splitlines()]
    assert lines[0] == ["Adapter", "protocol:", "version", "1"]
    assert ["adapter", "pigeon", "pigeons", "1.5", "ok"] in lines
    assert ["filter", "urn:pigeons:filter:1", "pigeons", "1.5", "ok"] in lines
    assert ["verifier", "ring", "pigeons", "1.5", "ok"] in lines
    assert {line[1] for line in lines if "dragoman" in line} >= {
        "amqp",
        "embedded",
        "stomp",
    }


@pytest.mark.parametrize("name", ["waxen", "dodo", "wax"])
def test_one_that_is_of_no_use(tmp_path: Path, name: str) -> None:
    code, said = plugins(tmp_path, {"pigeons": GOOD, "waxwings": BAD}, "--output", "json")
    assert code == 1
    states = {one["name"]: one["state"] for one in json.loads(said)["plugins"]}
    assert states["pigeon"] == "ok"
    assert ("pigeons_of_wax" if "wax" in name else "Dodo") in states[name]
