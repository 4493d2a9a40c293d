"""Removal of mailboxes and of the subscriptions that fill them, when asked or when nobody reads."""

import asyncio
import contextlib
from collections.abc import Callable
from functools import partial
from typing import Protocol

import structlog

from filters import Refused
from gateway.mailboxes.errors import MailboxUnknown
from gateway.mailboxes.mailboxes import Mailboxes
from gateway.model.mailboxes import Mailbox
from gateway.store import Store
from gateway.store import mailboxes as rows
from mediation.model.messages import Subscription

HOUSEKEEPING = 300.0
"""Seconds from one removal of old messages and unread mailboxes to the next."""
_log = structlog.get_logger("dragoman.mailboxes")


class Feed(Protocol):
    """A subscription that a mailbox was made for, as it now is."""

    @property
    def subscription(self) -> Subscription: ...


class Feeds(Protocol):
    """The subscriptions that fill mailboxes."""

    async def keep_alive(self, mailbox: Mailbox, seconds: float) -> Feed | None:
        """Let the subscription of *mailbox* live on, whose reader waits for *seconds*. Returns None
        where it has none."""

    async def end(self, mailbox: Mailbox) -> bool:
        """End the subscription that *mailbox* was made for, and *mailbox* with it. Returns False
        where it has none."""

    async def end_all(self, mailbox: Mailbox) -> None:
        """End all subscriptions whose consumer is *mailbox*, which is being removed."""


class MailboxRemoval:
    """Removes mailboxes, and ends the subscriptions that fill them."""

    def __init__(self, store: Store, mailboxes: Mailboxes, feeds: Feeds) -> None:
        self._store = store
        self._mailboxes = mailboxes
        self._feeds = feeds

    async def remove(self, mailbox: Mailbox) -> None:
        """Remove *mailbox*, with the subscription that it was made for, if any."""
        if not await self._feeds.end(mailbox):
            await self.destroy(mailbox)

    async def destroy(self, mailbox: Mailbox) -> None:
        """Delete *mailbox* and its messages, and end the subscriptions that fill it.

        They end first, so that after a crash no subscription is left without its mailbox; and
        again when the mailbox is gone, because new ones may have come meanwhile.
        """
        await self._feeds.end_all(mailbox)
        locks = (mailbox.key,)
        thin = partial(rows.thin, key=mailbox.key)
        while await self._store.submit(thin, locks=locks) == rows.THINNED:
            pass  # In slices: other operations of the store have their turn in between.
        await self._store.submit(partial(rows.destroy, key=mailbox.key), locks=locks)
        _log.info("mailbox.destroyed", mailbox=mailbox.id)
        try:
            await self._feeds.end_all(mailbox)  # Which needs a mailbox that is known.
        finally:
            self._mailboxes.gone(mailbox.key)

    async def clear(self) -> None:
        """Remove old messages, and mailboxes that nobody reads."""
        await self._mailboxes.clear()
        for key in await self._mailboxes.unused():
            with contextlib.suppress(MailboxUnknown):
                await self.destroy(await self._mailboxes.find(key))

    async def run(self, keeps_house: Callable[[], bool]) -> None:
        """Remove old messages and mailboxes, for ever; of several gateways with one store, one
        does."""
        while True:
            with contextlib.suppress(Refused):
                if keeps_house():
                    await self.clear()
                await self._mailboxes.forget_destroyed()
            await asyncio.sleep(HOUSEKEEPING)
