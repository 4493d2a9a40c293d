"""Channels of programs: publishers with leases, which keep them in memory alone.

After a restart nobody is subscribed; whoever renews is again.
"""

import asyncio
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Self
from urllib.parse import urlsplit

from filters import Event as FilterEvent
from filters import FilterSet, Reason
from gateway.client.calling import Caller
from gateway.client.errors import GatewayError
from gateway.client.grid_events.events import TYPES, Event, EventTypes
from gateway.client.grid_events.publishing import call as call_port
from gateway.client.grid_events.serving import Called
from mediation.grid_events import (
    CHANNEL,
    HandleEvent,
    Port,
    SubscribeLease,
    filter_of,
    write_handle_event,
    write_handled,
    write_leased,
    write_payload,
)
from mediation.grid_events import Event as WireEvent
from mediation.model.errors import MediationError

SHORTEST, LONGEST = timedelta(seconds=10), timedelta(hours=24)
DEFAULT = timedelta(minutes=10)
"""For who asks for 0 or less."""
MOST = 1000
"""Listeners."""
SECONDS = 10.0
"""For a listener to answer."""
_MILLISECOND = timedelta(milliseconds=1)


def over_http(location: str) -> bool:
    """Whether a location is one of HTTP, whoever it belongs to."""
    try:
        parts = urlsplit(location)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname)


@dataclass(slots=True)
class _Lease:
    listener: SubscribeLease
    ends: float
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)


class LeasingPublisher(Called):
    """A publisher with listeners, each as long as its lease.

    Args:
        allowed: Which locations may be called; whoever reaches this publisher can have it call any
            of them.
        shortest: Leases that are asked to be shorter are as long.
        failed: Told of each event that a listener did not take, which is lost to it.
    """

    def __init__(
        self,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        shown: str | None = None,
        types: EventTypes = TYPES,
        binding: str = CHANNEL,
        allowed: Callable[[str], bool] = over_http,
        shortest: timedelta = SHORTEST,
        failed: Callable[[Port, GatewayError], None] | None = None,
    ) -> None:
        super().__init__(binding, host, port, shown=shown)
        self._types, self._allowed, self._failed = types, allowed, failed
        self._shortest = shortest
        self._leases: dict[Hashable, _Lease] = {}
        self._filters: FilterSet[Hashable] = FilterSet()
        self._caller = Caller(timeout=SECONDS)

    def __len__(self) -> int:
        """How many listeners there are."""
        self._prune()
        return len(self._leases)

    async def __aenter__(self) -> Self:
        await self._caller.__aenter__()
        return await super().__aenter__()

    async def __aexit__(self, *error: object) -> None:
        await super().__aexit__(*error)
        await self._caller.__aexit__(*error)

    async def publish(self, event: Event) -> int:
        """Call all listeners that want *event*, at the same time; how many took it. Events of
        one caller come to each listener in their order."""
        return await self._publish(self._types.write(event))

    async def perform(self, call: HandleEvent | SubscribeLease) -> bytes:
        if isinstance(call, SubscribeLease):
            return write_leased(call, self._lease(call) // _MILLISECOND)
        raise MediationError(Reason.MESSAGE_INVALID, "This is a publisher, and no channel.")

    def _lease(self, call: SubscribeLease) -> timedelta:
        """Grant a lease, or move that of the same listener."""
        if not self._allowed(call.listener.location):
            raise MediationError(Reason.EPR_INVALID, "The listener's location is not allowed.")
        self._prune()
        asked = call.milliseconds
        longest = LONGEST // _MILLISECOND
        wanted = timedelta(milliseconds=min(asked, longest)) if asked > 0 else DEFAULT
        granted = max(wanted, self._shortest)
        ends = asyncio.get_running_loop().time() + granted.total_seconds()
        key = (call.listener, repr(call.pattern), call.handback)
        known = self._leases.get(key)
        if known is not None:
            known.ends, known.listener = ends, call
            return granted
        if len(self._leases) >= MOST:
            raise MediationError(Reason.QUOTA, f"There are {MOST} listeners already.")
        self._filters.add(key, filter_of(call.pattern))
        self._leases[key] = _Lease(call, ends)
        return granted

    def _prune(self) -> None:
        """Forget whose lease is over."""
        now = asyncio.get_running_loop().time()
        for key in [key for key, lease in self._leases.items() if lease.ends <= now]:
            del self._leases[key]
            self._filters.remove(key)

    async def _publish(self, event: WireEvent) -> int:
        self._prune()
        keys = self._filters.match(FilterEvent(write_payload(event), topic=event.topic))
        leases = [self._leases[key] for key in keys]
        return sum(await asyncio.gather(*(self._deliver(lease, event) for lease in leases)))

    async def _deliver(self, lease: _Lease, event: WireEvent) -> bool:
        to = lease.listener
        handed = replace(event, handback=to.handback)
        headers, octets = write_handle_event(
            handed, binding=to.listener.binding, types=to.types, generation=to.generation
        )
        async with lease.turn:
            try:
                await call_port(self._caller, to.listener, headers, octets)
            except GatewayError as error:
                if self._failed is not None:
                    self._failed(to.listener, error)
                return False
        return True


class EventChannel(LeasingPublisher):
    """A channel: what it is called with, its listeners are called with, before it answers. Events
    of types without a class pass, too."""

    async def perform(self, call: HandleEvent | SubscribeLease) -> bytes:
        if not isinstance(call, HandleEvent):
            return await super().perform(call)
        await self._publish(call.event)
        return write_handled(call)
