"""A server of the messenger: the registry of its clients, their buddies, and what is for them.

Usage: server.py NAME --folder FOLDER --directory ldap://HOST[:PORT] [--user DN] [--every SECONDS]

Whoever registers subscribes: a client is there as long as its lease. The password of the directory
is in the environment, as DIRECTORY_PASSWORD.
"""

import argparse
import asyncio
import contextlib
import os
import signal
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

from carrying import Carriers
from central import Heartbeats
from names import Names
from said import (
    LONGEST_TEXT,
    NAMESPACE,
    Buddies,
    Chat,
    Heartbeat,
    Missed,
    Presence,
    is_name,
    kind_for,
    now,
    show,
    tell,
    warn,
)
from storage import Store

from filters import Refused
from gateway.client.grid_events import TYPES, EventRefused, LeasingPublisher
from mediation.grid_events import HandleEvent, Port, SubscribeLease, write_handled

SHORTEST = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Client:
    """Who is registered here, and until when."""

    listener: Port
    ends: float
    direct: bool = False


class Server(LeasingPublisher):
    """What it is called with, it hands on; of messages, only those that are on its disk."""

    def __init__(self, name: str, names: Names, store: Store, every: float) -> None:
        super().__init__(binding="urn:example:messenger:server", shortest=SHORTEST)
        self._name, self._names, self._store, self._every = name, names, store, every
        self._clients: dict[str, Client] = {}
        self._carriers = Carriers(store, self._carry, pause=every)
        self._heartbeats = Heartbeats(name, names, every, self._pass_on)
        self._tasks = asyncio.TaskGroup()

    async def run(self) -> None:
        """Serve until cancelled."""
        async with self._tasks, self._carriers, self:
            self._tasks.create_task(self._keep_bound())
            self._tasks.create_task(self._watch_leases())
            self._tasks.create_task(self._heartbeats.run())
            await asyncio.Event().wait()

    async def perform(self, call: HandleEvent | SubscribeLease) -> bytes:
        if isinstance(call, SubscribeLease):
            return await self._register(call)
        match TYPES.read(call.event):
            case Chat() as chat:
                self._take(chat)
            case Presence() as presence:
                await self._tell_presence(presence)
            case Buddies() as buddies:
                self._note(buddies)
            case Heartbeat() as beat:
                await self._heartbeats.hear(beat)
            case Missed():
                self._heartbeats.missed()
            case other:
                raise EventRefused(f"a server takes no {type(other).__name__}")
        return write_handled(call)

    # Who is here.

    async def _register(self, call: SubscribeLease) -> bytes:
        person = call.handback or ""
        wanted = call.pattern.type if call.pattern is not None else None
        if not is_name(person) or wanted != kind_for(person):
            raise EventRefused("a client gives its name as handback, and wants what is for it")
        answer = await super().perform(call)
        lease = max(timedelta(milliseconds=call.milliseconds), SHORTEST).total_seconds()
        before = self._clients.get(person)
        direct = before is not None and before.direct
        self._clients[person] = Client(call.listener, self._clock() + lease, direct)
        self._tasks.create_task(self._place(person))
        if before is None or before.listener != call.listener:
            show(f"{self._name}: {person} is here")
        return answer

    async def _place(self, person: str) -> None:
        """Have the directory say that a person is here, at each renewal; then see what waits."""
        try:
            await self._names.place(person, self._name)
        except Refused as refused:
            warn(f"{self._name}: {refused.text}")
        self._carriers.wake(person)

    async def _watch_leases(self) -> None:
        while True:
            await asyncio.sleep(self._every)
            clients = list(self._clients.items())
            for person in [one for one, client in clients if client.ends < self._clock()]:
                await self._leave(person)

    async def _leave(self, person: str) -> None:
        if self._clients.pop(person, None) is not None:
            show(f"{self._name}: {person} is away")
            await self._announce(person)

    # Their buddies.

    def _note(self, buddies: Buddies) -> None:
        """Keep whose presence a person wants to know, and tell those of the person's own."""
        person, names = buddies.source or "", set(buddies.names.split())
        if person not in self._clients or not all(map(is_name, names)):
            raise EventRefused("a client registers first, and has buddies with names")
        self._clients[person] = replace(self._clients[person], direct=buddies.direct)
        self._store.set_buddies(person, names)
        self._tasks.create_task(self._arrive(person))

    async def _arrive(self, person: str) -> None:
        """Make a person known. The directory is told first: of two that come at the same time, the
        one that announces itself later finds the other."""
        await self._place(person)
        await self._announce(person)

    async def _announce(self, person: str) -> None:
        """Tell a person's buddies whether the person is here; who is, is told of theirs."""
        here = person in self._clients
        if not here and await self._server_of(person) is not None:
            return  # It has gone to another server.
        names = self._store.buddies(person)
        presences = [replace(self._presence(person, name), asks=here) for name in names]
        await asyncio.gather(*map(self._tell_presence, presences))

    def _presence(self, person: str, buddy: str) -> Presence:
        client = self._clients.get(person)
        shown = client.listener if client is not None and client.direct else Port("")
        return Presence(
            event_namespace=NAMESPACE, event_type=f"{kind_for(buddy)}.presence", source=person,
            timestamp=now(), recipient=buddy, here=client is not None,
            location=shown.location, binding=shown.binding or "",
        )  # fmt: skip

    async def _tell_presence(self, presence: Presence) -> None:
        """Give a presence to its recipient, here or at another server. It is no message: who is
        away has missed it, and asks when they are back."""
        buddy, person = presence.recipient, presence.source or ""
        if person == buddy and not presence.here:  # A client that says good-bye.
            return await self._leave(person)
        if buddy in self._clients:
            await self.publish(presence)
            if presence.asks and person in self._store.buddies(buddy):
                await self._tell_presence(self._presence(buddy, person))
            return None
        server = await self._server_of(buddy)
        if server is not None:
            await tell(server, presence)
        return None

    # What they say.

    def _take(self, chat: Chat) -> None:
        """Keep a message: from here on it is ours to hand on."""
        if not is_name(chat.recipient) or not is_name(chat.source or "") or chat.seq_no < 1:
            raise EventRefused("a message has a sender, a recipient and a number")
        if len(chat.message or "") > LONGEST_TEXT:
            raise EventRefused(f"a message has {LONGEST_TEXT} characters at most")
        self._store.keep(chat)
        self._carriers.wake(chat.recipient)

    async def _carry(self, chat: Chat) -> bool:
        """Hand a message to who is next on its way; whether they have it."""
        if chat.recipient in self._clients and await self.publish(chat):
            return True
        server = await self._server_of(chat.recipient)
        return server is not None and await tell(server, chat) is None

    async def _server_of(self, person: str) -> Port | None:
        """The other server at which a person is; None: it is this one, or is not known."""
        try:
            server = await self._names.server_of(person)
        except Refused as refused:
            warn(f"{self._name}: {refused.text}")
            return None
        return None if server is None or server.location == self.port.location else server

    # Among servers.

    async def _keep_bound(self) -> None:
        """Bind the own entry at start, and again and again: whoever looks finds where we are."""
        bound = False
        while True:
            try:
                await self._names.prepare()
                await self._names.bind(self._name, self.port)
                if not bound:
                    show(f"{self._name}: is ready")
                bound = True
            except Refused as refused:
                warn(f"{self._name}: {refused.text}")
            await asyncio.sleep(10 * self._every)

    async def _pass_on(self, beat: Heartbeat) -> None:
        """Give a heart-beat to all who are here, and do not wait for those who are slow."""
        for person in list(self._clients):
            mine = replace(beat, event_type=f"{kind_for(person)}.heartbeat")
            self._tasks.create_task(self._publish_beat(mine))

    async def _publish_beat(self, beat: Heartbeat) -> None:
        await self.publish(beat)

    def _clock(self) -> float:
        return asyncio.get_running_loop().time()


async def serve(options: argparse.Namespace) -> None:
    options.folder.mkdir(parents=True, exist_ok=True)
    names = Names(options.directory, options.user, os.environ.get("DIRECTORY_PASSWORD", ""))
    store = Store(options.folder / f"{options.name}.db")
    running = asyncio.create_task(Server(options.name, names, store, options.every).run())
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, running.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await running
    store.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", help="of the server")
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--directory", required=True)
    parser.add_argument("--user", help="who may write into the directory")
    parser.add_argument("--every", type=float, default=2.0, help="seconds between heart-beats")
    chosen = parser.parse_args()
    if not is_name(chosen.name):
        parser.error("a name has small letters, digits and hyphens")
    asyncio.run(serve(chosen))
