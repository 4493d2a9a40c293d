"""Puts the state of a gateway at one moment together: store, disk, broker, consumers, rates."""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from gateway.delivery import Dispatchers
from gateway.observing.rates import Rate
from gateway.security.certificates import validity_of
from gateway.settings.settings import Settings
from gateway.sources.sources import Entry, Sources
from gateway.store import Store, StoreUnavailable
from gateway.store.disk_reserve import reserve_of, size_and_free
from gateway.web.failing_consumers import FailingConsumers, merge
from gateway.web.shared_failures import SharedFailures
from gateway.web.shared_rates import SharedRates
from gateway.web.store_counts import Counting, Counts

WAITED = 0.5
"""Seconds that the store gets to say what it holds, before the overview does without."""
FRESH = 1.0
"""Seconds for which one overview serves all who ask."""
T = TypeVar("T")
FAILING = 20
"""Sources, and links, that are named because they fail."""


@dataclass(frozen=True, slots=True)
class Disk:
    """The disk of the store, in bytes. ``reserve`` is what publications leave free."""

    folder: Path
    size: int
    free: int
    reserve: int


@dataclass(frozen=True, slots=True)
class CertificateState:
    """A certificate that the gateway shows. ``until`` is None where the file cannot be read."""

    use: str
    file: Path
    until: datetime | None
    days: int | None


@dataclass(frozen=True, slots=True)
class SourceStates:
    """Sources, or links: how many are in each state, and those that fail, the latest first."""

    by_state: Mapping[str, int]
    failing: Sequence[Entry]


@dataclass(frozen=True, slots=True)
class Overview:
    """The state of the gateway. ``at`` and ``started`` are POSIX seconds.

    Attributes:
        ready: What ``/readyz`` shows.
        counts: What the store holds; None where it did not say so in time.
    """

    at: float
    started: float
    settings: Settings
    ready: Mapping[str, Any]
    store: str
    disk: Disk | None
    certificates: Sequence[CertificateState]
    rates: Sequence[Rate]
    counts: Counts | None
    in_flight: int
    failing: FailingConsumers
    sources: SourceStates
    links: SourceStates


class Overviews:
    """Makes overviews; one serves all who ask within `FRESH` seconds.

    Args:
        readiness: Returns what ``/readyz`` shows.
        started: When the gateway started, in POSIX seconds.
    """

    def __init__(
        self,
        settings: Settings,
        store: Store,
        dispatchers: Dispatchers,
        sources: Sources,
        rates: SharedRates,
        failures: SharedFailures,
        counting: Counting,
        readiness: Callable[[], Mapping[str, Any]],
        *,
        started: float,
    ) -> None:
        self._settings = settings
        self._store = store
        self._dispatchers = dispatchers
        self._sources = sources
        self._rates = rates
        self._failures = failures
        self._counting = counting
        self._readiness = readiness
        self._started = started
        self._lock = asyncio.Lock()
        self._last: Overview | None = None
        self._until = 0.0

    async def overview(self) -> Overview:
        """The state of this moment, or of one within the last `FRESH` seconds."""
        loop = asyncio.get_running_loop()
        async with self._lock:
            if self._last is None or loop.time() >= self._until:
                self._last = await self._look()
                self._until = loop.time() + FRESH
            return self._last

    async def _look(self) -> Overview:
        settings = self._settings
        counts, rates, own, others, disk, certificates = await asyncio.gather(
            self._in_time(self._counting.counts()),
            self._in_time(self._rates.last_hour()),
            self._failures.own(),
            self._in_time(self._failures.of_others()),
            asyncio.to_thread(_disk, self._store.folder, settings.store_reserve),
            asyncio.to_thread(lambda: list(_certificates(settings))),
        )
        links = [one for one in self._sources.entries if one.source.channel is not None]
        sources = [one for one in self._sources.entries if one.source.channel is None]
        return Overview(
            at=time.time(),
            started=self._started,
            settings=settings,
            ready=self._readiness(),
            store="postgresql" if self._store.may_be_shared else "sqlite",
            disk=disk,
            certificates=certificates,
            rates=rates or (),
            counts=counts,
            in_flight=self._dispatchers.scheduler.in_flight,
            failing=merge([own, *(others or ())]),
            sources=_states(sources),
            links=_states(links),
        )

    @staticmethod
    async def _in_time(asked: Awaitable[T]) -> T | None:
        """The answer of the store; None where it does not come in time."""
        with contextlib.suppress(StoreUnavailable, TimeoutError):
            async with asyncio.timeout(WAITED):
                return await asked
        return None


def _disk(folder: Path | None, reserve: int | None) -> Disk | None:
    """The disk that *folder* is on; None where the store is a server, or it cannot be asked."""
    if folder is None:
        return None
    try:
        size, free = size_and_free(folder)
    except OSError:
        return None
    return Disk(folder, size, free, reserve_of(size) if reserve is None else reserve)


def _certificates(settings: Settings) -> Iterator[CertificateState]:
    now = datetime.now(UTC)
    for use, path in _shown(settings):
        try:
            validity = validity_of(path)
        except (OSError, ValueError):
            yield CertificateState(use, path, None, None)
        else:
            yield CertificateState(use, path, validity.until, validity.days_left(now))


def _shown(settings: Settings) -> Iterator[tuple[str, Path]]:
    """The files of the certificates that peers are shown, and what each is for."""
    if settings.tls_certificate is not None:
        yield "listeners", settings.tls_certificate
    yield from ((f"listeners, for {row.name}", row.certificate) for row in settings.tls_names)
    if settings.egress_certificate is not None:
        yield "consumers", settings.egress_certificate
    for row in settings.consumers:
        if row.client_certificate is not None:
            yield f"consumers at {row.address}", row.client_certificate


def _states(entries: Iterable[Entry]) -> SourceStates:
    entries = list(entries)
    failing = [one for one in entries if one.standing.failures]
    failing.sort(key=lambda one: one.standing.error_at or 0.0, reverse=True)
    return SourceStates(Counter(one.state for one in entries), failing[:FAILING])
