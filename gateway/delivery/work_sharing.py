"""The port to how gateways share the work: `gateway.replicas` has the two ways."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from adapters import Delivery
from gateway.delivery.dispatcher import Dispatcher
from gateway.delivery.dispatchers import Dispatchers
from gateway.delivery.entry import Entry
from gateway.delivery.partition_share import PartitionShare
from gateway.observing.samples import Sample, gauges


@dataclass(frozen=True, slots=True)
class ReplicaStatus:
    """The sharing of the work at one moment. ``alive`` is the number of gateways; ``ages`` are
    seconds since the lease of each partition that this one holds was renewed."""

    replica: str
    alive: int
    ages: Mapping[int, float]
    keeps_house: bool

    def metrics(self) -> Iterator[Sample]:
        """Replicas, partitions and the ages of leases."""
        names, here = ("replica",), (self.replica,)
        yield gauges("replicas", "Gateways that share the work.", names, {here: self.alive})
        yield gauges("partitions", "Partitions that are held.", names, {here: len(self.ages)})
        yield gauges(
            "keeps_house",
            "Whether this gateway does what is done once for all.",
            names,
            {here: self.keeps_house},
        )
        yield gauges(
            "lease_age_seconds",
            "Since the lease of a partition was renewed.",
            ("replica", "partition"),
            {(self.replica, str(partition)): age for partition, age in self.ages.items()},
        )


class KnownSubscriptions(Protocol):
    """The subscriptions of this gateway, as sharing sees them."""

    @property
    def entries(self) -> Collection[Entry]: ...

    def by_id(self, id_: str) -> Entry | None: ...


class WorkSharing(Protocol):
    """A way to share the work, chosen once at the start.

    Attributes:
        shared: Whether other gateways may deliver for the same subscriptions.
        replica: The name of this gateway among those that use the store; empty where the store
            is for one process.
        number: Its number among them.
    """

    shared: bool
    replica: str
    number: int

    @property
    def keeps_house(self) -> bool:
        """True if this gateway does the work that one gateway does for all."""

    @property
    def refresh(self) -> Callable[[Delivery], Awaitable[None]] | None:
        """Learns what other gateways subscribed to before a message came; None where there are no
        others."""

    def share_of(self, name: str) -> PartitionShare | None:
        """The share of the work to which *name* belongs, by its hash; None while another gateway
        has it, or nobody."""

    def elsewhere(self) -> tuple[str, ...]:
        """The other gateways that deliver, each with its partitions."""

    def status(self) -> ReplicaStatus | None:
        """The status that readiness shows; None where nothing is shared."""

    def described(self) -> str | None:
        """The name of this gateway and the partitions that it holds, for operators; None where
        nothing is shared."""

    def metrics(self) -> Iterable[Sample]:
        """As `ReplicaStatus.metrics`, now."""

    async def start(
        self,
        dispatchers: Dispatchers,
        subscriptions: KnownSubscriptions,
        learn: Callable[[], Awaitable[None]],
        make: Callable[[PartitionShare], Dispatcher],
    ) -> None:
        """Add to *dispatchers* those that *make* makes, now or as partitions are taken.

        Args:
            learn: Learns from the store what other gateways have changed of *subscriptions*; it
                raises `StoreUnavailable`.
        """

    async def run(self) -> None:
        """Keep this gateway's part of the work, for ever."""

    async def rows_added(self, added: Mapping[str, tuple[int, int]]) -> None:
        """Deliver rows that were added to the store: their number and bytes, by the id of the
        subscription."""

    def drain(self) -> None:
        """Take on no further part of the work: a stop is coming."""

    async def stop(self, seconds: float) -> None:
        """Stop all dispatchers, and leave the others. Attempts under way get *seconds*; meanwhile
        what is held is renewed, whether `run` goes on or has ended."""
