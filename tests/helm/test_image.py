"""The Dockerfile, as far as it can be tried without building an image."""

import asyncio
import json
import os
import re
import signal
import sys
import tomllib
from http.client import HTTPConnection
from pathlib import Path

import pytest

from distributions.release import IMAGE_SETS
from tests.helm.paths import CHART, ROOT
from tests.rigs.ports import free_ports

pytest.importorskip("helm_python", reason="helm-python-sdk has no wheel for this machine")

from tests.helm.rendering import Rendered, read_yaml

DOCKERFILE = (ROOT / "Dockerfile").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
START, STOP = 30.0, 40.0


def instruction(name: str) -> str:
    """The last instruction *name* of the Dockerfile, its lines joined."""
    found = re.findall(rf"^{name} ((?:.*\\\n)*.*)$", DOCKERFILE, re.MULTILINE)
    return str(found[-1]).replace("\\\n", " ")


def healthcheck() -> list[str]:
    """The command, run by this Python."""
    command = json.loads(instruction("HEALTHCHECK").partition("CMD ")[2])
    assert command[0] == "python"
    return [sys.executable, *command[1:]]


async def is_healthy(environment: dict[str, str]) -> bool:
    process = await asyncio.create_subprocess_exec(
        *healthcheck(), env=environment, stderr=asyncio.subprocess.DEVNULL
    )
    return await asyncio.wait_for(process.wait(), START) == 0


def status(port: int, host: str) -> int:
    connection = HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/readyz", headers={"Host": host})
        return connection.getresponse().status
    finally:
        connection.close()


async def test_a_gateway_runs_as_in_a_pod(tmp_path: Path) -> None:
    release = Rendered({"adapter": {"url": "embedded:"}})
    configuration, data = tmp_path / "dragoman", tmp_path / "data"
    configuration.mkdir()
    (configuration / "dragoman.toml").write_text(release.toml)
    configuration.chmod(0o555)
    (port,) = free_ports(1)
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("DRAGOMAN_")},
        **release.environment(),
        # There is but one machine here.
        "DRAGOMAN_PORT": str(port),
        "DRAGOMAN_DATA": str(data),
        "PYTHONUNBUFFERED": "1",
    }
    assert not await is_healthy(environment)
    with (tmp_path / "log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "gateway", *release.container["args"]),
            cwd=configuration,
            env=environment,
            stdout=asyncio.subprocess.PIPE,
            stderr=log,
        )
    try:
        assert process.stdout is not None
        greeting = await asyncio.wait_for(process.stdout.readline(), START)
        assert b"http://dragoman.events.svc" in greeting, (tmp_path / "log").read_text()
        assert await is_healthy(environment)
        assert status(port, "dragoman.events.svc") == 200
        assert status(port, "dragoman") == 200
        assert status(port, "elsewhere.example") == 421
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(STOP):
            await process.stdout.read()
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert [path.name for path in configuration.iterdir()] == ["dragoman.toml"]
    assert (data / "journal.db").exists()


def test_the_image_and_the_chart_agree() -> None:
    values = read_yaml("values.yaml")
    deployment = (CHART / "templates" / "deployment.yaml").read_text()
    user = values["podSecurityContext"]["runAsUser"]
    assert instruction("USER") == f"{user}:{values['podSecurityContext']['runAsGroup']}"
    assert f"workingDir: {instruction('WORKDIR')}\n" in deployment
    assert f"mountPath: {instruction('VOLUME')}\n" in deployment
    ports = {port["name"]: port["containerPort"] for port in Rendered().container["ports"]}
    # The image alone has its administration on loopback: there is no port to publish.
    assert ports == {"http": int(instruction("EXPOSE")), "admin": values["admin"]["port"]}
    assert f"DRAGOMAN_DATA={instruction('VOLUME')}" in instruction("ENV")


def test_the_image_has_every_light_extra() -> None:
    [given] = re.findall(r"^ARG EXTRAS=(.*)$", DOCKERFILE, re.MULTILINE)
    extras = set(given.split(","))
    heavy, of_applications = {"archive", "spark", "xquery"}, {"mysql", "reliable"}
    others = heavy | of_applications | {"all", "dev"}
    assert extras == set(PROJECT["project"]["optional-dependencies"]) - others
    assert set(IMAGE_SETS.split(",")) == {"base", *extras}


def test_the_image_is_labelled_and_begins_by_digest() -> None:
    labels = dict(re.findall(r'org\.opencontainers\.image\.(\w+)="([^"]*)"', instruction("LABEL")))
    project = PROJECT["project"]
    assert labels["version"] == project["version"]
    assert labels["licenses"] == project["license"]
    assert labels["description"] == project["description"]
    assert re.search(r"^ARG BASE=\S+@sha256:[0-9a-f]{64}$", DOCKERFILE, re.MULTILINE)


def test_what_is_built_from_reaches_the_build() -> None:
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    allowed = {line[1:] for line in lines if line.startswith("!")}
    wheel = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]
    needed = {
        "pyproject.toml",
        "requirements/*.txt",
        wheel["hooks"]["custom"]["path"],
        PROJECT["project"]["readme"],
        *(name for name in PROJECT["project"]["license-files"] if "/" not in name),
        *wheel["packages"],
        "distributions/sbom.py",
    }
    assert "*" in lines
    assert allowed == needed
