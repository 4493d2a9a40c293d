"""node-soap: typed clients in JavaScript, made of the descriptions that the gateway gives of
itself. The package is installed into a folder of the cache when it is first needed."""

import asyncio
import json
import os
from asyncio.subprocess import PIPE
from pathlib import Path
from typing import Any

import pytest

from tests.rigs.consumers import Consumers
from tests.rigs.gateways import Running
from tests.rigs.node_packages import node_modules
from tests.rigs.waiting import DEADLINE

pytestmark = pytest.mark.asyncio(loop_scope="module")

PACKAGE = "soap@1.13.0"
PROGRAM = Path(__file__).parent / "node_soap.js"


@pytest.fixture(scope="module")
def modules() -> Path:
    """The folder in which node finds the package."""
    return node_modules("node-soap", PACKAGE)


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
