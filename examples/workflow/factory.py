"""The factory: makes a web service of every program in the folder ``programs``.

The programs know nothing of messages. They read and write files, and may print ``progress 40``;
the factory publishes on the topic of the run that they started, go on, are done or have failed.

Usage: factory.py FOLDER-OF-RUNS
"""

import asyncio
import contextlib
import json
import re
import sys
from asyncio.subprocess import PIPE
from pathlib import Path

from aiohttp import web
from service import now, publish, serve
from steps import Status

from dragoman.client import WsnClient
from gateway.client.signals import end_as_by_interrupt

PROGRAMS = {path.stem: path for path in (Path(__file__).parent / "programs").glob("*.py")}
NAME = re.compile(r"[A-Za-z][\w.-]*")


class Factory:
    """Runs each invocation once, however often it is asked to."""

    def __init__(self, runs: Path) -> None:
        self._runs = runs
        self._tasks: dict[tuple[str, str], asyncio.Task[None]] = {}

    async def invoke(self, request: web.Request) -> web.Response:
        """Start a program, and answer at once. Where it was started before, nothing is done."""
        program = request.match_info["program"]
        asked = await request.json()
        names = (asked["run"], *asked["inputs"], *asked["outputs"])
        if program not in PROGRAMS or not all(map(NAME.fullmatch, names)):
            return web.Response(status=400, text="there is no such program, or a name is wrong")
        invocation = (asked["run"], asked["step"])
        if invocation not in self._tasks:
            self._tasks[invocation] = asyncio.create_task(self._run(program, asked))
        return web.Response(status=202)

    async def _run(self, program: str, asked: dict) -> None:
        async with WsnClient(asked["gateway"]) as client:
            await publish(client, status(asked, "started"), asked["topic"])
            process = await asyncio.create_subprocess_exec(
                sys.executable, str(PROGRAMS[program]), *asked["inputs"], *asked["outputs"],
                cwd=self._runs / asked["run"], stdout=PIPE,
            )  # fmt: skip
            try:
                async for line in process.stdout:
                    if found := re.fullmatch(rb"progress (\d{1,3})\n", line):
                        going = status(asked, "progress", int(found[1]))
                        await publish(client, going, asked["topic"])
                code = await process.wait()
            finally:
                if process.returncode is None:
                    process.kill()
                    await process.wait()
            await publish(client, status(asked, "failed" if code else "done", 100), asked["topic"])


def status(asked: dict, state: str, percent: int = 0) -> Status:
    """How an invocation stands."""
    step = asked["step"]
    return Status(
        f"{step}/{state}/{percent}", step, state, now(), percent, asked["inputs"], asked["outputs"]
    )


async def main(runs: Path) -> None:
    application = web.Application()
    application.router.add_post("/services/{program}", Factory(runs).invoke)
    print(json.dumps({"page": await serve(application)}), flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    end_as_by_interrupt()
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main(Path(sys.argv[1])))
