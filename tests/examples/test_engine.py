"""The example of an engine, installed as a package, beside ours."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.rigs.consumers import consumers
from tests.rigs.envelopes import message_content
from tests.rigs.processes import SPEAKER, gateway_process
from tests.rigs.programs import run

EXAMPLE = ROOT / "examples" / "engine"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The PYTHONPATH with which the package is there."""
    if find_spec("hatchling") is None:
        pytest.skip("hatchling, which builds the package, is not installed")
    folder = tmp_path_factory.mktemp("installed")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    command += ["--no-index", "--no-deps", "--no-build-isolation", "--target", str(folder)]
    subprocess.run([*command, str(EXAMPLE)], check=True, timeout=120)
    return os.pathsep.join((str(folder), str(ROOT)))


PROGRAM = """
import json
from filters.spark.engines import engines
from filters.spark.measuring import Case, _compare
from filters.workloads import Vocabulary, expressions, family_of, messages

found = {}
for style in ("ev", "xm0", "xm1"):
    octets = tuple(messages(family_of(style), 40, 1))
    drawn = tuple(expressions(style, 200, 1, Vocabulary(octets)))
    case = Case(style, drawn, octets)
    found[style] = list(_compare(style, lambda: case, ["paths"], 40))
print(json.dumps([engines(), found]))
"""


def test_its_verdicts_are_those_of_libxml2(path: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    engines, found = json.loads(done.stdout)
    assert engines == ["naive", "reference", "native", "paths"]
    for [counts] in found.values():  # No row that names a difference.
        assert counts["verdicts"] == 2 * 40 * 200 and counts["matches"] > 0


def test_in_commands(path: str, tmp_path: Path) -> None:
    (tmp_path / "a.xml").write_text("<a xmlns='urn:a'><b/></a>")
    (tmp_path / "b.xml").write_text("<a><b/></a>")
    options = ("match", "--xpath", "/w:a/w:b", "--ns", "w=urn:a")
    done = run(*options, "--engine", "paths", "a.xml", "b.xml", cwd=tmp_path, PYTHONPATH=path)
    assert (done.stdout, done.stderr) == ("a.xml\n", "")
    listed = run("plugins", "--output", "json", cwd=tmp_path, PYTHONPATH=path)
    [engine] = [one for one in json.loads(listed.stdout)["plugins"] if one["kind"] == "engine"]
    assert (engine["name"], engine["state"]) == ("paths", "ok")
    done = run(*options, "--engine", "paths", "a.xml", cwd=tmp_path)
    assert done.returncode == 2 and "'paths' is not an engine; there are native" in done.stderr
    done = run("serve", cwd=tmp_path, DRAGOMAN_ENGINE="paths")
    assert done.returncode != 0 and "is not an engine" in done.stderr


async def test_at_a_gateway(path: str, tmp_path: Path) -> None:
    environment = {"PYTHONPATH": path, "DRAGOMAN_ENGINE": "paths"}
    async with consumers() as sinks, gateway_process(tmp_path / "data", environment) as gateway:
        one, other = sinks.add(), sinks.add()
        for sink, expression in ((one, "/storm/n"), (other, "/storm[n > 1]")):
            content = message_content(expression)
            answer = await gateway.ask(SPEAKER.wsn_subscribe(sink.url, filter=content))
            assert answer.status == 200, answer.body
        for number, name in enumerate(["storm", "calm", "storm"]):
            assert (await gateway.ask(f"<{name}><n>{number}</n></{name}>")).status == 202
        metrics = await gateway.at_rest()
        assert metrics["matched_total"] == 3
        assert await one.have(2) == ["0", "2"]
        assert await other.have(1) == ["2"]
