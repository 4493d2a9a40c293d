"""The monitor: draws the graph of a run, and draws it anew with each status that comes.

Usage: monitor.py GATEWAY                then GET /?topic=... is the page of a run
"""

import asyncio
import sys
from collections import defaultdict
from contextlib import suppress
from html import escape

from aiohttp import web
from service import consume
from steps import STEPS, Status, before

PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Workflow</title>
<style>
  body { font: 15px system-ui, sans-serif; margin: 2rem auto; max-width: 56rem; color: #1b2733; }
  svg { width: 100%%; } text { font: 15px system-ui, sans-serif; text-anchor: middle; }
  line { stroke: #6e7781; stroke-width: 2; } rect { fill: #eaeef2; stroke: #6e7781; }
  .started rect { fill: #fff1c2; } .done rect { fill: #c8f0d0; } .failed rect { fill: #ffd1cc; }
  small { color: #57606a; }
</style>
<h1>%s</h1><div id="graph">%s</div>
<script>
const graph = document.getElementById("graph");
const events = new EventSource("events" + location.search);
events.onmessage = (event) => { graph.innerHTML = event.data; };
</script></html>
"""
WIDTH, HEIGHT = 170, 90


class Monitor:
    def __init__(self) -> None:
        self._runs: dict[str, dict[str, Status]] = defaultdict(dict)
        self._changed = asyncio.Condition()
        self._tasks: set[asyncio.Task[None]] = set()

    def take(self, topic: str, status: Status) -> None:
        """Show a status."""
        self._runs[topic][status.step] = status
        task = asyncio.create_task(self._wake())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _wake(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def page(self, request: web.Request) -> web.Response:
        topic = request.query.get("topic", "")
        text = PAGE % (escape(topic), self._drawn(topic))
        return web.Response(text=text, content_type="text/html")

    async def events(self, request: web.Request) -> web.StreamResponse:
        """The graph as a server-sent event: now, and whenever it has changed."""
        topic = request.query.get("topic", "")
        response = web.StreamResponse(headers={"Cache-Control": "no-store"})
        response.content_type = "text/event-stream"
        await response.prepare(request)
        with suppress(ConnectionResetError):  # The page was closed.
            while True:
                drawn = self._drawn(topic)
                await response.write(f"data: {drawn}\n\n".encode())
                async with self._changed:
                    await self._changed.wait_for(lambda: self._drawn(topic) != drawn)  # noqa: B023
        return response

    def _drawn(self, topic: str) -> str:
        return draw(self._runs.get(topic, {}))


def depth(step: str) -> int:
    """How many steps there are before one, along the longest way."""
    return max((depth(other) + 1 for other in before(step)), default=0)


def draw(run: dict[str, Status]) -> str:
    """The graph as SVG, in one line."""
    columns = defaultdict(list)
    for step in STEPS:
        columns[depth(step)].append(step)
    places = {
        step: (x * WIDTH, HEIGHT * (y + 1 - len(column) / 2))
        for x, column in columns.items()
        for y, step in enumerate(column)
    }
    parts = []
    for step, (x, y) in places.items():
        for other in before(step):
            (left, top), middle = places[other], HEIGHT / 2 - 15
            parts.append(
                f'<line x1="{left + 130}" y1="{top + middle}" x2="{x}" y2="{y + middle}"/>'
            )
    for step, (x, y) in places.items():
        status = run.get(step)
        state = "waiting" if status is None else escape(status.state.replace("progress", "started"))
        percent = f"{status.percent} %" if status and state == "started" else state
        parts.append(
            f'<g id="{step}" class="{state}"><rect x="{x}" y="{y}" width="130" height="60" rx="8"/>'
            f'<text x="{x + 65}" y="{y + 25}">{step}</text>'
            f'<text x="{x + 65}" y="{y + 47}">{percent}</text></g>'
        )
    end = escape(run["run"].state) if "run" in run else "running"
    box = f"-2 -2 {WIDTH * len(columns)} {HEIGHT * 2}"
    return f'<svg viewBox="{box}">{"".join(parts)}</svg><p id="run">The run: {end}</p>'


async def main(gateway: str) -> None:
    monitor, application = Monitor(), web.Application()
    application.router.add_get("/", monitor.page)
    application.router.add_get("/events", monitor.events)
    await consume("monitor", gateway, application, monitor.take)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
