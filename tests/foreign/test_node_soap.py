"""node-soap: typed clients in JavaScript, made of the descriptions that the gateway gives of
itself. The package is installed into a folder of the cache when it is first needed."""

import asyncio
import json
import os
import shutil
import subprocess
from asyncio.subprocess import PIPE
from pathlib import Path
from typing import Any

import pytest

from tests.rigs.consumers import Consumers
from tests.rigs.gateways import Running
from tests.rigs.waiting import DEADLINE

pytestmark = pytest.mark.asyncio(loop_scope="module")

PACKAGE = "soap@1.13.0"
PROGRAM = Path(__file__).parent / "node_soap.js"
INSTALL = 60.0
"""Seconds."""


@pytest.fixture(scope="module")
def modules() -> Path:
    """The folder in which node finds the package."""
    for name in ("node", "npm"):
        if shutil.which(name) is None:
            pytest.skip(f"needs node-soap: {name} is not installed (nodejs, npm)")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "dragoman-tests" / PACKAGE.replace("@", "-")
    if not (folder / "installed").exists():
        folder.mkdir(parents=True, exist_ok=True)
        command = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix"]
        try:
            done = subprocess.run(
                [*command, str(folder), PACKAGE], capture_output=True, timeout=INSTALL, check=False
            )
        except subprocess.TimeoutExpired:
            pytest.skip(f"needs node-soap: npm installs nothing within {INSTALL:.0f} s")
        if done.returncode:
            pytest.skip(f"needs node-soap: npm install {PACKAGE} failed")
        (folder / "installed").touch()
    return folder / "node_modules"


async def told(modules: Path, gateway: Running, service: str, url: str) -> dict[str, Any]:
    """What the program says of the answers."""
    process = await asyncio.create_subprocess_exec(
        "node", str(PROGRAM), service, gateway.url, url,
        stdout=PIPE, stderr=PIPE, env={**os.environ, "NODE_PATH": str(modules)},
    )  # fmt: skip
    try:
        async with asyncio.timeout(3 * DEADLINE):
            out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, err.decode()
    return dict(json.loads(out))


async def test_ws_notification(gateway: Running, consumer: Consumers, modules: Path) -> None:
    url = consumer.fresh()
    assert await told(modules, gateway, "wsn", url) == {
        "Subscribe": 3_600_000,
        "Renew": 7_200_000,
        "GetMessages": 1,
        "fault": True,
    }
    assert (await consumer.next(url)).payload.text == "node"


async def test_ws_eventing(gateway: Running, consumer: Consumers, modules: Path) -> None:
    assert await told(modules, gateway, "wse", consumer.fresh()) == {
        "Subscribe": "PT1H",
        "Renew": "PT2H",
        "GetStatus": True,
        "fault": True,
    }
