"""The pump: hands each message of the messaging system to the dispatcher, with its matches.

adapter.deliveries() --> keys that match --> their subscriptions --> dispatcher.accept()
|                                              |
+-- filters over their budget, counted         +-- no capacity: the tenant's messages wait, and
                                                   the adapter, when its window is full
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeAlias

import structlog

from adapters import Delivery, Matched, XPathFilterAdapter
from filters import Filter, Topic
from gateway.delivery import Dispatchers, Entry
from gateway.model.channels import CHANNEL_PROPERTY
from gateway.observing.samples import Sample, counter, gauge
from gateway.observing.system_events import is_system_topic
from gateway.store import StoreUnavailable
from gateway.subscriptions.filter_budgets import FilterBudgets
from gateway.subscriptions.table import SubscriptionTable
from mediation.grid_events import VIA_PROPERTY
from mediation.model.messages import Notification, Rights
from mediation.tenants import tenant_of_source

if TYPE_CHECKING:
    from gateway.observing.spans import Spans

RETRY = 1.0
"""Seconds after which the store is asked again who may get a message."""
NOT_ACCEPTED = "it could not be handed on, by an error of the gateway, which is in its log"
_log = structlog.get_logger("dragoman")


class InternalSubscriber(Protocol):
    """A part of the gateway itself that subscribes.

    Attributes:
        key: That of its filter, which no subscription has.
    """

    key: str

    def accept(self, delivery: Delivery) -> None:
        """Take on a message; it is settled when it is done with."""


class Guard(Protocol):
    """Decides who may publish, and who gets, messages on topics that are somebody's."""

    def now(self) -> datetime:
        """The time by which a message is judged, even if the judgement takes longer."""

    def guards(self, topic: Topic) -> bool: ...

    async def may_be_delivered(self, notification: Notification, *, came: datetime) -> bool: ...

    def may_get(self, topic: Topic, rights: Rights | None, filter: Filter, owner: str) -> bool: ...


MayPublish: TypeAlias = Callable[[Notification], bool]
"""Whether who published a message natively had a right to its topic, by the rules."""
MayReceive: TypeAlias = Callable[[str, Topic | None], bool]
"""Whether the owner of a subscription may get what is published on a topic, by the rules."""


class Matching:
    """Hands each message of *adapter* to the dispatcher, with the subscriptions that match it.

    Args:
        inside: Parts of the gateway itself that get messages, by topic.
        guard: None: all topics are everybody's.
        spans: Tells the trace of each message; None where none is told.
        may_receive: None: there are no rules. Asked for each event that a subscription matches, so
            that who loses a right gets nothing more.
        may_publish: None: there are no rules. Asked for each event: of what came over the gateway,
            that was asked when it came.
    """

    def __init__(
        self,
        adapter: XPathFilterAdapter,
        table: SubscriptionTable,
        dispatchers: Dispatchers,
        budgets: FilterBudgets,
        inside: Mapping[Topic, InternalSubscriber] | None = None,
        guard: Guard | None = None,
        may_receive: MayReceive | None = None,
        spans: "Spans | None" = None,
        may_publish: MayPublish | None = None,
    ) -> None:
        self._spans = spans
        self._may_publish = may_publish
        self._adapter = adapter
        self._table = table
        self._dispatchers = dispatchers
        self._budgets = budgets
        self._inside = inside or {}
        self._guard = guard
        self._may_receive = may_receive
        self.withheld = 0
        """Messages whose publishers had no right to their topics: they go to nobody."""
        self._waiting: dict[str, deque[Matched]] = {}
        """Messages for which there is no capacity, by tenant: no more than the adapter's window."""

    async def run(self) -> None:
        """Pump until the adapter is closed."""
        tasks: dict[str, asyncio.Task[None]] = {}
        try:
            async for matched in self._adapter.deliveries():
                tenant = tenant_of_source(matched.delivery.notification.source)
                waiting = self._waiting.get(tenant)
                if waiting is not None:
                    waiting.append(matched)
                elif self._dispatchers.has_capacity(tenant):
                    await self._hand(matched)
                else:
                    self._waiting[tenant] = deque([matched])
                    tasks[tenant] = asyncio.create_task(self._hand_waiting(tenant))
        finally:
            for task in tasks.values():
                task.cancel()
            await asyncio.gather(*tasks.values(), return_exceptions=True)

    async def _hand_waiting(self, tenant: str) -> None:
        """Hand the messages of a *tenant* as there is capacity: those of others need not wait."""
        waiting = self._waiting[tenant]
        while waiting:
            await self._dispatchers.wait_for_capacity(tenant)
            await self._hand(waiting.popleft())
        del self._waiting[tenant]

    async def _hand(self, matched: Matched) -> None:
        accepted = False
        try:
            if matched.unreadable:
                self._dispatchers.bury_unreadable(matched.delivery, matched.unreadable)
                return
            notification = matched.delivery.notification
            if self._may_publish is not None and not self._may_publish(notification):
                self.withheld += 1
                matched = replace(matched, keys=(), over_budget=(), unevaluated=())
            topic = notification.topic
            inside = self._inside.get(topic) if topic is not None else None
            if CHANNEL_PROPERTY in matched.delivery.notification.properties:
                inside = None  # Events at a channel are for those at it.
            # Of the parts of a message, one alone has the key.
            if inside is not None and inside.key in matched.keys:
                matched = self._hand_inside(matched, inside)
            if is_system_topic(topic):  # A native program's, which is not the gateway.
                matched = replace(matched, keys=(), over_budget=(), unevaluated=())
            if self._guard is not None and topic is not None and self._guard.guards(topic):
                matched = await self._entitled(matched, topic, self._guard)
            self._accept(matched)
            accepted = True
            if self._spans is not None:
                self._spans.matched(matched.delivery.notification, len(matched.keys))
        except Exception:
            _log.exception("delivery.not-accepted")
            if accepted:
                return
            # Unsettled it would take room in the messaging system's window until a restart, and
            # come again after it.
            with contextlib.suppress(Exception):
                self._dispatchers.bury_unreadable(matched.delivery, NOT_ACCEPTED)

    def _hand_inside(self, matched: Matched, inside: InternalSubscriber) -> Matched:
        """Hand a message to the part of the gateway that wants it. Returns the delivery for the
        others, with whom its settlement is shared."""
        delivery = matched.delivery
        if self._dispatchers.of(delivery.partition) is None:
            return matched  # Another gateway has the partition now, and all that wants it.
        others, own = shared_settlement(delivery, 2)
        inside.accept(own)
        return replace(matched, delivery=others)

    async def _entitled(self, matched: Matched, topic: Topic, guard: Guard) -> Matched:
        """Cut *matched* down to the subscriptions that may get it; to none if its publisher had no
        right to the topic."""
        if not await self._may_be_delivered(matched.delivery.notification, guard):
            self.withheld += 1
            return replace(matched, keys=(), over_budget=(), unevaluated=())

        channel = matched.delivery.notification.properties.get(CHANNEL_PROPERTY, "")

        def those(keys: Iterable[str]) -> list[str]:
            entries = [entry.subscription for entry in self._table.matching(keys, channel)]
            return [
                one.key
                for one in entries
                if guard.may_get(topic, one.policy.rights, one.filter, one.owner)
            ]

        return replace(
            matched,
            keys=those(matched.keys),
            over_budget=those(matched.over_budget),
            unevaluated=those(matched.unevaluated),
        )

    async def _may_be_delivered(self, notification: Notification, guard: Guard) -> bool:
        """Ask *guard*, again until the store is there; the messages behind this one wait, too."""
        came = guard.now()
        while True:
            try:
                return await guard.may_be_delivered(notification, came=came)
            except StoreUnavailable as error:
                _log.warning("delivery.waits", why=str(error))
                await asyncio.sleep(RETRY)

    def _accept(self, matched: Matched) -> None:
        properties = matched.delivery.notification.properties
        matching: Callable[[Iterable[str]], list[Entry]] = self._table.matching
        channel, passed = properties.get(CHANNEL_PROPERTY), properties.get(VIA_PROPERTY)
        if channel is not None:
            matching = partial(self._table.matching, channel=channel)
        if passed is not None:
            matching = partial(self._onwards, frozenset(passed.split()), matching)
        if self._may_receive is not None:
            topic = matched.delivery.notification.topic
            matching = partial(self._permitted, topic, self._may_receive, matching)
        if not (matched.over_budget or matched.unevaluated):
            self._dispatchers.accept(matched.delivery, matching(matched.keys))
            return
        offenders, others = matching(matched.over_budget), matching(matched.unevaluated)
        self._dispatchers.accept(matched.delivery, matching(matched.keys), offenders + others)
        message = matched.delivery.notification.id
        for entry in offenders:
            self._budgets.exceeded_now(entry, message)
        for entry in others:
            self._budgets.unevaluated(entry, message)

    def _permitted(
        self,
        topic: Topic | None,
        may_receive: MayReceive,
        matching: Callable[[Iterable[str]], list[Entry]],
        keys: Iterable[str],
    ) -> list[Entry]:
        """The entries that *matching* finds of *keys* whose owners may get what is on *topic*."""
        return [entry for entry in matching(keys) if may_receive(entry.subscription.owner, topic)]

    def _onwards(
        self,
        passed: frozenset[str],
        matching: Callable[[Iterable[str]], list[Entry]],
        keys: Iterable[str],
    ) -> list[Entry]:
        """The entries that *matching* finds of *keys*, but for those at an address that the event
        has *passed*: nothing goes back to where it came from."""
        return [
            entry
            for entry in matching(keys)
            if passed.isdisjoint((entry.subscription.consumer.address, entry.target.url))
        ]

    def metrics(self) -> Iterator[Sample]:
        """The messages that wait for slow filters or for room in delivery, and the connection to
        the broker, where the adapter says how it is."""
        waiting = self._adapter.deferred + sum(map(len, self._waiting.values()))
        yield gauge("unsettled", "Messages unsettled in the messaging system.", waiting)
        if self._guard is not None or self._may_publish is not None:
            yield counter(
                "withheld", "Messages withheld: no right to publish on the topic.", self.withheld
            )
        state = self._adapter.state
        if state is None:
            return
        yield gauge("adapter_up", "Whether the broker is connected to.", state.connected)
        yield gauge(
            "adapter_blocked",
            "Whether the broker is there, but takes no messages.",
            state.blocked,
        )
        yield counter("adapter_reconnects", "Connections opened again.", state.reconnects)
        yield counter("wrapped", "Native messages that were no XML.", state.wrapped)
        yield counter(
            "unreadable", "Native messages that could not be read: dead letters.", state.unreadable
        )


class _Count:
    """The number of takers that have yet to settle a delivery."""

    __slots__ = ("delivery", "left")

    def __init__(self, delivery: Delivery, left: int) -> None:
        self.delivery = delivery
        self.left = left

    def less(self) -> None:
        self.left -= 1
        if self.left == 0:
            try:
                self.delivery.settle()
            except Exception:  # Of a third party's adapter: it comes again, and others go on.
                _log.exception("delivery.not-settled")


class PartDelivery:
    """A delivery as one of several has it."""

    __slots__ = ("_count", "_settled")

    def __init__(self, count: _Count) -> None:
        self._count = count
        self._settled = False

    @property
    def notification(self) -> Notification:
        return self._count.delivery.notification

    @property
    def partition(self) -> int:
        return self._count.delivery.partition

    @property
    def redelivered(self) -> bool:
        return self._count.delivery.redelivered

    def settle(self) -> None:
        if not self._settled:
            self._settled = True
            self._count.less()


def shared_settlement(delivery: Delivery, number: int) -> list[PartDelivery]:
    """*delivery* for *number* takers, each of which settles its own."""
    count = _Count(delivery, number)
    return [PartDelivery(count) for _ in range(number)]
