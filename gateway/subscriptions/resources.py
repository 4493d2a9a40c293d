"""Subscriptions as WS-Resources."""

from datetime import datetime

from gateway.delivery import Entry
from gateway.exchange import Inbound
from gateway.resources import end_if_over
from gateway.security.principals import Principal
from gateway.security.resource_addresses import key_in
from gateway.subscriptions.lifecycle.lifecycle import Lifecycle, SubscriptionUnknown
from gateway.subscriptions.lifecycle.renewal import Renewal
from gateway.subscriptions.named_subscriptions import NamedSubscriptions, subscription_names
from mediation.model.expiry import Expiry
from mediation.model.requests import Incoming
from mediation.model.specification import PropertyDocument
from mediation.model.versions import Version
from mediation.specifications import properties_in


class SubscriptionResource:
    """One subscription, as its manager's address names it."""

    def __init__(self, entry: Entry, lifecycle: Lifecycle, renewal: Renewal) -> None:
        self._entry = entry
        self._lifecycle = lifecycle
        self._renewal = renewal

    async def properties(self, version: Version, now: datetime) -> PropertyDocument:
        subscription = self._entry.subscription
        if subscription.lease.expires is not None and subscription.lease.expires <= now:
            raise SubscriptionUnknown  # In its grace it can be renewed, and nothing else.
        return properties_in(version).of_subscription(subscription, now)

    async def set_termination_time(
        self, expires: Expiry, principal: Principal, now: datetime
    ) -> datetime | None:
        if await end_if_over(self, expires, now):
            return now
        renewed = await self._renewal.renew(self._entry, expires, principal, now=now)
        return renewed.lease.expires

    async def destroy(self) -> None:
        await self._lifecycle.end(self._entry)


class SubscriptionResources:
    """All subscriptions."""

    def __init__(self, named: NamedSubscriptions, lifecycle: Lifecycle, renewal: Renewal) -> None:
        self._named = named
        self._lifecycle = lifecycle
        self._renewal = renewal

    async def find(self, incoming: Incoming, inbound: Inbound) -> SubscriptionResource | None:
        if not _names_any(incoming, inbound):
            return None
        entry = await self._named.find(incoming, inbound)
        return SubscriptionResource(entry, self._lifecycle, self._renewal)


def _names_any(incoming: Incoming, inbound: Inbound) -> bool:
    return inbound.path.startswith("/subscriptions/") or any(
        "/subscriptions/" in (text or "") or "urn:uuid:" in (text or "") or key_in(text)
        for text in subscription_names(incoming, inbound)
    )
