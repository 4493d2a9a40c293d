"""Handlers of requests to make, read and destroy mailboxes, in any specification."""

import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

from filters import Reason, Refused
from gateway.exchange import Handlers, Handover, Inbound
from gateway.mailboxes.errors import MailboxUnknown
from gateway.mailboxes.leases import LEASE, TAKEN, UNTIL_NAMED, Batch
from gateway.mailboxes.mailboxes import Mailboxes
from gateway.mailboxes.removal import Feed, Feeds, MailboxRemoval
from gateway.model.mailboxes import Mailbox, MailboxKind
from gateway.security.authorise import authorise
from gateway.security.intake import Intake
from gateway.security.principals import Principal
from gateway.security.resource_addresses import (
    MESSAGE_BOXES,
    ResourceKind,
    addressed,
    key_in,
    key_named,
)
from gateway.security.rights import Right
from mediation.model.requests import (
    CreateMailbox,
    DestroyMailbox,
    Done,
    Incoming,
    MailboxMade,
    MailboxService,
    Operation,
    Response,
    Take,
    TakeFor,
    Taken,
)

_RESOURCES = {
    MailboxService.PULL_POINT: ResourceKind.PULL_POINT,
    MailboxService.MESSAGE_BOX_2011: ResourceKind.MESSAGE_BOX_2011,
    MailboxService.MESSAGE_BOX_2004: ResourceKind.MESSAGE_BOX_2004,
}


class MailboxOperations:
    """Makes, reads and destroys mailboxes for readers that speak SOAP."""

    def __init__(
        self, mailboxes: Mailboxes, removal: MailboxRemoval, feeds: Feeds, intake: Intake
    ) -> None:
        self._mailboxes = mailboxes
        self._removal = removal
        self._feeds = feeds
        self._intake = intake

    def handlers(self) -> Handlers:
        return {
            CreateMailbox: self.create,
            DestroyMailbox: self.destroy,
            Take: self.take,
            TakeFor: self.take_for,
        }

    async def create(
        self, request: CreateMailbox, _incoming: Incoming, inbound: Inbound
    ) -> MailboxMade:
        resource = _RESOURCES[request.service]
        is_box = resource in MESSAGE_BOXES
        kind = MailboxKind.MESSAGE_BOX if is_box else MailboxKind.PULL_POINT
        self._intake.admit_events(inbound.principal, 1)
        mailbox = await self._mailboxes.make(kind, inbound.principal)
        return MailboxMade(mailbox.key, resource.address(inbound.base, mailbox.key))

    async def destroy(self, request: DestroyMailbox, incoming: Incoming, inbound: Inbound) -> Done:
        try:
            mailbox = await self._named(incoming, inbound)
        except MailboxUnknown:
            if request.lenient:
                return Done()
            raise
        await self._removal.remove(mailbox)
        return Done()

    async def take(
        self, request: Take, incoming: Incoming, inbound: Inbound
    ) -> Handover | Response:
        """Take the oldest messages of a mailbox; where there are none, wait for one."""
        now = datetime.now(UTC)
        try:
            mailbox = await self._named(incoming, inbound)
        except MailboxUnknown:
            if request.lenient:
                return Taken((), False, now)
            raise
        if request.after is not None:
            return await self._take_behind(mailbox, request, request.after, inbound)
        if incoming.context.operation is not Operation.PULL_MESSAGES:
            batch = await self._lease(mailbox, request, inbound)
            if request.insists and not batch.messages:
                raise Refused(Reason.TIMED_OUT, "No event came in time.")
            return self._handover(batch, octets=request.octets)
        # One at a time, and it keeps the subscription alive (ONVIF Core, "PullMessages").
        async with self._mailboxes.leases.alone(mailbox):
            feed = await self._feeds.keep_alive(mailbox, request.wait)
            batch = await self._lease(mailbox, request, inbound)
            return self._handover(batch, feed)

    async def _take_behind(
        self, mailbox: Mailbox, request: Take, after: str, inbound: Inbound
    ) -> Handover:
        """Take messages that are kept until the next request says that they have arrived."""
        await self._mailboxes.leases.arrived(mailbox, after)
        batch = await self._lease(mailbox, request, inbound, UNTIL_NAMED)
        if request.insists and not batch.messages:
            raise Refused(Reason.TIMED_OUT, "No event came in time.")
        handover = self._handover(batch, octets=request.octets, lease=batch.lease)

        async def settle(whole: bool) -> None:
            if not whole:
                await handover.settle(whole)

        return replace(handover, settle=settle)

    async def take_for(
        self, request: TakeFor, _incoming: Incoming, _inbound: Inbound
    ) -> Handover | None:
        """Take one message for a consumer that fetches by its address (WS-MakeConnection)."""
        mailbox = await self._mailboxes.named(request.address)
        if mailbox is None:
            return None
        batch = await self._mailboxes.leases.take(mailbox, most=1)
        return self._handover(batch) if batch.messages else None

    async def _lease(
        self, mailbox: Mailbox, request: Take, inbound: Inbound, seconds: float = LEASE
    ) -> Batch:
        octets = TAKEN if request.octets is None else min(TAKEN, request.octets)
        batch = await self._mailboxes.leases.take(
            mailbox,
            most=request.most,
            octets=octets,
            wait=request.wait,
            gone=inbound.gone,
            lease=seconds,
        )
        if batch.messages and request.wait > 0 and inbound.identify_again is not None:
            try:
                await self._check_again(mailbox, inbound.identify_again)
            except BaseException:
                await self._mailboxes.leases.handed_over(batch, False)
                raise
        return batch

    async def _check_again(
        self, mailbox: Mailbox, identify_again: Callable[[], Awaitable[Principal]]
    ) -> None:
        """Refuse a reader that has waited, and may not have the messages of *mailbox* any more.

        Raises:
            Refused: So it is.
        """
        principal = await identify_again()
        authorise(principal, Right.MANAGE)
        if not principal.reaches(mailbox.owner):
            raise MailboxUnknown

    def _handover(
        self,
        batch: Batch,
        feed: Feed | None = None,
        octets: int | None = None,
        lease: str = "",
    ) -> Handover:
        """The messages of *batch*, and when the subscription ends that they are of."""
        envelopes = tuple(message.envelope for message in batch.messages)
        now = datetime.now(UTC)
        taken = Taken(envelopes, batch.more, now, key=batch.mailbox.key, octets=octets, lease=lease)
        if feed is not None:
            taken = replace(taken, expires=feed.subscription.lease.expires)
        return Handover(taken, partial(self._mailboxes.leases.handed_over, batch))

    async def _named(self, incoming: Incoming, inbound: Inbound) -> Mailbox:
        """The mailbox that a request is about, named in any way in which peers do.

        Raises:
            MailboxUnknown: There is none.
            Refused: ``MAILBOX_UNKNOWN``: none is named.
        """
        named = incoming.named
        resource = addressed(inbound.path, incoming.context.headers.to)
        keys = [resource.key if resource is not None else None]
        keys += map(key_named, (*named.identifiers, named.to, named.body))
        keys += map(key_in, (*named.identifiers, inbound.path, named.to, named.body))
        if not any(keys):  # Not `MailboxUnknown`: callers forgive that.
            text = "The request names no mailbox."
            raise Refused(Reason.MAILBOX_UNKNOWN, text, missing="clientid")
        for key in dict.fromkeys(keys):
            if key is not None:
                with contextlib.suppress(MailboxUnknown):
                    return await self._mailboxes.reached(key, inbound.principal)
        raise MailboxUnknown
