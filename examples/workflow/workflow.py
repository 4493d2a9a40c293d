"""A workflow that notifications drive: starts the gateway, the services and the portal.

Usage: .venv/bin/python examples/workflow/workflow.py [--port 8090] [--pace SECONDS]
"""

import argparse
import asyncio
import contextlib
import json
import os
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from portal import Portal
from service import serve

from dragoman.gateway import Gateway
from gateway.client.signals import end_as_by_interrupt

HERE = Path(__file__).parent
SECONDS = 60.0


@contextlib.asynccontextmanager
async def running(program: str, *arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """A service that runs."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(HERE / program), *arguments,
        stdout=asyncio.subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.wait()


async def addresses(process: asyncio.subprocess.Process) -> dict[str, Any]:
    """What a service prints once it can be reached."""
    async with asyncio.timeout(SECONDS):
        return json.loads(await process.stdout.readline())


async def main(port: int, data: Path) -> None:
    runs = data / "runs"
    runs.mkdir(exist_ok=True)
    async with contextlib.AsyncExitStack() as stack:
        gateway = await stack.enter_async_context(Gateway("embedded:", data=data / "gateway"))
        programs = {
            "factory": ("factory.py", str(runs)),
            "monitor": ("monitor.py", gateway.url),
            "provenance": ("provenance.py", gateway.url, str(data)),
            "catalogue": ("catalogue.py", gateway.url, str(data)),
        }
        services = {
            name: await stack.enter_async_context(running(*command))
            for name, command in programs.items()
        }
        listeners = {name: await addresses(process) for name, process in services.items()}
        factory = listeners.pop("factory")["page"]
        places = {"gateway": gateway.url, "factory": factory, "listeners": listeners}
        portal = Portal(runs, places)
        print(f"The portal is at {await serve(portal.application, port)}", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=8090)
    parser.add_argument("--pace", type=float, default=0.4, help="seconds that programs dawdle")
    chosen = parser.parse_args()
    os.environ["PACE"] = str(chosen.pace)
    end_as_by_interrupt()
    with contextlib.suppress(KeyboardInterrupt), tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(chosen.port, Path(folder)))
