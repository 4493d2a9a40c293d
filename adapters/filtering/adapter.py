"""The filter adapter: subscriptions in front of any messaging system, by topic and by content."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic
from types import MappingProxyType

from adapters.filtering.delegation import split_delegated
from adapters.filtering.observed import ObservedDelivery
from adapters.filtering.slow_filters import MOST, Evaluated, Matched, Share, SlowFilters
from adapters.filtering.tenant_delivery import TenantDelivery
from adapters.filtering.unwanted import settle_unwanted
from adapters.protocol import (
    EVERYTHING_WANTED,
    Adapter,
    AdapterState,
    AdapterUnavailable,
    Capabilities,
    Delivery,
    Interest,
)
from adapters.tenant_admission import TenantAdmission
from filters import (
    Filter,
    FilterError,
    FilterSet,
    Matching,
    Question,
    Reason,
    TopicPattern,
    View,
    compile,
    parse_expression,
)
from mediation.filtering import PAYLOAD_PATHS, PRODUCER_VIEWS, of_producer
from mediation.model.messages import Notification
from mediation.rendering import filter_event_of
from mediation.tenants import all_topics_of, as_its_tenant_knows_it, tenant_of_topic

logger = logging.getLogger(__name__)

NOT_CHECKED = "it could not be checked, by an error of the gateway, which is in its log"
TURN = 32
"""Messages that are matched in a row before other tasks of the event loop run."""
TURN_SECONDS = 0.0005
"""While there are several tenants: seconds for which messages are matched, and their deliveries
begun, in a row. A turn of 32 messages of a tenant with 20 consumers each takes 0.1 s, for which no
other tenant's event is taken."""
NO_TENANTS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class _AllOf:
    """The need of the filters of a tenant: all events of that tenant."""

    tenant: str


_Wanted = TopicPattern | Interest | _AllOf | None
"""The need of a filter: topics, an interest that the system evaluates itself, all of a tenant, or
(None) everything."""


@dataclass(slots=True)
class _Reference:
    """An interest that the system has, and how many filters need it."""

    interest: Interest
    filters: int = 0


class XPathFilterAdapter:
    """Wraps an adapter, and is the one place that knows subscriptions, by key.

    The system is asked for topics alone, one interest for all filters that mean the same topics.
    Each message that it yields is matched once against all filters here. The exception are
    expressions in a dialect of the system's own: it evaluates these itself, and yields the message
    once more for each; the rest of such filters is matched then.

    Each tenant but the default one has a filter set of its own, which alone its events are matched
    against; of the system it wants all of its events.

    Args:
        settled: Called with each notification when it is settled; must neither raise nor block.
            With it the system is asked for everything, whatever is subscribed to.
        refresh: Awaited before a message is matched: it adds subscriptions that other gateways took
            before the message was published.
        share_of: Returns the share that a key's filter belongs to
            (`adapters.filtering.slow_filters`).
        once: Awaited before a message is matched, where it is there: returns its delivery, or one
            in place of it; None where nobody is to get the message, which is settled then.
        passes: Awaited, in place of *once*, for what is yielded for a filter in a dialect of the
            system's own: returns False where nobody is to get it.
        producer: Awaited before a message is matched, where some filter has conditions over the
            producer's properties: returns these documents as they are now. Without it no such
            condition holds.
        admission: Says when a message may be taken from the system, where there are tenants.
    """

    def __init__(
        self,
        adapter: Adapter,
        *,
        settled: Callable[[Notification], None] | None = None,
        refresh: Callable[[Delivery], Awaitable[None]] | None = None,
        share_of: Callable[[str], Share] = lambda _: None,
        once: Callable[[Delivery], Awaitable[Delivery | None]] | None = None,
        passes: Callable[[Delivery], Awaitable[bool]] | None = None,
        producer: Callable[[Collection[View]], Awaitable[Mapping[View, bytes]]] | None = None,
        admission: TenantAdmission | None = None,
    ) -> None:
        self._adapter = adapter
        self._admission = admission or TenantAdmission()
        self._once = once
        self._passes = passes
        self._producer = producer
        self._settled = settled
        self._refresh = refresh
        self._share_of = share_of
        self._filters = self._filter_set()
        self._selected: dict[Interest, FilterSet[str]] = {}
        """The rest of the filters of which the system evaluates a part, by that part."""
        self._of_tenants: dict[str, FilterSet[str]] = {}
        """The filters of tenants, by tenant."""
        self._wanted_by: dict[str, _Wanted] = {}
        self._references: dict[_Wanted, _Reference] = {}
        if settled is not None:
            self._references[None] = _Reference(EVERYTHING_WANTED, filters=1)
        self._asking = asyncio.Lock()
        waiting = min(MOST, max(1, adapter.capabilities.prefetch // 2))
        self._slow_filters = SlowFilters(self._wanted_by.__contains__, share_of, most=waiting)

    @property
    def capabilities(self) -> Capabilities:
        return self._adapter.capabilities

    @property
    def state(self) -> AdapterState | None:
        """The state of the connection to the system; None if its adapter does not report it."""
        reporting = self.capabilities.reporting
        return None if reporting is None else reporting()

    @property
    def interests(self) -> tuple[Interest, ...]:
        """The interests that the system has."""
        return tuple(reference.interest for reference in self._references.values())

    @property
    def deferred(self) -> int:
        """The number of messages that wait for the evaluation of slow filters."""
        return len(self._slow_filters)

    async def start(
        self, filters: Mapping[str, Filter], tenants: Mapping[str, str] = NO_TENANTS
    ) -> dict[str, FilterError]:
        """Start the system with the interests of *filters*.

        Args:
            tenants: The tenants of those filters that are not the default tenant's, by key.

        Returns:
            The keys whose filters cannot be compiled (any more), and why. They are left out.

        Raises:
            AdapterUnavailable: The system cannot be opened.
        """
        refused = {}
        for key, filter in filters.items():
            try:
                wanted, interest, rest = self._choose(filter, tenants.get(key, ""))
                self._filters_for(wanted).add(key, rest)
            except FilterError as exc:
                refused[key] = exc.with_traceback(None)
                continue
            self._references.setdefault(wanted, _Reference(interest)).filters += 1
            self._wanted_by[key] = wanted
        await self._adapter.start(self.interests)
        return refused

    def check(self, filter: Filter, tenant: str = "") -> None:
        """Check that *filter* of *tenant* can be evaluated, as far as is known without asking the
        system.

        Raises:
            FilterError: It cannot be. For an unknown dialect the names include the system's
                dialects.
        """
        dialects = self._dialects_for(tenant)
        if tenant and any(map(of_producer, filter.contents)):
            text = "The producer's properties tell of another tenant's topics: no filter sees them."
            raise FilterError(Reason.FILTER_INVALID, text)
        _, rest = split_delegated(filter, dialects)
        try:
            compile(rest)
        except FilterError as exc:
            if exc.reason is not Reason.FILTER_DIALECT:
                raise
            names = (*exc.names, *dialects)
            raise FilterError(exc.reason, exc.text, value=exc.value, names=names) from exc

    async def add(
        self, key: str, filter: Filter, *, tenant: str = "", adopted: bool = False
    ) -> None:
        """Match *filter* for *key*, in place of a former filter, with the events of *tenant*. In
        force on return.

        With *adopted* another gateway, with which the system is shared, has asked for it already;
        then the system cannot refuse.

        Raises:
            FilterError: It cannot be evaluated. Nothing has changed.
            AdapterUnavailable: The system did not take the interest. Nothing has changed.
        """
        self.check(filter, tenant)
        wanted, interest, rest = self._choose(filter, tenant)
        if wanted not in self._references:
            async with self._asking:
                if wanted not in self._references:
                    sharing = self.capabilities.sharing
                    if adopted and sharing is not None:
                        await sharing.adopt(interest)
                    else:
                        await self._adapter.want(interest)
                    self._references[wanted] = _Reference(interest)
                self._references[wanted].filters += 1
        else:
            self._references[wanted].filters += 1
        replaces = key in self._wanted_by
        former = self._wanted_by.get(key)
        filters = self._filters_for(wanted)
        if replaces and self._filters_for(former) is not filters:
            self._filters_for(former).remove(key)
        filters.add(key, rest)
        self._wanted_by[key] = wanted
        if replaces:
            await self._let_go(former)

    async def remove(self, key: str) -> None:
        """Stop matching *key*, at once. A key without a filter is not an error."""
        if key in self._wanted_by:
            self._filters_for(self._wanted_by[key]).remove(key)
            await self._let_go(self._wanted_by.pop(key))

    async def evaluate(self, key: str, questions: Sequence[Question]) -> Evaluated | None:
        """Find out whether all expressions of each of *questions*, which are about one message and
        cost too much to be evaluated on the spot, are true; in the turn of the share of *key*. None
        where too much waits for it."""
        return await self.evaluate_for(self._share_of(key), questions)

    async def evaluate_for(self, share: Share, questions: Sequence[Question]) -> Evaluated | None:
        """As `evaluate`, in the turn of *share*; None is the share of all who have no other."""
        return await self._slow_filters.evaluate(share, questions)

    async def publish(self, notifications: Sequence[Notification]) -> None:
        """As `Adapter.publish`."""
        await self._adapter.publish(notifications)

    async def deliveries(self) -> AsyncIterator[Matched]:
        """Yield each message that some filter matches, with the keys of all that do: once, or in
        several parts if some filters are slow (`adapters.filtering.slow_filters`); and each that
        could not be read, with the reason.

        A message that matches no filter is settled here.
        """
        slow_filters = self._slow_filters
        deliveries = self._adapter.deliveries()
        coming: asyncio.Future[Delivery | None] | None = None
        turn, until = 0, monotonic() + TURN_SECONDS
        try:
            while True:
                while (matched := slow_filters.take_evaluated()) is not None:
                    yield matched
                if coming is None and slow_filters.idle:
                    delivery = await anext(deliveries, None)
                else:
                    coming = coming or asyncio.ensure_future(anext(deliveries, None))
                    evaluated = slow_filters.evaluated()
                    await asyncio.wait((coming, evaluated), return_when=asyncio.FIRST_COMPLETED)
                    if evaluated.done() or not coming.done():
                        continue  # Parts that are evaluated already go before what comes new.
                    delivery, coming = coming.result(), None
                if delivery is None:
                    return
                if self._refresh is not None:
                    await self._refresh(delivery)
                selected = None
                try:
                    fault = self._fault_of(delivery)
                    if not fault:
                        selected = self._interest_of(delivery)
                except Exception:
                    fault = self._not_checked(delivery)
                if fault:
                    yield Matched(delivery, (), unreadable=fault)
                    continue
                notification = as_its_tenant_knows_it(delivery.notification)
                tenant = tenant_of_topic(delivery.notification.topic)
                matching = await self._match(notification, tenant, selected)
                try:
                    passed = await self._check(delivery, selected)
                except Exception:
                    yield Matched(delivery, (), unreadable=self._not_checked(delivery))
                    continue
                if passed is None:
                    settle_unwanted(delivery)
                    continue
                delivery = passed
                if self._settled is not None and selected is None:
                    delivery = ObservedDelivery(delivery, self._settled)
                if notification is not delivery.notification:
                    delivery = TenantDelivery(delivery, notification)
                matched = slow_filters.queue_slow(delivery, matching)
                if matched is not None:
                    yield matched
                turn += 1
                if self._admission.several:
                    if self._admission.holds_back or monotonic() > until:
                        await self._admission.pull()
                        until = monotonic() + TURN_SECONDS
                elif turn % TURN == 0:
                    await asyncio.sleep(0)
        finally:
            if coming is not None:
                coming.cancel()

    async def _check(self, delivery: Delivery, selected: Interest | None) -> Delivery | None:
        """Check what the system yields, for the interest *selected* or for all. Returns the
        delivery, which may be another then; None where it has to be settled at once. Whatever is
        raised is due to the message: else it would end the delivery of all others, again after
        each restart."""
        if selected is None:
            return delivery if self._once is None else await self._once(delivery)
        passes = self._passes is None or await self._passes(delivery)
        return delivery if passes else None

    def _interest_of(self, delivery: Delivery) -> Interest | None:
        """Return the interest, in a dialect of the system's own, that *delivery* is yielded for."""
        if not self._adapter.capabilities.dialects:  # Asked for each message: the short way first.
            return None
        selecting = self.capabilities.selecting
        return None if selecting is None else selecting(delivery)

    def _fault_of(self, delivery: Delivery) -> str:
        """Return why the message of *delivery* could not be read, "" if it could."""
        unreadable = self._adapter.capabilities.unreadable
        return "" if unreadable is None else unreadable(delivery)

    @staticmethod
    def _not_checked(delivery: Delivery) -> str:
        """Log the present error, which is due to a message or to what an adapter says of it.
        Returns why nobody gets the message."""
        logger.exception("message.not_checked", extra={"id": delivery.notification.id[:200]})
        return NOT_CHECKED

    async def _match(
        self, notification: Notification, tenant: str, selected: Interest | None
    ) -> Matching[str]:
        """Match *notification* of *tenant*. A failure counts as no match and is logged: else one
        message would end the delivery of all others, again after each restart."""
        filters = self._filters_with(tenant, selected)
        if filters is None:  # The last filter with this interest was removed meanwhile.
            return Matching()
        try:
            views = filters.lasting_views()
            # The producer's properties tell of the default tenant's topics.
            if not views or self._producer is None or tenant:
                return filters.begin(filter_event_of(notification))
            return filters.begin(filter_event_of(notification, await self._producer(views)))
        except Exception:
            logger.exception("message.not_matched", extra={"id": notification.id[:200]})
            return Matching()

    def _filters_with(self, tenant: str, selected: Interest | None) -> FilterSet[str] | None:
        """Return the filters that an event of *tenant* is matched against, which the system yielded
        for the interest *selected*: no system selects the events of one tenant alone."""
        if tenant:
            return self._of_tenants.get(tenant) if selected is None else None
        return self._filters if selected is None else self._selected.get(selected)

    async def close(self) -> None:
        """As `Adapter.close`."""
        await self._slow_filters.close()
        await self._adapter.close()

    def _dialects_for(self, tenant: str) -> tuple[str, ...]:
        """Return the dialects that the system evaluates itself, over all events that it has."""
        return () if tenant else self.capabilities.dialects

    def _choose(self, filter: Filter, tenant: str) -> tuple[_Wanted, Interest, Filter]:
        """Choose the interest to ask the system for: all events of *tenant*; an expression that it
        evaluates itself; everything, or one topic expression of *filter*. Returns its key, the
        interest, and the filter that is left to match.

        All topic expressions must hold, so any of them will do; one that the system has already
        costs nothing.
        """
        if tenant:
            return _AllOf(tenant), Interest(all_topics_of(tenant)), filter
        selected, rest = split_delegated(filter, self.capabilities.dialects)
        if selected is not None:
            return selected, selected, rest
        if not filter.topics:
            return None, EVERYTHING_WANTED, filter
        choices = [(parse_expression(topic), Interest(topic)) for topic in filter.topics]
        first = next((choice for choice in choices if choice[0] in self._references), choices[0])
        return *first, filter

    def _filter_set(self) -> FilterSet[str]:
        return FilterSet(
            payload_paths=PAYLOAD_PATHS, lasting=PRODUCER_VIEWS, share_of=self._share_of
        )

    def _filters_for(self, wanted: _Wanted) -> FilterSet[str]:
        if isinstance(wanted, _AllOf):
            if wanted.tenant not in self._of_tenants:
                self._of_tenants[wanted.tenant] = self._filter_set()
            return self._of_tenants[wanted.tenant]
        if not isinstance(wanted, Interest):
            return self._filters
        if wanted not in self._selected:
            self._selected[wanted] = self._filter_set()
        return self._selected[wanted]

    async def _let_go(self, wanted: _Wanted) -> None:
        """Count one filter less that needs *wanted*, and drop the interest with the last."""
        self._references[wanted].filters -= 1
        if self._is_needless(wanted):
            async with self._asking:
                if self._is_needless(wanted):
                    interest = self._references.pop(wanted).interest
                    self._selected.pop(interest, None)
                    if isinstance(wanted, _AllOf):
                        self._of_tenants.pop(wanted.tenant, None)
                    # unwant may lag: messages that no filter matches are settled as they come.
                    with suppress(AdapterUnavailable):
                        await self._adapter.unwant(interest)

    def _is_needless(self, wanted: _Wanted) -> bool:
        reference = self._references.get(wanted)
        return reference is not None and reference.filters == 0
