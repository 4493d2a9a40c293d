"""Keeps one connection to a broker: opens it, and opens it again whenever it has ended."""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, Protocol, Self, TypeVar

from adapters.broker.connection_state import ConnectionState
from adapters.broker.outages import Outages

SHORTEST, LONGEST = 0.25, 10.0
"""Seconds between attempts: doubled each time, and somewhere between half of it and all."""

POLITE = 0.8
"""Seconds that the broker gets to close a connection."""

CLOSING = 2 * POLITE
"""Seconds that a connection gets to end in all."""
CANCELLED_EACH = 0.2
"""Seconds after which what does not end is cancelled again."""

FIRST_ATTEMPT = 20.0
"""Seconds that a start waits for the broker. Without it the gateway starts all the same."""

STEADY = 5.0
"""Seconds after which a connection was a good one: the next attempt comes soon again."""

logger = logging.getLogger(__name__)


class Lost(Exception):
    """A connection could not be opened, has ended, or is of no use any more.

    ``by_peer``: the system ended it, and did so while it was in use: what was sent may be the
    reason. ``told``: as much of why as everybody may be told, who publishes or subscribes.
    """

    by_peer = False
    told = ""

    def anew(self) -> Self:
        """The same for one more caller to raise: a shared exception gathers the frames of all who
        raise it, and keeps them alive."""
        fresh = type(self).__new__(type(self), *self.args)  # `copy` would make a text of the text.
        vars(fresh).update(vars(self))
        return fresh


LostT = TypeVar("LostT", bound=Lost)


def because_of_name(name: str, lost: LostT) -> LostT:
    """Say in *lost* itself that another gateway has this *name*, instead of the system's words."""
    lost.told = (
        f"another gateway uses the name {name!r}, or the broker still holds this one's former"
        " connection; each gateway needs a name of its own, ?name=... in the URL of its --adapter"
    )
    lost.args = (lost.told,)
    return lost


class Reconnect(Exception):
    """Raised by *serve* when it has learnt something and needs another connection at once."""


class Closing(Protocol):
    """The part of a connection that all brokers' connections have."""

    async def close(self, seconds: float) -> None:
        """Close politely; after *seconds*, at once."""


ConnectionT = TypeVar("ConnectionT", bound=Closing)


class Reconnector(Generic[ConnectionT]):
    """Keeps one connection to a broker: opens it, serves it, and opens it again after it has ended,
    with pauses that grow.

    Args:
        adapter: Its name in the log; its `Outages`, where it has several connections.
        what: Its name in the log: ``connection=consuming``.
        open: Opens a connection, or raises `Lost`.
        serve: Sets a connection up, calls the function that it is given when all is ready, and
            returns or raises `Lost` when the connection is of no use any more, or raises
            `Reconnect`.
    """

    def __init__(
        self,
        adapter: str | Outages,
        what: str,
        open: Callable[[], Awaitable[ConnectionT]],
        serve: Callable[[ConnectionT, Callable[[], None]], Awaitable[None]],
    ) -> None:
        self._outages = Outages(adapter) if isinstance(adapter, str) else adapter
        self._what = what
        self._open = open
        self._serve = serve
        self._delay = SHORTEST
        self._next = 0.0
        self._ready_at: float | None = None
        self._task: asyncio.Task[None] | None = None
        self.state = ConnectionState()
        self.tried = asyncio.Event()
        """Set when the first attempt has succeeded or failed."""

    @property
    def retry_after(self) -> float:
        """Seconds until the connection may be there again, at least one."""
        if self._task is None:
            return 1.0
        return max(1.0, self._next - asyncio.get_running_loop().time() + 1.0)

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._keep())

    async def close(self) -> None:
        """Close the connection, and open no other. A library may swallow a cancellation: it is
        cancelled again and again, for `CLOSING` seconds."""
        self._outages.forget(self._what)
        if self._task is None:
            return
        end = asyncio.get_running_loop().time() + CLOSING
        while not self._task.done() and asyncio.get_running_loop().time() < end:
            self._task.cancel()
            await asyncio.wait([self._task], timeout=CANCELLED_EACH)
        if not self._task.done():
            said = {"adapter": self._outages.adapter, "connection": self._what}
            logger.error("adapter.close_stuck", extra={**said, "seconds": CLOSING})

    async def _keep(self) -> None:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        # A library may swallow a cancellation, or make an error of it.
        while task is None or not task.cancelling():
            told = ""
            try:
                await self._attempt()
                why = "the connection was closed"
            except Lost as exc:
                why, told = str(exc), exc.told
            except Reconnect:
                await asyncio.sleep(0)  # A cancellation comes through, whatever happens.
                continue
            except Exception:  # A defect must not end all delivery for good.
                logger.exception(
                    "adapter.failed",
                    extra={"adapter": self._outages.adapter, "connection": self._what},
                )
                why = "an error of our own"
            self.tried.set()
            self.state.is_down(why, told)
            if self._ready_at is not None and loop.time() - self._ready_at > min(
                self._delay, STEADY
            ):
                self._delay = SHORTEST
            if task is not None and task.cancelling():
                return
            self._outages.down(self._what, why)
            pause = self._delay * random.uniform(0.5, 1.0)
            self._next = loop.time() + pause
            self._delay = min(2 * self._delay, LONGEST)
            await asyncio.sleep(pause)

    async def _attempt(self) -> None:
        self._ready_at = None
        connection = await self._open()
        try:
            await self._serve(connection, self._ready)
        finally:
            await connection.close(POLITE)

    def _ready(self) -> None:
        self._outages.up(self._what)
        self.state.is_up()
        self._ready_at = asyncio.get_running_loop().time()
        self.tried.set()


async def start_all(reconnectors: Sequence[Reconnector[Any]]) -> None:
    """Start *reconnectors* and wait for the first attempt of each, at most `FIRST_ATTEMPT`
    seconds."""
    for reconnector in reconnectors:
        reconnector.start()
    tried = [asyncio.ensure_future(reconnector.tried.wait()) for reconnector in reconnectors]
    _done, late = await asyncio.wait(tried, timeout=FIRST_ATTEMPT)
    for task in late:
        task.cancel()
