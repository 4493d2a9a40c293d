"""One process: the event loop, the HTTP server, and what signals do."""

import asyncio
import contextlib
import faulthandler
import gc
import itertools
import os
import signal
import socket
import ssl
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import version
from types import MappingProxyType

import structlog
import uvicorn
import uvloop
from starlette.types import ASGIApp

from filters import Reason, Refused
from gateway.http import ConnectionGate, hardened
from gateway.model.hosts import is_loopback
from gateway.security.file_watch import FileWatch
from gateway.security.tls import ListeningContext, TlsError, reload, server_context
from gateway.server import service_manager
from gateway.server.application import Application
from gateway.server.composition import build
from gateway.server.data_folder import UMASK
from gateway.server.peers import Listening
from gateway.settings.settings import Settings
from gateway.web import make_app

GRACE = 10
"""Seconds that requests under way get."""
LOOK = 0.01
"""Seconds from one look at whether they have ended to the next."""
IN_ALL = 25.0
"""Seconds after which a stop is forced."""
_log = structlog.get_logger("dragoman")


class ListenRefused(Refused):
    """The address cannot be listened on."""


def listen(host: str, port: int) -> socket.socket:
    """A listening socket.

    Raises:
        ListenRefused: The address is in use, or not ours.
    """
    listener = None
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(1024)
        listener.setblocking(False)
    except OSError as error:
        if listener is not None:
            listener.close()
        raise ListenRefused(
            Reason.UNAVAILABLE, f"Cannot listen on {host}:{port}: {error.strerror or error}."
        ) from error
    return listener


class _Server(uvicorn.Server):
    """uvicorn's server, without signal handlers of its own, and without its pauses of 0.1 s: it
    ends at once when it is told to and nothing is under way."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.up = asyncio.Event()
        self._ending = asyncio.Event()

    def end(self) -> None:
        """Have `serve` end, after the requests that are under way."""
        self.should_exit = True
        self._ending.set()

    @contextlib.contextmanager
    def capture_signals(self):  # type: ignore[no-untyped-def]
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.up.set()

    async def main_loop(self) -> None:
        while not await self.on_tick(0):  # Which sets the Date of answers.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1):
                    await self._ending.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for listener in (*self.servers, *(sockets or ())):
            listener.close()
        under_way = self.server_state
        for connection in list(under_way.connections):
            connection.shutdown()
        try:
            async with asyncio.timeout(GRACE):
                # uvicorn tells nobody when one has ended.
                while under_way.connections or under_way.tasks:  # noqa: ASYNC110
                    await asyncio.sleep(LOOK)
                for server in self.servers:
                    await server.wait_closed()
        except TimeoutError:
            for task in under_way.tasks:
                task.cancel()


def _server(
    app: ASGIApp, gateway: Application, gate: ConnectionGate, tls: ssl.SSLContext | None
) -> _Server:
    return _Server(
        uvicorn.Config(
            app,
            http=hardened(gateway.serving.limits, gate, tls),
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=True,
            proxy_headers=False,
            timeout_keep_alive=5,
        )
    )


def _address(sock: socket.socket, host: str) -> tuple[str, int]:
    """The address of *sock*, with the host as the settings name it."""
    return host, sock.getsockname()[1]


class OpenToEverybody(Refused):
    """Whoever reaches an address could do what only some may, and nobody has said that this is
    meant."""

    def __init__(self, what: str, setting: str, option: str) -> None:
        text = (
            f"{what}: set identities, or {setting} to a loopback address. Where that is meant, or "
            f"something else keeps others out, set {option}."
        )
        super().__init__(Reason.NOT_ALLOWED, text)


def check_doors(settings: Settings) -> None:
    """Check that a listener that leaves this machine asks who sends.

    Raises:
        OpenToEverybody: One does not.
    """
    if settings.identities is not None:
        return
    if settings.open_to_everybody and not settings.without_identities:
        what = f"Everybody who reaches {settings.host} could publish and subscribe"
        raise OpenToEverybody(what, "host", "without_identities (--without-identities)")
    admin = settings.admin
    if admin is None or settings.admin_without_identities:
        return
    if not is_loopback(admin[0]):
        what = f"The administration at {admin[0]} would be open to everybody who reaches it"
        raise OpenToEverybody(what, "admin_host", "admin_without_identities")


def _certificate_files(settings: Settings) -> FileWatch:
    """Watch the files that `_watch_certificates` reads."""
    rows = [(row.certificate, row.key) for row in settings.tls_names]
    named = [settings.tls_certificate, settings.tls_key, settings.tls_client_ca]
    return FileWatch([path for path in (*named, *itertools.chain(*rows)) if path is not None])


async def _watch_certificates(watch: FileWatch, tls: ListeningContext, settings: Settings) -> None:
    """Serve the certificates that are in the files whenever these change."""
    while True:
        await watch.changes()
        await asyncio.to_thread(_renew, tls, settings)


def _renew(tls: ListeningContext, settings: Settings) -> None:
    """Serve the certificates that are in the files now; what is wrong with them is logged."""
    try:
        reload(tls, settings)
    except TlsError as error:
        _log.error("tls.not-renewed", why=error.text)
    else:
        _log.info("tls.renewed")


def _renew_nothing() -> None:
    _log.info("tls.none-to-renew")


async def serve(
    settings: Settings,
    listener: socket.socket,
    *,
    admin: socket.socket | None = None,
    tcp: Mapping[str, socket.socket] = MappingProxyType({}),
    started: Callable[[Application, int], None] = lambda _gateway, _port: None,
    stop: asyncio.Event | None = None,
) -> int:
    """Run a gateway on *listener* until a signal or *stop* asks to end; the exit code.

    Args:
        admin: The listener of the administration; without one it is on *listener*, if the settings
            want it there, or nowhere.
        tcp: Listeners for ``soap.tcp`` and ``soap.tcps``, by their scheme.

    Raises:
        Refused: It cannot start; the text says why.
    """
    files = _certificate_files(settings)  # A start may take minutes, as a migration does.
    tls = server_context(settings)
    asked = _StopAsked(stop)
    if stop is None:
        _handle_signals(asked, tls, settings)
    host, port = listener.getsockname()[:2]
    ports = {scheme: sock.getsockname()[1] for scheme, sock in tcp.items()}
    admin_at = _address(admin, settings.admin[0]) if admin and settings.admin else None
    clients = None if tls is None else tls.clients
    at = Listening((settings.host or host, port), admin_at, ports, clients)
    gateway = await build(settings, at)
    try:
        await gateway.start()
        for scheme, sock in tcp.items():
            await gateway.listen(sock, scheme, tls if scheme == "soap.tcps" else None)
        listeners = [listener] if admin is None or admin_at is None else [listener, admin]
        servers = await _servers(gateway, tls, apart=len(listeners) > 1)
    except BaseException:
        with contextlib.suppress(Exception):  # It is in the log; why it did not start goes first.
            await gateway.stop()
        raise
    serving = [
        asyncio.create_task(server.serve(sockets=[sock]))
        for server, sock in zip(servers, listeners, strict=True)
    ]
    await _until_up(servers, serving)
    watching = None
    if tls is not None:
        watching = asyncio.create_task(_watch_certificates(files, tls, settings))
    started(gateway, port)
    service_manager.notify(service_manager.READY)
    await _first_of(serving, asked.stopping, gateway.failed)
    if watching is not None:
        watching.cancel()
    by = asked.by if asked.stopping.is_set() else "an error"
    service_manager.notify(service_manager.STOPPING)
    _log.info("dragoman.stopping", by=by)
    gateway.drain()
    code = await _stop(gateway, servers, serving, asked.forced)
    _log.info("dragoman.ended", by=by, code=code)
    return code


class _StopAsked:
    """A request to stop, by a signal or by the caller; a second signal asks to stop at once."""

    def __init__(self, stop: asyncio.Event | None) -> None:
        self.stopping = stop or asyncio.Event()
        self.forced = asyncio.Event()
        self.by = "its caller"
        """What asked first."""

    def on_signal(self, number: signal.Signals) -> None:
        """Stop, or stop at once where a signal had asked before."""
        if not self.stopping.is_set():
            self.by = number.name
        if self.stopping.is_set():
            self.forced.set()
        self.stopping.set()


def _handle_signals(asked: _StopAsked, tls: ListeningContext | None, settings: Settings) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, asked.on_signal, number)
    if tls is not None:
        # In a thread: a list of revoked certificates may be long.
        loop.add_signal_handler(signal.SIGHUP, loop.run_in_executor, None, _renew, tls, settings)
    elif not sys.stdin.isatty():  # A service is asked to reload; at a terminal it is gone.
        loop.add_signal_handler(signal.SIGHUP, _renew_nothing)
    faulthandler.register(signal.SIGQUIT, file=sys.stderr, all_threads=True, chain=False)


async def _servers(
    gateway: Application, tls: ssl.SSLContext | None, *, apart: bool
) -> list[_Server]:
    """The server of the public listener, and, where the administration is *apart*, that of its."""
    serving, alone = gateway.serving, gateway.settings.admin is None
    # In a thread: FastAPI takes 40 ms to build the routes, and deliveries have begun. The
    # administration is not on the public listener merely because nobody listens for it apart.
    site = serving.site
    app = await asyncio.to_thread(make_app, site, public=True, administration=alone)
    servers = [_server(app, gateway, serving.gate, tls)]
    if apart:
        app = await asyncio.to_thread(make_app, site, public=False, administration=True)
        servers.append(_server(app, gateway, serving.admin_gate, tls))
    return servers


async def _until_up(servers: list[_Server], serving: list[asyncio.Task[None]]) -> None:
    """Return when all *servers* accept connections, or one has ended."""
    for server in servers:
        await _first_of(serving, server.up)


async def _first_of(tasks: list[asyncio.Task[None]], *events: asyncio.Event) -> None:
    """Return when one of *tasks* has ended, or one of *events* is set."""
    waiting = [asyncio.create_task(event.wait()) for event in events]
    await asyncio.wait((*tasks, *waiting), return_when=asyncio.FIRST_COMPLETED)
    for one in waiting:
        one.cancel()


async def _stop(
    gateway: Application,
    servers: list[_Server],
    serving: list[asyncio.Task[None]],
    forced: asyncio.Event,
) -> int:
    """Stop politely, unless that takes too long or is *forced*; the exit code."""

    async def end() -> None:
        await gateway.linger()
        for server in servers:
            server.end()
        await asyncio.wait(serving)
        await gateway.stop()
        for task in serving:
            task.result()

    ending = asyncio.create_task(end())
    hurry = asyncio.create_task(forced.wait())
    done, _ = await asyncio.wait(
        (ending, hurry), timeout=IN_ALL, return_when=asyncio.FIRST_COMPLETED
    )
    hurry.cancel()
    if ending in done:
        await ending
        return 1 if gateway.failed.is_set() else 0
    why = "a second signal" if forced.is_set() else f"it took longer than {IN_ALL:g} seconds"
    _log.error("dragoman.stop-forced", why=why)
    ending.cancel()
    return 1


def run(settings: Settings, *, started: Callable[[Application, int], None]) -> int:
    """Run a gateway in this process until a signal ends it; the exit code.

    Raises:
        Refused: It cannot start; the text says why.
    """
    check_doors(settings)
    os.umask(UMASK)
    gc.freeze()  # What has been imported is not looked at again, by the collection below either.

    def freeze(gateway: Application, port: int) -> None:
        # What a start made lives as long as the process: a collection that walks over all that a
        # big gateway holds would stop it for some 100 ms each time, and find nothing.
        gc.collect()
        gc.freeze()
        # What a delivery makes is gone before long without it; the default of 700 looks at all that
        # is under way again and again.
        gc.set_threshold(20_000, 20, 20)
        started(gateway, port)

    ports = {"soap.tcp": settings.soap_tcp_port, "soap.tcps": settings.soap_tcps_port}
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(contextlib.closing(listen(settings.host, settings.port)))
        tcp = {
            scheme: stack.enter_context(contextlib.closing(listen(settings.host, port)))
            for scheme, port in ports.items()
            if port is not None
        }
        admin = None
        if settings.admin is not None:
            admin = stack.enter_context(contextlib.closing(listen(*settings.admin)))
        with _told(settings):
            return uvloop.run(serve(settings, listener, admin=admin, tcp=tcp, started=freeze))


@contextlib.contextmanager
def _told(settings: Settings) -> Iterator[None]:
    """Log why a gateway does not start, or ends with an error; who reads the log as a person has
    the command's last line."""
    in_json = settings.log_format == "json"
    if in_json:
        _log.info("dragoman.starting", release=version("dragoman"), process=os.getpid())
    try:
        yield
    except Refused as refused:
        if in_json:
            _log.error("dragoman.not-started", why=refused.text)
        raise
    except Exception:
        _log.critical("dragoman.ended", by="an error", code=1, exc_info=True)
        raise
