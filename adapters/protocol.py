"""What Dragoman asks of a messaging system."""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol, Self

from filters import Expression, Reason, Refused
from mediation import Notification

API_VERSION = 1


class AdapterError(Refused):
    """The root of what an adapter raises."""


class AdapterUnavailable(AdapterError):
    """The system did not confirm: it may have none, some or all of what was published."""

    retry_after: float
    """Seconds after which a publisher may try again."""

    def __init__(self, text: str, *, retry_after: float = 1.0) -> None:
        super().__init__(Reason.UNAVAILABLE, text)
        self.retry_after = retry_after


@dataclass(frozen=True, slots=True)
class Interest:
    """What the messaging system shall yield: the topics that *expression* covers, or, with
    expression None, everything. An expression in another dialect is one that the system
    evaluates itself (``Capabilities.dialects``)."""

    expression: Expression | None = None


EVERYTHING_WANTED = Interest()


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a messaging system guarantees.

    ``durable``: what it confirmed survives a crash of the process. ``replicas``: several
    gateways may share it. ``partitions``: how many it is split into. ``dialects``: the filter
    dialects that it evaluates itself. ``prefetch``: how many messages may be unsettled at a time.
    """

    durable: bool
    replicas: bool = False
    partitions: int = 1
    dialects: tuple[str, ...] = ()
    prefetch: int = 256
    api_version: int = API_VERSION


@dataclass(frozen=True, slots=True)
class AdapterState:
    """How it stands with the messaging system, for people and monitors to see.

    ``connected``: messages are published and consumed, as far as is known. ``blocked``: the system
    is there, but takes no messages now. ``since`` is when ``connected`` last changed. The
    ``last_error`` is the latest reason why a connection ended or could not be opened, "" while
    there was none, and ``last_error_at`` when that was. ``reconnects`` counts connections that were
    opened again; ``wrapped`` native bodies that were no XML and were made some.
    """

    connected: bool
    since: datetime
    last_error: str = ""
    blocked: bool = False
    reconnects: int = 0
    wrapped: int = 0
    last_error_at: datetime | None = None


class Delivery(Protocol):
    """One message that the system yielded. It comes again unless it is settled."""

    @property
    def notification(self) -> Notification: ...

    @property
    def partition(self) -> int: ...

    @property
    def redelivered(self) -> bool:
        """It may have been yielded before: by an earlier run, or before a connection broke."""

    def settle(self) -> None:
        """The message is dealt with. In any order; a second call does nothing."""


class SelectedDelivery(Delivery, Protocol):
    """What a system yields that evaluates dialects itself (``Capabilities.dialects``).

    A message is yielded once for topics, however many it meets, and once for each interest in such
    a dialect that it meets; each is settled by itself.
    """

    @property
    def interest(self) -> Interest | None:
        """The one in a dialect of the system's that it was yielded for; None: for topics."""


class Adapter(Protocol):
    """One messaging system; one adapter a process."""

    capabilities: Capabilities

    @classmethod
    def from_url(cls, url: str, *, data: Path, settings: Mapping[str, str]) -> Self:
        """Make an adapter; nothing is opened before ``start``.

        Raises:
            AdapterError: *url* or *settings* do not fit this system.
        """

    async def start(self, interests: Collection[Interest]) -> None:
        """Open the system, make its side equal to *interests*, remove leftovers.

        Raises:
            AdapterUnavailable: The system cannot be opened.
        """

    async def publish(self, notifications: Sequence[Notification]) -> None:
        """Return once the system holds all of *notifications* durably, in their order.

        Raises:
            AdapterUnavailable: It did not confirm; it may have none, some or all.
        """

    async def want(self, interest: Interest) -> None:
        """From the moment this returns, yield what *interest* covers."""

    async def unwant(self, interest: Interest) -> None:
        """Stop yielding what only *interest* covered; this may lag."""

    def deliveries(self) -> AsyncIterator[Delivery]:
        """Yield each message once, in the system's order, however many interests it meets.

        At most ``capabilities.prefetch`` are unsettled at a time. What is not settled comes
        again after a restart.
        """

    async def close(self) -> None:
        """Let go of the system. What was settled before is not yielded again."""


class ReportingAdapter(Adapter, Protocol):
    """An adapter that says how it stands with its system; none has to."""

    @property
    def state(self) -> AdapterState:
        """Now; asked for often, so it must neither raise nor block."""


class SharedDelivery(Delivery, Protocol):
    """A message of a system that several gateways share."""

    arrived: float
    """When it came, by the event loop's clock."""


class SharedAdapter(Adapter, Protocol):
    """A messaging system that several gateways may share (``capabilities.replicas``).

    Which gateway consumes which partition is agreed upon elsewhere; never do two of them consume
    the same one. The system's side is common to all: interests are added by whoever has them, and
    none is removed, for another gateway may have it too.
    """

    def share(self) -> None:
        """Called before ``start``: then nothing is consumed but what is taken."""

    async def adopt(self, interest: Interest) -> None:
        """Want *interest*, which another gateway has made the system's already. Never fails."""

    def take(self, partition: int) -> None:
        """Consume *partition* from now on, as soon as the system lets us: where another gateway
        still does, when it has ended."""

    async def release(self, partition: int) -> None:
        """Consume *partition* no more. What is unsettled of it comes again, to whoever takes it."""

    def deliveries(self) -> AsyncIterator[SharedDelivery]: ...
