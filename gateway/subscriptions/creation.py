"""What a Subscribe leads to: a new subscription, or the renewal of one that it repeats."""

import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

import structlog

from adapters import XPathFilterAdapter
from filters import Reason, Refused
from gateway.delivery import Dispatchers, Entry
from gateway.egress import Target
from gateway.interning import shared
from gateway.mailboxes.transport import mailbox_target
from gateway.model.mailboxes import Mailbox, MailboxKind
from gateway.security.keys import new_key, public_id
from gateway.security.principals import Principal
from gateway.security.quotas import PrincipalRate, QuotaExceeded, SubscriptionQuotas
from gateway.security.resource_addresses import shown
from gateway.store import StoreUnavailable
from gateway.store.owner_bytes import OwnerBytes
from gateway.subscriptions.consumers import Consumers
from gateway.subscriptions.leases import LeaseTerms, grant, within
from gateway.subscriptions.lifecycle import Lifecycle, SubscriptionUnknown
from gateway.subscriptions.renewal import Renewal
from gateway.subscriptions.replication import Replication
from gateway.subscriptions.resumption import Resumption
from gateway.subscriptions.sequences import Agreed, SubscriberSequences
from gateway.subscriptions.table import SubscriptionTable, identity_of
from gateway.subscriptions.webhooks import WebHooks
from mediation.model.delivery_modes import DeliveryMode
from mediation.model.expiry import Expiry
from mediation.model.messages import EndpointReference, Lease, Policy, Rights, Subscription
from mediation.model.requests import Context, Subscribe, SubscribePulling
from mediation.model.versions import Wsa
from mediation.rendering import prepare
from mediation.specifications import SPECIFICATIONS

SUBSCRIBES, SUBSCRIBES_AT_ONCE = 2.0, 20.0
"""Subscribe requests that a network address may send: a second, and at once."""
Prove = Callable[[], Awaitable[Rights | None]]
"""Proves the rights of a subscriber to the topic that its filter names, where that is somebody's;
None where it is everybody's. It raises `Refused`."""
_log = structlog.get_logger("dragoman.subscriptions")


class SubscriptionCreation:
    """Checks what a subscriber asks for, agrees on it with its consumer, and begins it."""

    def __init__(
        self,
        table: SubscriptionTable,
        adapter: XPathFilterAdapter,
        consumers: Consumers,
        dispatchers: Dispatchers,
        web_hooks: WebHooks,
        sequences: SubscriberSequences,
        lifecycle: Lifecycle,
        renewal: Renewal,
        resumption: Resumption,
        replication: Replication,
        *,
        terms: LeaseTerms,
        quotas: SubscriptionQuotas,
        owner_bytes: OwnerBytes | None = None,
    ) -> None:
        self._table = table
        self._adapter = adapter
        self._consumers = consumers
        self._dispatchers = dispatchers
        self._web_hooks = web_hooks
        self._sequences = sequences
        self._lifecycle = lifecycle
        self._renewal = renewal
        self._resumption = resumption
        self._replication = replication
        self._terms = terms
        self._quotas = quotas
        self._owner_bytes = owner_bytes
        self._rate = PrincipalRate(SUBSCRIBES, SUBSCRIBES_AT_ONCE, "Too many Subscribe requests.")

    async def subscribe(
        self,
        request: Subscribe | SubscribePulling,
        context: Context,
        principal: Principal,
        *,
        base: str,
        now: datetime,
        prove: Prove | None = None,
        channel: str = "",
    ) -> Subscription:
        """Create a subscription; it is in the store and in force on return.

        Args:
            prove: Asked when the request is counted.
            channel: The name of the channel that it is at; empty: none with a name.

        Raises:
            Refused: as the specification says; nothing was created.
        """
        self._rate.take(principal)
        if self._owner_bytes is not None:
            self._owner_bytes.check(principal.owner)
        rights = None if prove is None else await prove()
        target = None
        if isinstance(request, Subscribe):
            target = await self._check_consumer(request, principal)
        self._adapter.check(request.filter)
        spec = context.spec
        specification = SPECIFICATIONS[spec.version]
        rules = specification.leases
        expires = grant(
            request.expires, rules, self._terms, trusted=not principal.limits.leases, now=now
        )
        if specification.identity is None:  # Else it may be there already.
            self._check_quotas(principal, target)
        if isinstance(request, Subscribe) and specification.handshake:
            rate = await self._web_hooks.ask(request.consumer, principal)
            request = replace(request, rate=rate)
            self._check_quotas(principal, target)  # Others came while the consumer thought.
            now = datetime.now(UTC)
            expires = grant(
                request.expires, rules, self._terms, trusted=not principal.limits.leases, now=now
            )
        key = new_key()
        manager = f"{base}/subscriptions/{key}"
        make = partial(
            Subscription,
            key=key,
            id=public_id(key),
            owner=shared(principal.owner),
            spec=shared(spec),
            lease=Lease(now, within(rights, expires), request.expires.as_duration),
            filter=shared(request.filter),
            manager=manager,
        )
        mailbox = agreed = None
        if isinstance(request, Subscribe):
            subscription = make(
                consumer=request.consumer,
                end_to=request.end_to,
                policy=shared(_policy(request, rights, channel)),
                secret=request.secret,
            )
            former = await self._go_on(subscription, request, principal, now)
            if former is not None:
                return former
            agreed = await self._sequences.ask(subscription, target, principal)
            if agreed is not None:
                self._check_quotas(principal, target)  # Others came while the consumer thought.
            if target is None:
                target = await self._consumers.take_on(request.consumer, principal)
            if request.end_to is not None:
                await self._consumers.take_on(request.end_to, principal)
        else:
            consumer = EndpointReference(manager, spec.wsa or Wsa.V2005_08)
            policy = Policy(
                dialect=request.dialect, delivery=request.delivery, rights=rights, channel=channel
            )
            subscription = make(consumer=consumer, policy=shared(policy))
            mailbox = Mailbox(key, subscription.id, principal.owner, MailboxKind.SUBSCRIPTION)
            target = mailbox_target(mailbox, manager)
        former = await self._begin(
            subscription, target, mailbox, agreed, request.expires, principal, now
        )
        if former is not None:
            return former
        if agreed is not None:
            self._sequences.wake()
        _log.info(
            "subscription.created",
            subscription=subscription.id,
            owner=subscription.owner,
            spec=spec.version.value,
            consumer=shown(target.url),
        )
        return subscription

    async def _check_consumer(self, request: Subscribe, principal: Principal) -> Target | None:
        """Check the addresses that *request* has delivered to; None where its consumer fetches."""
        target = await self._consumers.check(request.consumer, principal.owner)
        _check_answers(request.delivery, target)
        if request.end_to is not None:
            await self._consumers.check(request.end_to, principal.owner)
        return target

    def _check_quotas(self, principal: Principal, target: Target | None) -> None:
        if len(self._table) >= self._quotas.total:
            raise QuotaExceeded(Reason.QUOTA, "There are too many subscriptions.")
        if not principal.limits.quotas:
            return
        if self._table.of_owner(principal.owner) >= self._quotas.owner:
            raise QuotaExceeded(Reason.QUOTA, "You have too many subscriptions.")
        if target is None:
            return  # Its mailbox is its own destination.
        if self._table.of_owner_to(principal.owner, target) >= self._quotas.destination:
            raise QuotaExceeded(Reason.QUOTA, "You have too many subscriptions to one destination.")

    async def _begin(
        self,
        subscription: Subscription,
        target: Target,
        mailbox: Mailbox | None,
        agreed: Agreed | None,
        asked: Expiry,
        principal: Principal,
        now: datetime,
    ) -> Subscription | None:
        """Bring *subscription* in force. Where there is one with its identity, renew and return
        that instead."""
        renew = partial(self._renew_identical, subscription, asked, principal, now)
        begin = partial(self._lifecycle.begin, mailbox=mailbox, principal=principal, agreed=agreed)
        identity = identity_of(subscription)
        if identity is not None:
            if (renewed := await renew(identity)) is not None:
                return renewed
            self._check_quotas(principal, target)
        entry = Entry(subscription, prepare(subscription), target)
        if not await begin(entry, identity=identity):
            await self._replication.learn()  # Another gateway was first.
            if (renewed := await renew(identity or "")) is not None:
                return renewed
            await self._replication.clear(identity or "")
            entry = Entry(subscription, prepare(subscription), target)
            if not await begin(entry, identity=identity):
                raise StoreUnavailable("The same subscription ends at this moment.")
        return None

    # Of subscriptions that are there already.

    async def _go_on(
        self, subscription: Subscription, request: Subscribe, principal: Principal, now: datetime
    ) -> Subscription | None:
        """Renew and return the subscription that *request* has a bookmark of, or repeats; None
        where it asks for a new one.

        Raises:
            Refused: ``BOOKMARK_INVALID``.
        """
        if request.bookmark is not None:
            entry = await self._resumption.find(request.bookmark, subscription, principal, now)
            return await self._renewal.renew(entry, request.expires, principal, now=now)
        # Strangers behind one address are not told each other's keys.
        repeated = self._table.repeated(subscription) if not principal.limits.quotas else None
        if repeated is None or not self._renewal.is_alive(repeated, now):
            return None
        with contextlib.suppress(SubscriptionUnknown):  # It has just ended.
            return await self._renewal.renew(repeated, request.expires, principal, now=now)
        return None

    async def _renew_identical(
        self,
        subscription: Subscription,
        asked: Expiry,
        principal: Principal,
        now: datetime,
        identity: str,
    ) -> Subscription | None:
        """Renew the one subscription with this *identity*, and send now what waits for it; None
        where there is none. It is answered as *subscription* asks for. Who does not own it makes
        its lease longer, and changes nothing else."""
        entry = self._table.identical(identity)
        if entry is None:
            return None
        owns = entry.subscription.owner == principal.owner
        calling = subscription.policy.calling if owns else None
        grows = not owns and principal.limits.quotas
        try:
            renewed = await self._renewal.renew(
                entry, asked, principal, now=now, calling=calling, grows=grows
            )
        except SubscriptionUnknown:  # It has just ended.
            return None
        self._dispatchers.hasten(entry)
        return replace(renewed, policy=subscription.policy)


def _policy(request: Subscribe, rights: Rights | None, channel: str) -> Policy:
    """How what matches is delivered, as *request* asks for it."""
    return Policy(
        raw=request.raw,
        dialect=request.dialect,
        packaging=request.packaging,
        data=request.data,
        delivery=request.delivery,
        rate=request.rate,
        calling=request.calling,
        rights=rights,
        channel=channel,
    )


def _check_answers(delivery: DeliveryMode, target: Target | None) -> None:
    """Refuse a delivery mode in which the consumer has to answer, where it cannot.

    Raises:
        Refused: ``CONSUMER_ADDRESS``.
    """
    answers = target is not None and target.scheme in ("http", "https")
    if (delivery.acknowledged or delivery.heartbeats is not None) and not answers:
        raise Refused(
            Reason.CONSUMER_ADDRESS, "Deliveries can be acknowledged over HTTP and HTTPS alone."
        )
