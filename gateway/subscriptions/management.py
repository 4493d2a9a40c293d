"""The subscriptions of the gateway as a whole: listed, and ended, a selection of them at a time. In
SOAP, where everybody sees and ends what is their own, and in the JSON administration."""

import asyncio
import contextlib
from collections.abc import Sequence
from datetime import UTC, datetime

import structlog

from filters import Refused
from gateway.delivery import Entry
from gateway.exchange import Handlers, Inbound
from gateway.security.principals import Principal, tenant_of
from gateway.security.quotas import PrincipalRate
from gateway.security.resource_addresses import key_in, shown
from gateway.subscriptions.lifecycle.lifecycle import Lifecycle, SubscriptionUnknown
from gateway.subscriptions.lifecycle.renewal import Renewal
from gateway.subscriptions.listing import (
    Found,
    Order,
    SubscriptionReport,
    SubscriptionReports,
    SubscriptionSelector,
)
from gateway.subscriptions.replication import Replication
from gateway.subscriptions.table import SubscriptionTable
from mediation.model.expiry import Expiry
from mediation.model.messages import End
from mediation.model.requests import (
    DeleteSubscriptions,
    Incoming,
    ListSubscriptions,
    SubscriptionEntry,
    SubscriptionsDeleted,
    SubscriptionSelection,
    SubscriptionsListed,
)

PAGE, LONGEST_PAGE = 100, 1000
"""Subscriptions in an answer: where no number is given, and at most."""
AT_A_TIME = 16
"""Subscriptions that end together; the store commits them as one."""
_log = structlog.get_logger("dragoman.subscriptions")


class SubscriptionManagement:
    """Lists, pauses, resumes, renews and ends subscriptions."""

    def __init__(
        self,
        table: SubscriptionTable,
        lifecycle: Lifecycle,
        renewal: Renewal,
        replication: Replication,
        reports: SubscriptionReports,
        selector: SubscriptionSelector,
    ) -> None:
        self._table = table
        self._lifecycle = lifecycle
        self._renewal = renewal
        self._replication = replication
        self._reports = reports
        self._selector = selector

    async def page(
        self,
        selection: SubscriptionSelection,
        *,
        after: str = "",
        limit: int = PAGE,
        visible_to: str | None = None,
        tenant: str | None = None,
    ) -> tuple[Sequence[SubscriptionReport], str | None]:
        """Reports of a selection in the order of their ids, and the id to go on behind.

        Raises:
            StoreUnavailable: The store cannot be read.
        """
        found = await self._selector.find(
            selection, after=after, limit=limit, visible_to=visible_to, tenant=tenant
        )
        return await self._reports.of(found.ids), found.next

    async def sorted_page(
        self,
        selection: SubscriptionSelection,
        order: Order,
        *,
        descending: bool,
        start: int,
        limit: int,
        tenant: str | None = None,
    ) -> tuple[Sequence[SubscriptionReport], int | None]:
        """Reports of a part of a sorted list, and where to go on, as `SubscriptionSelector.sort`.

        Raises:
            StoreUnavailable: The store cannot be read.
        """
        ids, following = await self._selector.sort(
            selection, order, descending=descending, start=start, limit=limit, tenant=tenant
        )
        return await self._reports.of(ids), following

    async def delete(
        self,
        chosen: Sequence[str] | SubscriptionSelection,
        *,
        after: str = "",
        limit: int = LONGEST_PAGE,
        visible_to: str | None = None,
        tenant: str | None = None,
        dry_run: bool = False,
        reason: str,
    ) -> Found:
        """End subscriptions; their ids. What has ended meanwhile is left out.

        Args:
            chosen: Ids, or keys, which are good for anybody who has them; or a selection.
            tenant: Whose subscriptions alone are seen, by keys and ids, too; None: any tenant's.
        """
        await self._replication.refresh()
        if isinstance(chosen, SubscriptionSelection):
            found = await self._selector.find(
                chosen, after=after, limit=limit, visible_to=visible_to, tenant=tenant
            )
        else:
            found = Found(self._named(chosen, visible_to, tenant), None)
        if dry_run:
            return found
        ended: list[str] = []
        for first in range(0, len(found.ids), AT_A_TIME):
            some = found.ids[first : first + AT_A_TIME]
            verdicts = await asyncio.gather(*(self._end(id_, reason) for id_ in some))
            ended += (id_ for id_, there in zip(some, verdicts, strict=True) if there)
        _log.info("subscriptions.deleted", number=len(ended), reason=reason)
        return Found(tuple(ended), found.next)

    def _named(
        self, names: Sequence[str], visible_to: str | None, tenant: str | None
    ) -> tuple[str, ...]:
        """The ids of those of *names* that are there and may be ended."""
        ids: dict[str, None] = {}
        for name in names:
            key = key_in(name)
            entry = self._table.get(key) if key else self._table.by_id(name)
            if entry is None or tenant not in (None, tenant_of(entry.subscription.owner)):
                continue
            if key or _sees(visible_to, entry):
                ids[entry.id] = None
        return tuple(ids)

    async def pause(self, entry: Entry, *, hold: bool | None = None) -> None:
        """Pause a subscription, as its subscriber may.

        Args:
            hold: As of `Lifecycle.set_paused`.

        Raises:
            SubscriptionUnknown: It has ended, or its lease is over.
        """
        self._check_lease(entry)
        await self._lifecycle.set_paused(entry, True, hold)

    async def resume(self, entry: Entry) -> None:
        """Resume a subscription; raises as `pause` does."""
        self._check_lease(entry)
        await self._lifecycle.set_paused(entry, False)

    async def renew(self, entry: Entry, asked: Expiry, principal: Principal) -> None:
        """Move the end of a subscription's lease; within the grace also of one that is over.

        Raises:
            SubscriptionUnknown: It has ended.
            Refused: As its specification says; the lease is as it was.
        """
        now = datetime.now(UTC)
        if not self._renewal.is_alive(entry, now):
            raise SubscriptionUnknown
        await self._renewal.renew(entry, asked, principal, now=now)

    def _check_lease(self, entry: Entry) -> None:
        if entry.ended or self._lifecycle.is_over(entry.subscription):
            raise SubscriptionUnknown

    async def end_at(self, channel: str) -> None:
        """End the subscriptions at a channel, which is not there any more."""
        await self._replication.refresh()
        for entry in self._table.at_channel(channel):
            with contextlib.suppress(SubscriptionUnknown):
                await self._lifecycle.end(
                    entry, why=End.CANCELLING, reason="The channel was removed."
                )

    async def _end(self, id_: str, reason: str) -> bool:
        entry = self._table.by_id(id_)
        if entry is None:
            return False
        with contextlib.suppress(Refused):
            await self._lifecycle.end(entry, why=End.CANCELLING, reason=reason)
            return True
        return False


class ManagementOperations:
    """Handlers of ListSubscriptions and DeleteSubscriptions. A stranger sees what it has itself
    subscribed; who is trusted sees all.

    Args:
        looks: Counts these requests.
    """

    def __init__(self, management: SubscriptionManagement, looks: PrincipalRate) -> None:
        self._management = management
        self._looks = looks

    def handlers(self) -> Handlers:
        return {ListSubscriptions: self.list, DeleteSubscriptions: self.delete}

    async def list(
        self, request: ListSubscriptions, _incoming: Incoming, inbound: Inbound
    ) -> SubscriptionsListed:
        self._looks.take(inbound.principal)
        reports, following = await self._management.page(
            request.selection,
            after=request.after,
            limit=min(request.most or PAGE, LONGEST_PAGE),
            visible_to=_view_of(inbound.principal),
        )
        return SubscriptionsListed(tuple(map(_entry, reports)), following)

    async def delete(
        self, request: DeleteSubscriptions, _incoming: Incoming, inbound: Inbound
    ) -> SubscriptionsDeleted:
        self._looks.take(inbound.principal)
        found = await self._management.delete(
            request.names if request.selection is None else request.selection,
            after=request.after,
            limit=min(request.most or LONGEST_PAGE, LONGEST_PAGE),
            visible_to=_view_of(inbound.principal),
            tenant=inbound.principal.tenant if inbound.principal.limits.guarded else None,
            dry_run=request.dry_run,
            reason="The subscription was deleted through the management of subscriptions.",
        )
        return SubscriptionsDeleted(found.ids, found.next)


def _view_of(principal: Principal) -> str | None:
    return principal.owner if principal.limits.guarded else None


def _sees(owner: str | None, entry: Entry) -> bool:
    return owner is None or entry.subscription.owner == owner


def _entry(report: SubscriptionReport) -> SubscriptionEntry:
    subscription, status, totals = report.entry.subscription, report.status, report.totals
    return SubscriptionEntry(
        subscription,
        status.state.value,
        shown(subscription.consumer.address),
        shown(subscription.end_to.address) if subscription.end_to is not None else None,
        matched=totals.matched,
        delivered=totals.delivered,
        waiting=totals.matched - totals.settled(),
        dead=totals.dead,
        last_error=status.last_error,
    )
