"""The running gateway: its parts, started and stopped in order."""

import asyncio
import contextlib
import resource
import socket
import ssl
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import structlog

from gateway.egress import AddressPolicy
from gateway.server.housekeeping import keep_house
from gateway.server.parts import Answering, Endpoints, Messaging, Sending, Storage, Subscribing
from gateway.server.state import RunState
from gateway.settings.settings import Settings
from gateway.settings.values import is_loopback
from gateway.soap.tcp import SoapTcpServer
from gateway.store import StoreUnavailable, answered_in_time

ARCHIVE_CLOSE = 5.0
"""Seconds that the archive gets when the gateway stops."""
STORE_AT_END = 5.0
"""Seconds that anybody waits for the store then."""
ENDS_CLOSE = 2.0
"""Seconds that SubscriptionEnd messages get then."""
_log = structlog.get_logger("dragoman")


class Application:
    """A gateway; `gateway.server.composition.build` makes it.

    Args:
        admin: The host and port of the administration, where it has a listener of its own.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        admin: tuple[str, int] | None,
        state: RunState,
        policy: AddressPolicy,
        storage: Storage,
        messaging: Messaging,
        sending: Sending,
        subscribing: Subscribing,
        answering: Answering,
        endpoints: Endpoints,
    ) -> None:
        self.settings = settings
        self.admin = admin
        self.policy = policy
        self._state = state
        self._folder = storage.folder
        self.store = storage.store
        self.reserve = storage.reserve
        self.adapter = messaging.adapter
        self.sharing = messaging.sharing
        self.archive = messaging.archive
        self._copies = messaging.copies
        self.spool = messaging.spool
        self.discovery = messaging.discovery
        self.rights = messaging.rights
        self.mailboxes = sending.mailboxes
        self.parsing = sending.parsing
        self.transport = sending.transport
        self.probations = sending.probations
        self.dispatchers = sending.dispatchers
        self._subscriber_sequences = sending.sequences
        self.subscriptions = messaging.table
        self.lifecycle = subscribing.lifecycle
        self.renewal = subscribing.renewal
        self.creation = subscribing.creation
        self._replication = subscribing.replication
        self._removal = subscribing.removal
        self.subscription_ends = subscribing.subscription_ends
        self.budgets = subscribing.budgets
        self.dead_letters = subscribing.dead_letters
        self._endings = subscribing.endings
        self._matching = subscribing.matching
        self._make_dispatcher = subscribing.make_dispatcher
        self.intake = answering.intake
        self.publishing = answering.publishing
        self.sources = answering.holding.sources
        self.registrations = answering.holding.registrations
        self._keeper = answering.holding.keeper
        self.channels = answering.channels
        self._demand = answering.holding.demand
        self.naming = answering.holding.naming
        self.links = answering.holding.links
        self.synchronizing = answering.synchronizing
        self.soap = answering.soap
        self.sequences = answering.sequences
        self.limits = endpoints.limits
        self.gate = endpoints.gate
        self.admin_gate = endpoints.admin_gate
        self.web = endpoints.web
        self._listeners = endpoints.listeners
        self._workers: list[asyncio.Task[None]] = []

    @property
    def failed(self) -> asyncio.Event:
        """Set when the process should end, because nothing is delivered any more."""
        return self._state.failed

    @property
    def tcp(self) -> list[SoapTcpServer]:
        """The listeners of SOAP.TCP."""
        return self._listeners.servers

    async def start(self) -> None:
        """Take up what waits in the store, and start the messaging system.

        Raises:
            Refused: Something cannot be started; the text says what.
        """
        _raise_file_limit()
        await self.mailboxes.start()
        await self.sources.start()
        await self.channels.start()
        await self.web.relay_tokens.start()
        await self.registrations.start()
        matched = await self._replication.load()
        await self._endings.learn_who_agreed(self.subscriptions.entries)
        filters = {key: subscription.filter for key, subscription in matched.items()}
        if self.discovery is not None:
            await self.discovery.start()
            filters[self.discovery.key] = self.discovery.filter
        if self.rights is not None:
            await self.rights.numbers.start()
        for key, error in (await self.adapter.start(filters)).items():
            _log.error("subscription.unmatched", subscription=matched[key].id, reason=error.text)
        await self.sharing.start(
            self.dispatchers, self.subscriptions, self._replication.learn, self._make_dispatcher
        )
        if self.sequences is not None:
            await self.sequences.start()
        if self.archive is not None:
            self.archive.start()
        if self._copies is not None:
            self._copies.start()
        for work in self._works():
            self._workers.append(worker := asyncio.create_task(work()))
            worker.add_done_callback(self._worker_ended)
        self._state.ready = True
        if _behind_a_proxy_unawares(self.settings):
            _log.warning(
                "dragoman.every-peer-is-trusted",
                why="public_url is not loopback, but what a proxy on this machine hands on comes "
                "from loopback: set trusted_proxies",
            )
        number, scheme = len(self.subscriptions), self.settings.scheme
        _log.info("dragoman.started", subscriptions=number, adapter=scheme)

    def _works(self) -> list[Callable[[], Coroutine[Any, Any, None]]]:
        """The work that goes on until the gateway stops."""
        settings, sharing = self.settings, self.sharing
        works: list[Callable[[], Coroutine[Any, Any, None]]] = [
            self._matching.run,
            self.spool.run,
            sharing.run,
            self.lifecycle.run,
            self._subscriber_sequences.run,
            self._keeper.run,
            self.links.run,
            self.registrations.run,
            self._demand.run,
            partial(keep_house, self.store, self.dead_letters, self.dispatchers, sharing),
            partial(self._removal.run, lambda: sharing.keeps_house),
            partial(
                self.dead_letters.run,
                most=settings.dead_letter_bytes,
                most_of_owner=settings.dead_letter_bytes_per_owner,
                keeps_house=lambda: sharing.keeps_house,
            ),
        ]
        if self.sequences is not None:
            works.append(self.sequences.run)
        if self.naming is not None:
            works.append(self.naming.run)
        if self.discovery is not None:
            works.append(self.discovery.run)
        if self.rights is not None:
            works.append(self.rights.numbers.run)
        if self.store.may_be_shared:
            works.append(self.mailboxes.look_around)
        return works

    def _worker_ended(self, worker: asyncio.Task[None]) -> None:
        """Have the process end: a worker that ends before the gateway stops has failed."""
        if not worker.cancelled():
            _log.critical("dragoman.failed", exc_info=worker.exception())
            self._state.failed.set()

    async def listen(
        self, sock: socket.socket, scheme: str, tls: ssl.SSLContext | None = None
    ) -> None:
        """Serve SOAP.TCP on *sock*; the gateway must have started."""
        await self._listeners.listen(sock, scheme, tls)

    def readiness(self) -> dict[str, Any]:
        """The state that ``/readyz`` shows."""
        return dict(self.web.readiness())

    def drain(self) -> None:
        """Take nothing new: a stop is coming."""
        self._state.draining = True
        self.store.hurry(STORE_AT_END)
        if self._state.ready:
            self._listeners.drain()  # First: what came before is still answered.
            self.soap.draining = True
            self.parsing.drain()
            self.mailboxes.close()

    async def await_acknowledgements(self) -> None:
        """Wait for consumers that acknowledge at an address of the gateway, as long as it listens:
        what they do not acknowledge is sent again after the next start."""
        await self._subscriber_sequences.called_back.close(self.settings.drain)

    async def stop(self) -> None:
        """Stop politely: what is under way ends or is kept, nothing is lost."""
        had_started = self._state.ready
        self.drain()
        for worker in self._workers:
            worker.cancel()
        if had_started:
            self._state.ready = False
            await asyncio.gather(*self._workers, return_exceptions=True)
            await self._endings.close()
            await self._listeners.close(self.settings.drain)
            await self.sharing.stop(self.settings.drain)
            await self.subscription_ends.close(ENDS_CLOSE)
            if self.sequences is not None:
                await self.sequences.close()
            await self.adapter.close()
            if self.rights is not None:
                with contextlib.suppress(StoreUnavailable):
                    await answered_in_time(self.rights.numbers.close())
            if self.archive is not None:
                await self.archive.close(ARCHIVE_CLOSE)
            if self._copies is not None:
                await self._copies.close()
            await self.transport.close()
            self.parsing.close()
        await self.store.close()
        self._folder.release()
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
