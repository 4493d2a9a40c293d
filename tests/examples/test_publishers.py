"""The publishers of ``examples/publishers``: each whose language is there publishes, and is short."""

import asyncio
import shutil
from pathlib import Path

import pytest

from gateway.client.grid_events import Event, EventListener, subscribe_lease
from tests.rigs.gateways import running
from tests.rigs.waiting import DEADLINE

EXAMPLE = Path(__file__).parents[2] / "examples" / "publishers"
LANGUAGES = {
    "publish.sh": ("sh", "curl"),
    "publish.pl": ("perl",),
    "publish.js": ("node",),
    "Publish.java": ("javac", "java"),
    "publish.c": ("gcc",),
}
"""What each needs."""
MESSAGE = "it's <over> & \U0001f30b"


async def run(*command: str, cwd: Path) -> tuple[int | None, bytes]:
    process = await asyncio.create_subprocess_exec(
        *command, cwd=cwd, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    try:
        said, _ = await asyncio.wait_for(process.communicate(), DEADLINE)
    except TimeoutError:
        process.kill()
        await process.wait()
        raise
    return process.returncode, said


async def made(name: str, url: str, type_: str, folder: Path) -> tuple[str, ...]:
    """The command that publishes *type_*, compiled where it has to be."""
    program, source = LANGUAGES[name][0], str(EXAMPLE / name)
    if name == "publish.c":
        built = await run("gcc", "-Wall", "-Werror", "-o", "publish", source, cwd=folder)
        assert built == (0, b"")
        host, port = url.removeprefix("http://").removesuffix("/soap").split(":")
        return (str(folder / "publish"), host, port, type_, MESSAGE)
    if name == "Publish.java":
        assert (await run("javac", "-nowarn", "-d", ".", source, cwd=folder))[0] == 0
        return ("java", "-Dsun.jnu.encoding=UTF-8", "-cp", ".", "Publish", url, type_, MESSAGE)
    return (program, source, url, type_, MESSAGE)


@pytest.mark.parametrize("name", LANGUAGES)
@pytest.mark.slow  # What compiles.
async def test_it_publishes(name: str, tmp_path: Path) -> None:
    missing = [program for program in LANGUAGES[name] if shutil.which(program) is None]
    if missing:
        pytest.skip(f"{missing[0]} is not installed")
    type_ = f"publishers.{Path(name).suffix[1:]}"
    heard: asyncio.Queue[Event] = asyncio.Queue()
    async with running(tmp_path / "data") as gateway, EventListener(heard.put) as listener:
        await subscribe_lease(gateway.url, listener.port, Event(event_type=type_))
        command = await made(name, f"{gateway.url}/soap", type_, tmp_path)
        assert await run(*command, cwd=tmp_path) == (0, b"")
        event = await asyncio.wait_for(heard.get(), DEADLINE)
    # With nobody there it fails.
    assert (await run(*command, cwd=tmp_path))[0] != 0
    assert (event.event_namespace, event.event_type) == ("http://example.org/publishers", type_)
    assert event.message == MESSAGE
    assert event.source
    assert event.timestamp > 1_700_000_000_000


@pytest.mark.parametrize("name", LANGUAGES)
def test_it_is_short(name: str) -> None:
    assert len((EXAMPLE / name).read_text().splitlines()) <= 40
