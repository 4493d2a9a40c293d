"""Listings: the subscriptions of a selection, and reports of them with their status and counts.

Among a hundred thousand they are looked for slice by slice: other work of the event loop goes on in
between.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from fnmatch import translate
from functools import partial
from re import compile as compile_pattern

from filters import Event, Expression, Filter, FilterError, Reason, Refused, compile, quoted
from gateway.delivery import Dispatchers, Entry
from gateway.delivery.status import Condition, DeliveryStatus
from gateway.security.principals import tenant_of
from gateway.security.resource_addresses import shown
from gateway.store import Store, Totals, totals
from gateway.subscriptions.table import SubscriptionTable
from mediation.model.requests import SubscriptionSelection
from mediation.model.versions import Version

SLICE = 256
"""Subscriptions that are looked at before others have their turn."""
LONGEST_PATTERN, MOST_WILDCARDS = 512, 16
"""Characters of a pattern that addresses are to be like, and those of them that stand for others:
each address is tried with it."""
LOOKED_AT = 20_000
"""Subscriptions that one request looks at, at most."""
_URGENT = (
    Condition.FAILING,
    Condition.UNKNOWN,
    Condition.EXPIRED,
    Condition.PAUSED,
    Condition.ACTIVE,
)
_STATES = tuple(condition.value for condition in Condition)
_SPECIFICATIONS = tuple(version.value for version in Version)
_NOTHING = SubscriptionSelection()


class Order(Enum):
    """What a list of subscriptions is sorted by. By state, those that fail come first."""

    STATE = "state"
    CONSUMER = "consumer"
    TOPIC = "topic"
    SPEC = "spec"
    OWNER = "owner"
    CREATED = "created"
    EXPIRES = "expires"


@dataclass(frozen=True, slots=True)
class Found:
    """The ids of subscriptions, in their order; *next* is the id to go on behind, None at the end.
    There may be none and still more behind."""

    ids: tuple[str, ...]
    next: str | None


class SubscriptionSelector:
    """Selects subscriptions."""

    def __init__(self, table: SubscriptionTable, dispatchers: Dispatchers) -> None:
        self._table = table
        self._dispatchers = dispatchers

    async def find(
        self,
        selection: SubscriptionSelection,
        *,
        after: str = "",
        limit: int,
        visible_to: str | None = None,
        tenant: str | None = None,
        look_at: int = LOOKED_AT,
    ) -> Found:
        """The *limit* first ids behind *after* of subscriptions that *selection* means.

        Args:
            visible_to: The owner of those that are seen; None sees all.
            tenant: The tenant of those that are seen; None sees all tenants'.
            look_at: How many are looked at.

        Raises:
            Refused: ``MESSAGE_INVALID``: the pattern of addresses is too long, or there is no such
                state or specification.
        """
        _check_known("state", selection.states, _STATES)
        if selection.specification is not None:
            _check_known("specification", {selection.specification}, _SPECIFICATIONS)
        if selection == _NOTHING and visible_to is None and tenant is None:
            ids = await self._table.listed(after, limit + 1)
            more = len(ids) > limit
            return Found(tuple(ids[:limit]), ids[limit - 1] if more else None)
        if selection.states:
            await self._dispatchers.counted()
        meant = self._test(selection)
        ids = await self._table.listed(after, look_at + 1)
        found: list[str] = []
        for number, id_ in enumerate(ids[:look_at]):
            if number % SLICE == SLICE - 1:
                await asyncio.sleep(0)
            entry = self._table.by_id(id_)
            if entry is None or visible_to not in (None, entry.subscription.owner):
                continue
            if tenant not in (None, tenant_of(entry.subscription.owner)):
                continue
            if meant(entry):
                found.append(id_)
                if len(found) > limit:
                    return Found(tuple(found[:limit]), found[limit - 1])
        return Found(tuple(found), ids[look_at - 1] if len(ids) > look_at else None)

    async def sort(
        self,
        selection: SubscriptionSelection,
        order: Order,
        *,
        descending: bool = False,
        start: int = 0,
        limit: int,
        tenant: str | None = None,
    ) -> tuple[tuple[str, ...], int | None]:
        """The ids of a sorted list of this moment, from its *start*th on, and where to go on; None
        at its end. Of equals the order is that of their ids.

        Raises:
            Refused: ``MESSAGE_INVALID``: as `find` raises it; there are more than `LOOKED_AT`
                subscriptions to look through.
        """
        if order is Order.STATE:
            await self._dispatchers.counted()
        found = await self.find(selection, limit=LOOKED_AT, tenant=tenant)
        if found.next is not None:
            raise Refused(
                Reason.MESSAGE_INVALID,
                f"More than {LOOKED_AT} subscriptions are not sorted: narrow the list, or have it "
                "in the order of ids.",
            )
        keys: dict[str, tuple[object, ...]] = {}
        for number, id_ in enumerate(found.ids):
            if number % SLICE == SLICE - 1:
                await asyncio.sleep(0)
            if (entry := self._table.by_id(id_)) is not None:
                keys[id_] = self._key(entry, order)
        ids = await asyncio.to_thread(sorted, keys, key=keys.__getitem__, reverse=descending)
        following = start + limit
        return tuple(ids[start:following]), following if following < len(ids) else None

    def _key(self, entry: Entry, order: Order) -> tuple[object, ...]:
        """What *entry* is sorted by, with which its like can be compared."""
        subscription = entry.subscription
        match order:
            case Order.STATE:
                return (_URGENT.index(self._dispatchers.status(entry).state),)
            case Order.CONSUMER:
                # An order by what is not shown would tell it, digit by digit.
                return (shown(subscription.consumer.address),)
            case Order.TOPIC:
                return tuple(one.text for one in subscription.filter.topics)
            case Order.SPEC:
                return (subscription.spec.version.value,)
            case Order.OWNER:
                return (subscription.owner,)
            case Order.CREATED:
                return (subscription.lease.created,)
            case Order.EXPIRES:
                expires = subscription.lease.expires
                return (expires is None, expires or 0)

    def _test(self, selection: SubscriptionSelection) -> Callable[[Entry], bool]:
        """The test that *selection* means; quick questions are asked first."""
        consumer = _like(selection.consumer) if selection.consumer is not None else None
        covers = _Covering(selection)

        def meant(entry: Entry) -> bool:
            subscription = entry.subscription
            return (
                selection.owner in (None, subscription.owner)
                and selection.specification in (None, subscription.spec.version.value)
                and (consumer is None or consumer(shown(subscription.consumer.address)))
                and covers(subscription.filter.topics)
                and (
                    not selection.states
                    or self._dispatchers.status(entry).state.value in selection.states
                )
            )

        return meant


def _check_known(kind: str, said: Iterable[str], known: Sequence[str]) -> None:
    """Raise `Refused` (``MESSAGE_INVALID``) where *known* lacks one of *said*."""
    for name in sorted(said):
        if name not in known:
            raise Refused(
                Reason.MESSAGE_INVALID,
                f"There is no {kind} {quoted(name)}; there are {', '.join(known)}.",
            )


def _like(text: str) -> Callable[[str], bool]:
    """A test for addresses as lists show them: they begin with *text*, or match it where it has
    ``*`` or ``?``.

    Of an address as it is, a reader would learn the key in it by asking for longer and longer
    beginnings. Who knows a whole address finds it all the same.
    """
    said = tuple({text: None, shown(text): None})
    if not {"*", "?"} & set(text):
        return lambda address: address.startswith(said)
    if len(text) > LONGEST_PATTERN or text.count("*") + text.count("?") > MOST_WILDCARDS:
        raise Refused(
            Reason.MESSAGE_INVALID,
            f"A pattern of addresses has {LONGEST_PATTERN} characters at most, and "
            f"{MOST_WILDCARDS} of * and ?.",
        )
    patterns = [compile_pattern(translate(one.replace("[", "[[]"))) for one in said]
    return lambda address: any(one.match(address) is not None for one in patterns)


class _Covering:
    """Tests whether topic expressions select the topic of a selection. Verdicts are remembered,
    because many subscriptions have the same expressions."""

    def __init__(self, selection: SubscriptionSelection) -> None:
        self._event = None if selection.topic is None else Event(b"<a/>", topic=selection.topic)
        self._known: dict[tuple[Expression, ...], bool] = {}

    def __call__(self, topics: tuple[Expression, ...]) -> bool:
        if self._event is None:
            return True
        verdict = self._known.get(topics)
        if verdict is None:
            try:
                verdict = compile(Filter(topics)).matches(self._event)
            except FilterError:  # Its dialect is not offered any longer.
                verdict = False
            self._known[topics] = verdict
        return verdict


@dataclass(frozen=True, slots=True)
class SubscriptionReport:
    """A subscription, its status and its counts at one moment."""

    entry: Entry
    status: DeliveryStatus
    totals: Totals


class SubscriptionReports:
    """Puts reports together from the store and from memory."""

    def __init__(self, store: Store, table: SubscriptionTable, dispatchers: Dispatchers) -> None:
        self._store = store
        self._table = table
        self._dispatchers = dispatchers

    async def of(self, ids: Sequence[str]) -> list[SubscriptionReport]:
        """The reports of those of *ids* whose subscriptions still exist.

        Raises:
            StoreUnavailable: The store cannot be read.
        """
        await self._dispatchers.counted()
        counted = await self._store.submit(partial(totals.read_some, subscriptions=ids))
        entries = filter(None, map(self._table.by_id, ids))
        return [
            SubscriptionReport(
                entry, self._dispatchers.status(entry), counted.get(entry.id, Totals())
            )
            for entry in entries
        ]
