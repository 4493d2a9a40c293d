"""One viewer: a subscription whose latest messages are kept until somebody looks at them."""

import asyncio
import contextlib
import secrets
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

import structlog

from gateway.client import (
    AnyClient,
    Consumer,
    GatewayError,
    PulledMailbox,
    ReceivedMessage,
    RenewedSubscription,
    shown,
    subscribed,
)
from gateway.client.calling import SOAP_TCP, address_towards
from gateway.client.consumer import Read
from gateway.client.delivery_checks import Check, DeliveryChecks
from gateway.client.push_pull_comparison import QUIET, Comparison
from gateway.client.soap_tcp import SoapTcpConsumer
from gateway.tcp import TcpLimits
from gateway.web.console.viewer.calls import PolicedCaller, TransportChoice, client_at
from gateway.web.console.viewer.references import HeldReferences
from mediation.model.versions import Version
from mediation.packaging.dime import DimeLimits
from mediation.specifications import SPECIFICATIONS

MESSAGES = 200
OCTETS = 4 * 2**20
"""Messages, and bytes of them, that a viewer keeps: the latest."""
LARGEST = 2**20
"""Bytes of a message."""
IDLE = 60.0
"""Seconds after which a viewer that nobody looks at ends."""
WAITING = 8
_log = structlog.get_logger("dragoman.console")
SOAP_TCP_URLS = tuple(f"{scheme}://" for scheme in SOAP_TCP)
Indent: TypeAlias = Callable[[bytes], Awaitable[str]]
"""Indents XML, not on the event loop."""
Change: TypeAlias = Callable[[ReceivedMessage], Awaitable[ReceivedMessage]]


class Way(Enum):
    """The ways in which messages come to a viewer."""

    PUSH = "push"
    """Sent to a listener of HTTP here."""
    SOAP_TCP = "tcp"
    """Sent to a listener of SOAP.TCP here."""
    PULL = "pull"
    """Fetched from a mailbox at the broker."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a viewer subscribes to, where, and how.

    Attributes:
        url: The broker's, as people write it.
        way: How messages come.
    """

    url: str
    version: Version = Version.WSN_1_3
    topic: str | None = None
    xpath: str | None = None
    namespaces: Mapping[str, str] = field(default_factory=dict)
    way: Way = Way.PUSH

    @property
    def pull(self) -> bool:
        """Whether messages are fetched."""
        return self.way is Way.PULL

    @property
    def asks_over_tcp(self) -> bool:
        """Whether the broker is asked over SOAP.TCP."""
        return self.url.lower().startswith(SOAP_TCP_URLS)


@dataclass(frozen=True, slots=True)
class ViewerParts:
    """The parts of the gateway that viewers use.

    Attributes:
        read: Reads messages that come, not on the event loop, as far as they must be read at once.
        read_later: Reads the others once somebody looks at them.
        hide: Hides fields of messages, not on the event loop; None: nothing is hidden.
        references: Has the references of the subscriptions of viewers that run.
        quiet: Seconds without a message after which push is compared with pull.
        idle: Seconds after which a viewer that nobody looks at ends.
    """

    transports: TransportChoice
    read: Read
    read_later: Change
    indent: Indent
    references: HeldReferences
    hide: Change | None = None
    quiet: float = QUIET
    idle: float = IDLE


@dataclass(slots=True)
class KeptMessage:
    """A message, its number, and its payloads indented, once somebody asked for them.

    Most are never looked at, at hundreds a second: they are read when somebody does.
    """

    number: int
    message: ReceivedMessage
    is_read: bool = False
    payloads: tuple[str, ...] | None = None


class Viewer:
    """Subscribes, keeps what comes, and unsubscribes when it is closed or nobody looks at it.

    Attributes:
        ended: Why it has ended; empty while it runs.
        dropped: Messages that had no place any more.
        received: Messages that came.
        held: The messages that are shown while it is paused; None: it is not.
    """

    def __init__(self, wanted: Wanted, parts: ViewerParts) -> None:
        self.id = secrets.token_urlsafe(12)
        self.wanted = wanted
        self.ended = ""
        self.dropped = self.received = 0
        self.held: tuple[KeptMessage, ...] | None = None
        self._parts = parts
        self._kept: deque[KeptMessage] = deque()
        self._octets = 0
        self._checks = DeliveryChecks(shown(wanted.url), "" if wanted.pull else "a listener")
        self._comparison: Comparison | None = None
        self._deadline = asyncio.timeout(parts.idle)
        self._task = asyncio.create_task(self._run())

    @property
    def checks(self) -> tuple[Check, ...]:
        """How far the messages come."""
        return self._checks.rows(asyncio.get_running_loop().time())

    @property
    def messages(self) -> tuple[KeptMessage, ...]:
        """The messages to be shown, the oldest first."""
        return tuple(self._kept) if self.held is None else self.held

    def seen(self) -> None:
        """Note that somebody looks at it."""
        if not self.ended and self._deadline.when() is not None:
            loop = asyncio.get_running_loop()
            self._deadline.reschedule(loop.time() + self._parts.idle)

    def pause(self) -> None:
        """Show the messages of now until `resume`; others come, and are kept."""
        if self.held is None:
            self.held = tuple(self._kept)

    def resume(self) -> None:
        """Show what comes again."""
        self.held = None

    def clear(self) -> None:
        """Forget the messages."""
        self._kept.clear()
        self._octets = 0
        self.held = None if self.held is None else ()

    async def read(self, kept: KeptMessage) -> ReceivedMessage:
        """A message that is kept, read; without notifications where it cannot be."""
        if not kept.is_read:
            kept.message = await self._parts.read_later(kept.message)
            kept.is_read = True
        return kept.message

    async def payloads_of(self, kept: KeptMessage) -> tuple[str, ...]:
        """The payloads of a message, indented."""
        if kept.payloads is None:
            payloads = [one.payload for one in (await self.read(kept)).notifications]
            kept.payloads = tuple([await self._parts.indent(one) for one in payloads])
        return kept.payloads

    async def close(self) -> None:
        """Unsubscribe, and end."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self.ended = self.ended or "it was stopped"

    async def _run(self) -> None:
        try:
            async with self._deadline:
                await self._watch()
        except GatewayError as error:
            self._checks.failed(error)
            self.ended = str(error)
        except TimeoutError:
            self.ended = f"nobody looked at it for {self._parts.idle:g} seconds"
        except Exception:  # Others go on, and the page says that this one does not.
            _log.exception("console.viewer-failed")
            self.ended = "it went wrong inside the gateway: its log says why"

    async def _watch(self) -> None:
        self._parts.transports.route(self.wanted.url)
        async with (
            self._client(self.wanted.version) as client,
            await self._receiver() as consumer,
        ):
            address = "" if self.wanted.pull else shown(consumer.address)
            self._checks = DeliveryChecks(shown(self.wanted.url), address)
            async with self._subscribed(client, consumer.address) as renewed:
                self._checks.accepted()
                with self._held(renewed):
                    async with self._comparing():
                        await self._receive(consumer, renewed)

    @contextlib.contextmanager
    def _held(self, renewed: RenewedSubscription) -> Iterator[None]:
        """Let others manage the subscription meanwhile."""
        wanted, references = self.wanted, self._parts.references
        held = references.hold(
            wanted.url,
            wanted.version,
            renewed.subscription,
            topic=wanted.topic or "",
            made_by="a viewer",
            viewer=self.id,
        )
        try:
            yield
        finally:
            references.drop(held.id)

    async def _receive(
        self, consumer: AsyncIterable[ReceivedMessage], renewed: RenewedSubscription
    ) -> None:
        async for message in consumer:
            if message.ended is not None:
                renewed.is_over = True
                text = f"the broker ended the subscription: {message.ended.reason}"
                raise GatewayError(text, status=410)
            self._checks.received()
            if self._comparison is not None:
                self._comparison.received()
            self._keep(message if self._parts.hide is None else await self._parts.hide(message))

    def _keep(self, message: ReceivedMessage) -> None:
        self.received += 1
        self._kept.append(KeptMessage(self.received, message))
        self._octets += len(message.octets)
        while len(self._kept) > MESSAGES or self._octets > OCTETS:
            self._octets -= len(self._kept.popleft().message.octets)
            self.dropped += 1

    @contextlib.asynccontextmanager
    async def _comparing(self) -> AsyncIterator[None]:
        """Compare push with pull meanwhile; mailboxes are made over HTTP alone."""
        if self.wanted.pull or self.wanted.asks_over_tcp:
            yield
            return
        self._comparison = Comparison(
            self._checks, self._mailbox, self._subscribe_again, _ignore, quiet=self._parts.quiet
        )
        comparing = asyncio.create_task(self._comparison.run())
        try:
            yield
        finally:
            comparing.cancel()
            await asyncio.gather(comparing, return_exceptions=True)

    async def _receiver(self) -> Consumer | SoapTcpConsumer | PulledMailbox:
        if self.wanted.pull:
            return self._mailbox()
        host = await asyncio.to_thread(address_towards, self.wanted.url)
        if self.wanted.way is Way.SOAP_TCP:
            limits = TcpLimits(dime=DimeLimits(message=LARGEST, envelope=LARGEST))
            return SoapTcpConsumer(host, waiting=WAITING, limits=limits, read=self._parts.read)
        return Consumer(host, waiting=WAITING, max_octets=LARGEST, read=self._parts.read)

    def _mailbox(self) -> PulledMailbox:
        caller = PolicedCaller(self._parts.transports, patient=True)
        return PulledMailbox(self.wanted.url, at_a_time=1, read=self._parts.read, caller=caller)

    def _client(self, version: Version) -> AnyClient:
        return client_at(self.wanted.url, version, self._parts.transports)

    def _subscribed(
        self, client: AnyClient, address: str
    ) -> AbstractAsyncContextManager[RenewedSubscription]:
        wanted = self.wanted
        return subscribed(
            client,
            address,
            topic=wanted.topic,
            xpath=wanted.xpath,
            namespaces=wanted.namespaces,
        )

    @contextlib.asynccontextmanager
    async def _subscribe_again(self, address: str) -> AsyncIterator[RenewedSubscription]:
        """Subscribe a mailbox to the same, in SOAP: nothing else is fetched."""
        async with (
            self._client(soap_version(self.wanted.version)) as client,
            self._subscribed(client, address) as renewed,
        ):
            yield renewed


def soap_version(version: Version) -> Version:
    """*version*, or WS-Notification 1.3 where it is not spoken in SOAP that can be fetched."""
    specification = SPECIFICATIONS[version]
    in_soap = specification.bodies is None and not specification.calls
    return version if in_soap else Version.WSN_1_3


def _ignore() -> None:
    """Do nothing: pages ask for the checks."""
