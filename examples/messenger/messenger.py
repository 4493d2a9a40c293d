"""The messenger at work: three servers, three persons, a conversation, and a server that is killed.

Usage: .venv/bin/python examples/messenger/messenger.py [--every SECONDS]

When the conversation is over you are alice: type "bob: hello". Ctrl-D ends.
"""

import argparse
import asyncio
import contextlib
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from names import Central, Names
from said import show, typed
from slapd import USER, Running, directory

from gateway.client.signals import end_as_by_interrupt

HERE = Path(__file__).parent
SECONDS = 60.0
"""For anything that is waited for."""


class Program:
    """A server or a person, which runs as a process; what it says is shown under its name."""

    def __init__(self, stage: "Stage", file: str, name: str, *options: str) -> None:
        self.name = name
        self.hears: Callable[[str], None] = lambda _: None
        self._stage, self._words = stage, (str(HERE / file), name, *options)
        self._lines: list[str] = []
        self._changed = asyncio.Event()

    async def start(self) -> "Program":
        stage = self._stage
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, *self._words, "--folder", str(stage.folder),
            "--directory", stage.directory.url, "--every", str(stage.every),
            env=stage.environment, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
            start_new_session=True,
        )  # fmt: skip
        self._reading = asyncio.create_task(self._read())
        return self

    async def _read(self) -> None:
        assert self._process.stdout is not None
        while line := (await self._process.stdout.readline()).decode().rstrip("\n"):
            serves = line.startswith(f"{self.name}: ")
            show(line if serves else f"        {self.name} | {line}")
            self._lines.append(line)
            self._changed.set()
            self.hears(line)

    async def shows(self, line: str) -> None:
        """Wait until it has printed a line."""
        async with asyncio.timeout(SECONDS):
            while line not in self._lines:
                self._changed.clear()
                await self._changed.wait()

    async def says(self, line: str) -> None:
        """Have a person say something."""
        assert self._process.stdin is not None
        show(f"        {self.name} > {line}")
        self._process.stdin.write(f"{line}\n".encode())
        await self._process.stdin.drain()

    async def kill(self) -> None:
        """End it without a warning (SIGKILL)."""
        self._process.kill()
        await self._process.wait()
        await self._reading

    async def end(self) -> None:
        with contextlib.suppress(ProcessLookupError, AttributeError):
            self._process.terminate()
        with contextlib.suppress(AttributeError):
            await self._process.wait()


class Stage:
    """What all programs have in common."""

    def __init__(self, folder: Path, running: Running, every: float) -> None:
        self.folder, self.directory, self.every = folder, running, every
        kept = {key: text for key, text in os.environ.items() if not key.startswith("DRAGOMAN_")}
        here = {"PYTHONPATH": str(HERE.parents[1]), "DIRECTORY_PASSWORD": running.password}
        self.environment = {**kept, **here}

    def server(self, name: str) -> Program:
        return Program(self, "server.py", name, "--user", USER)

    def person(self, name: str, home: str, *options: str) -> Program:
        return Program(self, "client.py", name, "--home", home, *options)


async def elected(names: Names, after: int = 0) -> Central:
    """The central server of a later election than that numbered *after*."""
    async with asyncio.timeout(SECONDS):
        while True:
            central = await names.central()
            if central is not None and central.term > after:
                return central
            await asyncio.sleep(0.1)


async def gateway(stack: contextlib.AsyncExitStack, stage: Stage) -> str:
    """Start a gateway; its URL."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "gateway", "serve", "--port", "0",
        "--data", str(stage.folder / "gateway"), cwd=stage.folder, env=stage.environment,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip

    async def end() -> None:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.wait()

    stack.push_async_callback(end)
    assert process.stdout is not None
    ready = (await asyncio.wait_for(process.stdout.readline(), SECONDS)).decode()
    if "http://" not in ready:
        raise SystemExit("The gateway did not start.")
    return "http://" + ready.partition("http://")[2].split()[0]


def scene(text: str) -> None:
    show(f"\n-- {text}")


async def play(every: float) -> None:
    async with contextlib.AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        running = await stack.enter_async_context(directory(folder))
        stage = Stage(folder, running, every)
        names = Names(running.url)

        async def begin(program: Program) -> Program:
            stack.push_async_callback(program.end)
            return await program.start()

        scene("Three servers start, bind themselves in the directory, and elect a central one.")
        servers = {name: await begin(stage.server(name)) for name in ("s1", "s2", "s3")}
        lobby = ("--channel", await gateway(stack, stage), "--rooms", "lobby")
        first = await elected(names)
        for server in servers.values():
            await server.shows(f"{server.name}: {first.server} is central (election {first.term})")

        scene("Alice and Bob register at servers of their own, and see each other.")
        alice = await begin(stage.person("alice", "s1", "--buddies", "bob,carol", *lobby))
        bob = await begin(stage.person("bob", "s2", "--buddies", "alice,carol", *lobby))
        await alice.shows("* bob is here")
        await bob.shows("* alice is here")

        scene("They talk directly, from listener to listener.")
        await alice.says("bob: Are you coming tonight?")
        await bob.shows("alice: Are you coming tonight?")
        await bob.says("alice: I am. Is Carol?")
        await alice.shows("bob: I am. Is Carol?")

        scene("Carol is away: what they say to her waits at their servers.")
        await alice.says("carol: We meet at eight.")
        await bob.says("carol: Bring the book.")

        scene(f"The central server, {first.server}, is killed. Another one is elected.")
        await servers[first.server].kill()
        second = await elected(names, first.term)
        await servers[second.server].shows(
            f"{second.server}: {second.server} is central (election {second.term})"
        )

        scene(f"{first.server} is started again: it binds itself anew, and follows.")
        await servers[first.server].start()
        await servers[first.server].shows(
            f"{first.server}: {second.server} is central (election {second.term})"
        )

        scene("Carol comes. Nobody can reach her directly; what waited is there, once.")
        carol = await begin(
            stage.person("carol", "s3", "--buddies", "alice,bob", "--through-servers", *lobby)
        )
        await carol.shows("alice: We meet at eight.")
        await carol.shows("bob: Bring the book.")
        await carol.says("alice: I shall be there.")
        await alice.shows("carol: I shall be there.")

        scene("Those who are in the lobby hear what is said there, by a gateway.")
        for friend in (alice, bob, carol):
            await friend.shows("* you are in #lobby")
        await bob.says("#lobby: The train is late.")
        await alice.shows("#lobby bob: The train is late.")
        await carol.shows("#lobby bob: The train is late.")

        scene('You are alice. Say "bob: ...", "carol: ..." or "#lobby: ..."; Ctrl-D ends.')
        for friend in (bob, carol):
            friend.hears = _answers(friend)
        lines = typed()
        while line := await lines.get():
            await alice.says(line.rstrip())


def _answers(friend: Program) -> Callable[[str], None]:
    """Have a friend of alice say something to whatever she says."""
    kept: set[asyncio.Task[None]] = set()

    def hears(line: str) -> None:
        who, _, text = line.partition(": ")
        if who == "alice":
            task = asyncio.ensure_future(friend.says(f'alice: You say "{text}"?'))
            kept.add(task)
            task.add_done_callback(kept.discard)

    return hears


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--every", type=float, default=1.0, help="seconds between heart-beats")
    chosen = parser.parse_args()
    end_as_by_interrupt()
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(play(chosen.every))
