"""Failing subscriptions, grouped by the host of their consumers."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

from gateway.delivery import Dispatchers, Entry
from gateway.delivery.outbox import Outbox
from gateway.delivery.status import DeliveryStatus, failing_among, host_shown
from gateway.security.principals import tenant_of
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
        waiting: Deliveries that wait for these subscriptions.
        subscription: The id of the one of which something failed last. The rest is of that one:
            *failures* in a row, and times in POSIX seconds.
    """

    host: str
    consumers: str
    subscriptions: int
    waiting: int
    subscription: str
    failures: int
    last_error: str | None
    last_error_at: float | None
    next_attempt: float | None


@dataclass(frozen=True, slots=True)
class FailingConsumers:
    """Failing subscriptions: how many, of how many hosts, and the hosts with the most."""

    subscriptions: int
    hosts: int
    first: Sequence[FailingHost]


async def failing_consumers(
    table: SubscriptionTable,
    dispatchers: Dispatchers,
    *,
    tenant: str | None = None,
) -> FailingConsumers:
    """Group the subscriptions that fail at this gateway by host, `HOSTS` of these by name: all, or
    those of one *tenant*.

    It looks at each subscription, in a thread: at 100,000 of them that takes 50 ms; for a tenant
    but the default one, at its own.
    """
    now = asyncio.get_running_loop().time()
    entries = list(table.entries_of(tenant) if tenant else table.entries)
    outboxes = dispatchers.all_outboxes()
    groups = await asyncio.to_thread(_group, entries, outboxes, now, tenant)
    groups.sort(key=lambda one: (-one.subscriptions, one.host))
    first = [_named(one, dispatchers.status(one.latest)) for one in groups[:HOSTS]]
    return FailingConsumers(sum(one.subscriptions for one in groups), len(groups), first)


def _named(one: _Group, status: DeliveryStatus) -> FailingHost:
    return FailingHost(
        one.host,
        consumers_beside(one.latest.subscription.consumer.address),
        one.subscriptions,
        one.waiting,
        one.latest.id,
        status.failures,
        status.last_error,
        status.last_error_at,
        status.next_attempt or status.breaker_until,
    )


def merge(parts: Sequence[FailingConsumers], *, most: int = HOSTS) -> FailingConsumers:
    """Those of several gateways together.

    Each delivers other messages, of the same subscriptions: which fail at one mostly fail at all,
    so that the number of a host is the greatest that one of them says.
    """
    by_host: dict[str, FailingHost] = {}
    for one in (host for part in parts for host in part.first):
        known = by_host.get(one.host)
        by_host[one.host] = one if known is None else _both(known, one)
    first = sorted(by_host.values(), key=lambda one: (-one.subscriptions, one.host))
    named = sum(one.subscriptions for one in first)
    unnamed = max(part.hosts - len(part.first) for part in parts)
    subscriptions = max(named, *(part.subscriptions for part in parts))
    return FailingConsumers(subscriptions, len(first) + unnamed, first[:most])


def _both(one: FailingHost, other: FailingHost) -> FailingHost:
    """A host that fails at two gateways, with the subscription of which something failed last."""
    latest = max(one, other, key=lambda each: each.last_error_at or 0.0)
    return replace(
        latest,
        subscriptions=max(one.subscriptions, other.subscriptions),
        waiting=one.waiting + other.waiting,
    )


def _group(
    entries: Sequence[Entry], outboxes: Sequence[Outbox], now: float, tenant: str | None
) -> list[_Group]:
    if tenant is not None:
        entries = [one for one in entries if tenant_of(one.subscription.owner) == tenant]
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
