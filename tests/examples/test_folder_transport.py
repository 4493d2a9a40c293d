"""The example of a transport, installed as a package and used by a gateway; the skeleton of the
guide."""

import json
import os
import re
import subprocess
import sys
import tomllib
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

from gateway.egress import AddressRefused, PluggedTransport, Request, TransportSetup
from tests.rigs.envelopes import Message
from tests.rigs.processes import SPEAKER, gateway_process
from tests.rigs.waiting import until

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "folder-transport"
GUIDE = (ROOT / "docs" / "transports.md").read_text()
ROWS = re.findall(r"```toml\n(.*?)```", GUIDE, re.DOTALL)
"""Those of the package's pyproject.toml, and those of the settings."""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the package is installed."""
    return install(EXAMPLE, tmp_path_factory.mktemp("installed"))


def install(package: Path, folder: Path) -> Path:
    """Install *package* into *folder*, which is returned."""
    if find_spec("hatchling") is None:
        pytest.skip("hatchling, which builds the package, is not installed")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    command += ["--no-index", "--no-deps", "--no-build-isolation", "--target", str(folder)]
    subprocess.run([*command, str(package)], check=True, timeout=120)
    return folder


def environment(installed: Path, **row: object) -> dict[str, str]:
    return {
        "PYTHONPATH": os.pathsep.join((str(installed), str(ROOT))),
        "DRAGOMAN_TRANSPORTS": json.dumps([{"scheme": "folder", **row}]),
    }


async def test_at_a_gateway(installed: Path, tmp_path: Path) -> None:
    consumers = tmp_path / "consumers"
    storms = consumers / "storms"
    storms.mkdir(parents=True)
    variables = environment(installed, settings={"root": str(consumers)})
    async with gateway_process(tmp_path / "data", variables) as gateway:
        answer = await gateway.ask(SPEAKER.wse_subscribe("folder:storms"))
        assert answer.status == 200, answer.body
        refused = await gateway.ask(SPEAKER.wse_subscribe("folder:../../etc"))
        assert b"not an address that can be sent to" in refused.body
        for number in range(3):
            assert (await gateway.ask(f"<c><n>{number}</n></c>")).status == 202
        await until(lambda: len(list(storms.glob("*.xml"))) == 3)
        bodies = {Message(one.read_bytes()).body[0][0].text for one in storms.glob("*.xml")}
        assert bodies == {"0", "1", "2"}
        await gateway.at_rest()


async def test_at_a_gateway_that_does_not_enable_it(installed: Path, tmp_path: Path) -> None:
    variables = {"PYTHONPATH": environment(installed)["PYTHONPATH"]}
    async with gateway_process(tmp_path / "data", variables) as gateway:
        answer = await gateway.ask(SPEAKER.wse_subscribe("folder:storms"))
        assert b"the scheme folder are not sent to" in answer.body


def test_a_wrong_setting_is_one_line(installed: Path, tmp_path: Path) -> None:
    variables = environment(installed, settings={"root": "/nowhere"})
    done = subprocess.run(
        [sys.executable, "-m", "gateway", "serve", "--data", str(tmp_path / "data"), "--port", "0"],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode != 0
    text = "transports: folder: does not take its settings: ValueError: root: /nowhere is not a"
    assert text in done.stderr and "Traceback" not in done.stderr


def test_it_is_listed(installed: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "gateway", "plugins", "--output", "json"],
        env={**os.environ, **environment(installed)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    found = {
        one["name"]: one for one in json.loads(done.stdout)["plugins"] if one["kind"] == "transport"
    }
    assert found["folder"]["state"] == "ok"
    assert found["folder"]["package"] == "dragoman-folder-transport"
    assert {"http", "https", "mailto", "soap.tcp", "soap.tcps"} < set(found)


@pytest.fixture(scope="module")
def pigeons(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the package of the guide is installed."""
    package = tmp_path_factory.mktemp("pigeons")
    [code] = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
    (package / "my_package.py").write_text(code)
    (package / "pyproject.toml").write_text(ROWS[0])
    return install(package, tmp_path_factory.mktemp("installed"))


async def test_the_package_of_the_guide_at_a_gateway(pigeons: Path, tmp_path: Path) -> None:
    rows = tomllib.loads(ROWS[1])["transports"]
    variables = {
        "PYTHONPATH": os.pathsep.join((str(pigeons), str(ROOT))),
        "DRAGOMAN_TRANSPORTS": json.dumps(rows),
    }
    async with gateway_process(tmp_path / "data", variables) as gateway:
        for name in ("ann", "7", "0x1"):
            await gateway.subscribe(f"pigeon:{name}")
        assert (await gateway.ask("<c/>")).status == 202
        metrics = await gateway.at_rest()
        assert metrics["delivered_total"] == 3
        assert metrics['transport_errors_total{scheme="pigeon"}'] == 0


async def test_the_skeleton_of_the_guide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [code] = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
    (tmp_path / "guided_pigeons.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    made: type[PluggedTransport] = import_module("guided_pigeons").PigeonTransport
    transport = made.from_setup(TransportSetup("pigeon", {"loft": "open"}, lambda *_: True))
    target = transport.target("pigeon:ann")
    assert target.literal is None is transport.target("pigeon:123").literal
    assert (await transport.send(Request(target, b"<x/>", ()))).status == 202
    for address in ("pigeon:a b", "pigeon:", "pigeon:\u00e4"):
        with pytest.raises(AddressRefused):
            transport.target(address)
    with pytest.raises(ValueError, match="it has one setting, loft"):
        made.from_setup(TransportSetup("pigeon", {}, lambda *_: True))
    await transport.close()
