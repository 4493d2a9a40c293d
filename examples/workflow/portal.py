"""The portal: a user starts a run here, which gets a topic that no other has, and an engine.

An engine that was killed is started again after a second, as a service manager does it.
"""

import asyncio
import json
import re
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import uuid4

from aiohttp import web

NAME = re.compile(r"[A-Za-z][A-Za-z0-9]{0,20}")
RESTART = 1.0
PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Portal</title>
<style>
  body {{ font: 15px system-ui, sans-serif; margin: 2rem auto; max-width: 56rem; color: #1b2733; }}
  td {{ padding: .3rem 1rem .3rem 0; }} form {{ margin: 0; }}
</style>
<h1>Portal</h1>
<form method="post" action="runs">
  <label>User <input name="user" value="ada" required></label>
  <label>Workflow <input name="workflow" value="forecast" required></label>
  <button>Run</button>
</form>
<table>{rows}</table></html>
"""
ROW = """<tr><td>{topic}<td><a href="{monitor}?topic={quoted}">watch</a>
<td><a href="{provenance}?topic={quoted}">provenance</a>
<td><a href="{catalogue}?user={user}">files</a>
<td>{engine}"""
KILL = """<form method="post" action="runs/{run}/kill"><button>Kill engine {pid}</button></form>"""


class Portal:
    """Starts runs.

    Args:
        runs: The folder with a folder for each.
        places: The URLs of ``gateway`` and ``factory``, and by their names the ``page`` and the
            ``consumer`` of those who listen.
    """

    def __init__(self, runs: Path, places: dict[str, Any]) -> None:
        self._runs, self._places = runs, places
        self._topics: dict[str, str] = {}
        self._engines: dict[str, asyncio.subprocess.Process] = {}
        self._ended: set[str] = set()
        self._tasks: list[asyncio.Task[None]] = []
        self.application = web.Application()
        self.application.router.add_get("/", self._page)
        self.application.router.add_post("/runs", self._start)
        self.application.router.add_post("/runs/{run}/kill", self._kill)

    async def _page(self, _: web.Request) -> web.Response:
        pages = {name: one["page"] for name, one in self._places["listeners"].items()}
        rows = []
        for run, topic in reversed(self._topics.items()):
            process = self._engines.get(run)
            engine = "ended" if run in self._ended else "is started again"
            if process is not None:
                engine = KILL.format(run=run, pid=process.pid)
            user, quoted = topic.split("/")[1], quote(topic, safe="")
            row = ROW.format(topic=topic, quoted=quoted, user=user, engine=engine, **pages)
            rows.append(row)
        return web.Response(text=PAGE.format(rows="".join(rows)), content_type="text/html")

    async def _start(self, request: web.Request) -> web.Response:
        """Make the topic and the folder of a run, start its engine, and show it in the monitor."""
        form = await request.post()
        user, workflow = str(form.get("user", "")), str(form.get("workflow", ""))
        if not NAME.fullmatch(user) or not NAME.fullmatch(workflow):
            return web.Response(status=400, text="names are up to 21 letters and digits")
        run = f"{workflow}-{uuid4().hex[:12]}"
        topic = f"workflow/{user}/{run}"
        listeners = self._places["listeners"]
        consumers = {name: one["consumer"] for name, one in listeners.items()}
        begun = {"topic": topic, "gateway": self._places["gateway"], "consumers": consumers}
        (self._runs / run).mkdir()
        text = json.dumps(begun | {"factory": self._places["factory"]})
        (self._runs / run / "run.json").write_text(text)
        self._topics[run] = topic
        self._tasks.append(asyncio.create_task(self._supervise(run)))
        shown = f"{listeners['monitor']['page']}?topic={quote(topic, safe='')}"
        return web.Response(status=303, headers={"Location": shown})

    async def _kill(self, request: web.Request) -> web.Response:
        process = self._engines.get(request.match_info["run"])
        if process is not None:
            process.kill()
        return web.Response(status=303, headers={"Location": "/"})

    async def _supervise(self, run: str) -> None:
        """Start the engine of a run, until it has ended by itself."""
        engine = str(Path(__file__).with_name("engine.py"))
        code = None
        while code != 0:
            if code is not None:
                await asyncio.sleep(RESTART)
            process = await asyncio.create_subprocess_exec(
                sys.executable, engine, str(self._runs / run)
            )
            self._engines[run] = process
            try:
                code = await process.wait()
            finally:
                del self._engines[run]
                if process.returncode is None:
                    process.kill()
                    await process.wait()
        self._ended.add(run)
