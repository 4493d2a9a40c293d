"""The central server: its heart-beats, and the election of another one when they stop."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable

from names import Central, Names
from said import NAMESPACE, Heartbeat, Missed, now, show, tell, warn

from filters import Refused
from gateway.client.grid_events import EventRefused
from mediation.grid_events import Port

MISSED = 3
"""Heart-beats that have to be missing before anybody asks why."""


class Heartbeats:
    """Of one server: sent while it is central, and listened for while another one is.

    Args:
        name: The server's.
        every: Seconds from one heart-beat to the next.
        pass_on: Gives a heart-beat to the server's own clients.
    """

    def __init__(
        self,
        name: str,
        names: Names,
        every: float,
        pass_on: Callable[[Heartbeat], Awaitable[object]],
    ) -> None:
        self._name, self._names, self._every, self._pass_on = name, names, every, pass_on
        self._central: Central | None = None
        self._heard = 0.0
        self._awake = asyncio.Event()
        self._deferred = False
        self._away: set[str] = set()

    async def run(self) -> None:
        """Beat or listen, until cancelled."""
        self._heard = self._clock()
        while True:
            self._awake.clear()
            try:
                if self._leads:
                    await self._beat()
                elif self._overdue:
                    await self._elect()
            except Refused as refused:  # Without the directory, all goes on as it was.
                warn(f"{self._name}: {refused.text}")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._every):
                    await self._awake.wait()

    async def hear(self, beat: Heartbeat) -> None:
        """Take another server's heart-beat.

        Raises:
            EventRefused: It is not central any more.
        """
        if self._central is not None and beat.term < self._central.term:
            raise EventRefused(f"{self._central.server} is central now")
        self._follow(Central(beat.source or "", beat.term))
        self._heard, self._deferred = self._clock(), False
        await self._pass_on(beat)

    def missed(self) -> None:
        """Somebody misses heart-beats: look sooner."""
        self._awake.set()

    @property
    def _leads(self) -> bool:
        return self._central is not None and self._central.server == self._name

    @property
    def _overdue(self) -> bool:
        return self._clock() - self._heard > MISSED * self._every

    def _clock(self) -> float:
        return asyncio.get_running_loop().time()

    def _follow(self, central: Central) -> None:
        if central != self._central:
            self._central = central
            show(f"{self._name}: {central.server} is central (election {central.term})")

    async def _beat(self) -> None:
        """One heart-beat to all servers in the directory, and through them to all clients."""
        central = await self._names.central()
        if central is not None and central != self._central:  # We were away, and one was elected.
            self._heard = self._clock()
            self._follow(central)
            return
        assert self._central is not None
        beat = Heartbeat(
            event_namespace=NAMESPACE, event_type="heartbeat", source=self._name, timestamp=now(),
            term=self._central.term,
        )  # fmt: skip
        others = {
            name: at for name, at in (await self._names.servers()).items() if name != self._name
        }
        tasks = [self._beat_one(name, at, beat) for name, at in others.items()]
        await asyncio.gather(self._pass_on(beat), *tasks)

    async def _beat_one(self, name: str, at: Port, beat: Heartbeat) -> None:
        if await tell(at, beat) is None:
            if name in self._away:
                self._away.discard(name)
                show(f"{self._name}: {name} is back")
        elif name not in self._away:
            self._away.add(name)
            show(f"{self._name}: {name} does not answer")

    async def _elect(self) -> None:
        """Find who is to be central: of those that answer, the first by name.

        Whoever asks in vain asks the directory to make it central, which does so once. Who is left
        the precedence, and makes no use of it, has lost it.
        """
        central = await self._names.central()
        if central is not None and central.server == self._name:
            self._follow(central)  # It was, and was back before anybody missed it.
            return await self._beat()
        servers = await self._names.servers()
        self._heard = self._clock()
        if central is not None and await self._answer([servers.get(central.server)]):
            return None
        before = [at for name, at in servers.items() if name < self._name]
        if not self._deferred and await self._answer(before):
            self._deferred = True
            return None
        self._deferred = False
        if await self._names.elect(self._name, central):
            self._follow(Central(self._name, central.term + 1 if central else 1))
            await self._beat()
        return None

    async def _answer(self, servers: Iterable[Port | None]) -> bool:
        """Whether one of the servers answers; all of them know now what we miss."""
        missed = Missed(event_namespace=NAMESPACE, event_type="missed", source=self._name)
        calls = [tell(one, missed) for one in servers if one is not None]
        return None in await asyncio.gather(*calls)
