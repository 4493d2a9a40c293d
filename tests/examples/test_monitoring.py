"""Resource monitoring: its page, in a browser, shows what sensors and the test publisher say."""

import asyncio
import json
import os
import shutil
import signal
import sys
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.rigs.chromium import CHROMIUM, opened
from tests.rigs.waiting import until

ROOT = Path(__file__).parents[2]
SCREENSHOT = ROOT / "build" / "monitoring.png"
COMPILER = shutil.which("cc") or shutil.which("gcc")
TITLES = ("Processor, %", "Memory used, MiB", "Network, KB a second")
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
        if process.returncode is None:  # A kill would leave the programs that it has started.
            process.send_signal(signal.SIGINT)
            await asyncio.wait_for(process.wait(), 30)


async def said(page: str) -> dict[str, Any]:
    """What the page is told first: all that there is to show."""

    def fetch() -> dict[str, Any]:
        with _direct.open(f"{page}events", timeout=10) as answer:
            assert answer.headers.get_content_type() == "text/event-stream"
            line: bytes = answer.readline()
            found: dict[str, Any] = json.loads(line.removeprefix(b"data: "))
            return found

    return await asyncio.to_thread(fetch)


async def test_the_page(page: str) -> None:
    sensors = {"python.lab.example"} | ({"c.lab.example"} if COMPILER else set())

    async def complete() -> bool:
        found = await said(page)
        series = [found["series"].get(title, {}) for title in TITLES]
        points = [one.get(sensor, ()) for one in series for sensor in sensors]
        return all(len(one) >= 3 for one in points) and len(found["tests"]) >= 2

    await until(complete, 50)
    found = await said(page)
    # Nothing of another domain has passed the filter.
    assert set(found["sources"]) == sensors | {"test.lab.example"}
    for title in TITLES:
        assert set(found["series"][title]) == sensors
        values = [value for points in found["series"][title].values() for _, value in points]
        assert all(value >= 0 for value in values)
    assert all("test.lab.example: test event" in text for text in found["tests"])


@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
async def test_a_browser_shows_charts(page: str, tmp_path: Path) -> None:
    """And draws them anew by itself, as events come."""
    SCREENSHOT.unlink(missing_ok=True)
    async with opened(page, tmp_path) as shown:

        async def count() -> int:
            state = await shown.evaluate("document.getElementById('state')?.textContent ?? ''")
            first = state.split(" ")[0]
            return int(first) if first.isdigit() else 0

        async def complete() -> bool:
            titles = await shown.evaluate(
                "[...document.querySelectorAll('section')].filter((one) =>"
                " one.querySelector('polyline, li')).map((one) => one.firstChild.textContent)"
            )
            return set(titles) == {*TITLES, "Test channel"}

        await until(complete, 50)
        before = await count()
        assert before > 0

        async def later() -> bool:
            return await count() > before

        await until(later, 50)
        text = await shown.evaluate("document.body.textContent")
        assert "test event" in text and "events from" in text
        await shown.screenshot(SCREENSHOT)
        assert not shown.complaints
    assert SCREENSHOT.read_bytes().startswith(b"\x89PNG")
