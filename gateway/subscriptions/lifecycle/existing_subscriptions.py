"""Subscriptions that a Subscribe goes on with, instead of making a new one: that of a bookmark, one
that it repeats, or the only one with its identity.
"""

import contextlib
from dataclasses import replace
from datetime import datetime
from functools import partial
from hmac import compare_digest

from filters import Reason, Refused
from gateway.delivery import Dispatchers, Entry
from gateway.security.principals import Principal
from gateway.store import Store, bookmarks
from gateway.subscriptions.lifecycle.lifecycle import SubscriptionUnknown
from gateway.subscriptions.lifecycle.renewal import Renewal
from gateway.subscriptions.table import SubscriptionTable
from mediation.model.delivery_modes import Bookmark, bookmark_of
from mediation.model.expiry import Expiry
from mediation.model.messages import Subscription
from mediation.model.requests import Subscribe
from mediation.names import WSMAN_FAULT_DETAIL


class ExistingSubscriptions:
    """Finds and renews subscriptions that are there already."""

    def __init__(
        self,
        store: Store,
        table: SubscriptionTable,
        dispatchers: Dispatchers,
        renewal: Renewal,
    ) -> None:
        self._store = store
        self._table = table
        self._dispatchers = dispatchers
        self._renewal = renewal

    async def renew_former(
        self, request: Subscribe, subscription: Subscription, principal: Principal, now: datetime
    ) -> Subscription | None:
        """Renew and return the subscription that *request* has a bookmark of, or repeats; None
        where it asks for a new one, which *subscription* would be.

        Raises:
            Refused: ``BOOKMARK_INVALID``.
        """
        if request.bookmark is not None:
            entry = await self._of_bookmark(request.bookmark, subscription, principal, now)
            return await self._renewal.renew(entry, request.expires, principal, now=now)
        # Strangers behind one address are not told each other's keys.
        repeated = self._table.repeated(subscription) if not principal.limits.quotas else None
        if repeated is None or not self._renewal.is_alive(repeated, now):
            return None
        with contextlib.suppress(SubscriptionUnknown):  # It has just ended.
            return await self._renewal.renew(repeated, request.expires, principal, now=now)
        return None

    async def renew_identical(
        self,
        identity: str,
        subscription: Subscription,
        expires: Expiry,
        principal: Principal,
        now: datetime,
    ) -> Subscription | None:
        """Renew the one subscription with this *identity*, and send now what waits for it; None
        if it is not there. It is answered as *subscription* asks for. Who neither owns it nor is
        trusted makes its lease longer at most; how its listener is called, its owner alone says.
        """
        entry = self._table.identical(identity)
        if entry is None:
            return None
        owns = entry.subscription.owner == principal.owner
        try:
            renewed = await self._renewal.renew(
                entry,
                expires,
                principal,
                now=now,
                calling=subscription.policy.calling if owns else None,
                grows=not owns and principal.limits.quotas,
            )
        except SubscriptionUnknown:  # It has just ended.
            return None
        self._dispatchers.hasten(entry)
        return replace(renewed, policy=subscription.policy)

    async def _of_bookmark(
        self, bookmark: Bookmark, like: Subscription, principal: Principal, now: datetime
    ) -> Entry:
        """The subscription that *bookmark* is of, and that must be *like* the one that is asked
        for. What its sink has not acknowledged still waits for it.

        Raises:
            Refused: ``BOOKMARK_INVALID``: it is not valid, or something behind it is not kept.
        """
        entry = self._table.by_id(bookmark.subscription)
        if entry is None or not self._renewal.is_alive(entry, now):
            raise _refusal("Its subscription has ended, and nothing waits for it.", "Expired")
        found = entry.subscription
        proof = bookmark_of(found.id, found.key, bookmark.position).proof
        if found.owner != principal.owner or not compare_digest(
            proof.encode(), bookmark.proof.encode()
        ):
            raise _refusal("It is of no subscription of yours.", "Invalid")
        if _resumable(found) != _resumable(like):
            raise _refusal(
                "Its subscription has another filter, consumer, channel or delivery mode.",
                "Invalid",
            )
        kept = await self._store.submit(partial(bookmarks.acknowledged, subscription=found.id))
        if kept is None or bookmark.position < max(kept, entry.state.acknowledged):
            raise _refusal("What came behind it is not kept.", "Expired")
        return entry


def _resumable(subscription: Subscription) -> tuple[object, ...]:
    """The parts that must be equal for a subscription to go on with another one."""
    policy = subscription.policy
    return subscription.filter, subscription.consumer, policy.delivery, policy.channel


def _refusal(text: str, detail: str) -> Refused:
    return Refused(Reason.BOOKMARK_INVALID, text, names=(WSMAN_FAULT_DETAIL + detail,))
