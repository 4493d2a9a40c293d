"""Subscriptions to events of the gateway itself: who may have them, and how they get them."""

import asyncio
from collections.abc import Callable, Iterator

from adapters import AdapterState
from filters import Filter, FilterSet, Reason, Refused
from gateway.delivery import Dispatchers, Entry
from gateway.observing.samples import Sample
from gateway.observing.system_events import AWAY, BACK, SystemEvents, asks_for_system_topics
from gateway.security.principals import Principal
from gateway.subscriptions.table import SubscriptionTable
from mediation.model.messages import Notification
from mediation.rendering import filter_event_of
from mediation.tenants import tenant_of_source

LOOK = 1.0
"""Seconds from one look at the connection to the broker to the next."""

MayRead = Callable[[str, str], bool]
"""Whether an owner may be told of what another owner has; empty: of the gateway."""


class SystemTopics:
    """Delivers events of the gateway to those who subscribed to them, from memory: what is under
    way when the gateway ends is lost, what waits for a consumer is held in the store.

    Args:
        may_read: Asked at Subscribe and for each event: who loses the right gets nothing more.
        state: Returns that of the connection to the broker; None where there is none.
    """

    def __init__(
        self,
        events: SystemEvents,
        table: SubscriptionTable,
        dispatchers: Dispatchers,
        may_read: MayRead,
        state: Callable[[], AdapterState | None],
        look: float = LOOK,
    ) -> None:
        self._look = look
        self._events = events
        self._table = table
        self._dispatchers = dispatchers
        self._may_read = may_read
        self._state = state
        self._filters: FilterSet[str] = FilterSet()
        table.observe(self._changed)

    def check(self, filter: Filter, principal: Principal) -> None:
        """Refuse a *filter* for events that *principal* may not have.

        Raises:
            Refused: ``NOT_ALLOWED``.
        """
        if asks_for_system_topics(filter) and not self._may_read(principal.owner, ""):
            raise Refused(
                Reason.NOT_ALLOWED,
                "Topics of the gateway's own events are for those with the right to read.",
            )

    def _changed(self, entry: Entry, by: int) -> None:
        """Note that *entry* has come or gone."""
        key, filter_ = entry.subscription.key, entry.subscription.filter
        if not asks_for_system_topics(filter_):
            return
        if by > 0:
            self._filters.add(key, filter_)
        elif key in self._filters:
            self._filters.remove(key)
        self._events.wanted = len(self._filters) > 0

    async def run(self) -> None:
        """Deliver events, for ever."""
        await self._events.run(self._deliver)

    async def watch(self) -> None:
        """Tell when the broker is away, and when it is back, for ever."""
        connected = True
        while True:
            state = self._state()
            if state is not None and state.connected is not connected:
                connected = state.connected
                error = None if connected else state.last_error or None
                self._events.tell(BACK if connected else AWAY, error=error)
            await asyncio.sleep(self._look)

    async def _deliver(self, notification: Notification, about: str) -> None:
        # What is too dear to be matched at once does not match: an event has few elements.
        keys = self._filters.begin(filter_event_of(notification)).keys
        entries = [
            entry
            for entry in self._table.matching(keys)
            if self._may_read(entry.subscription.owner, about)
        ]
        if entries:
            tenant = tenant_of_source(notification.source)
            await self._dispatchers.wait_for_capacity(tenant)
            self._dispatchers.accept_here(notification, entries)

    def metrics(self) -> Iterator[Sample]:
        """Events that were told, and lost."""
        return self._events.metrics()
