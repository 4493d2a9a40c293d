"""The subscriptions that this process knows, in memory: by key, by id, by mailbox, by owner."""

import asyncio
import heapq
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, KeysView
from typing import TypeAlias, TypeVar

from filters import Filter
from gateway.delivery import Entry
from gateway.egress import Target
from gateway.mailboxes.transport import SCHEME
from gateway.model.mailboxes import Mailbox, MailboxKind
from gateway.observing.samples import Sample, gauge, gauges
from gateway.security.principals import owner_in, tenant_of
from mediation.model.messages import EndpointReference, Subscription
from mediation.model.versions import Spec
from mediation.specifications import SPECIFICATIONS

T = TypeVar("T")
Observer = Callable[[Entry, int], None]
"""Told of an entry that was added (1) or dropped (-1)."""
_Sameness: TypeAlias = tuple[
    str, Spec, EndpointReference, EndpointReference | None, Filter, bool, str
]


class SubscriptionTable:
    """The entries, and what quotas count."""

    def __init__(self) -> None:
        self._entries: dict[str, Entry] = {}
        self._by_id: dict[str, Entry] = {}
        self._feeds: dict[str, dict[Entry, None]] = {}
        """The entries that fill a mailbox, by its key."""
        self._repeated: dict[_Sameness, Entry] = {}
        """The entries that a Subscribe may repeat."""
        self._identical: dict[str, Entry] = {}
        """The entries of which there is one only, by their identities."""
        self._owners: Counter[str] = Counter()
        self._of_tenants: dict[str, dict[Entry, None]] = {}
        """The entries of each tenant but the default one."""
        self._owner_destinations: Counter[int] = Counter()
        self._observers: list[Observer] = []
        self._at_channels: Counter[str] = Counter()
        """The number of subscriptions at each channel with a name."""

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def entries(self) -> Collection[Entry]:
        return self._entries.values()

    def add(self, entry: Entry) -> None:
        """Enter *entry*; from now on quotas count it."""
        subscription = entry.subscription
        self._entries[subscription.key] = entry
        self._by_id[subscription.id] = entry
        if entry.target.scheme == SCHEME:
            self._feeds.setdefault(entry.target.host, {})[entry] = None
        if _may_be_repeated(subscription):
            self._repeated[_sameness(subscription)] = entry
        if (identity := identity_of(subscription)) is not None:
            self._identical.setdefault(identity, entry)
        if subscription.policy.channel:
            self._at_channels[subscription.policy.channel] += 1
        self._owners[subscription.owner] += 1
        if tenant := tenant_of(subscription.owner):
            self._of_tenants.setdefault(tenant, {})[entry] = None
        self._owner_destinations[_place(subscription.owner, entry.target)] += 1
        for observer in self._observers:
            observer(entry, 1)

    def drop(self, entry: Entry) -> None:
        """Remove *entry*, which is there."""
        subscription = entry.subscription
        del self._entries[subscription.key]
        del self._by_id[subscription.id]
        feeds = self._feeds.get(entry.target.host, {})
        feeds.pop(entry, None)
        if not feeds:
            self._feeds.pop(entry.target.host, None)
        if _may_be_repeated(subscription):
            same = _sameness(subscription)
            if self._repeated.get(same) is entry:
                del self._repeated[same]
        identity = identity_of(subscription)
        if identity is not None and self._identical.get(identity) is entry:
            del self._identical[identity]
        if subscription.policy.channel:
            _decrement(self._at_channels, subscription.policy.channel)
        _decrement(self._owners, subscription.owner)
        if tenant := tenant_of(subscription.owner):
            own = self._of_tenants[tenant]
            del own[entry]
            if not own:
                del self._of_tenants[tenant]
        _decrement(self._owner_destinations, _place(subscription.owner, entry.target))
        for observer in self._observers:
            observer(entry, -1)

    def observe(self, observer: Observer) -> None:
        """Have *observer* told of each entry that is added or dropped from now on."""
        self._observers.append(observer)

    def get(self, key: str) -> Entry | None:
        """The entry of the subscription with this key."""
        return self._entries.get(key)

    def by_id(self, id_: str) -> Entry | None:
        """The entry of the subscription with this id."""
        return self._by_id.get(id_)

    def keys(self) -> KeysView[str]:
        return self._entries.keys()

    def matching(self, keys: Iterable[str], channel: str = "") -> list[Entry]:
        """The entries of *keys* that are at the channel of this name, or at none; one that has just
        ended has none."""
        entries = self._entries
        found = [entries[key] for key in keys if key in entries]
        if not channel and not self._at_channels:
            return found
        return [entry for entry in found if entry.subscription.policy.channel == channel]

    def at_channel(self, name: str) -> list[Entry]:
        """The entries at the channel of this name."""
        if not self._at_channels[name]:
            return []
        return [one for one in self._entries.values() if one.subscription.policy.channel == name]

    def number_at(self, channel: str) -> int:
        """The number of subscriptions at the channel of this name."""
        return self._at_channels[channel]

    def owner(self, key: str) -> str | None:
        """The owner of the subscription with this key; None if it is not there."""
        entry = self._entries.get(key)
        return None if entry is None else entry.subscription.owner

    async def listed(self, after: str, limit: int) -> list[str]:
        """The *limit* first ids after *after*, found off the event loop: there may be 100,000."""
        ids = list(self._by_id)
        return await asyncio.to_thread(
            lambda: heapq.nsmallest(limit, (id_ for id_ in ids if id_ > after))
        )

    def made_with(self, mailbox: Mailbox) -> Entry | None:
        """The subscription that *mailbox* was made for."""
        is_own = mailbox.kind is MailboxKind.SUBSCRIPTION
        return self._entries.get(mailbox.key) if is_own else None

    def feeds(self, mailbox: Mailbox) -> list[Entry]:
        """All subscriptions whose consumer is *mailbox*."""
        return list(self._feeds.get(mailbox.key, ()))

    def of_owner(self, owner: str) -> int:
        """The number of subscriptions of *owner*."""
        return self._owners[owner]

    def of_tenant(self, tenant: str) -> int:
        """The number of subscriptions of *tenant*."""
        if not tenant:
            return len(self) - sum(map(len, self._of_tenants.values()))
        return len(self._of_tenants.get(tenant, ()))

    def entries_of(self, tenant: str) -> Collection[Entry]:
        """The entries of *tenant*, another than the default one."""
        return self._of_tenants.get(tenant, {}).keys()

    def of_owner_to(self, owner: str, target: Target) -> int:
        """The number of subscriptions of *owner* to the destination of *target*."""
        return self._owner_destinations[_place(owner, target)]

    def repeated(self, subscription: Subscription) -> Entry | None:
        """The entry that *subscription*, which is not entered, repeats, by the rules of its
        specification."""
        if not _may_be_repeated(subscription):
            return None
        return self._repeated.get(_sameness(subscription))

    def identical(self, identity: str) -> Entry | None:
        """The entry with this identity."""
        return self._identical.get(identity)

    def metrics(self) -> Iterator[Sample]:
        """The number of subscriptions."""
        yield gauge("subscriptions", "Subscriptions.", len(self))
        tenants: dict[tuple[str, ...], float] = {
            (name,): len(own) for name, own in self._of_tenants.items()
        }
        if tenants:
            text = "Subscriptions of a tenant."
            yield gauges("tenant_subscriptions", text, ("tenant",), tenants)


def identity_of(subscription: Subscription) -> str | None:
    """The identity that one subscription of a tenant alone may have; None if any number may be
    alike."""
    identity = SPECIFICATIONS[subscription.spec.version].identity
    if identity is None:
        return None
    return owner_in(tenant_of(subscription.owner), identity(subscription))


def _may_be_repeated(subscription: Subscription) -> bool:
    repeats = SPECIFICATIONS[subscription.spec.version].repeats
    return repeats is not None and repeats(subscription)


def _sameness(subscription: Subscription) -> _Sameness:
    """The key by which a repeated Subscribe is recognised: owner, versions, consumer, EndTo,
    filter, form of messages, channel."""
    return (
        subscription.owner,
        subscription.spec,
        subscription.consumer,
        subscription.end_to,
        subscription.filter,
        subscription.policy.raw,
        subscription.policy.channel,
    )


def _place(owner: str, target: Target) -> int:
    """The key of the counts of an owner's subscriptions to a destination. A hash is enough, and
    small."""
    return hash((owner, target.destination))


def _decrement(counter: Counter[T], key: T) -> None:
    counter[key] -= 1
    if not counter[key]:
        del counter[key]
