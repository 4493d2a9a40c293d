"""Resource monitoring: its page, in a browser, shows what sensors and the test publisher say."""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.rigs.waiting import until

ROOT = Path(__file__).parents[2]
SCREENSHOT = ROOT / "build" / "monitoring.png"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
COMPILER = shutil.which("cc") or shutil.which("gcc")
pytestmark = pytest.mark.slow
_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@pytest.fixture
async def page() -> AsyncIterator[str]:
    """The example, started as its README has it; the address of its page."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "examples/monitoring/monitoring.py", "--port", "0", "--every", "0.2",
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        line = (await asyncio.wait_for(process.stdout.readline(), 50)).decode()
        assert "http://" in line
        yield "http://" + line.partition("http://")[2].strip()
        process.send_signal(signal.SIGINT)
        assert await asyncio.wait_for(process.wait(), 30) == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def said(page: str) -> dict[str, Any]:
    def fetch() -> dict[str, Any]:
        with _direct.open(f"{page}data.json", timeout=10) as answer:
            found: dict[str, Any] = json.load(answer)
            return found

    return await asyncio.to_thread(fetch)


async def test_the_page(page: str) -> None:
    sensors = {"python.lab.example"} | ({"c.lab.example"} if COMPILER else set())

    async def complete() -> bool:
        found = await said(page)
        of_processor = found["series"].get("Processor, %", {})
        points = [of_processor.get(sensor, ()) for sensor in sensors]
        return all(len(one) >= 3 for one in points) and len(found["tests"]) >= 2

    await until(complete, 50)
    found = await said(page)
    # Nothing of another domain has passed the filter.
    assert set(found["sources"]) == sensors | {"test.lab.example"}
    for title in ("Processor, %", "Memory used, MiB"):
        assert set(found["series"][title]) == sensors
        values = [value for points in found["series"][title].values() for _, value in points]
        assert all(value >= 0 for value in values)
    assert set(found["series"]["Network, KB a second"]) == {"python.lab.example"}
    assert all("test.lab.example: test event" in text for text in found["tests"])


@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
async def test_a_browser_shows_charts(page: str, tmp_path: Path) -> None:
    async def started() -> bool:
        found = await said(page)
        return len(found["series"]) == 3 and bool(found["tests"])

    await until(started, 50)
    SCREENSHOT.parent.mkdir(exist_ok=True)
    SCREENSHOT.unlink(missing_ok=True)
    process = await asyncio.create_subprocess_exec(
        str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--incognito",
        f"--user-data-dir={tmp_path}/profile", "--disable-dev-shm-usage", "--enable-logging=stderr",
        "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1", "--window-size=1000,700",
        "--virtual-time-budget=4000", f"--screenshot={SCREENSHOT}", "--dump-dom", page,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        shown, complained = await asyncio.wait_for(process.communicate(), 50)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert shown.count(b"<polyline") >= 3
    for text in (
        b"Processor, %",
        b"Memory used, MiB",
        b"Network, KB",
        b"test event",
        b"events from",
    ):
        assert text in shown
    assert b"CONSOLE" not in complained, complained
    assert SCREENSHOT.read_bytes().startswith(b"\x89PNG")
