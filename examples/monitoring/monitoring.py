"""Resource monitoring with Grid SOAP Events: sensors, channels, and a page with charts.

Usage: .venv/bin/python examples/monitoring/monitoring.py [--port 8090] [--every SECONDS]
"""

import argparse
import asyncio
import contextlib
import json
import os
import shutil
import sys
import tempfile
from collections import defaultdict, deque
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

from aiohttp import web
from sensing import NetworkEvent

from gateway.client import GatewayError
from gateway.client.grid_events import (
    Event,
    EventChannel,
    EventListener,
    MachineUtilizationEvent,
    subscribe_lease,
)
from gateway.client.signals import end_as_by_interrupt
from mediation.grid_events import Port

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
DOMAIN = ".lab.example"
"""Only what comes from here passes the filtering channel."""
LEASE = timedelta(minutes=1)
SECONDS = 60.0
POINTS = 120
PAUSE = 0.5
"""Seconds from one look of the page to the next, at least."""
ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if not name.startswith("DRAGOMAN_")},
    "PYTHONPATH": str(ROOT),
}


class Monitor:
    """What the page shows."""

    def __init__(self) -> None:
        self._series: dict[str, dict[str, deque[tuple[int, float]]]] = defaultdict(
            lambda: defaultdict(lambda: deque(maxlen=POINTS))
        )
        self._tests: deque[str] = deque(maxlen=6)
        self._sources: set[str] = set()
        self._events = 0
        self._octets: dict[str, tuple[int, int]] = {}
        self._changed = asyncio.Condition()

    async def hear(self, event: Event) -> None:
        self._note(event)
        async with self._changed:
            self._changed.notify_all()

    def _note(self, event: Event) -> None:
        source, at = event.source or "unknown", event.timestamp
        self._events += 1
        self._sources.add(source)
        match event:
            case MachineUtilizationEvent():
                self._add("Processor, %", source, at, 100 * event.cpu_utilization)
                self._add("Memory used, MiB", source, at, event.memory_used / 1024)
            case NetworkEvent():
                total = event.octets_received + event.octets_sent
                before, then = self._octets.get(source, (total, at - 1))
                rate = max(0, total - before) / max(1, at - then)
                self._add("Network, KB a second", source, at, rate)
                self._octets[source] = total, at
            case _:
                self._tests.appendleft(f"{source}: {event.message}")

    def _add(self, title: str, source: str, at: int, value: float) -> None:
        self._series[title][source].append((at, round(value, 3)))

    async def stream(self, request: web.Request) -> web.StreamResponse:
        """What there is to show, as a server-sent event: now, and whenever it has changed."""
        response = web.StreamResponse(headers={"Cache-Control": "no-store"})
        response.content_type = "text/event-stream"
        await response.prepare(request)
        with contextlib.suppress(ConnectionResetError):  # The page was closed.
            while True:
                shown, text = self._events, json.dumps(self._shown())
                await response.write(f"data: {text}\n\n".encode())
                await asyncio.sleep(PAUSE)
                async with self._changed:
                    await self._changed.wait_for(lambda: self._events != shown)  # noqa: B023
        return response

    def _shown(self) -> dict[str, object]:
        series = {
            title: {source: list(points) for source, points in sorted(by_source.items())}
            for title, by_source in sorted(self._series.items(), reverse=True)
        }
        return {
            "series": series, "tests": list(self._tests), "events": self._events,
            "sources": sorted(self._sources),
        }  # fmt: skip


@contextlib.asynccontextmanager
async def running(*command: str, cwd: str, reads: bool = False) -> AsyncIterator[str]:
    """A program that runs; its first line, where it *reads* one."""
    output = asyncio.subprocess.PIPE if reads else None
    process = await asyncio.create_subprocess_exec(
        *command, cwd=cwd, env=ENVIRONMENT, stdout=output, start_new_session=True
    )
    try:
        line = b""
        if process.stdout is not None:
            line = await asyncio.wait_for(process.stdout.readline(), SECONDS)
        yield line.decode()
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.wait()


async def keep(to: str | Port, listener: Port, pattern: Event | None) -> None:
    """Subscribe, and renew the lease at two thirds of it."""
    granted = timedelta()
    while True:
        try:
            granted = await subscribe_lease(to, listener, pattern, lease=LEASE)
        except GatewayError as error:
            print(f"a lease could not be renewed: {error}", file=sys.stderr)
        await asyncio.sleep(max(5.0, granted.total_seconds() * 2 / 3))


async def monitor(port: int, every: float) -> None:
    shown = Monitor()
    async with contextlib.AsyncExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        ready = await stack.enter_async_context(
            running(
                sys.executable, "-m", "gateway", "serve", "--port", "0", "--data", folder,
                cwd=folder, reads=True,
            )
        )  # fmt: skip
        if "http://" not in ready:
            raise SystemExit("the gateway did not start")
        gateway = "http://" + ready.partition("http://")[2].split()[0]

        # The gateway is the filtering channel; behind it are two others, and the page.
        tests = await stack.enter_async_context(EventChannel())
        resources = await stack.enter_async_context(EventChannel())
        page = await stack.enter_async_context(EventListener(shown.hear))
        links: list[tuple[str | Port, Port, Event | None]] = [
            (gateway, tests.port, Event(event_type="test", source=DOMAIN)),
            (gateway, resources.port, Event(event_type="resdata", source=DOMAIN)),
            (tests.port, page.port, None),
            (resources.port, page.port, None),
        ]
        tasks = await stack.enter_async_context(asyncio.TaskGroup())
        for link in links:
            tasks.create_task(keep(*link))

        application = web.Application()
        application.router.add_get("/events", shown.stream)
        application.router.add_get("/", lambda _: web.FileResponse(HERE / "page.html"))
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=1.0)
        await runner.setup()
        stack.push_async_callback(runner.cleanup)
        await web.TCPSite(runner, "127.0.0.1", port).start()

        for program, name in (("sensor.py", "python"), ("tester.py", "test")):
            await stack.enter_async_context(
                running(
                    sys.executable, str(HERE / program), gateway, f"{name}{DOMAIN}", str(every),
                    cwd=folder,
                )
            )  # fmt: skip
        compiler = shutil.which("cc") or shutil.which("gcc")
        if compiler is not None:
            built = f"{folder}/sensor"
            compiling = await asyncio.create_subprocess_exec(
                compiler, "-O1", "-o", built, str(HERE / "sensor.c")
            )
            if await asyncio.wait_for(compiling.wait(), SECONDS) == 0:
                host, number = gateway.removeprefix("http://").rsplit(":", 1)
                await stack.enter_async_context(
                    running(built, host, number, f"c{DOMAIN}", str(every), cwd=folder)
                )
        print(f"The page is at http://127.0.0.1:{runner.addresses[0][1]}/", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=8090)
    parser.add_argument("--every", type=float, default=1.0)
    chosen = parser.parse_args()
    end_as_by_interrupt()
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(monitor(chosen.port, chosen.every))
