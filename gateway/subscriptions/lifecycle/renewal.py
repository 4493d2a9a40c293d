"""Renewals: the end of a lease is moved."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from gateway.delivery import Entry
from gateway.interning import shared
from gateway.observing.system_events import RENEWED
from gateway.security.principals import Principal
from gateway.subscriptions.lifecycle.leases import (
    LeaseTerms,
    grant,
    may_be_renewed,
    rules_of,
    within,
)
from gateway.subscriptions.lifecycle.lifecycle import Lifecycle
from mediation.model.calling import Calling
from mediation.model.expiry import Expiry
from mediation.model.messages import Lease, Subscription


class Renewal:
    """Renews subscriptions."""

    def __init__(self, lifecycle: Lifecycle, terms: LeaseTerms) -> None:
        self._lifecycle = lifecycle
        self._terms = terms

    def is_alive(self, entry: Entry, now: datetime) -> bool:
        """True if the lease of *entry* is not over, or can still be renewed."""
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
            grows: A lease that would end earlier than before is left as it was.

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

        changed = await self._lifecycle.change(entry, renewed)
        until = changed.lease.expires
        self._lifecycle.system_events.tell_of(
            changed, RENEWED, expires=until.isoformat() if until else None
        )
        return changed

    async def keep_alive(self, entry: Entry, seconds: float) -> None:
        """Let a subscription live for *seconds* at least: its subscriber just showed itself."""
        lease = entry.subscription.lease
        end = datetime.now(UTC) + timedelta(seconds=seconds)
        end = within(entry.subscription.policy.rights, end) or end
        if lease.expires is not None and lease.expires < end:
            await self._lifecycle.change(
                entry, lambda old: replace(old, lease=replace(old.lease, expires=end))
            )
