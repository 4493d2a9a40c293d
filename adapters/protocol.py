"""The protocol between Dragoman and a messaging system: what an adapter has to do, and may do."""

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Protocol, Self

from filters import Expression, Reason, Refused
from mediation import Notification

API_VERSION = 1


class AdapterError(Refused):
    """The root of the errors that an adapter raises."""


class AdapterUnavailable(AdapterError):
    """The system did not confirm: it may have none, some or all of what was published."""

    retry_after: float
    """Seconds after which a publisher may try again."""

    def __init__(self, text: str, *, retry_after: float = 1.0) -> None:
        super().__init__(Reason.UNAVAILABLE, text)
        self.retry_after = retry_after


@dataclass(frozen=True, slots=True)
class Interest:
    """A wish of the gateway, for messages that the system shall yield: the topics that *expression*
    covers, or, with expression None, everything. An expression in another dialect is one that the
    system evaluates itself (``Capabilities.dialects``)."""

    expression: Expression | None = None


EVERYTHING_WANTED = Interest()


@dataclass(frozen=True, slots=True)
class AdapterState:
    """The state of the connection to the messaging system, for people and monitors.

    ``connected``: messages are published and consumed, as far as is known. ``blocked``: the system
    is reachable, but takes no messages now. ``since`` is when ``connected`` last changed. The
    ``last_error`` is the latest reason why a connection ended or could not be opened, "" while
    there was none, and ``last_error_at`` its time. ``reconnects`` counts connections that were
    opened again; ``wrapped`` native bodies that were not XML and were wrapped in an element;
    ``unreadable`` messages that could not be read. ``stopped_by`` names the message that ends one
    connection after the other, by queue and id, "" while there is none.
    """

    connected: bool
    since: datetime
    last_error: str = ""
    blocked: bool = False
    reconnects: int = 0
    wrapped: int = 0
    last_error_at: datetime | None = None
    unreadable: int = 0
    stopped_by: str = ""


class Delivery(Protocol):
    """A message that the system yielded. It is yielded again unless it is settled."""

    @property
    def notification(self) -> Notification: ...

    @property
    def partition(self) -> int: ...

    @property
    def redelivered(self) -> bool:
        """True if the message may have been yielded before: by an earlier run, or before a
        connection was lost."""

    def settle(self) -> None:
        """Mark the message as dealt with. Settle in any order; a second call does nothing."""


class Sharing(Protocol):
    """The power to let several gateways share the system (``Capabilities.sharing``).

    The gateways agree elsewhere on which of them consumes which partition; no two of them consume
    the same one. The system's side is common to all: each gateway adds its interests, and removes
    none, because another gateway may have the same.
    """

    def share(self) -> None:
        """Share the system. Called before ``start``: then only partitions that are taken are
        consumed."""

    async def adopt(self, interest: Interest) -> None:
        """Want *interest*, which another gateway has set up in the system already. Never fails."""

    def take(self, partition: int) -> None:
        """Consume *partition* from now on, as soon as the system allows it: where another gateway
        still consumes it, when that one has ended."""

    async def release(self, partition: int) -> None:
        """Stop consuming *partition*. Its unsettled messages are yielded again, to the gateway that
        takes it."""

    def arrived(self, delivery: Delivery) -> float:
        """The time at which *delivery* came, by the event loop's clock."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The guarantees of a messaging system, and the optional powers of its adapter.

    Guarantees. ``durable``: what it confirmed survives a crash of the process. ``partitions``: the
    number of ordered parts that it is split into. ``prefetch``: how many messages may be unsettled
    at a time.

    Powers, each None or empty where an adapter does not have it. ``reporting`` returns the state
    of the connection; called often, it must neither raise nor block. ``sharing`` lets several
    gateways share the system. ``dialects`` are the filter dialects that the system evaluates
    itself: a message is yielded once for topics, however many it meets, and once for each interest
    in such a dialect that it meets, each to be settled by itself. ``selecting`` goes with them: it
    returns the interest, in one of ``dialects``, that a delivery was yielded for, and None for a
    delivery that was yielded for topics. ``unreadable`` returns why the message of a delivery could
    not be read, "" if it could: its notification is what is left of it, which nobody gets.

    ``replicas`` is how adapters written before ``sharing`` say that they have its methods
    (`adapters.compatibility`).
    """

    durable: bool
    replicas: bool = False
    partitions: int = 1
    dialects: tuple[str, ...] = ()
    prefetch: int = 256
    api_version: int = API_VERSION
    _: KW_ONLY
    reporting: Callable[[], AdapterState | None] | None = field(
        default=None, compare=False, repr=False
    )
    sharing: Sharing | None = field(default=None, compare=False, repr=False)
    selecting: Callable[[Delivery], Interest | None] | None = field(
        default=None, compare=False, repr=False
    )
    unreadable: Callable[[Delivery], str] | None = field(default=None, compare=False, repr=False)


class Adapter(Protocol):
    """The adapter of one messaging system; a process has one."""

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
        """Yield what *interest* covers, from the moment this returns."""

    async def unwant(self, interest: Interest) -> None:
        """Stop yielding what only *interest* covered; this may lag."""

    def deliveries(self) -> AsyncIterator[Delivery]:
        """Yield each message once, in the system's order, however many interests it meets.

        At most ``capabilities.prefetch`` are unsettled at a time. What is not settled is yielded
        again after a restart.
        """

    async def close(self) -> None:
        """Let go of the system. What was settled before is not yielded again."""
