"""Renewals: subscriptions that requests name, and the ends of their leases moved."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from filters import Reason, Refused
from gateway.delivery import Entry
from gateway.interning import shared
from gateway.security.principals import Principal
from gateway.security.resource_addresses import key_in
from gateway.subscriptions.leases import LeaseTerms, grant, may_be_renewed, rules_of, within
from gateway.subscriptions.lifecycle import Lifecycle, SubscriptionUnknown
from gateway.subscriptions.table import SubscriptionTable
from mediation.model.calling import Calling
from mediation.model.expiry import Expiry
from mediation.model.messages import Lease, Subscription


class Renewal:
    """Finds subscriptions that live, and has them live on."""

    def __init__(self, table: SubscriptionTable, lifecycle: Lifecycle, terms: LeaseTerms) -> None:
        self._table = table
        self._lifecycle = lifecycle
        self._terms = terms

    def find(self, candidates: Iterable[str | None], *, now: datetime) -> Entry:
        """The subscription that *candidates* name, each the peer's text.

        Raises:
            SubscriptionUnknown: None, or one whose lease is over beyond its grace.
            Refused: ``MESSAGE_INVALID`` where they name two different ones.
        """
        keys = list(dict.fromkeys(key for key in map(key_in, candidates) if key))
        if len(keys) > 1:
            raise Refused(Reason.MESSAGE_INVALID, "The request names two subscriptions.")
        entry = self._table.get(keys[0]) if keys else None
        if entry is None or not self.is_alive(entry, now):
            raise SubscriptionUnknown
        return entry

    def is_alive(self, entry: Entry, now: datetime) -> bool:
        """Whether the lease of *entry* is not over, or can still be renewed."""
        return not entry.ended and may_be_renewed(entry.subscription, self._terms, now)

    async def renew(
        self,
        entry: Entry,
        asked: Expiry,
        principal: Principal,
        *,
        now: datetime,
        calling: Calling | None = None,
        grows: bool = False,
    ) -> Subscription:
        """Move the end of a lease.

        Args:
            calling: How its listener is called from now on; None is as before.
            grows: Its end is never moved forward.

        Raises:
            Refused: as the specification says; the lease is as it was.
        """
        rules = rules_of(entry.subscription)
        expires = grant(asked, rules, self._terms, trusted=not principal.limits.leases, now=now)
        expires = within(entry.subscription.policy.rights, expires)

        def renewed(old: Subscription) -> Subscription:
            former = old.lease.expires
            shortens = expires is not None and (former is None or expires < former)
            lease = Lease(old.lease.created, expires, asked.as_duration)
            if grows and shortens:
                lease = old.lease
            if calling is None or calling == old.policy.calling:
                return replace(old, lease=lease)
            return replace(old, lease=lease, policy=shared(replace(old.policy, calling=calling)))

        return await self._lifecycle.change(entry, renewed)

    async def keep_alive(self, entry: Entry, seconds: float) -> None:
        """Let a subscription live for *seconds* at least: its subscriber just showed itself."""
        lease = entry.subscription.lease
        end = datetime.now(UTC) + timedelta(seconds=seconds)
        end = within(entry.subscription.policy.rights, end) or end
        if lease.expires is not None and lease.expires < end:
            await self._lifecycle.change(
                entry, lambda old: replace(old, lease=replace(old.lease, expires=end))
            )
