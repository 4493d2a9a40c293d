"""The workflow: its graph in a browser, and an engine that is killed in the middle of a run."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.rigs.chromium import CHROMIUM, opened
from tests.rigs.waiting import wait_until

ROOT = Path(__file__).parents[2]
SCREENSHOT = ROOT / "build" / "workflow.png"
SECONDS = 50.0
FILES = {
    "fetch": "readings.csv",
    "split": "wind.csv rain.csv",
    "wind": "wind.json",
    "rain": "rain.json",
    "merge": "summary.json",
    "plot": "summary.svg",
}
"""What each step makes."""
pytestmark = pytest.mark.slow
_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the example has its temporary one in."""
    return tmp_path_factory.mktemp("workflow")


@pytest.fixture(scope="module")
def portal(data: Path) -> Iterator[str]:
    """The example, started as its README has it; the URL of the portal."""
    process = subprocess.Popen(
        [sys.executable, "examples/workflow/workflow.py", "--port", "0", "--pace", "0.1"],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(data)},
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    deadline = threading.Timer(SECONDS, process.terminate)
    deadline.start()
    try:
        line = process.stdout.readline()
        deadline.cancel()
        assert "http://" in line
        yield "http://" + line.partition("http://")[2].strip()
    finally:
        deadline.cancel()
        process.send_signal(signal.SIGINT)
        code = process.wait(SECONDS)
        process.stdout.close()
    assert code == 0
    assert not list(data.glob("*"))


def fetch(url: str, form: dict[str, str] | None = None, origin: str | None = None) -> Any:
    """What is answered, and the URL that it came from in the end."""
    body = None if form is None else urllib.parse.urlencode(form).encode()
    headers = {} if origin is None else {"Origin": origin}
    with _direct.open(urllib.request.Request(url, body, headers), timeout=SECONDS) as answer:
        return answer.read().decode(), answer.url


def run_folder(data: Path, run: str) -> Path:
    [folder] = data.glob(f"*/runs/{run}")
    return folder


def links(portal: str, run: str) -> dict[str, str]:
    """Where the portal's row of a run leads to, by the words of the links."""
    [row] = [row for row in fetch(portal)[0].split("<tr>") if run in row]
    return {words: url for url, words in re.findall(r'<a href="([^"]*)">(\w+)</a>', row)}


def check_complete(portal: str, data: Path, run: str) -> None:
    """Each step ran once, all was recorded, and nobody is subscribed any more."""
    wait_until(lambda: "ended" in fetch(portal)[0].partition(run)[2].split("<tr>")[0], SECONDS)
    shown = links(portal, run)
    recorded = json.loads(fetch(shown["provenance"])[0])
    for state in ("started", "done"):
        made = [(one["step"], one["outputs"]) for one in recorded if one["state"] == state]
        assert sorted(made) == sorted(FILES.items()), state
    assert [one["state"] for one in recorded if one["step"] == "run"] == ["succeeded"]
    order = {one["step"]: at for at, one in enumerate(recorded) if one["state"] == "started"}
    made_at = {one["step"]: at for at, one in enumerate(recorded) if one["state"] == "done"}
    before = {"split": ["fetch"], "wind": ["split"], "rain": ["split"], "merge": ["wind", "rain"]}
    for step, others in before.items():
        assert all(made_at[other] < order[step] for other in others), recorded

    listed = [one["name"] for one in json.loads(fetch(shown["files"])[0]) if one["run"] == run]
    assert sorted(listed) == sorted(" ".join(FILES.values()).split())
    folder = run_folder(data, run)
    assert all((folder / name).stat().st_size > 0 for name in listed)
    gateway = json.loads((folder / "run.json").read_text())["gateway"]
    topic = f"workflow/{urllib.parse.urlparse(shown['files']).query.removeprefix('user=')}/{run}"
    assert topic not in fetch(f"{gateway}/api/v1/subscriptions")[0]
    assert json.loads(fetch(f"{gateway}/api/v1/mailboxes")[0])["mailboxes"] == []


@pytest.mark.nightly
@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
async def test_a_run_in_a_browser(portal: str, data: Path, tmp_path: Path) -> None:
    """The form starts it; the graph shows steps as they start and end."""
    SCREENSHOT.unlink(missing_ok=True)
    async with opened(portal, tmp_path) as page:
        await page.until("document.forms.length == 1")
        await page.do("document.forms[0].requestSubmit()")
        await page.until("document.querySelectorAll('g.started').length > 0")
        await page.until("document.querySelectorAll('g.done').length == 6")
        await page.says("The run: succeeded")
        run = (await page.evaluate("document.querySelector('h1').textContent")).split("/")[-1]
        assert await page.evaluate("document.querySelectorAll('svg line').length") == 6
        await page.screenshot(SCREENSHOT)
        assert not page.complaints
    check_complete(portal, data, run)


def test_an_engine_that_is_killed(portal: str, data: Path) -> None:
    """It goes on where it was: what came while it was away, it takes; nothing runs twice."""
    _, monitor = fetch(f"{portal}runs", {"user": "grace", "workflow": "forecast"})
    run = urllib.parse.unquote(monitor).split("/")[-1]
    killed = set()
    for step in ("fetch", "split", "wind"):
        wait_until(partial(shows, monitor, step, "started|done"), SECONDS)
        [number] = re.findall(rf"runs/{run}/kill.*Kill engine (\d+)", fetch(portal)[0])
        killed.add(number)
        fetch(f"{portal}runs/{run}/kill", {})
        # The step ends meanwhile: an engine is started again after a second.
        wait_until(partial(shows, monitor, step, "done"), SECONDS)
    assert len(killed) == 3
    check_complete(portal, data, run)


def shows(monitor: str, step: str, state: str) -> bool:
    """Whether the monitor draws a step in a state, a regular expression."""
    return re.search(f'<g id="{step}" class="({state})">', fetch(monitor)[0]) is not None


@pytest.mark.parametrize(
    ("form", "origin", "status"),
    [
        ({"user": "a/b", "workflow": "forecast"}, None, 400),
        ({"user": "ada", "workflow": "<b>"}, None, 400),
        ({"user": "ada"}, None, 400),
        ({"user": "ada", "workflow": "forecast"}, "http://elsewhere.example", 403),
    ],
)
def test_what_the_portal_refuses(
    portal: str, form: dict[str, str], origin: str | None, status: int
) -> None:
    with pytest.raises(urllib.error.HTTPError) as refused:
        fetch(f"{portal}runs", form, origin)
    with refused.value as answer:
        assert answer.code == status
