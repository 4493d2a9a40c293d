"""The example of a filter dialect, installed as a package and used by a gateway."""

import os
import subprocess
import sys
import textwrap
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.rigs.consumers import consumers
from tests.rigs.envelopes import message_content, wse_filter
from tests.rigs.processes import SPEAKER, gateway_process

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "filter-dialect"
DIALECT = "https://dragoman.example/filters/payload-names"
WEATHER = "http://example.org/weather"
SCOPE = f'xmlns:w="{WEATHER}"'


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the package is installed."""
    if find_spec("hatchling") is None:
        pytest.skip("hatchling, which builds the package, is not installed")
    folder = tmp_path_factory.mktemp("installed")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    command += ["--no-index", "--no-deps", "--no-build-isolation", "--target", str(folder)]
    subprocess.run([*command, str(EXAMPLE)], check=True, timeout=120)
    return folder


def with_path(folder: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join((str(folder), str(ROOT)))}


PROGRAM = f"""
from filters import Event, Expression, Filter, FilterError, compile, content_dialects

def verdict(text, payload, *namespaces):
    expression = Expression(text, {DIALECT!r}, namespaces)
    try:
        return compile(Filter(contents=(expression,))).matches(Event(payload))
    except FilterError as error:
        return error.reason.value

storm = b"<w:Storm xmlns:w='{WEATHER}'/>"
declared = ("w", {WEATHER!r})
print(
    {DIALECT!r} in content_dialects(),
    verdict("w:Storm w:Fog", storm, declared),
    verdict(" Fog\\n Storm ", storm, ("", {WEATHER!r})),
    verdict("w:Fog", storm, declared),
    verdict("Storm", storm, declared),
    verdict("Storm", b"<Storm/>"),
    verdict("Storm", b"no XML"),
    verdict("x:Storm", storm, declared),
    verdict("w:", storm, declared),
    verdict(" ", storm),
    verdict("a " * 101, storm),
)
"""


def test_from_a_program(installed: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=with_path(installed),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.stdout.split(), done.stderr) == (
        ["True"] * 3
        + ["False", "False", "True", "False"]
        + ["filter-invalid"] * 3
        + ["filter-costly"],
        "",
    )


def test_the_sample_in_the_readme(installed: Path) -> None:
    text = (EXAMPLE / "README.md").read_text()
    sample = text.partition("From a program:\n\n")[2].partition("\n\n## ")[0]
    *lines, last = textwrap.dedent(sample).strip().splitlines()
    program = "\n".join([*lines, f"print({last.partition('  #')[0]})"])
    command = [sys.executable, "-c", program]
    assert subprocess.check_output(command, env=with_path(installed), timeout=60) == b"True\n"


async def test_at_a_gateway(installed: Path, tmp_path: Path) -> None:
    environment = {"PYTHONPATH": with_path(installed)["PYTHONPATH"]}
    async with consumers() as sinks, gateway_process(tmp_path / "data", environment) as gateway:
        one, other = sinks.add(), sinks.add()
        eventing = wse_filter("w:Storm w:Fog", DIALECT, SCOPE)
        answer = await gateway.ask(SPEAKER.wse_subscribe(one.url, filter=eventing))
        assert answer.status == 200, answer.body
        content = message_content("w:Fog", SCOPE, DIALECT)
        answer = await gateway.ask(SPEAKER.wsn_subscribe(other.url, filter=content))
        assert answer.status == 200, answer.body
        for number, name in enumerate(["Storm", "Calm", "Fog", "Calm"]):
            event = f"<w:{name} {SCOPE}><n>{number}</n></w:{name}>"
            assert (await gateway.ask(event)).status == 202
        metrics = await gateway.at_rest()
        assert metrics["matched_total"] == 3
        assert await one.have(2) == ["0", "2"]
        assert await other.have(1) == ["2"]
        refused = wse_filter("x:Storm", DIALECT)
        answer = await gateway.ask(SPEAKER.wse_subscribe(one.url, filter=refused))
        assert b"the filter has an undeclared prefix" in answer.body


async def test_at_a_gateway_without_it(tmp_path: Path) -> None:
    async with gateway_process(tmp_path / "data") as gateway:
        wanted = wse_filter("w:Storm", DIALECT, SCOPE)
        answer = await gateway.ask(SPEAKER.wse_subscribe("http://127.0.0.1:9999/", filter=wanted))
        assert answer.fault.subcode.endswith("FilteringRequestedUnavailable")
