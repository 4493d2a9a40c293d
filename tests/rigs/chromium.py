"""Pages in a real browser, Chromium without a window, over its DevTools protocol."""

import base64
import contextlib
import itertools
import json
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal

import aiohttp

from tests.rigs.waiting import until, wait_until

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
SECONDS = 50.0
_PORT_FILE = "DevToolsActivePort"
_AXE = Path(__file__).parent / "axe" / "axe-4.14.1.min.js"
_KEYS = {"Tab": 9, "Enter": 13, " ": 32, "Escape": 27}
"""Keys, and the codes that Windows has for them, which Chromium asks for."""
_GONE = ("Cannot find context", "context was destroyed", "navigated or closed")
"""Answers to what was asked of a page while the next one took its place."""


class Page:
    """The page that is open.

    Attributes:
        complaints: What was written to its console, or thrown there, or kept from it by its content
            security policy.
    """

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket, self._numbers = socket, itertools.count(1)
        self.complaints: list[str] = []

    async def go(self, url: str) -> None:
        """Open *url*, and wait until it is there with all that it needs."""
        await self.ask("Page.navigate", url=url)
        await self.until("document.readyState == 'complete'")

    async def until(self, expression: str) -> None:
        """Return once *expression* is true, on this page or on the one that follows it."""

        async def holds() -> bool:
            said = await self._say("Runtime.evaluate", expression=expression, returnByValue=True)
            if "error" in said:
                assert any(text in said["error"]["message"] for text in _GONE), said
                return False
            return bool(said["result"]["result"].get("value"))

        await until(holds, SECONDS)

    async def says(self, words: str) -> None:
        """Return once *words* stand on this page or on the one that follows it."""
        await self.until(f"document.body?.innerText.includes({json.dumps(words)})")

    async def do(self, expression: str) -> None:
        """Evaluate *expression*, which may lead to another page: then its value is lost."""
        said = await self._say("Runtime.evaluate", expression=expression)
        if "error" in said:
            assert any(text in said["error"]["message"] for text in _GONE), said

    async def evaluate(self, expression: str) -> Any:
        """The value of an expression of JavaScript, or what its promise becomes."""
        answer = await self.ask(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    async def press(self, key: str, *, shift: bool = False) -> None:
        """Press a key."""
        text = {"Enter": "\r", " ": " "}.get(key)
        pressed = {"key": key, "windowsVirtualKeyCode": _KEYS[key], "modifiers": 8 * shift}
        written = {"text": text} if text else {}
        await self.ask("Input.dispatchKeyEvent", type="keyDown", **pressed, **written)
        await self.ask("Input.dispatchKeyEvent", type="keyUp", **pressed)

    async def write(self, text: str) -> None:
        """Write *text* where the focus is."""
        await self.ask("Input.insertText", text=text)

    async def show(self, scheme: Literal["light", "dark"], width: int, height: int = 900) -> None:
        """Show the page as a screen of this width does whose reader prefers *scheme*."""
        await self.ask(
            "Emulation.setEmulatedMedia",
            features=[{"name": "prefers-color-scheme", "value": scheme}],
        )
        await self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=width < 600,
        )  # fmt: skip

    async def findings(self) -> list[str]:
        """What axe-core finds on the page that keeps people from using it: rules of serious and
        critical impact, each with the elements that break it."""
        if not await self.evaluate("'axe' in window"):
            await self.evaluate(_axe())
        found: Sequence[Any] = await self.evaluate(
            "axe.run({resultTypes: ['violations']}).then(({violations}) => violations"
            ".filter(({impact}) => impact == 'serious' || impact == 'critical')"
            ".map(({id, nodes}) => `${id}: ${nodes.map(({html}) => html).join(' ')}`))"
        )
        return list(found)

    async def screenshot(self, file: Path) -> None:
        """Keep what it looks like as a PNG."""
        answer = await self.ask("Page.captureScreenshot", format="png")
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(base64.b64decode(answer["data"]))

    async def ask(self, method: str, **parameters: object) -> dict[str, Any]:
        """Call a method of the protocol; its result."""
        said = await self._say(method, **parameters)
        assert "result" in said, said
        result: dict[str, Any] = said["result"]
        return result

    async def _say(self, method: str, **parameters: object) -> dict[str, Any]:
        """Call a method of the protocol; its answer."""
        number = next(self._numbers)
        await self._socket.send_json({"id": number, "method": method, "params": parameters})
        while True:
            said: dict[str, Any] = await self._socket.receive_json(timeout=SECONDS)
            self._note(said)
            if said.get("id") == number:
                return said

    def _note(self, said: dict[str, Any]) -> None:
        """Keep what the page complains of. An answer with a status of its own is no complaint."""
        method = said.get("method")
        logged = method == "Log.entryAdded" and said["params"]["entry"]["source"] != "network"
        if logged or method in ("Runtime.exceptionThrown", "Runtime.consoleAPICalled"):
            self.complaints.append(str(said["params"]))


@cache
def _axe() -> str:
    return f"{_AXE.read_text()};null"


@contextlib.contextmanager
def browser(folder: Path, size: tuple[int, int] = (1000, 700)) -> Iterator[int]:
    """A browser with its profile in *folder*, which reaches nobody but 127.0.0.1; the port of its
    protocol."""
    profile = folder / "profile"
    process = subprocess.Popen(
        [
            str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--incognito",
            f"--user-data-dir={profile}", "--disable-dev-shm-usage", "--remote-debugging-port=0",
            "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
            f"--window-size={size[0]},{size[1]}", "about:blank",
        ],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        file = profile / _PORT_FILE
        wait_until(lambda: file.exists() and file.read_text().count("\n") >= 1, SECONDS)
        yield int(file.read_text().splitlines()[0])
    finally:
        process.kill()
        process.wait(SECONDS)


@contextlib.asynccontextmanager
async def new_page(port: int) -> AsyncIterator[Page]:
    """A page of its own in the browser whose protocol is at *port*."""
    timeout = aiohttp.ClientTimeout(total=SECONDS)
    async with aiohttp.ClientSession(f"http://127.0.0.1:{port}", timeout=timeout) as session:
        async with session.put("/json/new?about:blank") as answer:
            target = json.loads(await answer.read())
        async with session.ws_connect(target["webSocketDebuggerUrl"], max_msg_size=0) as socket:
            page = Page(socket)
            for domain in ("Runtime", "Log", "Page"):
                await page.ask(f"{domain}.enable")
            yield page
        async with session.get(f"/json/close/{target['id']}") as answer:
            await answer.read()


@contextlib.asynccontextmanager
async def opened(
    url: str, folder: Path, size: tuple[int, int] = (1000, 700)
) -> AsyncIterator[Page]:
    """A browser of its own that shows *url*, with its profile in *folder*."""
    with browser(folder, size) as port:
        async with new_page(port) as page:
            await page.ask("Page.navigate", url=url)
            yield page
