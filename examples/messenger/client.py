"""A person of the messenger. What is typed as "bob: hello" is said to bob, and "#lobby: hello" to
all that are in that room; /quit ends.

Usage: client.py NAME --folder FOLDER --directory ldap://HOST[:PORT] [--home SERVER]
                 [--buddies bob,carol] [--through-servers] [--every SECONDS]
                 [--channel GATEWAY --rooms lobby,lab]

What bob says is printed as "bob: hello", once, in his order, and is in the file NAME.db; what he
says in a room as "#lobby bob: hello".
"""

import argparse
import asyncio
import contextlib
import re
import signal
from datetime import timedelta
from pathlib import Path

from carrying import Carriers
from names import Names
from rooms import stay_in
from said import (
    LONGEST_TEXT,
    NAMESPACE,
    SECONDS,
    Buddies,
    Chat,
    Heartbeat,
    Missed,
    Presence,
    is_name,
    is_room,
    kind_for,
    show,
    tell,
    typed,
    warn,
)
from storage import Store

from filters import Refused
from gateway.client import GatewayError
from gateway.client.grid_events import Event, EventListener, EventRefused, subscribe_lease
from mediation.grid_events import Port

MISSED = 4
"""Heart-beats that have to be missing before a client asks its server: servers are sooner."""
_LINE = re.compile(r"\s*(#?[a-z0-9-]+)\s*:\s*(.*\S)\s*")


class Person:
    """Somebody who talks, and listens.

    Args:
        home: The server to register at, if it is there.
        direct: Whether buddies may call this listener; otherwise what they say comes by servers.
        channel: The URL of the gateway that is the channel of *rooms*.
    """

    def __init__(
        self,
        name: str,
        names: Names,
        store: Store,
        *,
        home: str | None,
        buddies: tuple[str, ...],
        direct: bool,
        every: float,
        channel: str | None,
        rooms: tuple[str, ...],
    ) -> None:
        self._name, self._names, self._store = name, names, store
        self._home, self._buddies, self._direct = home, buddies, direct
        self._every = every
        self._channel, self._rooms = channel, rooms
        self._listener = EventListener(self._hear, binding="urn:example:messenger:client")
        self._carriers = Carriers(store, self._carry, pause=every)
        self._server: tuple[str, Port] | None = None
        self._servers: dict[str, Port] = {}
        self._friends: dict[str, Port] = {}
        self._here: dict[str, bool] = {}
        self._heard = 0.0
        self._restless = asyncio.Event()

    async def run(self, lines: "asyncio.Queue[str]") -> None:
        """Register, and say what is typed, until it ends and all of it is handed over."""
        async with self._listener, self._carriers:
            tasks = [asyncio.create_task(one) for one in (self._stay(), self._watch())]
            if self._channel is not None and self._rooms:
                staying = stay_in(self._rooms, self._channel, self._listener.port)
                tasks.append(asyncio.create_task(staying))
            try:
                await self._read(lines)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                if self._server is not None:
                    gone = f"{kind_for(self._name)}.presence"
                    await tell(self._server[1], Presence(
                        event_namespace=NAMESPACE, event_type=gone, source=self._name,
                        recipient=self._name,
                    ))  # fmt: skip

    # What is said.

    async def _read(self, lines: "asyncio.Queue[str]") -> None:
        while line := await lines.get():
            if line.strip() == "/quit":
                break
            # Of what is typed, XML and terminals can show what is printable.
            said = _LINE.fullmatch("".join(filter(str.isprintable, line)))
            if said is None or not (is_name(said[1]) or said[1] in self._rooms):
                if line.strip():
                    warn('say "NAME: TEXT", "#ROOM: TEXT" of a room that you are in, or /quit')
            elif len(said[2]) > LONGEST_TEXT:
                warn(f"that is too long: a message has {LONGEST_TEXT} characters at most")
            else:
                self._store.say(self._name, said[1], said[2])
                self._carriers.wake(said[1])
        await self._carriers.finish()

    async def _carry(self, chat: Chat) -> bool:
        """Hand a message to its recipient, or to the own server, that of a room to its channel;
        whether they have it."""
        if is_room(chat.recipient):
            return self._channel is not None and await tell(self._channel, chat) is None
        friend = self._friends.get(chat.recipient)
        if friend is not None:
            error = await tell(friend, chat)
            if error is None:
                return True
            if error.status is None:  # Not there. Otherwise something else has to come first.
                self._friends.pop(chat.recipient, None)
        if self._server is None:
            return False
        return await tell(self._server[1], chat) is None

    # What is heard.

    async def _hear(self, event: Event) -> None:
        match event:
            case Chat() if event.recipient == self._name:
                if self._store.hear(event):
                    show(f"{event.source}: {event.message}")
            case Chat() if event.recipient in self._rooms:
                if self._store.hear_in_room(event) and event.source != self._name:
                    show(f"{event.recipient} {event.source}: {event.message}")
            case Presence() if event.recipient == self._name:
                self._know(event)
            case Heartbeat():
                self._heard = self._clock()
            case _:
                raise EventRefused(f"this is for somebody else than {self._name}")

    def _know(self, presence: Presence) -> None:
        friend = presence.source or ""
        self._friends.pop(friend, None)
        if presence.here and presence.location and self._direct:
            self._friends[friend] = Port(presence.location, presence.binding, presence.binding)
        if self._here.get(friend) != presence.here:  # It is told again when somebody asks.
            self._here[friend] = presence.here
            show(f"* {friend} is {'here' if presence.here else 'away'}")
        if presence.here:
            self._carriers.wake(friend)

    # The server.

    async def _stay(self) -> None:
        """Be registered, and renew the lease at two thirds of it."""
        lease = timedelta(seconds=6 * self._every)
        while True:
            self._restless.clear()
            granted = await self._register(lease)
            with contextlib.suppress(TimeoutError):
                pause = self._every if granted is None else granted.total_seconds() * 2 / 3
                async with asyncio.timeout(pause):
                    await self._restless.wait()

    async def _register(self, lease: timedelta) -> timedelta | None:
        """Register where we are, at home, or at any server that is there; the lease."""
        with contextlib.suppress(Refused):  # Without the directory, they are where they were.
            self._servers = await self._names.servers()
        at = self._server[0] if self._server is not None else None
        for name in sorted(self._servers, key=lambda one: (one != at, one != self._home, one)):
            port = self._servers[name]
            mine = Event(event_type=kind_for(self._name))
            try:
                async with asyncio.timeout(SECONDS):
                    granted = await subscribe_lease(
                        port, self._listener.port, mine, lease=lease, handback=self._name
                    )
            except (GatewayError, TimeoutError):
                continue
            if self._server != (name, port):
                await self._arrive(name, port)
            return granted
        self._server = None
        return None

    async def _arrive(self, name: str, port: Port) -> None:
        if self._server is None or self._server[0] != name:
            show(f"* your server is {name}")
        self._server, self._heard = (name, port), self._clock()
        buddies = Buddies(
            event_namespace=NAMESPACE, event_type="buddies", source=self._name,
            names=" ".join(self._buddies), direct=self._direct,
        )  # fmt: skip
        await tell(port, buddies)
        for recipient in self._store.recipients():
            self._carriers.wake(recipient)

    async def _watch(self) -> None:
        """Where heart-beats are missing, have the server see to it; or find another server."""
        while True:
            await asyncio.sleep(self._every)
            if self._server is None or self._clock() - self._heard < MISSED * self._every:
                continue
            self._heard = self._clock()
            missed = Missed(event_namespace=NAMESPACE, event_type="missed", source=self._name)
            if await tell(self._server[1], missed) is not None:
                self._server = None
                self._restless.set()

    def _clock(self) -> float:
        return asyncio.get_running_loop().time()


async def talk(options: argparse.Namespace) -> None:
    options.folder.mkdir(parents=True, exist_ok=True)
    store = Store(options.folder / f"{options.name}.db")
    person = Person(
        options.name, Names(options.directory), store, home=options.home, every=options.every,
        buddies=_names(options.buddies), direct=not options.through_servers,
        channel=options.channel, rooms=tuple(f"#{name}" for name in _names(options.rooms)),
    )  # fmt: skip
    running = asyncio.create_task(person.run(typed()))
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, running.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await running
    store.close()


def _names(text: str) -> tuple[str, ...]:
    return tuple(filter(None, text.split(",")))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", help="whose messenger it is")
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--directory", required=True)
    parser.add_argument("--home", help="the server to register at")
    parser.add_argument("--buddies", default="", help="names, with commas between them")
    parser.add_argument("--through-servers", action="store_true", help="nobody can reach us")
    parser.add_argument("--channel", help="the URL of the gateway that is the channel of rooms")
    parser.add_argument("--rooms", default="", help="to be in: names, with commas between them")
    parser.add_argument("--every", type=float, default=2.0, help="seconds between heart-beats")
    chosen = parser.parse_args()
    if not is_name(chosen.name):
        parser.error("a name has small letters, digits and hyphens")
    if not all(map(is_name, (*_names(chosen.buddies), *_names(chosen.rooms)))):
        parser.error("buddies and rooms have small letters, digits and hyphens")
    asyncio.run(talk(chosen))
