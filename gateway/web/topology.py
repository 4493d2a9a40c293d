"""Summarises what flows through a gateway: from publishers by dialect, on topics, through the
messaging system, to the hosts of subscribers.

Everything is counted from what is kept anyway: the traces of the last 10,000 messages, the last
attempts of each subscription, the table of subscriptions. No message costs anything for it.
"""

import asyncio
import heapq
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from gateway.delivery import Dispatchers, Entry
from gateway.delivery.outbox import Outbox
from gateway.delivery.status import failing_among, host_shown
from gateway.observing.traces import KEPT, Trace
from gateway.subscriptions.table import SubscriptionTable
from gateway.web.consumer_patterns import consumers_beside
from mediation.names import PUBLISHER

SECONDS = 300.0
"""The time that rates are the means of; less where the last 10,000 messages came in less."""
FRESH = 1.0
"""Seconds for which what was counted serves all who ask."""
NAMED = 5
"""Publishers of a dialect that are named."""
ELSEWHERE = "elsewhere"
"""The dialect of what was not accepted here, but came through the messaging system or another
gateway; when it came is not kept."""
T = TypeVar("T")
Flows = Counter[tuple[str, str, str]]
"""Messages by dialect, publisher and topic."""


@dataclass(frozen=True, slots=True)
class PublisherGroup:
    """The publishers of one dialect; *rate* is None where it is not known."""

    dialect: str
    rate: float | None
    publishers: Sequence[str]
    more: int


@dataclass(frozen=True, slots=True)
class TopicFlow:
    """A topic, empty for messages without one, and its messages a second."""

    topic: str
    rate: float


@dataclass(frozen=True, slots=True)
class Edge:
    """Messages a second of a dialect on a topic; None: on all topics that are not named."""

    dialect: str
    topic: str | None
    rate: float


@dataclass(slots=True)
class ConsumerHost:
    """A host that subscribers are at.

    Attributes:
        consumers: The pattern of their addresses, to list the subscriptions.
        waiting: Deliveries that wait for them here.
        rate: Attempts a second.
    """

    host: str
    consumers: str
    subscriptions: int = 0
    failing: int = 0
    waiting: int = 0
    rate: float = 0.0


@dataclass(frozen=True, slots=True)
class Rest:
    """How many are not named, and their rate."""

    number: int
    rate: float


@dataclass(frozen=True, slots=True)
class Topology:
    """What flows. ``seconds`` is the time that rates are the means of."""

    at: float
    seconds: float
    publishers: Sequence[PublisherGroup]
    topics: Sequence[TopicFlow]
    more_topics: Rest
    edges: Sequence[Edge]
    ready: Mapping[str, Any]
    queues: Sequence[str]
    unsettled: int
    hosts: Sequence[ConsumerHost]
    more_hosts: Rest
    subscriptions: int


@dataclass(frozen=True, slots=True)
class _Counted:
    """What one look at the gateway found."""

    at: float
    seconds: float
    flows: Flows
    hosts: Sequence[ConsumerHost]


class Topologies:
    """Makes topologies; one look at the gateway serves all who ask within `FRESH` seconds.

    Args:
        readiness: Returns what ``/readyz`` shows.
        queues: The messaging system's, by name.
        started: When the gateway started, in POSIX seconds.
    """

    def __init__(
        self,
        table: SubscriptionTable,
        dispatchers: Dispatchers,
        readiness: Callable[[], Mapping[str, Any]],
        queues: Sequence[str],
        *,
        started: float,
    ) -> None:
        self._table = table
        self._dispatchers = dispatchers
        self._readiness = readiness
        self._queues = queues
        self._started = started
        self._lock = asyncio.Lock()
        self._last: _Counted | None = None
        self._until = 0.0

    async def topology(self, *, most: int, dialect: str | None = None) -> Topology:
        """What flows, with at most *most* topics and hosts by name.

        Args:
            dialect: Only what publishers of this dialect sent, and the topics of that.
        """
        counted = await self._fresh()
        flows = {key: n for key, n in counted.flows.items() if dialect in (None, key[0])}
        topics = _topics(flows, counted.seconds)
        named = heapq.nlargest(most, topics, key=lambda one: (one.rate, one.topic))
        hosts = counted.hosts
        return Topology(
            at=counted.at,
            seconds=counted.seconds,
            publishers=_publishers(flows, counted.seconds),
            topics=named,
            more_topics=_rest(topics, named, lambda one: one.rate),
            edges=_edges(flows, {one.topic for one in named}, counted.seconds),
            ready=self._readiness(),
            queues=self._queues,
            unsettled=self._dispatchers.unsettled,
            hosts=hosts[:most],
            more_hosts=_rest(hosts, hosts[:most], lambda one: one.rate),
            subscriptions=len(self._table),
        )

    async def _fresh(self) -> _Counted:
        loop = asyncio.get_running_loop()
        async with self._lock:
            if self._last is None or loop.time() >= self._until:
                self._last = await self._count()
                self._until = loop.time() + FRESH
            return self._last

    async def _count(self) -> _Counted:
        """Copy what is kept, and count it in a thread."""
        now, loop_now = time.time(), asyncio.get_running_loop().time()
        scheduler = self._dispatchers.scheduler
        traces = scheduler.traces.snapshot()
        since = max(now - SECONDS, self._started)
        rates = scheduler.attempts.rates(since, now)
        entries, outboxes = list(self._table.entries), self._dispatchers.all_outboxes()
        seconds, flows = await asyncio.to_thread(_flows, traces, now, since)
        hosts = await asyncio.to_thread(_hosts, entries, outboxes, rates, loop_now)
        return _Counted(now, seconds, flows, hosts)


def _flows(traces: Sequence[Trace], now: float, since: float) -> tuple[float, Flows]:
    """The seconds since when all messages are among *traces*, at most those from *since* to *now*,
    and the messages of that time."""
    times = [one.accepted for one in traces if one.accepted is not None]
    if len(traces) >= KEPT and times:
        since = max(since, min(times))
    flows: Flows = Counter()
    for one in traces:
        topic = str(one.topic or "")
        if one.accepted is None:
            flows[ELSEWHERE, "", topic] += 1
        elif one.accepted >= since:
            flows[one.dialect, one.by.removeprefix(PUBLISHER), topic] += 1
    return max(now - since, 1.0), flows


def _publishers(flows: Mapping[tuple[str, str, str], int], seconds: float) -> list[PublisherGroup]:
    """The publishers of *flows*, the dialects with the most messages first."""
    of_dialect: dict[str, Counter[str]] = {}
    for (dialect, by, _), number in flows.items():
        of_dialect.setdefault(dialect, Counter())[by] += number
    groups = []
    for dialect, publishers in of_dialect.items():
        names = [name for name, _ in publishers.most_common() if name]
        rate = None if dialect == ELSEWHERE else publishers.total() / seconds
        groups.append(PublisherGroup(dialect, rate, names[:NAMED], max(0, len(names) - NAMED)))
    return sorted(groups, key=lambda one: (-(one.rate or 0.0), one.dialect))


def _topics(flows: Mapping[tuple[str, str, str], int], seconds: float) -> list[TopicFlow]:
    numbers: Counter[str] = Counter()
    for (dialect, _, topic), number in flows.items():
        numbers[topic] += 0 if dialect == ELSEWHERE else number
    return [TopicFlow(topic, number / seconds) for topic, number in numbers.items()]


def _edges(
    flows: Mapping[tuple[str, str, str], int], named: set[str], seconds: float
) -> list[Edge]:
    numbers: Counter[tuple[str, str | None]] = Counter()
    for (dialect, _, topic), number in flows.items():
        numbers[dialect, topic if topic in named else None] += 0 if dialect == ELSEWHERE else number
    return [Edge(*key, number / seconds) for key, number in numbers.items()]


def _hosts(
    entries: Iterable[Entry], outboxes: Sequence[Outbox], rates: Mapping[str, float], now: float
) -> list[ConsumerHost]:
    """The hosts of all subscribers, those that are sent the most first."""
    waiting: Counter[Entry] = Counter()
    for outbox in outboxes:
        waiting[outbox.entry] += outbox.waiting
    hosts: dict[str, ConsumerHost] = {}
    entries = list(entries)
    failing = set(failing_among(entries, outboxes, now))
    for entry in entries:
        name = host_shown(entry.target.destination)
        host = hosts.get(name)
        if host is None:
            address = entry.subscription.consumer.address
            host = hosts[name] = ConsumerHost(name, consumers_beside(address))
        host.subscriptions += 1
        host.failing += entry in failing
        host.waiting += waiting[entry]
        host.rate += rates.get(entry.id, 0.0)
    return sorted(hosts.values(), key=lambda one: (-one.rate, -one.subscriptions, one.host))


def _rest(all_: Sequence[T], named: Sequence[T], rate: Callable[[T], float]) -> Rest:
    left = sum(map(rate, all_)) - sum(map(rate, named))
    return Rest(len(all_) - len(named), max(0.0, left))
