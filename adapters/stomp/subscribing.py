"""The subscriptions of one connection: SUBSCRIBE, UNSUBSCRIBE, and leftovers of earlier runs."""

import hashlib
import logging
from collections.abc import Collection
from dataclasses import dataclass

from adapters.protocol import Interest
from adapters.stomp.address import Setup
from adapters.stomp.connection import Connection, Declined
from adapters.stomp.systems import WINDOW, ActiveMQ, Artemis
from adapters.stomp.topology import Headers, TopologyFile

MINE = ("activemq.prefetchSize", "prefetch-count", WINDOW)
"""Headers that say nothing of what stands in the broker."""
DURABLE = ("activemq.subscriptionName", "durable-subscription-name")
NOTHING = "TRUE = FALSE"
"""A selector that no message meets."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Subscription:
    """One subscription. ``partition`` None: an earlier run left it, and its queue is emptied.

    ``interest`` is the one that the broker evaluates by a selector.
    """

    id: str
    headers: Headers
    partition: int | None
    interest: Interest | None = None

    @property
    def identity(self) -> Headers:
        """The headers that identify it in the broker."""
        return {name: value for name, value in self.headers.items() if name not in MINE}

    @property
    def queue(self) -> str | None:
        """The queue that all of its messages come from, None if it is not a queue."""
        destination = self.headers["destination"]
        return destination if destination.startswith("/queue/") else None


class Subscriptions:
    """The subscriptions of one connection, by id."""

    def __init__(self, setup: Setup, connection: Connection, topology: TopologyFile) -> None:
        self._setup = setup
        self._connection = connection
        self._topology = topology
        self.open: dict[str, Subscription] = {}

    async def begin(self, selecting: Collection[Interest]) -> None:
        """Consume all partitions and the messages that *selecting* select, and remove leftovers.

        Raises:
            Lost: The broker refused something, or is gone.
        """
        wanted = [self._partition(number) for number in range(len(self._setup.partitions))]
        for interest in selecting:
            wanted += self._selecting(interest)
        stand = [one.identity for one in wanted]
        left = [headers for headers in self._topology.read() if headers not in stand]
        drained: list[Subscription] = []
        for headers in left:
            if any(name in headers for name in DURABLE):
                await self._remove(headers)
            else:
                drained.append(Subscription(f"left-{len(drained)}", headers, None))
        self._topology.write([*stand, *(one.identity for one in drained)])
        for subscription in [*wanted, *drained]:
            try:
                await self._subscribe(subscription)
            except Declined as exc:
                if subscription.interest is None:
                    raise
                logger.warning(
                    "adapter.selector_refused", extra={"adapter": "stomp", "reason": str(exc)}
                )

    async def make_queues(self) -> None:
        """See that the queues of all partitions are there, and consume nothing.

        Raises:
            Lost: The broker refused something, or is gone.
        """
        for number in range(len(self._setup.partitions)):
            queue = {"destination": self._partition(number).headers["destination"]}
            id = {"id": f"made-{number}"}
            await self._connection.ask("SUBSCRIBE", {**id, **queue, "selector": NOTHING})
            await self._connection.ask("UNSUBSCRIBE", id)

    async def consume(self, partition: int) -> None:
        """Consume one partition.

        Raises:
            Lost: The broker refused it, or is gone.
        """
        await self._subscribe(self._partition(partition))

    async def select(self, interest: Interest) -> None:
        """Consume what *interest* selects too; in force on return.

        Raises:
            Declined: The broker cannot evaluate it.
            Lost: The connection has ended.
        """
        fresh = self._selecting(interest)
        self._topology.write([*self._topology.read(), *(one.identity for one in fresh)])
        try:
            for subscription in fresh:
                await self._subscribe(subscription)
        except Declined:
            await self.unselect(interest)
            raise

    async def try_selector(self, interest: Interest) -> None:
        """See that the broker can evaluate *interest*, and keep nothing for it.

        Raises:
            Lost: It cannot, or the connection has ended.
        """
        for subscription in self._selecting(interest)[:1]:
            headers = {
                name: value for name, value in subscription.headers.items() if name not in DURABLE
            }
            await self._connection.ask("SUBSCRIBE", {**headers, "id": "tried"})

    async def unselect(self, interest: Interest) -> None:
        """Consume it no longer, and keep nothing more for it."""
        gone = [one for one in self.open.values() if one.interest == interest]
        for one in gone:
            del self.open[one.id]
            await self._connection.ask("UNSUBSCRIBE", {"id": one.id})
            await self._remove(one.headers)
        stand = [one.identity for one in gone]
        self._topology.write([one for one in self._topology.read() if one not in stand])

    def _partition(self, number: int) -> Subscription:
        setup = self._setup
        headers = setup.system.consuming(setup.partitions[number], setup.prefetch)
        return Subscription(f"partition-{number}", headers, number)

    def _selecting(self, interest: Interest) -> list[Subscription]:
        system = self._setup.system
        if interest.expression is None or not isinstance(system, ActiveMQ | Artemis):
            return []
        selector = interest.expression.text
        digest = hashlib.blake2b(selector.encode(), digest_size=12).hexdigest()
        found = []
        for number, pattern in enumerate(self._setup.partitions):
            name = f"{self._setup.name}.selector.{digest}.{number}"
            headers = system.selecting(pattern, name, selector, self._setup.prefetch)
            found.append(Subscription(f"{digest}-{number}", headers, number, interest))
        return found

    async def _subscribe(self, subscription: Subscription) -> None:
        if subscription.partition is None:
            logger.warning(
                "adapter.queue_left",
                extra={
                    "adapter": "stomp",
                    "queue": subscription.headers["destination"],
                    "reason": "it is no longer configured, and is emptied",
                    "mend": "delete it in the broker",
                },
            )
        self.open[subscription.id] = subscription
        try:
            await self._connection.ask(
                "SUBSCRIBE",
                {**subscription.headers, "id": subscription.id, "ack": "client-individual"},
            )
        except Declined:
            del self.open[subscription.id]
            raise

    async def _remove(self, headers: Headers) -> None:
        """Remove a durable subscription that nobody consumes."""
        named = {name: value for name, value in headers.items() if name in DURABLE}
        try:
            await self._connection.ask("UNSUBSCRIBE", {"id": "removed", **named})
        except Declined as exc:  # It does not exist, perhaps because somebody else removed it.
            logger.info(
                "adapter.subscription_left",
                extra={"adapter": "stomp", "subscription": [*named.values()], "reason": str(exc)},
            )
