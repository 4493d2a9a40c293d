"""Failing subscriptions, grouped by the host of their consumers."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from gateway.delivery import Dispatchers, Entry
from gateway.delivery.outbox import Outbox
from gateway.delivery.status import DeliveryStatus, failing_among, host_shown
from gateway.subscriptions.table import SubscriptionTable
from gateway.web.consumer_patterns import consumers_beside

HOSTS = 100
"""Hosts that are named: those with the most failing subscriptions."""


@dataclass(slots=True)
class _Group:
    """The failing subscriptions to one host."""

    host: str
    latest: Entry
    """The one of which something failed last."""
    subscriptions: int = 0
    waiting: int = 0


@dataclass(frozen=True, slots=True)
class FailingHost:
    """A host to which deliveries fail.

    Attributes:
        host: Its scheme, name and port; of mailboxes the scheme alone.
        consumers: The pattern of their addresses, to list them.
        waiting: Deliveries that wait for these subscriptions at this gateway.
        subscription: The id of the one of which something failed last, whose *status* it is.
    """

    host: str
    consumers: str
    subscriptions: int
    waiting: int
    subscription: str
    status: DeliveryStatus


@dataclass(frozen=True, slots=True)
class FailingConsumers:
    """Failing subscriptions: how many, of how many hosts, and the hosts with the most."""

    subscriptions: int
    hosts: int
    first: Sequence[FailingHost]


async def failing_consumers(
    table: SubscriptionTable, dispatchers: Dispatchers, *, most: int = HOSTS
) -> FailingConsumers:
    """Group the subscriptions that fail at this gateway by host, *most* of these by name.

    It looks at each subscription, in a thread: at 100,000 of them that takes 50 ms.
    """
    now = asyncio.get_running_loop().time()
    entries, outboxes = list(table.entries), dispatchers.all_outboxes()
    groups = await asyncio.to_thread(_group, entries, outboxes, now)
    groups.sort(key=lambda one: (-one.subscriptions, one.host))
    first = [
        FailingHost(
            one.host,
            consumers_beside(one.latest.subscription.consumer.address),
            one.subscriptions,
            one.waiting,
            one.latest.id,
            dispatchers.status(one.latest),
        )
        for one in groups[:most]
    ]
    return FailingConsumers(sum(one.subscriptions for one in groups), len(groups), first)


def _group(entries: Sequence[Entry], outboxes: Sequence[Outbox], now: float) -> list[_Group]:
    waiting: dict[Entry, int] = {}
    for outbox in outboxes:
        waiting[outbox.entry] = waiting.get(outbox.entry, 0) + outbox.waiting
    groups: dict[str, _Group] = {}
    for entry in failing_among(entries, outboxes, now):
        host = host_shown(entry.target.destination)
        group = groups.setdefault(host, _Group(host, entry))
        group.subscriptions += 1
        group.waiting += waiting.get(entry, 0)
        if _failed_at(entry) > _failed_at(group.latest):
            group.latest = entry
    return list(groups.values())


def _failed_at(entry: Entry) -> float:
    trouble = entry.state.trouble
    return trouble.at if trouble is not None else 0.0
