"""A page in a real browser, Chromium without a window, over its DevTools protocol."""

import asyncio
import base64
import contextlib
import itertools
import shutil
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp

from tests.rigs.waiting import until

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
SECONDS = 50.0
_PORT_FILE = "DevToolsActivePort"


class Page:
    """The page that is open.

    Attributes:
        complaints: What was written to its console, or thrown there.
    """

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket, self._numbers = socket, itertools.count(1)
        self.complaints: list[str] = []

    async def evaluate(self, expression: str) -> Any:
        """The value of an expression of JavaScript."""
        answer = await self.ask("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    async def screenshot(self, file: Path) -> None:
        """Keep what it looks like as a PNG."""
        answer = await self.ask("Page.captureScreenshot", format="png")
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(base64.b64decode(answer["data"]))

    async def ask(self, method: str, **parameters: object) -> dict[str, Any]:
        """Call a method of the protocol; its result."""
        number = next(self._numbers)
        await self._socket.send_json({"id": number, "method": method, "params": parameters})
        async with asyncio.timeout(SECONDS):
            while True:
                said = await self._socket.receive_json()
                if said.get("method") in ("Runtime.exceptionThrown", "Runtime.consoleAPICalled"):
                    self.complaints.append(str(said["params"]))
                if said.get("id") == number:
                    assert "result" in said, said
                    result: dict[str, Any] = said["result"]
                    return result


@contextlib.asynccontextmanager
async def opened(
    url: str, folder: Path, size: tuple[int, int] = (1000, 700)
) -> AsyncIterator[Page]:
    """A browser that shows *url*, with its profile in *folder*; nobody but 127.0.0.1 is reached."""
    profile = folder / "profile"
    process = await asyncio.create_subprocess_exec(
        str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--incognito",
        f"--user-data-dir={profile}", "--disable-dev-shm-usage", "--remote-debugging-port=0",
        "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
        f"--window-size={size[0]},{size[1]}", "about:blank",
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        file = profile / _PORT_FILE
        await until(lambda: file.exists() and file.read_text().count("\n") >= 1, SECONDS)
        port = file.read_text().splitlines()[0]
        timeout = aiohttp.ClientTimeout(total=SECONDS)
        async with aiohttp.ClientSession(timeout=timeout) as session:
            async with session.get(f"http://127.0.0.1:{port}/json/list") as answer:
                [target] = [one for one in await answer.json() if one["type"] == "page"]
            async with session.ws_connect(target["webSocketDebuggerUrl"], max_msg_size=0) as socket:
                page = Page(socket)
                await page.ask("Runtime.enable")
                await page.ask("Page.navigate", url=url)
                yield page
    finally:
        if process.returncode is None:
            process.kill()
        await asyncio.wait_for(process.wait(), SECONDS)
