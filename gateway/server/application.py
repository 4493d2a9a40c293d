"""The composition root: everything is made, started and stopped here."""

import asyncio
import contextlib
import resource
import socket
import ssl
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

import structlog
from sqlalchemy import Connection

from adapters import (
    Adapter,
    XPathFilterAdapter,
    capabilities_of,
    load,
)
from adapters.loading import RestartingAdapter
from filters import Refused
from gateway.delivery import (
    NEVER_AGREED,
    WINDOW,
    Attempts,
    Dispatcher,
    Dispatchers,
    Entry,
    PartitionShare,
    ProbationLimits,
    Probations,
    Schedule,
    SendScheduler,
    resend,
)
from gateway.delivery.samples import delivery_samples
from gateway.egress import (
    AddressPolicy,
    ConsumerOptions,
    Dialer,
    HttpTransport,
    Proxy,
    TransportByScheme,
)
from gateway.egress.host_list import HostList
from gateway.egress.origins import Origins
from gateway.egress.soap_tcp_transport import SoapTcpTransport
from gateway.http import ConnectionGate, HttpLimits, HttpSettings
from gateway.mailboxes.deposits import Deposits
from gateway.mailboxes.mailboxes import SCHEME, Mailboxes, MailboxTransport
from gateway.mailboxes.operations import MailboxOperations
from gateway.observing.samples import Sample
from gateway.parsing import Parsing
from gateway.publishing.archive import Archive
from gateway.publishing.operations import PublishingOperations, look_rate
from gateway.publishing.spool import Spool
from gateway.publishing.synchronization import Synchronizing
from gateway.publishing.topics import TopicsSeen
from gateway.replicas.join import join
from gateway.replicas.membership import StoreInUse
from gateway.security.identify import Identification
from gateway.security.intake import Intake
from gateway.security.networks import networks
from gateway.security.quotas import PrincipalRate, SubscriptionQuotas
from gateway.security.tls import client_context
from gateway.server.addresses import own_addresses
from gateway.server.data_folder import DataInUse, FolderLock, lock
from gateway.server.store_counts import Counting, Counts
from gateway.settings.settings import WITHIN, Settings, host_and_port, is_loopback
from gateway.soap.http import SoapEndpoint
from gateway.soap.registry import Registry
from gateway.soap.replies import Replies
from gateway.soap.service import SoapService
from gateway.soap.tcp import SoapTcpServer, listener_samples
from gateway.store import Store, dead_letters, mailboxes, replicas, totals
from gateway.store import spool as spooled
from gateway.store.disk_reserve import Reserve
from gateway.subscriptions.consumers import Consumers
from gateway.subscriptions.dead_letters import DeadLetters
from gateway.subscriptions.explaining import Explainer
from gateway.subscriptions.filter_budgets import FilterBudgets
from gateway.subscriptions.leases import LeaseTerms
from gateway.subscriptions.matching import Matching
from gateway.subscriptions.operations import MailboxFeeds, SubscriptionOperations
from gateway.subscriptions.reports import SubscriptionReports
from gateway.subscriptions.subscription_end import SubscriptionEnds
from gateway.subscriptions.subscriptions import SUBSCRIBES, SUBSCRIBES_AT_ONCE, Subscriptions
from gateway.tcp import SoapTcpConnection
from gateway.web.metrics import Metrics
from gateway.web.parts import Web
from gateway.web.streams import Streams
from mediation import End
from mediation.packaging.dime import DimeMessage

LOOPBACK = ("127.0.0.0/8", "::1")
PURGE_EVERY = 3600.0
ARCHIVE_CLOSE = 5.0
"""Seconds that the archive gets when the gateway stops."""
_log = structlog.get_logger("dragoman")


class Gateway:
    """A running Dragoman.

    Args:
        own: The host and port that it listens on, once they are known.
        admin: Those of the administration's own listener, where it has one.
        tcp_ports: The ports of SOAP.TCP, by scheme.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        own: tuple[str, int],
        admin: tuple[str, int] | None = None,
        tcp_ports: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        self.settings = settings
        trusted = settings.trusted
        if trusted is None:
            trusted = LOOPBACK if settings.on_loopback else ()
        self.limits = HttpLimits()
        trusted_networks = networks(trusted)
        self.identification = Identification(trusted_networks)
        self.gate = ConnectionGate(self.limits, trusted_networks)
        self.tcp_gate = ConnectionGate(self.limits, trusted_networks)
        self.admin_gate = ConnectionGate(self.limits, trusted_networks)
        """Strangers who fill the other one keep no operator out."""
        self.admin = admin
        self.tcp: list[SoapTcpServer] = []
        self.http_settings = HttpSettings(
            settings.public_url,
            frozenset(name.lower() for name in settings.hosts),
            networks(settings.trusted_proxies),
        )
        self.policy = AddressPolicy(
            allow=settings.egress_allow,
            loopback=settings.on_loopback,
            own=own_addresses(settings, own, admin=admin, tcp_ports=tcp_ports.values()),
            deliver_to_self=settings.deliver_to_self,
        )
        base = f"{settings.web_scheme}://{host_and_port(*own)}"
        self._base = (settings.public_url or base).rstrip("/")
        self._tasks: list[asyncio.Task[None]] = []
        self._lock: FolderLock | None = None
        self._listens = own
        self.archive = Archive(settings.archive) if settings.archive else None
        self.spool: Spool | None = None
        self.ready = False
        self.draining = False
        self._counting = Counting(self._count, subscriptions=lambda: len(self.subscriptions))
        self.failed = asyncio.Event()
        """Something without which nothing is delivered has ended: the process should, too."""

    async def start(self) -> None:
        """Open the store and the messaging system, and take up what waits.

        Raises:
            DataInUse: Another process has the data folder.
            Refused: Something cannot be opened; the text says what.
        """
        _raise_file_limit()
        settings = self.settings
        self._lock = lock(settings.data)
        self._lock.write_address(f"{settings.web_scheme}://{host_and_port(*self._listens)}")
        url = settings.store.get_secret_value() if settings.store else None
        safe = settings.survive_power_loss
        self.store = (
            Store(url, power_safe=safe) if url else Store.at(settings.data, power_safe=safe)
        )
        await self.store.start()
        options = dict(settings.adapter_settings)
        if not safe and settings.scheme == "embedded":  # No other adapter flushes by itself.
            options.setdefault("survive-power-loss", "false")
        address = settings.adapter.get_secret_value()
        # Those within the process fail with it: a new process opens them again.
        make = load if settings.scheme in WITHIN else RestartingAdapter.from_url
        adapter: Adapter = make(address, data=settings.data, settings=options)
        capabilities = capabilities_of(adapter)
        try:
            self.sharing = await join(self.store, capabilities, settings.data)
        except StoreInUse as in_use:
            raise DataInUse(in_use.reason, in_use.text) from in_use
        self.adapter = XPathFilterAdapter(
            adapter,
            settled=self.archive.offer if self.archive else None,
            refresh=self.sharing.refresh,
            share_of=self._share_of,
        )
        dialer = _dialer(settings, self.policy)
        http = HttpTransport(dialer)
        self.reserve = Reserve(
            self.store.folder, settings.store_reserve, inside=lambda: self.store.free_inside
        )
        self.mailboxes = Mailboxes(self.store, settings.mailbox_quotas, trusts=self.trusts_owner)
        await self.mailboxes.start()
        consumers = Consumers(self.policy, self.mailboxes)
        self.parsing = Parsing()
        self.origins = Origins()
        self.soap_tcp = tcp = SoapTcpTransport(dialer, handler=self._respond, parsing=self.parsing)
        self.transport = TransportByScheme(
            {
                "http": http,
                "https": http,
                "soap.tcp": tcp,
                "soap.tcps": tcp,
                SCHEME: MailboxTransport(self.mailboxes),
            },
            dialer,
        )
        self.probations = Probations(
            vouches=self.trusts_owner,
            exempt=HostList(settings.egress_agreed).__contains__,
            limits=ProbationLimits(settings.probation_per_minute, settings.probation_attempts),
            by_address=settings.egress_proxy is None,
        )
        self.subscription_ends = SubscriptionEnds(self.transport, consumers, self.probations)
        schedule = Schedule(settings.retry_delays) if settings.retry_delays else Schedule()
        attempts = Attempts(
            self.transport,
            producer=f"{self._base}/soap",
            parsing=self.parsing,
            origins=self.origins,
            probations=self.probations,
        )
        scheduler = SendScheduler(
            attempts, slots=settings.slots, probe=schedule.probe, probations=self.probations
        )
        self.dispatchers = Dispatchers(self.store, scheduler, self.sharing.elsewhere)
        self.subscriptions = Subscriptions(
            self.store,
            self.adapter,
            consumers,
            self.mailboxes,
            self.dispatchers,
            self.sharing,
            terms=LeaseTerms(settings.default_lease, settings.longest_lease, grace=settings.grace),
            quotas=SubscriptionQuotas(
                settings.max_subscriptions_per_owner,
                settings.max_subscriptions_per_destination,
                settings.max_subscriptions,
            ),
            notify_end=self.subscription_ends.say,
        )
        self.topics = TopicsSeen()
        spool = Spool(
            self.store,
            self.adapter,
            messages=settings.spool_messages if settings.spool else 0,
            octets=settings.spool_octets,
            shared=self.sharing.shared,
            drains=lambda: self.sharing.keeps_house,
        )
        if await spool.start() or settings.spool:  # An earlier run with a spool may have left some.
            self.spool = spool

        # A broker hands out few at a time, and whom they wait for too long has them in the store.
        # Our own system hands out many, which may repeat after a crash.
        window = WINDOW
        if settings.scheme not in WITHIN:
            window = max(WINDOW, capabilities.prefetch)

        def make_dispatcher(share: PartitionShare) -> Dispatcher:
            return Dispatcher(
                self.store,
                scheduler,
                prefetch=capabilities.prefetch,
                window=window,
                give_up=self._give_up,
                never_agreed=self._never_agreed,
                schedule=schedule,
                end_on_overflow=settings.backlog_policy == "end",
                share=share,
            )

        self.dead_letters = DeadLetters(
            self.store,
            self.subscriptions,
            self.mailboxes,
            self.sharing,
            producer=f"{self._base}/soap",
        )
        self.budgets = FilterBudgets(self._cancel)
        self._make_soap()
        self.matching = Matching(self.adapter, self.subscriptions, self.dispatchers, self.budgets)
        self.web = self._web()
        matched = await self.subscriptions.start()
        await self._learn_who_agreed(self.subscriptions.entries)
        filters = {key: subscription.filter for key, subscription in matched.items()}
        for key, error in (await self.adapter.start(filters)).items():
            _log.error("subscription.unmatched", subscription=matched[key].id, reason=error.text)
        await self.sharing.start(self.dispatchers, self.subscriptions, make_dispatcher)
        if self.archive is not None:
            self.archive.start()
        works: list[Callable[[], Coroutine[Any, Any, None]]] = [
            self.matching.run,
            self.sharing.run,
            self.subscriptions.run,
            self._keep_house,
            partial(self.mailboxes.run, lambda: self.sharing.keeps_house),
            partial(
                self.dead_letters.run,
                most=settings.dead_letter_bytes,
                most_of_owner=settings.dead_letter_bytes_per_owner,
                keeps_house=lambda: self.sharing.keeps_house,
            ),
        ]
        if self.spool is not None:
            works.append(self.spool.run)
        if self.store.may_be_shared:
            works.append(self.mailboxes.look_around)
        for work in works:
            self._tasks.append(task := asyncio.create_task(work()))
            task.add_done_callback(self._worker_ended)
        self.ready = True
        if self._behind_a_proxy_unawares():
            _log.warning(
                "dragoman.every-peer-is-trusted",
                why="public_url is not loopback, but what a proxy on this machine hands on comes "
                "from loopback: set trusted_proxies",
            )
        _log.info(
            "dragoman.started", subscriptions=len(self.subscriptions), adapter=settings.scheme
        )

    def _web(self) -> Web:
        """What the routes of HTTP need."""
        sources: list[Callable[[], Iterable[Sample]]] = [
            self.publishing.metrics,
            self.deposits.metrics,
            self.soap.metrics,
            self.budgets.metrics,
            self.subscriptions.metrics,
            self.mailboxes.metrics,
            self.store.metrics,
            self.matching.metrics,
            partial(delivery_samples, self.dispatchers),
            partial(listener_samples, self.tcp),
            self.soap_tcp.metrics,
            self.sharing.metrics,
        ]
        if self.archive is not None:
            sources.append(self.archive.metrics)
        return Web(
            http=self.http_settings,
            identification=self.identification,
            soap=self.endpoint,
            readiness=self.readiness,
            metrics=Metrics(sources, self._counting.metrics),
            subscriptions=self.subscriptions,
            reports=SubscriptionReports(self.store, self.subscriptions, self.dispatchers),
            explainer=Explainer(
                self.store,
                self.dispatchers,
                self.topics,
                self.policy,
                proxied=self.settings.egress_proxy is not None,
                delivered_by=self.sharing.described,
            ),
            dead_letters=self.dead_letters,
            mailboxes=self.mailboxes,
            service=self.soap,
            parsing=self.parsing,
            streams=Streams(
                self.mailboxes,
                self.parsing,
                replica=self.sharing.replica,
                draining=lambda: self.draining,
                visited=self.subscriptions.keep_alive_by_reading,
            ),
            making=PrincipalRate(SUBSCRIBES, SUBSCRIBES_AT_ONCE, "Too many mailboxes."),
            draining=lambda: self.draining,
        )

    def _make_soap(self) -> None:
        """Make what answers SOAP, and the operations of the rooms behind it."""
        settings, looks = self.settings, look_rate()
        self.intake = Intake(self.reserve.take)
        self.deposits = Deposits(self.mailboxes, self.parsing, self.intake)
        self.publishing = PublishingOperations(
            self.spool or self.adapter,
            self.topics,
            intake=self.intake,
            origins=self.origins,
            looks=looks,
            parsing=self.parsing,
            mailboxes_each=self.mailboxes.most,
            longest_lease=self.subscriptions.longest_lease,
        )
        self.synchronizing = Synchronizing(self.adapter.evaluate)
        subscribing = SubscriptionOperations(
            self.subscriptions,
            self.topics,
            publishing=self.publishing,
            synchronizing=self.synchronizing,
            looks=looks,
            trusts=self.trusts_owner,
            resend=partial(resend, self.dispatchers),
            exceeded=lambda entry, message: self.budgets.exceeded(
                entry, message, now=time.monotonic()
            ),
        )
        feeds = MailboxFeeds(self.subscriptions)
        rooms = [MailboxOperations(self.mailboxes, feeds, self.intake).handlers()]
        if settings.mailboxes_only:
            registry = Registry(*rooms, otherwise="Only mailboxes are offered here.")
        else:
            registry = Registry(*rooms, self.publishing.handlers(), subscribing.handlers())
        replies = Replies(
            self.transport,
            self.policy,
            has_agreed=lambda target: self.probations.has_agreed(target.destination),
        )
        self.soap = SoapService(registry, self.parsing, self.deposits, replies)
        self.endpoint = SoapEndpoint(
            self.soap,
            limits=self.limits,
            settings=self.http_settings,
            identification=self.identification,
        )

    def trusts_owner(self, owner: str) -> bool:
        """Whether a subscription with this owner is a trusted peer's."""
        return self.identification.trusts_owner(owner)

    def _share_of(self, key: str) -> str | None:
        """Who pays for the filter of a subscription: a stranger for all of its own."""
        owner = self.subscriptions.owner(key)
        return None if owner is None or self.trusts_owner(owner) else owner

    def _behind_a_proxy_unawares(self) -> bool:
        settings = self.settings
        host = urlsplit(settings.public_url or "http://localhost").hostname or ""
        return (
            settings.on_loopback
            and not is_loopback(host)
            and not (settings.trusted_proxies or settings.trusted is not None)
        )

    def _worker_ended(self, task: asyncio.Task[None]) -> None:
        """They work until the gateway stops: one that ends before that has failed."""
        if not task.cancelled():
            _log.critical("dragoman.failed", exc_info=task.exception())
            self.failed.set()

    async def _keep_house(self) -> None:
        while True:
            await asyncio.sleep(PURGE_EVERY)
            if self.sharing.keeps_house:
                with contextlib.suppress(Refused):
                    await self.dead_letters.purge_old()
                    await self.store.submit(_purge_old)
            self.dispatchers.clear_old()

    def _give_up(self, entry: Entry, reason: str) -> None:
        self._end(entry, End.DELIVERY_FAILURE, reason)

    async def _learn_who_agreed(self, entries: Iterable[Entry]) -> None:
        """Know the hosts of *entries* that have accepted a message: also of another gateway, or
        before a restart."""
        entries = list(entries)
        ids = [entry.id for entry in entries]
        counted = await self.store.submit(partial(totals.read_some, subscriptions=ids))
        for entry in entries:
            if entry.id in counted and counted[entry.id].delivered:
                for destination in self.probations.agree(entry.target.destination):
                    self.dispatchers.scheduler.turn(destination)

    def _never_agreed(self, entry: Entry, now: bool) -> None:
        """All attempts that a host has were in vain: the subscription ends, unless the host has
        agreed to another gateway; where that is known since *now*, with all that strangers have
        there."""
        if not (self.sharing.shared or now):
            self._give_up(entry, NEVER_AGREED)
            return
        host, name = entry.target.host, entry.target.destination

        async def end() -> None:
            with contextlib.suppress(Refused):
                there = [one for one in self.subscriptions.entries if one.target.host == host]
                if self.sharing.shared:
                    await self._learn_who_agreed(there)
                for one in there if now else [entry]:
                    if not (
                        self.probations.has_agreed(name)
                        or self.trusts_owner(one.subscription.owner)
                    ):
                        self._give_up(one, NEVER_AGREED)
                        await asyncio.sleep(0)

        self._tasks.append(task := asyncio.get_running_loop().create_task(end()))
        task.add_done_callback(self._tasks.remove)

    def _cancel(self, entry: Entry, reason: str) -> None:
        self._end(entry, End.CANCELLING, reason)

    def _end(self, entry: Entry, why: End, reason: str) -> None:
        async def end() -> None:
            with contextlib.suppress(Refused):
                await self.subscriptions.end(entry, why=why, reason=reason)

        self._tasks.append(task := asyncio.get_running_loop().create_task(end()))
        task.add_done_callback(self._tasks.remove)

    def readiness(self) -> dict[str, Any]:
        """What ``/readyz`` says."""
        writable = self.store.writable
        return {
            "ready": self.ready and not self.draining and writable,
            "draining": self.draining,
            "store": "writable" if writable else "unavailable",
            "adapter": self.settings.scheme,
            **self._broker(),
            "subscriptions": len(self.subscriptions),
            **self._share(),
        }

    def _broker(self) -> dict[str, Any]:
        state = self.adapter.state if self.ready else None
        if state is None:
            return {}
        return {
            "broker": {
                "connected": state.connected,
                "blocked": state.blocked,
                "since": state.since.isoformat(timespec="seconds"),
                "last_error": state.last_error,
                "last_error_at": state.last_error_at
                and state.last_error_at.isoformat(timespec="seconds"),
            }
        }

    def _share(self) -> dict[str, Any]:
        share = self.sharing.status() if self.ready else None
        if share is None:
            return {}
        return {
            "replica": share.replica,
            "replicas": share.alive,
            "partitions": {str(partition): round(age, 3) for partition, age in share.ages.items()},
            "keeps_house": share.keeps_house,
        }

    async def _count(self) -> Counts:
        return Counts(
            await self.dispatchers.conservation(),
            await self.spool.size() if self.spool else None,
            await self.store.submit(mailboxes.overall),
        )

    def drain(self) -> None:
        """Take nothing new: a stop is coming."""
        self.draining = True
        if self.ready:
            for server in self.tcp:  # First: what came before is still answered.
                server.drain()
            self.soap.draining = True
            self.mailboxes.close()

    async def stop(self) -> None:
        """Stop politely: what is under way ends or is kept, nothing is lost."""
        had_started = self.ready
        self.drain()
        for task in list(self._tasks):
            task.cancel()
        if self.ready:
            self.ready = False
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await asyncio.gather(*(server.close(self.settings.drain) for server in self.tcp))
            await self.sharing.stop(self.settings.drain)
            await self.subscription_ends.close(2.0)
            await self.adapter.close()
            if self.archive is not None:
                await self.archive.close(ARCHIVE_CLOSE)
            await self.transport.close()
            self.parsing.close()
        if hasattr(self, "store"):
            await self.store.close()
        if self._lock is not None:
            self._lock.release()
        if had_started:
            _log.info("dragoman.stopped")

    async def listen(
        self, sock: socket.socket, scheme: str, tls: ssl.SSLContext | None = None
    ) -> None:
        """Serve SOAP.TCP on *sock*; the gateway must have started."""
        host = self.settings.soap_tcp_host or urlsplit(self._base).hostname or ""
        base = f"{scheme}://{host_and_port(host, sock.getsockname()[1])}"
        server = self._tcp_server(base)
        await server.start([sock], tls)
        self.tcp.append(server)

    def _tcp_server(self, base: str) -> SoapTcpServer:
        return SoapTcpServer(
            self.soap,
            self.parsing,
            gate=self.tcp_gate,
            identification=self.identification,
            base=base,
        )

    async def _respond(
        self, connection: SoapTcpConnection, message: DimeMessage, gone: asyncio.Event
    ) -> None:
        """Answer what a consumer sent on a connection that we opened to it."""
        server = self.tcp[0] if self.tcp else self._tcp_server(self._base)
        proxied = self.settings.egress_proxy is not None
        principal = self.identification.identify(connection.peer, proxied=proxied)
        await server.respond(connection, message, principal, gone)


def _purge_old(connection: Connection) -> None:
    spooled.purge(connection, before=time.time() - dead_letters.KEPT)
    replicas.prune(connection)


def _dialer(settings: Settings, policy: AddressPolicy) -> Dialer:
    """What everything is sent with.

    Raises:
        TlsError: A file that the settings name cannot be used.
    """
    proxy = settings.egress_proxy
    return Dialer(
        policy,
        tls=client_context(
            ca=settings.egress_ca, certificate=settings.egress_certificate, key=settings.egress_key
        ),
        options=ConsumerOptions(settings.consumers, ca=settings.egress_ca),
        proxy=Proxy.parse(proxy.get_secret_value()) if proxy else None,
    )


def _raise_file_limit() -> None:
    """Each consumer that hangs keeps a socket: the default of 1,024 is too few."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
