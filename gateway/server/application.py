"""The running gateway: its rooms, started in their order and closed in the reverse order.

    start    each room starts, the first one first; then all works begin
    drain    each room takes nothing new
    linger   answers are waited for while the gateway still listens
    stop     works end; then, the last room first, its works until closed end, and it is closed

A room that raises when it is to drain, linger or close is logged, and the others go on.
"""

import asyncio
import contextlib
import resource
import socket
import ssl
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

import structlog

from gateway.http import ConnectionGate, HttpLimits
from gateway.model.hosts import is_loopback
from gateway.rooms import Room, Work
from gateway.server.peers import Listening
from gateway.server.state import RunState
from gateway.settings.settings import Settings
from gateway.soap.listeners import SoapTcpListeners
from gateway.soap.tcp_listener import SoapTcpServer
from gateway.web.app import Site

_log = structlog.get_logger("dragoman")


@dataclass(frozen=True, slots=True)
class Serving:
    """What the process listens with. Each listener has a gate of its own, so that strangers who
    fill one keep no operator out."""

    limits: HttpLimits
    gate: ConnectionGate
    admin_gate: ConnectionGate
    listeners: SoapTcpListeners
    site: Site


class Application:
    """A gateway; `gateway.server.composition.build` makes it.

    Args:
        rooms: In the order in which they start.
        opened: Closes what was open before the first room started, where its room did not.
    """

    def __init__(
        self,
        settings: Settings,
        listening: Listening,
        state: RunState,
        rooms: Sequence[Room],
        serving: Serving,
        *,
        opened: contextlib.AsyncExitStack | None = None,
    ) -> None:
        self.settings = settings
        self.listening = listening
        self.rooms = rooms
        self.serving = serving
        self._state = state
        self._opened = opened or contextlib.AsyncExitStack()
        self._started: list[Room] = []
        self._workers: list[asyncio.Task[None]] = []
        self._until_closed: dict[Room, list[asyncio.Task[None]]] = {}
        self._stopping = False
        self._failures: list[Exception] = []
        """What rooms raised that were to drain, linger or close."""

    @property
    def failed(self) -> asyncio.Event:
        """Set when the process should end, because nothing is delivered any more."""
        return self._state.failed

    @property
    def tcp(self) -> list[SoapTcpServer]:
        """The listeners of SOAP.TCP."""
        return self.serving.listeners.servers

    async def start(self) -> None:
        """Start all rooms, and the work that goes on until the gateway stops.

        Raises:
            Refused: Something cannot be started; the text says what.
        """
        _raise_file_limit()
        for room in self.rooms:
            await room.start()
            self._started.append(room)
        for room in self.rooms:
            self._workers += self._begin(room.works())
            self._until_closed[room] = self._begin(room.works_until_closed())
        self._state.ready = True
        if _behind_a_proxy_unawares(self.settings):
            _log.warning(
                "dragoman.every-peer-is-trusted",
                why="public_url is not loopback, but what a proxy on this machine hands on comes "
                "from loopback: set trusted_proxies",
            )
        number, scheme = self.serving.site.readiness()["subscriptions"], self.settings.scheme
        _log.info("dragoman.started", subscriptions=number, adapter=scheme)

    def _begin(self, works: Iterable[Work]) -> list[asyncio.Task[None]]:
        workers = [asyncio.create_task(work()) for work in works]
        for worker in workers:
            worker.add_done_callback(self._worker_ended)
        return workers

    def _worker_ended(self, worker: asyncio.Task[None]) -> None:
        """Have the process end: a worker that ends before the gateway stops has failed; so has one
        that nobody cancelled, but what it waited for."""
        if worker.cancelled() and self._stopping:
            return
        error = None if worker.cancelled() else worker.exception()
        _log.critical("dragoman.failed", exc_info=error)
        self._state.failed.set()

    async def listen(
        self, sock: socket.socket, scheme: str, tls: ssl.SSLContext | None = None
    ) -> None:
        """Serve SOAP.TCP on *sock*; the gateway must have started."""
        await self.serving.listeners.listen(sock, scheme, tls)

    def drain(self) -> None:
        """Take nothing new: a stop is coming."""
        self._state.draining = True
        for room in reversed(self.rooms):
            with self._going_on(room, "drain"):
                room.drain()

    async def linger(self) -> None:
        """Wait for answers that peers send to an address of the gateway, while it still listens."""
        for room in reversed(self.rooms):
            with self._going_on(room, "linger"):
                await room.linger()

    async def stop(self) -> None:
        """Stop politely: what is under way ends or is kept, nothing is lost.

        Raises:
            Exception: What the first of the rooms raised that could not drain, linger or close.
                All others are closed all the same.
        """
        had_started = self._state.ready
        self.drain()
        self._stopping = True
        self._state.ready = False
        await _end(self._workers)
        while self._started:
            room = self._started.pop()
            await _end(self._until_closed.pop(room, ()))
            with self._going_on(room, "close"):
                await room.close()
        with self._going_on(self._opened, "close"):
            await self._opened.aclose()
        if had_started:
            _log.info("dragoman.stopped")
        if self._failures:
            raise self._failures[0]

    @contextlib.contextmanager
    def _going_on(self, room: object, step: str) -> Iterator[None]:
        """Keep what *room* raises in a *step* of the stop from the other rooms, which have
        messages to keep and records to write."""
        try:
            yield
        except Exception as error:
            _log.exception("dragoman.room-not-stopped", room=type(room).__name__, step=step)
            self._failures.append(error.with_traceback(None))


async def _end(workers: Sequence[asyncio.Task[None]]) -> None:
    """Cancel *workers*, and wait until they have ended."""
    for worker in workers:
        worker.cancel()
    await asyncio.gather(*workers, return_exceptions=True)


def _behind_a_proxy_unawares(settings: Settings) -> bool:
    """Whether a proxy on this machine seems to make every peer a trusted one."""
    host = urlsplit(settings.public_url or "http://localhost").hostname or ""
    return (
        settings.on_loopback
        and not is_loopback(host)
        and not (settings.trusted_proxies or settings.trusted is not None)
    )


def _raise_file_limit() -> None:
    """Each consumer that hangs keeps a socket: the default of 1,024 is too few."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
