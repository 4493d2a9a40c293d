"""Resumption: a Subscribe with a bookmark goes on with the subscription that the bookmark is of."""

from datetime import datetime
from functools import partial
from hmac import compare_digest

from filters import Reason, Refused
from gateway.delivery import Entry
from gateway.security.principals import Principal
from gateway.store import Store, bookmarks
from gateway.subscriptions.renewal import Renewal
from gateway.subscriptions.table import SubscriptionTable
from mediation.model.delivery_modes import Bookmark, bookmark_of
from mediation.model.messages import Subscription
from mediation.names import WSMAN_FAULT_DETAIL


class Resumption:
    """Finds what a bookmark is of, and checks that nothing behind it is lost."""

    def __init__(self, store: Store, table: SubscriptionTable, renewal: Renewal) -> None:
        self._store = store
        self._table = table
        self._renewal = renewal

    async def find(
        self, bookmark: Bookmark, like: Subscription, principal: Principal, now: datetime
    ) -> Entry:
        """The subscription that *bookmark* is of, and that must be *like* the one that is asked
        for. What its sink has not acknowledged still waits for it.

        Raises:
            Refused: ``BOOKMARK_INVALID``: it is none, or something behind the bookmark is not kept.
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
    """What a subscription has in common with the one that it goes on with."""
    policy = subscription.policy
    return subscription.filter, subscription.consumer, policy.delivery, policy.channel


def _refusal(text: str, detail: str) -> Refused:
    return Refused(Reason.BOOKMARK_INVALID, text, names=(WSMAN_FAULT_DETAIL + detail,))
