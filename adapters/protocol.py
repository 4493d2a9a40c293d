"""The protocol between Dragoman and a messaging system: what an adapter has to do, and may do."""

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Protocol, Self, TypeVar, runtime_checkable

from filters import Expression, Reason, Refused
from mediation.model.messages import Notification

API_VERSION = 1
MAX_WORDS = 500
"""Characters of a system's words that a publisher is told."""


KeyT = TypeVar("KeyT")


class AdapterError(Refused):
    """The root of the errors that an adapter raises."""


class AdapterUnavailable(AdapterError):
    """The system did not confirm: it may have none, some or all of what was published."""

    retry_after: float
    """Seconds after which a publisher may try again."""

    def __init__(self, text: str, *, retry_after: float = 1.0) -> None:
        super().__init__(Reason.UNAVAILABLE, text)
        self.retry_after = retry_after


class AdapterFailed(AdapterUnavailable):
    """The adapter raised what no adapter may: a defect of its own, perhaps with this message."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A notification that the system will never take, and why, in the system's *words*."""

    notification: Notification
    words: str


class PublicationRefused(AdapterError):
    """The system will never take some of what was published; it has the others durably.

    An event is refused because of what it is: too large for the system, on a topic that may not be
    published to. Who publishes it again is refused again; so a system that takes nothing now is
    never one that refuses (`AdapterUnavailable`).
    """

    def __init__(self, refusals: Sequence[Refusal]) -> None:
        self.refusals = tuple(refusals)
        self._words = {_identity(each.notification): each.words for each in refusals}
        words = "; ".join(dict.fromkeys(self._words.values()))
        text = f"the messaging system refuses the event: {words}"
        super().__init__(Reason.PUBLICATION_REFUSED, text[:MAX_WORDS])

    def words_for(self, notification: Notification) -> str | None:
        """Return why the system refuses *notification*, None if it has it."""
        return self._words.get(_identity(notification))

    def taken(self, notifications: Sequence[Notification]) -> list[Notification]:
        """Return those of *notifications*, all that were published, that the system has."""
        return [each for each in notifications if self.words_for(each) is None]

    def taken_of(self, keyed: Mapping[KeyT, Notification]) -> list[KeyT]:
        """Return the keys of those that the system has."""
        return [key for key, each in keyed.items() if self.words_for(each) is None]


def _identity(notification: Notification) -> tuple[str, str]:
    return notification.source, notification.id


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
    connection after the other, by queue and id; "" before the first one.
    ``gone`` are queues of the gateway that somebody deleted in the system and that were made again:
    what they held is lost, and what was published meanwhile.
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
    gone: tuple[str, ...] = ()


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


class RefusalMemory(Protocol):
    """The power to tell what the system would refuse, without asking it (``refusals``).

    What it refused lately (the size that is too large, the destination that is forbidden) is
    remembered for a while, within bounds, so that the like of it is refused before it is accepted.
    """

    def refusal_of(self, notification: Notification) -> str | None:
        """Return the words with which the system refused the like of *notification* lately; None
        where nothing is known against it. It is called for each event, and must not block."""

    def forget(self, notification: Notification) -> None:
        """Forget what is known against *notification*: an operator says that it is mended."""


@dataclass(frozen=True, slots=True)
class Isolated:
    """The URL and the settings of an adapter that shares nothing in the system with others, and
    the host and port that it connects to; None where it connects to none."""

    url: str
    settings: Mapping[str, str]
    address: tuple[str, int] | None = None


@runtime_checkable
class Isolating(Protocol):
    """The power of an adapter's class to be tried in a system that others use, which
    ``dragoman doctor adapter`` needs."""

    @classmethod
    def isolate(
        cls, url: str, settings: Mapping[str, str], *, name: str, through: int | None = None
    ) -> Isolated:
        """Return what makes an adapter for which all that it makes in the system, and all that it
        publishes to, has *name* in its name.

        Args:
            name: At most 32 letters, digits and hyphens.
            through: The port of 127.0.0.1 where a forwarder listens: the system is reached by it.

        Raises:
            AdapterError: *url* or *settings* do not fit this system.
        """

    async def remove(self) -> Collection[str]:
        """Remove from the system all that an adapter with these settings has made there. Called
        once it is closed. Returns the names of what cannot be removed.

        Raises:
            AdapterUnavailable: The system cannot be reached, or refused.
        """


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The guarantees of a messaging system, and the optional powers of its adapter.

    Guarantees. ``durable``: what it confirmed survives a crash of the process. ``partitions``: the
    number of ordered parts that it is split into. ``prefetch``: how many messages may be unsettled
    at a time, of each tenant.

    Powers, each None or empty where an adapter does not have it. ``reporting`` returns the state
    of the connection; called often, it must neither raise nor block. ``sharing`` lets several
    gateways share the system. ``dialects`` are the filter dialects that the system evaluates
    itself: a message is yielded once for topics, however many it meets, and once for each interest
    in such a dialect that it meets, each to be settled by itself. ``selecting`` goes with them: it
    returns the interest, in one of ``dialects``, that a delivery was yielded for, and None for a
    delivery that was yielded for topics. ``unreadable`` returns why the message of a delivery could
    not be read, "" if it could: its notification is what is left of it, which nobody gets.
    ``refusals`` tells what the system refused lately. ``queues`` are the names that the system has
    for the partitions, in their order, for operators who look for them there.
    """

    durable: bool
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
    refusals: RefusalMemory | None = field(default=None, compare=False, repr=False)
    queues: tuple[str, ...] = field(default=(), compare=False, repr=False)


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
            PublicationRefused: It will never take some of them; it has all others.
        """

    async def want(self, interest: Interest) -> None:
        """Yield what *interest* covers, from the moment this returns.

        Raises:
            AdapterUnavailable: The system did not accept it; it is not in force.
            FilterError: The system does not evaluate this filter, or no more of its dialect.
        """

    async def unwant(self, interest: Interest) -> None:
        """Stop yielding what only *interest* covered; this may lag.

        Raises:
            AdapterUnavailable: The system was not told; it may go on until it is connected anew.
        """

    def deliveries(self) -> AsyncIterator[Delivery]:
        """Yield each message once, in the system's order, however many interests it meets.

        At most ``capabilities.prefetch`` are unsettled at a time (of each tenant, where the adapter
        tells them apart). What is not settled is yielded again after a restart.
        """

    async def close(self) -> None:
        """Let go of the system. What was settled before is not yielded again."""
