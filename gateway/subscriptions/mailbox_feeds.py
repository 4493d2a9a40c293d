"""Subscriptions that fill mailboxes: kept alive by the readers of these, and ended with them."""

import contextlib
from datetime import UTC, datetime

from filters import Refused
from gateway.delivery import Entry
from gateway.model.mailboxes import Mailbox
from gateway.subscriptions.lifecycle.lifecycle import Lifecycle
from gateway.subscriptions.lifecycle.renewal import Renewal
from gateway.subscriptions.replication import Replication
from gateway.subscriptions.table import SubscriptionTable
from mediation.model.messages import End

KEPT_ALIVE = 60.0
"""Seconds that a subscription lives on when its reader asked for messages."""


class MailboxFeeds:
    """The subscriptions that fill mailboxes, as requests to those mailboxes need them."""

    def __init__(
        self,
        table: SubscriptionTable,
        lifecycle: Lifecycle,
        renewal: Renewal,
        replication: Replication,
    ) -> None:
        self._table = table
        self._lifecycle = lifecycle
        self._renewal = renewal
        self._replication = replication

    async def keep_alive(self, mailbox: Mailbox, seconds: float) -> Entry | None:
        """Let the subscription of *mailbox* live on, whose reader waits for *seconds*. Returns None
        where it has none."""
        await self._replication.refresh()
        entry = self._table.made_with(mailbox)
        if entry is not None:
            await self._renewal.keep_alive(entry, seconds + KEPT_ALIVE)
        return entry

    async def keep_alive_by_reading(
        self, mailbox: Mailbox, seconds: float = 2 * KEPT_ALIVE
    ) -> None:
        """Keep the subscription alive that *mailbox* was made for: its reader asks for messages,
        and waits for *seconds* (as ONVIF Core, "PullMessages")."""
        entry = self._table.made_with(mailbox)
        if entry is None or entry.subscription.lease.expires is None:
            return
        left = (entry.subscription.lease.expires - datetime.now(UTC)).total_seconds()
        if left < seconds:
            await self._renewal.keep_alive(entry, seconds + KEPT_ALIVE)

    async def end(self, mailbox: Mailbox) -> bool:
        """End the subscription that *mailbox* was made for, and *mailbox* with it. Returns False
        where it has none."""
        await self._replication.refresh()
        entry = self._table.made_with(mailbox)
        if entry is None:
            return False
        await self._lifecycle.end(entry)
        return True

    async def end_all(self, mailbox: Mailbox) -> None:
        """End all subscriptions whose consumer is *mailbox*, which is being removed."""
        with contextlib.suppress(Refused):  # What is not known here ends when it is delivered.
            await self._replication.refresh()
        for entry in self._table.feeds(mailbox):
            with contextlib.suppress(Refused):
                await self._lifecycle.end(
                    entry, why=End.CANCELLING, reason="Its mailbox was destroyed."
                )
