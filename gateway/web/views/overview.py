"""The overview: the state of a gateway as a whole."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from importlib.metadata import version
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from gateway.model.moments import moment_of, moment_or_none
from gateway.observing.rates import STEP, Rate
from gateway.security.resource_addresses import shown
from gateway.sources.sources import Entry
from gateway.store.dead_letter_counts import Died
from gateway.web.failing_consumers import FailingConsumers, FailingHost
from gateway.web.overview import CertificateState, Disk, Overview, SourceStates
from gateway.web.store_counts import Counts


class StoreView(BaseModel, extra="forbid"):
    """The store."""

    kind: str = Field(description="sqlite or postgresql.")
    writable: bool


class DiskView(BaseModel, extra="forbid"):
    """The disk that the store is on, in bytes."""

    folder: str
    size: int
    free: int
    reserve: int = Field(description="Where less is free, publications are refused.")


class BrokerView(BaseModel, extra="forbid"):
    """The messaging system. One within the gateway has no connection: its state is null."""

    adapter: str = Field(description="The scheme of its URL: embedded, memory, amqp, stomp.")
    connected: bool | None = None
    blocked: bool | None = Field(None, description="It is there, but takes no messages.")
    since: datetime | None = Field(None, description="When `connected` changed last.")
    last_error: str | None = None
    last_error_at: datetime | None = None
    stopped_by: str | None = Field(
        None, description="The message that ends one connection after the other."
    )
    queues_gone: list[str] = Field(
        [], description="Queues of the gateway that somebody deleted, with what they held."
    )


class SpoolView(BaseModel, extra="forbid"):
    """The spool: what waits for the messaging system."""

    enabled: bool = Field(description="Whether anything new goes there: the setting `spool`.")
    messages: int
    bytes: int
    most_messages: int
    most_bytes: int
    oldest: datetime | None = Field(description="When the oldest that waits was accepted.")
    refused: int = Field(description="Messages that are set aside.")


class CertificateView(BaseModel, extra="forbid"):
    """A certificate that the gateway shows."""

    use: str = Field(description="To whom it is shown.")
    file: str
    until: datetime | None = Field(description="null: the file cannot be read.")
    days: int | None = Field(description="Whole days that are left; below 0 it has expired.")


class RatesView(BaseModel, extra="forbid"):
    """Rates of the last hour, the oldest first; fewer after a start. All lists are as long. Those
    of other gateways that use the store are added, as of half a minute ago. `accepted` counts
    notifications, `delivered` and `failed` attempts, `refused` requests."""

    step: float = Field(description="Seconds from one value to the next.")
    ended: datetime | None = Field(description="When the last value was taken.")
    accepted: list[float] = Field(description="A second.")
    delivered: list[float] = Field(description="A second.")
    failed: list[float] = Field(description="A second.")
    refused: list[float] = Field(description="A second.")
    p50: list[float | None] = Field(
        description="Seconds within which half of the attempts that delivered were answered; null "
        "where there were none. Of several gateways the mean, weighted by what each delivered."
    )
    p99: list[float | None] = Field(
        description="The same of 99 of 100; of several gateways the greatest."
    )


class WaitingNow(BaseModel, extra="forbid"):
    """What waits now, in the store and in memory."""

    waiting: int
    oldest: datetime | None = Field(description="When the oldest in the store came.")
    in_flight: int = Field(description="Attempts under way, at this gateway.")


class ReasonView(BaseModel, extra="forbid"):
    """Dead letters of one reason."""

    reason: str
    kept: int
    last_hour: int


class DeadLettersView(BaseModel, extra="forbid"):
    """The dead letters."""

    kept: int
    bytes: int
    last_hour: int = Field(description="Of the newest 10,000.")
    by_reason: list[ReasonView] = Field(
        description="The newest 10,000, the reasons with the most first."
    )


class FailingHostView(BaseModel, extra="forbid"):
    """A consumer's host to which deliveries fail."""

    host: str = Field(description="Scheme, name and port; of mailboxes the scheme alone.")
    consumers: str = Field(description="Pass it as `consumer` to list the subscriptions.")
    subscriptions: int
    waiting: int
    subscription: str = Field(
        description="Of these subscriptions the one of which something failed last."
    )
    failures: int = Field(description="Attempts of that subscription in a row that failed.")
    last_error: str | None
    last_error_at: datetime | None
    next_attempt: datetime | None = Field(description="Of that subscription, or of a probe.")


class FailingView(BaseModel, extra="forbid"):
    """Subscriptions that fail, at any gateway of this store, grouped by the host of their
    consumer; those of another gateway were so ten seconds ago."""

    subscriptions: int
    hosts: int
    first: list[FailingHostView] = Field(
        description="At most 100, those with the most subscriptions first."
    )


class FailingSource(BaseModel, extra="forbid"):
    """A source, or a link, whose exchanges fail."""

    id: str
    url: str
    state: str
    failures: int
    last_error: str | None
    last_error_at: datetime | None
    next: datetime | None


class SourcesView(BaseModel, extra="forbid"):
    """Sources, or links."""

    by_state: dict[str, int]
    failing: list[FailingSource] = Field(description="At most 20, those that failed last first.")


_EXAMPLE: dict[str, JsonValue] = {
    "at": "2026-11-27T05:51:08Z",
    "release": "0.1.0",
    "started": "2026-11-24T01:47:00Z",
    "ready": True,
    "draining": False,
    "replica": None,
    "replicas": 1,
    "partitions": [],
    "subscriptions": 120,
    "store": {"kind": "sqlite", "writable": True},
    "disk": {"folder": "/data", "size": 1 << 36, "free": 1 << 35, "reserve": 1 << 26},
    "broker": {
        "adapter": "amqp", "connected": False, "blocked": False, "since": "2026-11-27T05:10:00Z",
        "last_error": "connection refused", "last_error_at": "2026-11-27T05:50:58Z",
        "stopped_by": "", "queues_gone": [],
    },
    "spool": {
        "enabled": True, "messages": 2113, "bytes": 943718, "most_messages": 100_000,
        "most_bytes": 1 << 28, "oldest": "2026-11-27T05:40:01Z", "refused": 0,
    },
    "certificates": [
        {
            "use": "listeners", "file": "/etc/dragoman/tls.pem", "until": "2027-01-07T00:00:00Z",
            "days": 40,
        }
    ],
    "rates": {
        "step": 10.0, "ended": "2026-11-27T05:51:00Z", "accepted": [182.0, 179.5],
        "delivered": [1204.0, 1190.1], "failed": [3.0, 2.9], "refused": [0.1, 0.0],
        "p50": [0.004, 0.004], "p99": [0.08, 0.09],
    },
    "now": {"waiting": 354, "oldest": "2026-11-27T05:39:00Z", "in_flight": 31},
    "dead_letters": {
        "kept": 12, "bytes": 20480, "last_hour": 9,
        "by_reason": [{"reason": "rejected", "kept": 12, "last_hour": 9}],
    },
    "failing": {
        "subscriptions": 6,
        "hosts": 1,
        "first": [
            {
                "host": "http://10.0.4.7:20001", "consumers": "http://10.0.4.7:20001/*",
                "subscriptions": 6, "waiting": 31, "subscription": "90cc41d2ab05", "failures": 7,
                "last_error": "connection refused",
                "last_error_at": "2026-11-27T05:50:20Z", "next_attempt": "2026-11-27T05:51:56Z",
            }
        ],
    },
    "sources": {
        "by_state": {"backing-off": 1, "live": 37},
        "failing": [
            {
                "id": "cam-17", "url": "http://10.0.8.17/onvif/events", "state": "backing-off",
                "failures": 4, "last_error": "answered 401 Unauthorized",
                "last_error_at": "2026-11-27T05:50:00Z", "next": "2026-11-27T05:55:00Z",
            }
        ],
    },
    "links": {"by_state": {}, "failing": []},
}  # fmt: skip


class OverviewView(BaseModel):
    """The state of the gateway. What the store says, `rates` and `failing` count for all gateways
    that use it; `in_flight` is that of the one that answers."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"example": _EXAMPLE})

    at: datetime
    release: str
    started: datetime
    ready: bool
    draining: bool
    replica: str | None = Field(description="Its name; null where nothing is shared.")
    replicas: int = Field(description="Gateways that share the work.")
    partitions: list[int] = Field(description="Those that it holds, where there are several.")
    subscriptions: int
    store: StoreView
    disk: DiskView | None = Field(description="null: the store is a server's.")
    broker: BrokerView
    spool: SpoolView | None = Field(description="null: the store did not answer in time.")
    certificates: list[CertificateView]
    rates: RatesView
    now: WaitingNow | None = Field(description="null: the store did not answer in time.")
    dead_letters: DeadLettersView | None = Field(
        description="null: the store did not answer in time."
    )
    failing: FailingView
    sources: SourcesView
    links: SourcesView


def overview_view(overview: Overview) -> OverviewView:
    """The view of *overview*."""
    ready, counts = overview.ready, overview.counts
    return OverviewView(
        at=moment_of(overview.at),
        release=_release(),
        started=moment_of(overview.started),
        ready=ready["ready"],
        draining=ready["draining"],
        replica=ready.get("replica"),
        replicas=ready.get("replicas", 1),
        partitions=[int(one) for one in ready.get("partitions", ())],
        subscriptions=ready["subscriptions"],
        store=StoreView(kind=overview.store, writable=ready["store"] == "writable"),
        disk=_disk(overview.disk),
        broker=broker_view(ready),
        spool=None if counts is None else _spool(overview, counts),
        certificates=[_certificate(one) for one in overview.certificates],
        rates=_rates(overview.rates),
        now=None if counts is None else _now(overview, counts),
        dead_letters=None if counts is None else _dead_letters(counts),
        failing=failing_view(overview.failing),
        sources=_sources(overview.sources),
        links=_sources(overview.links),
    )


@lru_cache(maxsize=1)
def _release() -> str:
    return version("dragoman")


def _disk(disk: Disk | None) -> DiskView | None:
    if disk is None:
        return None
    return DiskView(folder=str(disk.folder), size=disk.size, free=disk.free, reserve=disk.reserve)


def broker_view(ready: Mapping[str, Any]) -> BrokerView:
    """The view of the messaging system in what ``/readyz`` shows."""
    return BrokerView(adapter=ready["adapter"], **ready.get("broker", {}))


def _spool(overview: Overview, counts: Counts) -> SpoolView:
    settings, size = overview.settings, counts.spool
    return SpoolView(
        enabled=settings.spool,
        messages=size.messages,
        bytes=size.octets,
        most_messages=settings.spool_messages,
        most_bytes=settings.spool_bytes,
        oldest=moment_or_none(size.since),
        refused=size.refused,
    )


def _certificate(state: CertificateState) -> CertificateView:
    return CertificateView(use=state.use, file=str(state.file), until=state.until, days=state.days)


def _rates(rates: Sequence[Rate]) -> RatesView:
    return RatesView(
        step=STEP,
        ended=moment_of(rates[-1].ended) if rates else None,
        accepted=[round(one.accepted, 2) for one in rates],
        delivered=[round(one.delivered, 2) for one in rates],
        failed=[round(one.failed, 2) for one in rates],
        refused=[round(one.refused, 2) for one in rates],
        p50=[None if one.p50 is None else round(one.p50, 4) for one in rates],
        p99=[None if one.p99 is None else round(one.p99, 4) for one in rates],
    )


def _now(overview: Overview, counts: Counts) -> WaitingNow:
    law = counts.conservation
    return WaitingNow(
        waiting=law.waiting, oldest=moment_or_none(counts.oldest), in_flight=overview.in_flight
    )


def _dead_letters(counts: Counts) -> DeadLettersView:
    letters = counts.conservation.letters
    return dead_letters_view(counts.died, kept=letters.kept, octets=letters.octets)


def dead_letters_view(died: Mapping[str, Died], *, kept: int, octets: int) -> DeadLettersView:
    """The view of so many dead letters, of which the newest *died* for these reasons."""
    reasons = [
        ReasonView(reason=reason, kept=one.kept, last_hour=one.lately)
        for reason, one in died.items()
    ]
    reasons.sort(key=lambda one: (-one.kept, one.reason))
    return DeadLettersView(
        kept=kept,
        bytes=octets,
        last_hour=sum(one.last_hour for one in reasons),
        by_reason=reasons,
    )


def failing_view(failing: FailingConsumers) -> FailingView:
    """The view of subscriptions that fail."""
    return FailingView(
        subscriptions=failing.subscriptions,
        hosts=failing.hosts,
        first=[_failing_host(one) for one in failing.first],
    )


def _failing_host(one: FailingHost) -> FailingHostView:
    return FailingHostView(
        host=one.host,
        consumers=one.consumers,
        subscriptions=one.subscriptions,
        waiting=one.waiting,
        subscription=one.subscription,
        failures=one.failures,
        last_error=one.last_error,
        last_error_at=moment_or_none(one.last_error_at),
        next_attempt=moment_or_none(one.next_attempt),
    )


def _sources(states: SourceStates) -> SourcesView:
    return SourcesView(
        by_state=dict(sorted(states.by_state.items())),
        failing=[_failing_source(one) for one in states.failing],
    )


def _failing_source(entry: Entry) -> FailingSource:
    standing = entry.standing
    return FailingSource(
        id=entry.id,
        url=shown(entry.source.url),
        state=entry.state,
        failures=standing.failures,
        last_error=standing.error or None,
        last_error_at=moment_or_none(standing.error_at),
        next=moment_or_none(standing.due),
    )
