"""The dispatchers of the partitions that this gateway holds; one for all, where it is alone.

Each partition has a dispatcher, with outboxes and a settlement of its own, so that one which is
lost is let go of without harm to the others. They have one scheduler in common: a destination's
connections and its breaker count for all.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import structlog
from sqlalchemy import Connection

from adapters import Delivery
from gateway.delivery.conservation import Conservation, add_up
from gateway.delivery.dispatcher import Dispatcher
from gateway.delivery.entry import Entry
from gateway.delivery.heartbeats import Heartbeats
from gateway.delivery.outbox import Outbox
from gateway.delivery.partition_share import AUTHORS, author, next_position
from gateway.delivery.scheduler import SendScheduler
from gateway.delivery.status import DeliveryStatus, failing_among, status_of
from gateway.delivery.verdicts import Verdict
from gateway.model.dead_letter_reasons import NOBODY, Death, DeathReason
from gateway.observing.samples import Sample, counter, counters, gauge, histograms
from gateway.observing.system_events import DEAD_LETTER
from gateway.security.keys import message_urn
from gateway.store import Store, dead_lettering, totals, waiting_deliveries
from gateway.store.statements import number
from mediation.model.messages import Notification

_log = structlog.get_logger("dragoman.delivery")


@dataclass(frozen=True, slots=True)
class Resend:
    """A `Delivery` that no messaging system waits for."""

    notification: Notification
    partition: int = 0
    redelivered: bool = False

    def settle(self) -> None:
        """Nobody waits."""


class Dispatchers:
    """As `Dispatcher`, for all partitions together.

    Args:
        elsewhere: Says which other gateways deliver, and their partitions.
    """

    def __init__(
        self,
        store: Store,
        scheduler: SendScheduler,
        elsewhere: Callable[[], tuple[str, ...]] = lambda: (),
    ) -> None:
        self._store = store
        self.scheduler = scheduler
        self._of: dict[int | None, Dispatcher] = {}
        self._elsewhere = elsewhere
        self._left = 0
        """When something was left to another gateway, in nanoseconds."""
        self.heartbeats = Heartbeats(partial(self.of, 0))
        """Of several gateways the one that has the first partition sends them."""

    @property
    def by_partition(self) -> Mapping[int | None, Dispatcher]:
        """The dispatcher of each partition that is held; None stands for all partitions."""
        return self._of

    def of(self, partition: int) -> Dispatcher | None:
        """The dispatcher of *partition*; None where another gateway may have it."""
        return self._of.get(partition) or self._of.get(None)

    @property
    def unsettled(self) -> int:
        """Messages that are not settled."""
        return sum(dispatcher.settlement.messages for dispatcher in self._of.values())

    def add(self, partition: int | None, dispatcher: Dispatcher) -> None:
        self._of[partition] = dispatcher

    def remove(self, partition: int) -> Dispatcher | None:
        """Leave further messages of *partition* to the messaging system."""
        return self._of.pop(partition, None)

    def has_capacity(self, tenant: str) -> bool:
        """Whether there is room in memory for another message of *tenant*."""
        return all(one.settlement.has_capacity(tenant) for one in self._of.values())

    async def wait_for_capacity(self, tenant: str) -> None:
        """Wait until there is room in memory for another message of *tenant*."""
        for dispatcher in list(self._of.values()):
            await dispatcher.settlement.wait_for_capacity(tenant)

    def accept(
        self, delivery: Delivery, entries: Iterable[Entry], unfiltered: Iterable[Entry] = ()
    ) -> None:
        dispatcher = self.of(delivery.partition)
        if dispatcher is not None:
            dispatcher.accept(delivery, entries, unfiltered)

    def accept_here(self, notification: Notification, entries: Iterable[Entry]) -> None:
        """Take on a message that no messaging system holds, for any of the partitions. Where this
        gateway has none, it waits in the store for the one that has the first."""
        dispatcher = next(iter(self._of.values()), None)
        if dispatcher is not None:
            dispatcher.accept(Resend(notification), entries)
        elif keeping := [one for one in entries if _waits(one)]:
            # Each has a position of its own, however fast they come.
            self._left = now = max(time.time_ns(), self._left + AUTHORS)
            leaving = self._store.submit(partial(_leave, notification, keeping, now))
            leaving.add_done_callback(_note_failure)

    def resend(self, entry: Entry, notifications: Sequence[Notification]) -> None:
        """Deliver *notifications* to *entry* once more, with message ids of their own: a consumer
        that leaves out repeats has seen those that they repeat."""
        for notification in notifications:
            fresh = replace(notification, id=f"{notification.id}#{message_urn()}")
            self.accept_here(fresh, [entry])

    def bury_unreadable(self, delivery: Delivery, why: str) -> None:
        """Lay a message that could not be read to the dead letters, and settle it then."""
        dispatcher = self.of(delivery.partition)
        if dispatcher is None:
            return  # Another gateway has the partition now, and gets the message.
        death = unreadable_death(delivery, why, time.time())
        fields = {"message": death.delivery_id, "reason": death.reason.value, "failure": why}
        self.scheduler.system_events.tell(DEAD_LETTER, **fields)
        operation = partial(dead_lettering.bury, notification=delivery.notification, death=death)
        dispatcher.settlement.submit(operation, lambda _: delivery.settle())

    # As `Dispatcher` has them, for all partitions or for one.

    def quiet(self, entry: Entry) -> None:
        for dispatcher in self._of.values():
            dispatcher.quiet(entry)

    def resume(self, entry: Entry) -> None:
        for dispatcher in self._of.values():
            dispatcher.resume(entry)

    def obey(self, hosts: Collection[str]) -> None:
        """Do at once what operators have decided about *hosts* now."""
        outboxes = self.all_outboxes()
        silenced = self.scheduler.obey(outboxes, hosts)
        for outbox in silenced:  # What waits in memory would hold up the messaging system.
            self.quiet(outbox.entry)
        for outbox in outboxes:
            if outbox.destination.name[1] in hosts and not outbox.destination.forbidden:
                self.resume(outbox.entry)

    def hasten(self, entry: Entry) -> None:
        for dispatcher in self._of.values():
            dispatcher.hasten(entry)

    def end(self, entry: Entry, *, expired: bool = False) -> None:
        for dispatcher in self._of.values():
            dispatcher.end(entry, expired=expired)

    def add_rows(self, entry: Entry, count: int, octets: int, partition: int) -> None:
        dispatcher = self.of(partition)
        if dispatcher is not None:
            dispatcher.add_rows(entry, count, octets)

    async def settled(self) -> None:
        """Return when all messages that were accepted here until now are settled."""
        await asyncio.gather(*(dispatcher.settled() for dispatcher in self._of.values()))

    def clear_old(self) -> None:
        for dispatcher in self._of.values():
            dispatcher.clear_old()

    def outboxes(self, entry: Entry) -> list[Outbox]:
        """The outboxes of *entry*, one for each partition."""
        found = (dispatcher.outboxes.get(entry) for dispatcher in self._of.values())
        return [outbox for outbox in found if outbox is not None]

    def shrink(self, entries: Iterable[Entry], octets: int) -> None:
        """Bury so many bytes of the backlogs of *entries*, the largest first: their owner keeps too
        much."""
        backlogs = [
            (outbox.octets, dispatcher, outbox)
            for entry in entries
            for dispatcher in self._of.values()
            if (outbox := dispatcher.outboxes.get(entry)) is not None
        ]
        for size, dispatcher, outbox in sorted(backlogs, key=lambda one: one[0], reverse=True):
            if octets <= 0:
                break
            dispatcher.backlog.bound(outbox)
            octets -= size

    def bound_backlogs(self, owners: Collection[str]) -> None:
        """Bury what is beyond the bounds of the backlogs of *owners*, the largest first."""
        backlogs = [
            (outbox.held, dispatcher, outbox)
            for dispatcher in self._of.values()
            for outbox in dispatcher.outboxes.values()
            if outbox.held and outbox.entry.subscription.owner in owners
        ]
        for _, dispatcher, outbox in sorted(backlogs, key=lambda one: one[0], reverse=True):
            dispatcher.backlog.bound(outbox)

    def status(self, entry: Entry) -> DeliveryStatus:
        """The status of the deliveries of *entry*, as far as it is this gateway that delivers."""
        return status_of(entry, self.outboxes(entry), self._elsewhere())

    def failing(self, entries: Iterable[Entry]) -> int:
        """Count those of *entries* that are failing, as `status` says."""
        return len(failing_among(entries, self.all_outboxes(), asyncio.get_running_loop().time()))

    def all_outboxes(self) -> list[Outbox]:
        """The outboxes that there are, of all partitions."""
        return [one for dispatcher in self._of.values() for one in dispatcher.outboxes.values()]

    @property
    def open_breakers(self) -> int:
        """Subscriptions whose own breaker is open: their consumers answer with failures."""
        return sum(dispatcher.outboxes.open_breakers for dispatcher in self._of.values())

    async def counted(self) -> None:
        """Have the store know the counts of this moment, if it can in one."""
        await asyncio.gather(*(dispatcher.settlement.counted() for dispatcher in self._of.values()))

    async def conservation(self) -> Conservation:
        """The conservation law over the store and this gateway's memory."""
        durable, held, letters = await self._store.submit(totals.overall)
        settlements = [dispatcher.settlement for dispatcher in self._of.values()]
        return add_up(settlements, durable, held, letters, self.scheduler.in_flight)

    def metrics(self, entries: Iterable[Entry]) -> Iterator[Sample]:
        """The counts of the dispatchers and their scheduler, in memory, and of *entries*, all that
        they deliver for."""
        scheduler = self.scheduler
        yield gauge("unsettled", "Messages unsettled in the messaging system.", self.unsettled)
        yield gauge(
            "failing_subscriptions",
            "Subscriptions that this gateway delivers for, and whose state is failing.",
            self.failing(entries),
        )
        yield gauge(
            "open_breakers",
            "Destinations and subscriptions to which only a probe is sent now and then.",
            scheduler.open_breakers + self.open_breakers,
        )
        yield counters(
            "attempts",
            "Delivery attempts, by verdict.",
            "verdict",
            {verdict.value: number for verdict, number in scheduler.verdicts.items()},
        )
        if scheduler.of_tenants:
            tried, delivered = Counter[str](), Counter[str]()
            for (tenant, verdict), attempts in scheduler.of_tenants.items():
                tried[tenant] += attempts
                delivered[tenant] += attempts * (verdict == Verdict.DELIVERED.value)
            text = "Delivery attempts for a tenant's subscriptions"
            yield counters("tenant_attempts", f"{text}.", "tenant", tried)
            yield counters("tenant_delivered", f"{text} that succeeded.", "tenant", delivered)
        yield histograms(
            "attempt_seconds",
            "Seconds that delivery attempts took, by verdict.",
            "verdict",
            {verdict.value: seconds for verdict, seconds in scheduler.seconds.items()},
        )
        yield from scheduler.latencies.metrics()
        yield counter(
            "attachments_dropped",
            "Attachments left out for want of a packaging that the consumer reads.",
            scheduler.attachments_dropped,
        )

    async def stop(self, seconds: float) -> None:
        self.heartbeats.close()
        await asyncio.gather(*(dispatcher.stop(seconds) for dispatcher in self._of.values()))


def _waits(entry: Entry) -> bool:
    """Return True if what is published now may wait in the store for *entry*."""
    return not entry.delivery.at_most_once and (entry.holds or not entry.silent)


def _leave(
    notification: Notification, entries: Sequence[Entry], now: int, connection: Connection
) -> None:
    """Leave *notification*, which came *now* (nanoseconds), to the holder of the first
    partition."""
    # Where the first partition is not held nobody gives positions for it.
    position = next_position(0, now, author(number(connection), 0))
    waiting_deliveries.leave(
        connection,
        notification,
        [entry.id for entry in entries],
        position=position,
        octets=notification.octets,
        since=now / 1e9,
    )


def _note_failure(left: "asyncio.Future[None]") -> None:
    if not left.cancelled() and (error := left.exception()) is not None:
        _log.warning("delivery.not-left", error=str(error))


def unreadable_death(delivery: Delivery, why: str, now: float) -> Death:
    """The death of a message that could not be read."""
    notification = delivery.notification
    return Death(
        subscription=NOBODY,
        owner=NOBODY,
        delivery_id=notification.id,
        topic=str(notification.topic) if notification.topic is not None else None,
        reason=DeathReason.UNREADABLE,
        status=None,
        failure=why,
        answer="",
        attempts=0,
        since=notification.time.timestamp(),
        died=now,
        partition=delivery.partition,
    )
