"""The messenger: servers are killed in the middle of a conversation, of which nothing is lost, nothing
comes twice, and everything comes in its order."""

import asyncio
import os
import shutil
import sqlite3
import subprocess
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ldap3", reason="needs the extra ldap: it is not installed (ldap3)")

from gateway.channels.directory import Directory, DirectoryOptions
from gateway.client import GatewayError
from gateway.client.grid_events import Event, EventTypes, Publisher
from mediation.grid_events import Port, port_of
from tests.rigs.gateways import running
from tests.rigs.slapd import ADMIN, PASSWORD, Slapd, needs_slapd, slapd
from tests.rigs.waiting import until

needs_slapd()

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "messenger"
BASE = "ou=messenger,o=iu"
NAMESPACE = "http://example.org/messenger"
EVERY = 0.25
SECONDS = 50.0
FIVE = [1, 2, 3, 4, 5]
pytestmark = pytest.mark.slow

TYPES = EventTypes()
"""Those of the example that are said by tests."""


@TYPES.register(NAMESPACE, "Chat")
@dataclass(frozen=True, slots=True, kw_only=True)
class Chat(Event):
    recipient: str = ""


@TYPES.register(NAMESPACE, "Heartbeat")
@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat(Event):
    term: int = 0


class Program:
    """A server or a person, as a process."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.lines: list[str] = []
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        assert self.process.stdout is not None
        while line := await self.process.stdout.readline():
            self.lines.append(line.decode().rstrip("\n"))

    async def shows(self, start: str) -> None:
        """Wait for a line that starts so."""
        try:
            await until(lambda: any(one.startswith(start) for one in self.lines), SECONDS)
        except TimeoutError:
            raise AssertionError(f"no {start!r} in {self.lines}") from None

    def says(self, to: str, numbers: range) -> None:
        assert self.process.stdin is not None
        for number in numbers:
            self.process.stdin.write(f"{to}: {number}\n".encode())

    def heard(self, of: str) -> list[int]:
        """What somebody said, as it was shown."""
        said = [line.partition(": ") for line in self.lines]
        return [int(text) for who, _, text in said if who == of]

    async def kill(self) -> None:
        if self.process.returncode is None:
            self.process.kill()
        await asyncio.wait_for(self.process.wait(), SECONDS)
        await self._reading

    async def leave(self) -> None:
        self.process.terminate()
        assert await asyncio.wait_for(self.process.wait(), SECONDS) == 0


class Stage:
    """The programs of a test, and their directory."""

    def __init__(self, directory: Slapd, folder: Path, stack: AsyncExitStack) -> None:
        self._directory, self._folder, self._stack = directory, folder, stack
        self._names = Directory(DirectoryOptions(directory.url, start_tls=False))

    async def _start(self, file: str, name: str, *options: str) -> Program:
        process = await asyncio.create_subprocess_exec(
            sys.executable, str(EXAMPLE / file), name, "--folder", str(self._folder),
            "--directory", self._directory.url, "--every", str(EVERY), *options,
            env={
                **os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "error",
                "DIRECTORY_PASSWORD": PASSWORD,
            },
            stdin=PIPE, stdout=PIPE,
        )  # fmt: skip
        program = Program(process)
        self._stack.push_async_callback(program.kill)
        return program

    async def server(self, name: str) -> Program:
        server = await self._start("server.py", name, "--user", ADMIN)
        await server.shows(f"{name}: is ready")
        return server

    async def person(self, name: str, home: str, *options: str) -> Program:
        person = await self._start("client.py", name, "--home", home, *options)
        await until(lambda: any("your server is" in line for line in person.lines), SECONDS)
        return person

    async def location(self, server: str) -> Port:
        """Where the directory says that a server is."""
        reference = None
        async with asyncio.timeout(SECONDS):
            while reference is None:
                reference = await self._names.lookup(f"cn={server},ou=servers,{BASE}")
        return port_of(reference)

    async def elected(self, after: int) -> tuple[str, int]:
        """The central server by the directory, and the number of its election, a later one."""
        found = "", after
        async with asyncio.timeout(SECONDS):
            while found[1] <= after:
                found = await self._central()
        return found

    async def _central(self) -> tuple[str, int]:
        def look() -> tuple[str, int]:
            with self._names.connected(lambda _: None) as connection:
                wanted = ["seeAlso", "description"]
                connection.search(f"cn=central,{BASE}", "(cn=*)", attributes=wanted)
                found = [one for one in connection.response or () if "raw_attributes" in one]
                if not found:
                    return "", 0
                [name], [term] = (found[0]["raw_attributes"][key] for key in wanted)
                return name.decode().split(",")[0].removeprefix("cn="), int(term)

        return await asyncio.to_thread(look)

    def waiting(self, who: str) -> list[tuple[str, str, int]]:
        """What is on its way, on somebody's disk."""
        return self._rows(who, "SELECT recipient, sender, number FROM waiting")

    def kept(self, who: str, of: str) -> list[tuple[int, str]]:
        """What somebody has heard, by their disk."""
        query = "SELECT number, text FROM heard WHERE sender = ? ORDER BY number"
        return self._rows(who, query, of)

    def _rows(self, who: str, query: str, *values: str) -> list[Any]:
        db = sqlite3.connect(f"file:{self._folder}/{who}.db?mode=ro", uri=True)
        try:
            return db.execute(query, values).fetchall()
        finally:
            db.close()


@pytest.fixture
def directory() -> Iterator[Slapd]:
    with slapd() as server:
        yield server


@asynccontextmanager
async def staged(directory: Slapd, folder: Path) -> AsyncIterator[Stage]:
    async with AsyncExitStack() as stack:
        yield Stage(directory, folder, stack)


@pytest.mark.nightly
async def test_servers_are_killed_in_the_middle_of_a_conversation(
    directory: Slapd, tmp_path: Path
) -> None:
    async with staged(directory, tmp_path) as stage:
        first = await stage.server("s1")
        assert await stage.elected(0) == ("s1", 1)
        second, third = await asyncio.gather(stage.server("s2"), stage.server("s3"))
        hidden = ("--through-servers",)
        alice, bob, carol = await asyncio.gather(
            stage.person("alice", "s1", *hidden),
            stage.person("bob", "s2", *hidden),
            stage.person("carol", "s3", *hidden),
        )
        for person, server in ((alice, "s1"), (bob, "s2"), (carol, "s3")):
            assert person.lines[0] == f"* your server is {server}"

        # Carol is away, and what is for her waits at her server, which is killed.
        await carol.leave()
        alice.says("carol", range(1, 6))
        await until(lambda: len(stage.waiting("s3")) == 5 and not stage.waiting("s1"), SECONDS)
        await third.kill()
        alice.says("carol", range(6, 11))
        await until(lambda: len(stage.waiting("s1")) == 5, SECONDS)

        # The central server is killed, while Alice and Bob talk through it.
        alice.says("bob", range(1, 6))
        bob.says("alice", range(1, 6))
        await until(lambda: bob.heard("alice"), SECONDS)
        alice.says("bob", range(6, 16))
        bob.says("alice", range(6, 16))
        await first.kill()
        central, election = await stage.elected(1)
        assert central == "s2"
        await alice.shows("* your server is s2")
        alice.says("bob", range(16, 21))
        bob.says("alice", range(16, 21))

        # Carol comes, to the server that is left; before what it has for her, others have to come.
        alice.says("carol", range(11, 16))
        await until(lambda: len(stage.waiting("s2")) >= 5, SECONDS)
        carol = await stage.person("carol", "s3", *hidden)
        assert "* your server is s2" in carol.lines

        # Those that were killed are started again; the last one that was central is killed, too.
        third, first = await asyncio.gather(stage.server("s3"), stage.server("s1"))
        await first.shows(f"s1: s2 is central (election {election})")
        await until(lambda: len(carol.heard("alice")) == 15, SECONDS)
        bob.says("carol", range(1, 6))
        await second.kill()
        bob.says("carol", range(6, 11))
        central, election = await stage.elected(election)
        assert central in ("s1", "s3")
        second = await stage.server("s2")
        await second.shows(f"s2: {central} is central (election {election})")

        for hearer, of, count in (
            (bob, "alice", 20), (alice, "bob", 20), (carol, "alice", 15), (carol, "bob", 10),
        ):  # fmt: skip
            await until(lambda: len(hearer.heard(of)) >= count, SECONDS)  # noqa: B023
        people = ("alice", "bob", "carol", "s1", "s2", "s3")
        await until(lambda: not any(stage.waiting(one) for one in people), SECONDS)
        for name, hearer, of, count in (
            ("bob", bob, "alice", 20), ("alice", alice, "bob", 20), ("carol", carol, "alice", 15),
            ("carol", carol, "bob", 10),
        ):  # fmt: skip
            numbers = list(range(1, count + 1))
            assert hearer.heard(of) == numbers
            assert stage.kept(name, of) == [(number, str(number)) for number in numbers]


@pytest.mark.nightly
async def test_what_comes_twice_or_too_soon(directory: Slapd, tmp_path: Path) -> None:
    """A repetition is taken and not shown; what comes before its turn waits; the heart-beat of an
    election that is over is refused."""
    async with staged(directory, tmp_path) as stage:
        await stage.server("s1")
        assert await stage.elected(0) == ("s1", 1)
        bob = await stage.person("bob", "s1", "--through-servers")
        async with Publisher(await stage.location("s1"), types=TYPES) as publisher:

            async def say(number: int) -> None:
                chat = Chat(
                    event_namespace=NAMESPACE, event_type="to.bob.chat", source="eve", timestamp=17,
                    seq_no=number, message=str(number), handback="", recipient="bob",
                )  # fmt: skip
                await publisher.publish(chat)

            for number in (3, 1, 1):
                await say(number)
            await until(lambda: stage.waiting("s1") == [("bob", "eve", 3)], SECONDS)
            await until(lambda: bob.heard("eve") == [1], SECONDS)
            for number in (1, 2, 4):
                await say(number)
            await until(lambda: not stage.waiting("s1"), SECONDS)
            await until(lambda: len(bob.heard("eve")) >= 4, SECONDS)
            assert bob.heard("eve") == [1, 2, 3, 4]
            late = Heartbeat(event_namespace=NAMESPACE, event_type="heartbeat", source="s9", term=0)
            with pytest.raises(GatewayError, match="s1 is central now"):
                await publisher.publish(late)


@pytest.mark.nightly
async def test_friends_talk_directly(directory: Slapd, tmp_path: Path) -> None:
    """They know each other by their server, which they need no more then; what is for somebody else
    waits until there is a server again."""
    async with staged(directory, tmp_path) as stage:
        server = await stage.server("s1")
        alice, bob = await asyncio.gather(
            stage.person("alice", "s1", "--buddies", "bob"),
            stage.person("bob", "s1", "--buddies", "alice"),
        )
        await asyncio.gather(alice.shows("* bob is here"), bob.shows("* alice is here"))
        await server.kill()
        alice.says("bob", range(1, 6))
        bob.says("alice", range(1, 6))
        alice.says("carol", range(1, 4))
        await until(lambda: (bob.heard("alice"), alice.heard("bob")) == (FIVE, FIVE), SECONDS)
        await until(lambda: len(stage.waiting("alice")) == 3, SECONDS)
        server = await stage.server("s1")
        carol = await stage.person("carol", "s1")
        await until(lambda: len(carol.heard("alice")) == 3, SECONDS)
        # Alice and Bob are registered anew, with what is theirs.
        alice.says("dora", range(1, 2))
        await until(lambda: stage.waiting("s1") == [("dora", "alice", 1)], SECONDS)
        await server.shows("s1: bob is here")
        await alice.leave()
        await bob.shows("* alice is away")


@pytest.mark.nightly
async def test_a_room_is_a_channel_of_the_gateway(directory: Slapd, tmp_path: Path) -> None:
    """What is said there comes once to all that are there, also when it comes to the gateway twice."""
    data = tmp_path / "gateway"
    async with running(data) as gateway, staged(directory, tmp_path) as stage:
        await stage.server("s1")
        room = ("--channel", gateway.url, "--rooms", "lab")
        alice, bob = await asyncio.gather(
            stage.person("alice", "s1", *room), stage.person("bob", "s1", *room)
        )
        await asyncio.gather(alice.shows("* you are in #lab"), bob.shows("* you are in #lab"))
        alice.says("#lab", range(1, 6))
        async with Publisher(gateway.url, types=TYPES) as publisher:
            for timestamp, number in ((17, 1), (18, 1), (19, 2)):
                await publisher.publish(
                    Chat(
                        event_namespace=NAMESPACE, event_type="room.lab.chat", source="eve",
                        timestamp=timestamp, seq_no=number, message=str(number), handback="",
                        recipient="#lab",
                    )
                )  # fmt: skip
        bob.says("alice", range(1, 2))
        await until(lambda: len(bob.heard("#lab alice")) >= 5, SECONDS)
        for person in (alice, bob):
            await until(lambda: len(person.heard("#lab eve")) >= 2, SECONDS)  # noqa: B023
            assert person.heard("#lab eve") == [1, 2]
        assert bob.heard("#lab alice") == [1, 2, 3, 4, 5]
        await until(lambda: alice.heard("bob") == [1], SECONDS)
        assert alice.heard("#lab alice") == []


async def test_the_command_as_the_readme_has_it() -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "examples/messenger/messenger.py", "--every", str(EVERY), cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "error"},
        stdin=PIPE, stdout=PIPE,
    )  # fmt: skip
    messenger = Program(process)
    try:
        for scene in (  # Each has a deadline of its own.
            "Alice and Bob register", "They talk directly", "Carol is away", "The central server",
            "s", "Carol comes", "Those who are in the lobby", "You are alice",
        ):  # fmt: skip
            await messenger.shows(f"-- {scene}")
        assert process.stdin is not None
        process.stdin.write(b"bob: And you?\n")
        await messenger.shows('        alice | bob: You say "And you?"?')
        process.stdin.close()
        assert await asyncio.wait_for(process.wait(), SECONDS) == 0
        shown = [line for line in messenger.lines if line.startswith("        carol | alice:")]
        assert shown == ["        carol | alice: We meet at eight."]
    finally:
        if process.returncode is None:
            process.terminate()
        await asyncio.wait_for(process.wait(), SECONDS)


@pytest.mark.nightly
@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_make_installs_what_it_needs() -> None:
    told = subprocess.run(
        ["make", "-n", "-B", "example-messenger"],
        cwd=ROOT, capture_output=True, text=True, timeout=SECONDS, check=False,
    )  # fmt: skip
    assert told.returncode == 0, told.stderr
    assert "Installing what is locked (base ldap)" in told.stdout
    assert "examples/messenger/messenger.py" in told.stdout
