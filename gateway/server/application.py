"""The running gateway: its rooms, started in their order and closed in the reverse order."""

import asyncio
import contextlib
import resource
import socket
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

import structlog

from gateway.http import ConnectionGate, HttpLimits
from gateway.model.hosts import is_loopback
from gateway.rooms import Room
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
    """

    def __init__(
        self,
        settings: Settings,
        listening: Listening,
        state: RunState,
        rooms: Sequence[Room],
        serving: Serving,
    ) -> None:
        self.settings = settings
        self.listening = listening
        self.rooms = rooms
        self.serving = serving
        self._state = state
        self._started: list[Room] = []
        self._workers: list[asyncio.Task[None]] = []

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
            for work in room.works():
                self._workers.append(worker := asyncio.create_task(work()))
                worker.add_done_callback(self._worker_ended)
        self._state.ready = True
        if _behind_a_proxy_unawares(self.settings):
            _log.warning(
                "dragoman.every-peer-is-trusted",
                why="public_url is not loopback, but what a proxy on this machine hands on comes "
                "from loopback: set trusted_proxies",
            )
        number, scheme = self.serving.site.readiness()["subscriptions"], self.settings.scheme
        _log.info("dragoman.started", subscriptions=number, adapter=scheme)

    def _worker_ended(self, worker: asyncio.Task[None]) -> None:
        """Have the process end: a worker that ends before the gateway stops has failed."""
        if not worker.cancelled():
            _log.critical("dragoman.failed", exc_info=worker.exception())
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
            room.drain()

    async def linger(self) -> None:
        """Wait for answers that peers send to an address of the gateway, while it still listens."""
        for room in reversed(self.rooms):
            await room.linger()

    async def stop(self) -> None:
        """Stop politely: what is under way ends or is kept, nothing is lost."""
        had_started = self._state.ready
        self.drain()
        for worker in self._workers:
            worker.cancel()
        self._state.ready = False
        await asyncio.gather(*self._workers, return_exceptions=True)
        while self._started:
            await self._started.pop().close()
        if had_started:
            _log.info("dragoman.stopped")


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
